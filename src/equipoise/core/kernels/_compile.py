"""Kernels as Python functions, and where their machine code is kept.

A kernel is plain Python over NumPy arrays. Python can run it as it is (`_lanes` stands in for
vector instructions), and Numba can compile it (`_numba`), which is imported only then. Both give
the same bits, on every machine: sums have an order, and products are not fused into them, which
would make pivots no faster, and Markov games of a hundred states by a tenth or so.

Machine code is kept in the user's cache folder, in a folder whose name is a digest of the sources
of all kernels, of Numba's version and of the interpreter. An edit or an upgrade of either compiles
anew, nothing stale is ever loaded, and neither an upgrade of equipoise that leaves the kernels
alone nor a new virtual environment compiles anything. Any number of processes may read and write
the folder: files are replaced as a whole.
"""

import hashlib
import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
#: Functions that are compiled as parts of kernels, and which of them where they are called; kernels
#: with their signatures.
PARTS: list[Callable[..., Any]] = []
INLINE: set[Callable[..., Any]] = set()
KERNELS: dict[Callable[..., Any], str] = {}


def compiled(signature: str = "", *, inline: bool = False) -> Callable[[Any], Any]:
    """Mark a function for Numba: as a kernel with that signature, or as a part of kernels.

    A signature is a word for each argument, such as "float", "index", "read3" and "write2": arrays
    of as many axes that the kernel reads or writes. The result is a whole number. A short part is
    copied to where it is called with `inline`: to call it would take longer than to run it, since
    Numba passes an array as seven numbers and counts its references.
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
    """The first folder for machine code that can be written to, or None.

    Numba's variable NUMBA_CACHE_DIR comes before the user's cache folder, and that before the
    folder of the package.
    """
    made_by = f"{version('numba')} {sys.implementation.cache_tag} {sys.platform}"
    digest = hashlib.sha256(made_by.encode())
    for source in sorted(_HERE.glob("*.py")):
        if not source.stem.startswith("__"):  # what loads kernels is not part of them
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
