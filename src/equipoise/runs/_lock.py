"""One writer per folder.

The lock is the system's, not a file's existence: it ends with the process that holds it, so a
process that was killed leaves no stale lock behind. The file says who holds it.
"""

import os
import platform
import sys
from pathlib import Path
from typing import BinaryIO

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
    """Somebody else is writing the folder; says who.

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
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self._file = os.fdopen(descriptor, "r+b")
        try:
            _try_lock(self._file)
        except (BlockingIOError, PermissionError) as error:  # as POSIX and Windows say it
            self._file.close()
            holder = path.read_text(errors="replace").strip() or "another process"
            raise FolderInUse(
                f"{folder} is being written by {holder}: "
                "wait for it to end, or choose another folder"
            ) from error
        except OSError as error:  # the disk knows no locks
            self._file.close()
            error.filename = str(path)
            raise
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"process {os.getpid()} on {platform.node()}\n".encode())
        self._file.flush()

    def release(self) -> None:
        """Let others write. The file stays: removing it would race with who opens it next."""
        self._file.seek(0)
        self._file.truncate()
        self._file.close()
