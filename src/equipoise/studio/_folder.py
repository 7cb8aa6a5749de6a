"""The folder that the studio reads and writes; nothing outside it can be named."""

import os
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from equipoise.core.errors import InputError

#: Where dropped and typed files go.
UPLOADS = "uploads"
#: Where commands that the studio starts keep their runs.
RUNS = "runs"
#: What may be dropped.
SUFFIXES = (".csv", ".parquet", ".npz", ".nfg", ".tntp")
#: The largest file that may be dropped, in bytes.
LARGEST = 256 * 2**20

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9 ._-]{0,99}")


class Folder:
    """A folder and what lies below it.

    **Example**

    >>> import tempfile
    >>> from equipoise.studio import Folder
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = Folder(place)
    ...     try:
    ...         folder.path("../secret.csv")
    ...     except ValueError as error:
    ...         print(error)
    file: expected a path below the studio's folder, found '../secret.csv'
    """

    def __init__(self, root: str | os.PathLike[str]):
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise InputError("folder", "a folder that exists", str(root))

    def path(self, name: object, argument: str = "file") -> Path:
        """The path of a name below the folder; links that lead out of it are refused."""
        expected = "a path below the studio's folder"
        if not isinstance(name, str) or not name or "\0" in name or "\\" in name:
            raise InputError(argument, expected, repr(name))
        path = (self.root / name).resolve()
        if path == self.root or not path.is_relative_to(self.root):
            raise InputError(argument, expected, repr(name))
        return path

    def file(self, name: object, *suffixes: str) -> Path:
        """The path of a file that exists, with one of some suffixes."""
        path = self.path(name)
        if path.suffix.lower() not in suffixes:
            raise InputError("file", f"a name that ends in {', '.join(suffixes)}", repr(name))
        if not path.is_file():
            raise InputError("file", "a file that exists", repr(name))
        return path

    def name_of(self, path: Path) -> str:
        """A path as it is called below the folder."""
        return path.relative_to(self.root).as_posix()

    def upload_path(self, name: object) -> Path:
        """Where a dropped file of this name goes."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            expected = "letters, digits, spaces, dots, hyphens and underscores"
            raise InputError("file name", expected, repr(name))
        if Path(name).suffix.lower() not in SUFFIXES:
            raise InputError("file name", f"one that ends in {', '.join(SUFFIXES)}", repr(name))
        return self.path(f"{UPLOADS}/{name}")

    async def receive(self, name: object, chunks: AsyncIterator[bytes]) -> str:
        """Write a dropped file as it arrives, and return its name; it appears whole or not."""
        path = self.upload_path(name)
        path.parent.mkdir(exist_ok=True)
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            size = 0
            with os.fdopen(handle, "wb") as file:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > LARGEST:
                        raise InputError("file", f"at most {LARGEST:,} bytes", "more")
                    file.write(chunk)
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise
        return self.name_of(path)

    def new_run(self, verb: str) -> Path:
        """A run folder that does not exist yet."""
        (self.root / RUNS).mkdir(exist_ok=True)
        number = 1
        while (path := self.path(f"{RUNS}/{verb}-{number}")).exists():
            number += 1
        return path
