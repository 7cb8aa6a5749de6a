"""The lock and the metrics of a run folder."""

import contextlib
import io
import os
import platform
import stat
import sys
import zlib
from array import array
from pathlib import Path
from typing import Any, BinaryIO

from equipoise.core.errors import InputError
from equipoise.core.files import naming, read_bytes
from equipoise.core.plain import dumps, expect, loads
from equipoise.runs._record import check_metrics

if sys.platform == "win32":
    import msvcrt

    #: Windows refuses to read a locked byte, so the lock is on a byte beyond the file's content.
    _BYTE = 1 << 20

    def _try_lock(file: BinaryIO) -> None:
        file.seek(_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try_lock(file: BinaryIO) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


class FolderInUse(OSError):
    """Another process is writing the folder; the message says which one.

    **Example**

    >>> import tempfile
    >>> from equipoise.runs import FolderInUse, Run
    >>> with tempfile.TemporaryDirectory() as folder, Run.create(folder + "/run", {}):
    ...     try:
    ...         Run.open(folder + "/run")
    ...     except FolderInUse as error:
    ...         print("is being written by process" in str(error))
    True
    """


def refuse_links(folder: Path) -> None:
    """Refuse links and devices in a folder, since writing would follow them."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                expected = "a file of its own, or a folder"
                raise InputError(entry.path, expected, "a link or a device")


def _open_own(path: Path) -> BinaryIO:
    """Open a file for writing in place, creating it if necessary; refuse links."""
    if path.is_symlink():
        raise ValueError(f"{path}: expected a file of its own, found a link")
    follow = getattr(os, "O_NOFOLLOW", 0)  # in case a link appeared in the meantime
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | follow, 0o666)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise ValueError(f"{path}: expected a file of its own, found a link or a device")
    return os.fdopen(descriptor, "r+b")


@contextlib.contextmanager
def _closed_on_error(file: BinaryIO) -> Any:
    try:
        yield
    except BaseException:
        file.close()
        raise


class FolderLock:
    """A lock that is held from construction to `release`, or to the end of the process.

    The lock belongs to the operating system and is not the existence of a file. It ends with the
    process that holds it, so a killed process leaves no stale lock behind. The file names the
    process that holds the lock. It must not be a link: writing would empty the link's target.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = FolderLock(pathlib.Path(folder))
    ...     try:
    ...         FolderLock(pathlib.Path(folder))
    ...     except FolderInUse as error:
    ...         print("is being written by" in str(error))
    ...     lock.release()
    True
    """

    NAME = "lock"

    def __init__(self, folder: Path):
        path = folder / self.NAME
        self._file = _open_own(path)
        try:
            _try_lock(self._file)
        except (BlockingIOError, PermissionError) as error:  # POSIX, and Windows
            self._file.close()
            holder = path.read_text(errors="replace")[:200].strip() or "another process"
            raise FolderInUse(
                f"{folder} is being written by {holder}: "
                "wait for it to end, or choose another folder"
            ) from error
        except OSError as error:  # the file system does not support locks
            self._file.close()
            error.filename = str(path)
            raise
        if not os.fstat(self._file.fileno()).st_nlink:  # removed with the run it belonged to
            self._file.close()
            raise FolderInUse(f"{folder} was just removed by another process: try again")
        with naming(path):
            self._file.seek(0)
            self._file.truncate()
            self._file.write(f"process {os.getpid()} on {platform.node()}\n".encode())
            self._file.flush()

    def release(self) -> None:
        """Release the lock. The file stays: removing it would race with the next process."""
        self._file.seek(0)
        self._file.truncate()
        self._file.close()


class MetricsFile:
    """An open `metrics.jsonl` file: every row is passed to the operating system immediately.

    A killed process loses no row for which `append` has returned. At most the last line is
    incomplete, and the next opening removes it.
    """

    #: Checksum of each row.
    sums: array

    def __init__(self, path: Path, keep: int | None, sums: Any):
        """Truncate to `keep` bytes, or to whole lines if None, and open for appending.

        If checksums are given, the remaining rows must match them.
        """
        self._path = path
        file = _open_own(path)
        with _closed_on_error(file), naming(path):
            length = file.seek(0, io.SEEK_END)
            if keep is not None and keep > length:
                raise ValueError(
                    f"{path}: expected at least the {keep} bytes of the checkpoint, found {length}"
                )
            file.seek(0)
            content = file.read(length if keep is None else keep)
            if keep is None:
                keep = content.rfind(b"\n") + 1
            self.sums = array("L", (zlib.crc32(line) for line in content[:keep].split(b"\n")[:-1]))
            self._check(sums)
            file.truncate(keep)
            file.seek(keep)
        self._file = file

    def _check(self, expected: Any) -> None:
        """Refuse rows that changed since the checkpoint, and name the first one."""
        expected = self.sums if expected is None else array("L", map(int, expected))
        if self.sums != expected:
            pairs = enumerate(zip(self.sums, expected, strict=False), start=1)
            shorter = min(len(self.sums), len(expected)) + 1
            row = next((number for number, (a, b) in pairs if a != b), shorter)
            raise ValueError(
                f"{self._path}: line {row}: expected the same row as at the checkpoint, "
                "found another; the file was damaged or edited"
            )

    def append(self, step: int, metrics: dict[str, Any]) -> None:
        """Append one row."""
        line = dumps({"step": step, **metrics}, "metrics").encode()
        with naming(self._path):
            self._file.write(line + b"\n")
            self._file.flush()
        self.sums.append(zlib.crc32(line))

    def sync(self) -> int:
        """Force all rows to disk and return the length of the file in bytes."""
        with naming(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read the metrics of a run folder, even while the run is being written.

    An incomplete last line is left out. Rows that were edited after the run finished are refused.

    **Example**

    >>> import tempfile
    >>> from equipoise.runs import Run, read_metrics
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Run.create(folder + "/run", {"steps": 2}) as run:
    ...         run.log(1, gap=0.5)
    ...         run.log(2, gap=0.25)
    ...     read_metrics(folder + "/run")
    [{'step': 1, 'gap': 0.5}, {'step': 2, 'gap': 0.25}]
    """
    file = Path(path) / "metrics.jsonl"
    check_metrics(Path(path))
    rows = []
    for number, line in enumerate(read_bytes(file).split(b"\n")[:-1], start=1):
        where = f"{file}: line {number}"
        row = expect(where, loads(line, where), dict, "a row of metrics")
        expect(f"{where}: step", row.get("step"), int, "a whole number")
        rows.append(row)
    return rows
