"""Logs as NumPy archives: the arrays of a `Log` by their names. Never pickled.

An array is read from the archive as a stream, so that a log larger than memory can be read in
parts: all tables of the archive go forward together.
"""

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from equipoise.offline._files import DECLARED, TABLES, as_settings, said_beside
from equipoise.offline._log import Log

#: What `zipfile` and NumPy raise on a damaged archive (NotImplementedError is a RuntimeError).
_DAMAGE = (
    *(ValueError, EOFError, KeyError, RuntimeError, OSError, MemoryError, OverflowError),
    *(SyntaxError, TypeError, zipfile.BadZipFile, zlib.error),
)
#: No archive holds more than this many times its own size: the most that deflate can do.
_RATIO = 1100
#: Bytes that are read at once: `zipfile` copies them twice, better within the cache.
_PIECE = 1 << 20


def write(log: Log, path: Path) -> None:
    """Write a log to `path`, which ends in `.npz`; not compressed, so that it is read quickly."""
    tables = {name: getattr(log, name) for name in TABLES if getattr(log, name) is not None}
    said = {name: np.asarray(value) for name, value in said_beside(log).items()}
    np.savez(path, allow_pickle=False, **tables, **said)


def read(path: Path) -> dict[str, Any]:
    """All that a file holds."""
    (fields,) = parts(path, None)
    return fields


def parts(path: Path, rows: int | None) -> Iterator[dict[str, Any]]:
    """The tables of a file, some rows at a time, each with what is said beside them."""
    with open(path, "rb") as file, ExitStack() as stack:
        with _damage(path):
            archive = stack.enter_context(zipfile.ZipFile(file))
            names = [name.removesuffix(".npy") for name in archive.namelist()]
        unknown = sorted(set(names) - {*TABLES, *DECLARED})
        optional = [n for n in (*TABLES, *DECLARED) if n not in ("actions", "rewards")]
        if unknown or len(names) != len(set(names)):
            raise ValueError(
                f"{path}: expected arrays named actions and rewards, which are needed, and "
                f"perhaps {', '.join(optional)}, once each; found {', '.join(unknown or names)}"
            )
        with _damage(path):
            length = file.seek(0, 2)
            streams = {name: _Stream(archive, name, length, stack) for name in names}
            said = {n: stream.take(None) for n, stream in streams.items() if n in DECLARED}
        tables = {n: stream for n, stream in streams.items() if n in TABLES}
        settings = as_settings(path, said)
        lengths = {name: stream.left for name, stream in tables.items()}
        if "actions" in lengths and set(lengths.values()) != {lengths["actions"]}:
            raise ValueError(f"{path}: expected as many rows in every table, found {lengths}")
        left = max(lengths.values(), default=0)
        while True:
            count = left if rows is None else min(rows, left)
            with _damage(path):
                block = {name: stream.take(count) for name, stream in tables.items()}
            yield {**block, **settings}
            left -= count
            if left <= 0:
                return


class _Stream:
    """One array of an archive, read from its beginning on."""

    def __init__(self, archive: zipfile.ZipFile, name: str, length: int, stack: ExitStack):
        self.member: IO[bytes] = stack.enter_context(archive.open(f"{name}.npy"))
        version = np.lib.format.read_magic(self.member)
        readers = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        if version not in readers:
            raise ValueError(f"an array in version {version} of the format")
        self.shape, self.by_columns, self.dtype = readers[version](self.member)
        # What the header says is compared with what can be there before anything is allocated.
        size = math.prod(self.shape) * self.dtype.itemsize
        if self.dtype.hasobject or size > _RATIO * length:
            raise ValueError(f"{name}: not an array of numbers, or not all of it")
        self.left = self.shape[0] if self.shape else 1

    def take(self, count: int | None) -> np.ndarray:
        """The next `count` rows, or the whole array."""
        shape = self.shape if count is None else (count, *self.shape[1:])
        if self.by_columns and shape != self.shape:
            raise ValueError("an array stored column by column, which is only read as a whole")
        wanted = math.prod(shape) * self.dtype.itemsize
        data = np.empty(wanted, np.uint8)  # not touched before it is filled
        view, got = data.data, 0
        while got < wanted:
            piece = view[got : got + _PIECE]
            step = self.member.readinto(piece)  # pyright: ignore[reportAttributeAccessIssue]
            if not step:
                raise EOFError(f"an array that ends after {got} of {wanted} bytes")
            got += step
        return data.view(self.dtype).reshape(shape, order="F" if self.by_columns else "C")


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """What is raised over a damaged archive becomes a ValueError that names the file."""
    try:
        yield
    except _DAMAGE as error:
        raise ValueError(
            f"{path}: expected a NumPy archive of a log, found one that cannot be read: {error}"
        ) from error
