"""What a run folder has beside its states and records: a lock for one writer, and metrics."""

import io
import os
import platform
import stat
import sys
import zlib
from array import array
from pathlib import Path
from typing import Any, BinaryIO

from equipoise.core.files import naming
from equipoise.core.plain import dumps, expect, loads

if sys.platform == "win32":
    import msvcrt

    #: Windows refuses to read a locked byte, so the lock sits beyond what the file says.
    _BYTE = 1 << 20

    def _try_lock(file: BinaryIO) -> None:
        file.seek(_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try_lock(file: BinaryIO) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


class FolderInUse(OSError):
    """Another process is writing the folder; says which.

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


class FolderLock:
    """Held from construction to `release`, or to the end of the process.

    The lock is the system's, not a file's existence: it ends with the process that holds it, so
    that a process that was killed leaves no stale lock behind. The file says who holds it. It
    must be a file of its own: writing through a link would empty what the link points to.

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
        if path.is_symlink():
            raise ValueError(f"{path}: expected a file of its own, found a link")
        follow = getattr(os, "O_NOFOLLOW", 0)  # in case a link appeared meanwhile
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | follow, 0o666)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(descriptor)
            raise ValueError(f"{path}: expected a file of its own, found a link or a device")
        self._file = os.fdopen(descriptor, "r+b")
        try:
            _try_lock(self._file)
        except (BlockingIOError, PermissionError) as error:  # as POSIX and Windows say it
            self._file.close()
            holder = path.read_text(errors="replace")[:200].strip() or "another process"
            raise FolderInUse(
                f"{folder} is being written by {holder}: "
                "wait for it to end, or choose another folder"
            ) from error
        except OSError as error:  # the disk knows no locks
            self._file.close()
            error.filename = str(path)
            raise
        with naming(path):
            self._file.seek(0)
            self._file.truncate()
            self._file.write(f"process {os.getpid()} on {platform.node()}\n".encode())
            self._file.flush()

    def release(self) -> None:
        """Let others write. The file stays: removing it would race with who opens it next."""
        self._file.seek(0)
        self._file.truncate()
        self._file.close()


class MetricsFile:
    """The open end of a `metrics.jsonl`: every row is handed to the system at once.

    A process that is killed loses no row that `append` has returned from; at most the last
    line is torn, and the next opening cuts it.
    """

    #: A checksum of each row.
    sums: array

    def __init__(self, path: Path, keep: int | None, sums: Any):
        """Open for appending after cutting to `keep` bytes, or to whole lines when None.

        The rows kept should have these checksums, if any are given.
        """
        self._path = path
        path.touch()
        with naming(path), open(path, "r+b") as file:
            length = file.seek(0, io.SEEK_END)
            if keep is not None and keep > length:
                raise ValueError(
                    f"{path}: expected at least the {keep} bytes it had at the checkpoint, "
                    f"found {length}"
                )
            file.seek(0)
            content = file.read(length if keep is None else keep)
            if keep is None:
                keep = content.rfind(b"\n") + 1
            self.sums = array("L", (zlib.crc32(line) for line in content[:keep].split(b"\n")[:-1]))
            self._check(sums)
            file.truncate(keep)
        self._file = open(path, "ab")  # noqa: SIM115 (open for the life of the run)

    def _check(self, expected: Any) -> None:
        """Refuse rows that changed since the checkpoint, naming the first."""
        expected = self.sums if expected is None else array("L", map(int, expected))
        if self.sums != expected:
            pairs = enumerate(zip(self.sums, expected, strict=False), start=1)
            shorter = min(len(self.sums), len(expected)) + 1
            row = next((number for number, (a, b) in pairs if a != b), shorter)
            raise ValueError(
                f"{self._path}: line {row}: expected the row it was at the checkpoint, "
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
        """Force all rows to the disk; return the length of the file."""
        with naming(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read the metrics of a run folder, also while the run is being written.

    A last line that is not complete is left out.

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
    rows = []
    for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], start=1):
        where = f"{file}: line {number}"
        row = expect(where, loads(line, where), dict, "a row of metrics")
        expect(f"{where}: step", row.get("step"), int, "a whole number")
        rows.append(row)
    return rows
