"""Which folder a run is kept in, where the user names none."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from equipoise.cli._errors import CommandError, refusing
from equipoise.runs import FolderInUse, OtherConfig, Run

Found = TypeVar("Found")


def in_run_folder(
    given: Path | None, name: str, work: Callable[[Path], Found]
) -> tuple[Path, Found]:
    """Do the work in the folder that was given, or in the first of runs/NAME, runs/NAME-2, ...

    that is new or holds this very run: the same command goes on, or reads what is there, and
    another one finds a place of its own. A folder that somebody else is writing is left to them.

    >>> import contextlib, tempfile
    >>> from equipoise.runs import Run
    >>> with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
    ...     def work(seed):
    ...         return in_run_folder(None, "x", lambda folder: Run.start(folder, seed).close())[0]
    ...     [str(work({"seed": seed})) for seed in (0, 1, 0)]
    ['runs/x', 'runs/x-2', 'runs/x']
    """
    if given is not None:
        check_folder(given)
        return given, work(given)
    number, folder = 1, Path("runs", name)
    while True:
        if not folder.exists() or _is_run(folder):
            with suppress(OtherConfig, FolderInUse):
                return folder, work(folder)
        number += 1
        folder = Path("runs", f"{name}-{number}")


def _is_run(folder: Path) -> bool:
    """Whether a run may go on here: there is one, or there is nothing."""
    return folder.is_dir() and Run.can_start(folder)


def check_folder(folder: Path, may_go_on: Callable[[Path], bool] = _is_run) -> None:
    """Refuse a folder that no run can be kept in, before the work that would be lost.

    `may_go_on` says of a folder whether it holds what the command can go on with, or nothing.

    >>> check_folder(Path("a-new-folder"))
    """
    with refusing():
        if folder.exists() and not folder.is_dir():
            raise CommandError(f"--run: expected a folder, found the file {folder}")
        if folder.exists() and not may_go_on(folder):
            raise CommandError(
                f"--run: expected a new or empty folder, or that of the same run to go on with; "
                f"found other files in {folder}; choose another folder"
            )
        place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not os.access(place, os.W_OK):
        raise CommandError(f"--run: expected a folder that can be written, found {place}")
