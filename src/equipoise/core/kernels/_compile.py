"""Compilation by Numba, once on a machine: the machine code is kept on disk.

Numba keeps compiled functions beside the module, or in the user's cache folder where the package
cannot be written to. Its index knows the file of each function, but not the files of the
functions that it calls. So the code of all kernels is kept in one folder whose name is a digest
of all their sources: an edit or an upgrade compiles anew, and nothing stale is ever loaded. Where
no folder can be written, kernels are compiled in every process.
"""

import hashlib
import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core import config
from numba.misc.appdirs import AppDirs

#: Arrays that a kernel only reads may be read-only, as those of JAX are.
READ = {n: types.Array(types.float64, n, "C", readonly=True) for n in range(1, 6)}
WRITE = {n: types.Array(types.float64, n, "C") for n in range(1, 6)}

_HERE = Path(__file__).parent
_CONFIG: Any = config
#: Products may be fused into sums; sums keep their order unless a kernel says otherwise.
_OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}


def _cache_folder() -> Path | None:
    """The first folder that can be written to, or None."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(_HERE.glob("*.py")):
        digest.update(source.read_bytes())
    homes = [_HERE / "__pycache__", Path(AppDirs("equipoise", appauthor=False).user_cache_dir)]
    if _CONFIG.CACHE_DIR:
        homes = [Path(_CONFIG.CACHE_DIR)]
    for home in homes:
        folder = home / f"kernels-{digest.hexdigest()[:16]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    return None


_FOLDER = _cache_folder()


def compiled(signature: Any = None, **options: Any) -> Callable[[Any], Any]:
    """Compile a function for `signature` now, or load it; without one, as part of its callers."""

    options = _OPTIONS | options

    def decorate(function: Any) -> Any:
        function = inspect.unwrap(function)  # tests wrap functions to check their types
        if signature is None or _FOLDER is None:
            return numba.njit(signature, **options)(function)
        before, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, str(_FOLDER)
        try:
            return numba.njit(signature, **options, cache=True)(function)
        finally:
            _CONFIG.CACHE_DIR = before

    return decorate
