"""The folder that the studio reads and writes. Paths outside it are refused."""

import contextlib
import filecmp
import itertools
import os
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from equipoise.core.errors import InputError

#: Subfolder for dropped and typed files.
UPLOADS = "uploads"
#: Subfolder for the runs of commands that the studio starts.
RUNS = "runs"
#: Suffixes of files that may be dropped.
SUFFIXES = (".csv", ".parquet", ".npz", ".nfg", ".tntp")
#: Largest file that may be dropped, in bytes.
LARGEST = 256 * 2**20

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9 ._-]{0,99}")


class Folder:
    """A folder and the files below it.

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
        """Return the path of a name below the folder; links that lead out of it are refused."""
        expected = "a path below the studio's folder"
        if not isinstance(name, str) or not name or "\0" in name or "\\" in name:
            raise InputError(argument, expected, repr(name))
        path = (self.root / name).resolve()
        if path == self.root or not path.is_relative_to(self.root):
            raise InputError(argument, expected, repr(name))
        return path

    def file(self, name: object, *suffixes: str) -> Path:
        """Return the path of an existing file with one of the given suffixes."""
        path = self.path(name)
        if path.suffix.lower() not in suffixes:
            raise InputError("file", f"a name that ends in {', '.join(suffixes)}", repr(name))
        if not path.is_file():
            raise InputError("file", "a file that exists", repr(name))
        return path

    def name_of(self, path: Path) -> str:
        """Return the name of a path relative to the folder."""
        return path.relative_to(self.root).as_posix()

    def shown(self, name: str) -> str:
        """Return a path that is valid in the working directory of the studio."""
        return name if self.root == Path.cwd() else str(self.root / name)

    def upload_path(self, name: object) -> Path:
        """Return the path at which a dropped file of this name is saved."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            expected = "letters, digits, spaces, dots, hyphens and underscores"
            raise InputError("file name", expected, repr(name))
        if Path(name).suffix.lower() not in SUFFIXES:
            raise InputError("file name", f"a name that ends in {', '.join(SUFFIXES)}", repr(name))
        return self.path(f"{UPLOADS}/{name}")

    async def receive(self, name: object, chunks: AsyncIterator[bytes]) -> str:
        """Write a dropped file as it arrives and return its name. Incomplete files never appear."""
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
            return self.settle(part, path)
        except BaseException:
            os.unlink(part)
            raise

    def settle(self, part: str | Path, path: Path) -> str:
        """Move a file to a path, or to `log-2.csv` if `log.csv` has other content."""
        others = (path.with_stem(f"{path.stem}-{n}") for n in itertools.count(2))
        free = (
            to
            for to in itertools.chain([path], others)
            if not to.exists() or filecmp.cmp(part, to, shallow=False)
        )
        path = next(free)
        os.replace(part, path)
        return self.name_of(path)

    def new_run(self, verb: str) -> Path:
        """Create and return a new run folder."""
        (self.root / RUNS).mkdir(exist_ok=True)
        number = 0
        while True:
            number += 1
            path = self.path(f"{RUNS}/{verb}-{number}")
            with contextlib.suppress(FileExistsError):
                path.mkdir()  # two simultaneous requests get two folders
                return path
