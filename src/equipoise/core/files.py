"""Atomic writes: a reader sees the old file or the new one, never half of one.

The new content goes to a temporary file in the folder of the target, is flushed to the disk,
and is renamed to the target in one step. If anything interrupts the writing, the target stays
unchanged and the temporary file is removed (unless the process itself is killed).
"""

import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Maximum number of bytes read from a device or a pipe.
_FROM_DEVICE = 64_000_000


#: First line of a table that names the separator of its columns, as spreadsheets write it.
SEPARATOR = re.compile(r'"?sep=([,;\t|])"?[ ,;\t|]*$', re.IGNORECASE | re.MULTILINE)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of an empty temporary file that replaces `path` when the block succeeds.

    The temporary path has the suffix of the target, so that writers which depend on the suffix
    (such as `numpy.savez`) treat it like the target. If the target is a symbolic link, the file
    that it points to is replaced. A device or a pipe is written to, not replaced. Operating-system
    errors name `path`, not the temporary file.

    **Example**

    >>> import pathlib, tempfile
    >>> from equipoise.core.files import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = pathlib.Path(folder) / "metrics.json"
    ...     with atomic_write(target) as temporary:
    ...         _ = temporary.write_text("{}")
    ...     target.read_text(), len(list(target.parent.iterdir()))
    ('{}', 1)
    """
    target = Path(os.path.realpath(path))
    special = _is_special(path)
    # Opened directly rather than with tempfile, whose files only their owner may read.
    name = f".{target.stem}.{secrets.token_hex(8)}{target.suffix}"
    temporary = Path(tempfile.gettempdir(), name) if special else target.with_name(name)
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        if special:
            with open(temporary, "rb") as source, open(path, "wb") as sink:
                shutil.copyfileobj(source, sink)
            os.unlink(temporary)
            return
        _flush(temporary)
        os.replace(temporary, target)
    except BaseException as error:
        # If the file could not be created, there is no file, or no folder, to remove it from.
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            _name_target(error, temporary, path)
        raise
    _flush_folder(target.parent)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    r"""Write `text` as UTF-8 to `path`, atomically, with `\n` at line ends on every system.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = pathlib.Path(folder) / "note.txt"
    ...     write_text(target, "once\n")
    ...     target.read_bytes()
    b'once\n'
    """
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path`, atomically.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = pathlib.Path(folder) / "weights.bin"
    ...     write_bytes(target, bytes([1, 2]))
    ...     target.stat().st_size
    2
    """
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file, or at most 64 MB from a device or a pipe, which may not end."""
    with open(path, "rb") as file:
        if not _is_special(path):
            return file.read()
        data = file.read(_FROM_DEVICE + 1)
    if len(data) > _FROM_DEVICE:
        raise ValueError(f"{path}: expected a file, or at most 64 MB from a device, found more")
    return data


def refuse_devices(path: str | os.PathLike[str]) -> None:
    """Reject a device, a pipe or a socket where a file is read from its end, or line by line.

    >>> refuse_devices("/dev/null")
    Traceback (most recent call last):
    ...
    ValueError: /dev/null: expected a file, found a device or a pipe
    """
    if _is_special(path):
        raise ValueError(f"{path}: expected a file, found a device or a pipe")


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Make operating-system errors that name no file, such as a full disk, name `path`.

    >>> with naming("metrics.jsonl"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    ...
    OSError: [Errno 28] No space left on device: 'metrics.jsonl'
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise


def _is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a device, a pipe or a socket."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _name_target(error: OSError, temporary: Path, path: str | os.PathLike[str]) -> None:
    """Make an error about the temporary file, or about no file (a full disk), name the target."""
    found = None if error.filename is None else os.fspath(error.filename)
    if error.errno is not None and found in (None, os.fspath(temporary)):
        error.filename = os.fspath(path)
        del error.filename2  # set to None, it would still be printed, as "-> None"


def _flush(path: Path) -> None:
    # Without this a system crash may leave the new name on an empty file. The file is opened for
    # reading and writing, since some systems refuse to flush a file opened for reading only.
    with open(path, "r+b") as file:
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
