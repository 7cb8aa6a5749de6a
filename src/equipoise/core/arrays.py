"""Arrays in `.npz` files: no pickle, the same bytes every time, every dtype that JAX knows.

NumPy's own files forget the types that JAX adds to it (bfloat16, the float8s, int4): they come
back as nameless bytes. Here such arrays are stored as unsigned integers, and the name of the
type is kept by the caller.
"""

import os
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from equipoise.core.files import atomic_write

#: The earliest date a zip file can hold: with the true one, equal contents would differ.
_DATE = (1980, 1, 1, 0, 0, 0)

#: What NumPy and zipfile raise for damaged, pickled, encrypted or absurdly large content.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    ValueError,
    RuntimeError,
    MemoryError,
)


def pack(name: str, array: Any) -> tuple[np.ndarray, str]:
    """Return an array that `.npz` can hold, and the name of its true dtype.

    >>> pack("weights", np.ones(2))
    (array([1., 1.]), '<f8')
    """
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise ValueError(f"{name}: expected numbers or strings, found Python objects")
    if array.dtype.isbuiltin == 2:  # registered by another library: ml_dtypes
        return array.view(np.dtype(f"u{array.dtype.itemsize}")), array.dtype.name
    return array, array.dtype.str


def unpack(array: np.ndarray, dtype: str) -> np.ndarray:
    """Undo `pack`.

    >>> unpack(np.array([16256], np.uint16), "bfloat16")
    array([1], dtype=bfloat16)
    """
    if array.dtype.str == dtype:
        return array
    import ml_dtypes

    return array.view(np.dtype(getattr(ml_dtypes, dtype)))


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to a `.npz` file, atomically; equal arrays make equal files."""
    with (
        atomic_write(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
    ):
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", date_time=_DATE)
            info.external_attr = 0o644 << 16
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read_npz(path: str | os.PathLike[str], only: str | None = None) -> dict[str, np.ndarray]:
    """Read all arrays of a `.npz` file, or `only` one; refuses pickled ones and damaged files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(folder + "/a.npz", {"x": np.arange(2)})
    ...     read_npz(folder + "/a.npz")
    {'x': array([0, 1])}
    """
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{path}: expected an .npz file of arrays, found something else")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as archive:
                names = [name for name in archive.files if only in (None, name)]
                return {name: archive[name] for name in names}
        except _DAMAGED as error:
            raise ValueError(f"{path}: expected an .npz file of arrays, found {error}") from error
