"""Arrays in `.npz` files: no pickle, reproducible bytes, every dtype that JAX supports.

NumPy's own files lose the types that JAX adds (bfloat16, the float8s, int4): they come back as
untyped bytes. This module stores such arrays as unsigned integers, and the caller keeps the name of
the type.

Reading is safe on any bytes. The size of every array is checked before memory is allocated for
it: no file makes the reader allocate more than 64 times its length plus 64 MB. `write_npz` does
not compress, so that its files never come near this limit. A regular expression parses the headers
of arrays: NumPy's parser would evaluate them as Python literals.
"""

import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.files import atomic_write, refuse_devices

#: The earliest date a zip file can hold: with the true date, equal contents would differ.
_DATE = (1980, 1, 1, 0, 0, 0)
#: Decompressed arrays may take at most this many times the file's length, plus this many bytes.
_RATIO, _MARGIN = 64, 64_000_000
_TOO_LARGE = "arrays compressed too strongly; write them without compression"
#: The longest array header that is accepted; NumPy has the same limit.
_LONGEST_HEADER = 10_000
#: Bytes read at once: `zipfile` copies them twice, which is faster within the cache.
_PIECE = 1 << 20

#: Matches `'descr': '<f8',` and similar: numbers, booleans and text, no objects, no structures.
_ENTRY = re.compile(
    r"\s*(['\"])(?P<key>\w+)\1\s*:\s*"
    r"(?:(['\"])(?P<descr>[<>|=]?[biufcUS]\d{1,9})\3"
    r"|(?P<fortran_order>True|False)"
    r"|\((?P<shape>(?:\s*\d{1,18}L?\s*,)*\s*(?:\d{1,18}L?\s*)?)\))\s*(?:,|(?=\s*\}))"
)
_MEMBERS = {"descr", "fortran_order", "shape"}

#: Exceptions of `zipfile`, `zlib` and NumPy on damaged content (RuntimeError: encrypted members).
_DAMAGE = (
    *(ValueError, EOFError, KeyError, IndexError, RuntimeError, OSError, OverflowError),
    *(MemoryError, struct.error, zipfile.BadZipFile, zlib.error),
)


def pack(name: str, array: Any) -> tuple[np.ndarray, str]:
    """Return an array that `.npz` can store, and the name of its true dtype.

    >>> pack("weights", np.ones(2))
    (array([1., 1.]), '<f8')
    """
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise InputError(name, "numbers or strings", "Python objects")
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

    known = getattr(ml_dtypes, dtype, None) if isinstance(dtype, str) else None
    if not isinstance(known, type) or np.dtype(known).itemsize != array.dtype.itemsize:
        raise InputError("dtype", f"a type that is stored as {array.dtype}", repr(dtype))
    return array.view(np.dtype(known))


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write arrays to a `.npz` file, atomically; equal arrays produce equal files."""
    with (
        atomic_write(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
    ):
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", date_time=_DATE)
            info.external_attr = 0o644 << 16
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def read_npz(path: str | os.PathLike[str], only: str | None = None) -> dict[str, np.ndarray]:
    """Read all arrays of a `.npz` file, or `only` one.

    Rejects files that are damaged, encrypted or pickled, or that would take more memory than
    64 times their length plus 64 MB, with a `ValueError` that names the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(folder + "/a.npz", {"x": np.arange(2)})
    ...     read_npz(folder + "/a.npz")
    {'x': array([0, 1])}
    """
    found, room = {}, (_RATIO * os.path.getsize(path) + _MARGIN) // 2
    with open_npz(path) as arrays:
        for name, array in arrays.items():
            if only in (None, name):
                # Readers convert small integers to double precision, and may copy the result.
                room -= math.prod(array.shape) * max(array.dtype.itemsize, 8)
                if room < 0:
                    raise ValueError(f"{path}: expected an .npz file of arrays, found {_TOO_LARGE}")
                found[name] = array.read()
    return found


@contextmanager
def open_npz(path: str | os.PathLike[str]) -> Iterator[dict[str, "StoredArray"]]:
    """Open the arrays of a `.npz` file by their names, to read them whole or some rows at a time.

    **Example**

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(folder + "/a.npz", {"x": np.arange(5)})
    ...     with open_npz(folder + "/a.npz") as arrays:
    ...         arrays["x"].shape, arrays["x"].read(3), arrays["x"].read()
    ((5,), array([0, 1, 2]), array([3, 4]))
    """
    refuse_devices(path)
    with open(path, "rb") as file, ExitStack() as stack:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{path}: expected an .npz file of arrays, found something else")
        limit = _RATIO * file.seek(0, os.SEEK_END) + _MARGIN
        with _damage(path):
            archive = stack.enter_context(zipfile.ZipFile(file))
            members = archive.infolist()
            names = [info.filename.removesuffix(".npy") for info in members]
            if len(set(names)) < len(names):
                raise ValueError("two arrays with the same name")
            size = sum(info.file_size for info in members)
            if size > limit:
                raise ValueError(_TOO_LARGE)
        yield {
            name: StoredArray(path, archive, info)
            for name, info in zip(names, members, strict=True)
        }


class StoredArray:
    """An array of an open `.npz` file, read in order from its first row."""

    def __init__(self, path: Any, archive: zipfile.ZipFile, info: zipfile.ZipInfo):
        """Use `open_npz`."""
        self._path, self._archive, self._info = path, archive, info

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return self._opened[1]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of its entries."""
        return self._opened[2]

    @cached_property
    def left(self) -> int:
        """Number of rows not yet read."""
        return self.shape[0] if self.shape else 1

    @cached_property
    def _opened(self) -> tuple[Any, tuple[int, ...], np.dtype, Any]:
        # Opened on first use: a decompressor takes far more memory than a small array.
        with _damage(self._path):
            info = self._info
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{info.filename}: an unsupported compression method")
            member = self._archive.open(info)
            shape, dtype, order, header = _read_header(member)
            rest = info.file_size - header
            size, cells = math.prod(shape) * dtype.itemsize, math.prod(max(n, 1) for n in shape)
            if size != rest or cells > 1 << 48:
                raise ValueError(
                    f"{info.filename}: {rest:,} bytes for an array of {dtype} with shape {shape}"
                )
            return member, shape, dtype, order

    def read(self, rows: int | None = None) -> np.ndarray:
        """Return the next `rows` rows, or as many as are left. Default: all that are left."""
        member, whole, dtype, order = self._opened
        count = self.left if rows is None else min(rows, self.left)
        shape = (count, *whole[1:]) if whole else ()
        with _damage(self._path):
            if order == "F" and shape != whole:
                raise ValueError("an array in column-major order, which can only be read whole")
            wanted, got = math.prod(shape) * dtype.itemsize, 0
            data = np.empty(wanted, np.uint8)  # not touched before it is filled
            while got < wanted:
                step = member.readinto(data.data[got : got + _PIECE])
                if not step:
                    raise EOFError(f"an array that ends after {got:,} of {wanted:,} bytes")
                got += step
            self.left -= count
            if not self.left and not member.closed:
                member.read(1)  # reading to the end verifies the checksum
                member.close()
            if not wanted:
                return np.empty(shape, dtype, order)
            return data.view(dtype).reshape(shape, order=order)


def _read_header(member: Any) -> tuple[tuple[int, ...], np.dtype, Any, int]:
    """Return shape, dtype and order of an array in NumPy's format, and the header's length."""
    start = member.read(8)
    wide = start[6:7] in (b"\x02", b"\x03")
    if start[:6] != b"\x93NUMPY" or not (wide or start[6:7] == b"\x01"):
        raise ValueError("a member that is not an array in NumPy's format")
    (length,) = struct.unpack("<I" if wide else "<H", member.read(4 if wide else 2))
    if length > _LONGEST_HEADER:
        raise ValueError(f"an array whose header has {length:,} bytes")
    text = member.read(length).decode("latin-1").strip()
    found: dict[str, str] = {}
    place = 1
    while entry := _ENTRY.match(text, place):
        if entry["key"] in found or entry["key"] not in _MEMBERS or entry[entry["key"]] is None:
            break
        found[entry["key"]] = entry[entry["key"]]
        place = entry.end()
    if set(found) != _MEMBERS or text[:1] != "{" or text[place:].strip() != "}":
        raise ValueError(f"an array that is not of numbers or text: {text[:60]!r}")
    shape = tuple(int(n.strip().rstrip("L")) for n in found["shape"].split(",") if n.strip())
    try:
        dtype = np.dtype(found["descr"])
    except TypeError as error:
        raise ValueError(f"an array of a type that NumPy does not know: {text[:60]!r}") from error
    order = "F" if found["fortran_order"] == "True" else "C"
    return shape, dtype, order, 8 + (4 if wide else 2) + length


@contextmanager
def _damage(path: Any) -> Iterator[None]:
    """Turn errors about a damaged archive into a ValueError that names the file."""
    try:
        yield
    except _DAMAGE as error:
        raise ValueError(f"{path}: expected an .npz file of arrays, found {error}") from error
