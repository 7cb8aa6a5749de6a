"""Kernels as Python functions, and the folder of their machine code.

A kernel is plain Python over NumPy arrays. Python can run it unchanged (`_lanes` replaces vector
instructions), and Numba can compile it (`_numba`), which is imported only then. Both give the same
bits on every machine: sums have a fixed order, and multiplications and additions are not fused.
Fusing would make pivots no faster, and Markov games of a hundred states faster by about a tenth.

Machine code is kept in the user's cache folder, in a subfolder named by a digest of the sources of
all kernels, of Numba's version and of the interpreter. A change of any of them triggers a new
compilation, and stale code is never loaded. An upgrade of equipoise that leaves the kernels
unchanged, or a new virtual environment, compiles nothing. Any number of processes may read and
write the folder: files are replaced as a whole.
"""

import inspect
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
#: Functions that are compiled as parts of kernels, those among them that are inlined, and kernels
#: with their signatures.
PARTS: list[Callable[..., Any]] = []
INLINE: set[Callable[..., Any]] = set()
KERNELS: dict[Callable[..., Any], str] = {}


def compiled(signature: str = "", *, inline: bool = False) -> Callable[[Any], Any]:
    """Mark a function for Numba: as a kernel with that signature, or as a part of kernels.

    A signature has one word for each argument, such as "float", "index", "read3" and "write2": the
    last two are arrays with that many axes that the kernel reads or writes. The result is a whole
    number. With `inline`, a short part is copied to where it is called: calling it would take
    longer than running it, since Numba passes an array as seven numbers and counts its references.
    """

    def decorate(function: Any) -> Any:
        function = inspect.unwrap(function)  # tests wrap functions to check their types
        if signature:
            KERNELS[function] = signature
        else:
            PARTS.append(function)
            if inline:
                INLINE.add(function)
        return function

    return decorate


@cache
def code_folder() -> Path | None:
    """Return the first writable folder for machine code, or None.

    The environment variable NUMBA_CACHE_DIR takes precedence over the user's cache folder, and that
    over the folder of the package.
    """
    import hashlib
    import tempfile
    from importlib.metadata import version

    made_by = f"{version('numba')} {sys.implementation.cache_tag} {sys.platform}"
    digest = hashlib.sha256(made_by.encode())
    for source in sorted(_HERE.glob("*.py")):
        if not source.stem.startswith("__"):  # modules that load kernels do not count
            digest.update(source.read_bytes())
    for home in _homes():
        folder = home / f"kernels-{digest.hexdigest()[:16]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except (OSError, RuntimeError):
            continue
        return folder
    return None


def _homes() -> list[Path]:
    if told := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(told)]
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if sys.platform == "darwin":
        user = os.path.expanduser("~/Library/Caches")
    elif sys.platform == "win32":
        user = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    return [Path(user) / "equipoise", _HERE / "__pycache__"]


def is_kept(name: str) -> bool:
    """Whether the machine code of a kernel is on disk."""
    folder = code_folder()
    return folder is not None and any(folder.glob(f"*.{name}-*.nbi"))
