"""Read run folders for a report: finished or not, never written to."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.core.errors import InputError
from equipoise.core.plain import read_json
from equipoise.runs import Record, read_metrics


@dataclass(frozen=True)
class RunFolder:
    """The contents of one run folder.

    **Example**

    >>> import tempfile
    >>> from equipoise.report import RunFolder
    >>> from equipoise.runs import Run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Run.create(place + "/slow", {"steps": 9}) as run:
    ...         run.log(1, gap=0.5)
    ...     folder = RunFolder.read(place + "/slow")
    >>> folder.label, folder.state, folder.config
    ('slow', 'unfinished, at step 1', {'steps': 9})
    """

    #: The folder.
    path: Path
    #: Label of the run on the page.
    label: str
    #: Configuration of the run.
    config: dict[str, Any]
    #: None while the run is unfinished.
    record: Record | None
    #: Rows of `metrics.jsonl`.
    metrics: list[dict[str, Any]] = field(default_factory=list)
    #: One entry per session that worked on the run: command, versions, machine, seconds.
    sessions: list[dict[str, Any]] = field(default_factory=list)
    #: Total time of all sessions, in seconds.
    seconds: float = 0.0

    @classmethod
    def read(cls, path: str | os.PathLike[str], label: str | None = None) -> "RunFolder":
        """Read a run folder, even while another process writes to it."""
        folder = Path(path)
        if not (folder / "config.json").exists():
            raise InputError("runs", "run folders", f"no config.json in {folder}")
        environment: dict[str, Any] = {"sessions": [], "seconds": 0.0}
        if (folder / "environment.json").exists():
            environment = read_json(folder / "environment.json", "sessions", "seconds")
        return cls(
            path=folder,
            label=folder.resolve().name if label is None else label,
            config=read_json(folder / "config.json"),
            record=Record.load(folder) if (folder / "record.json").exists() else None,
            metrics=read_metrics(folder) if (folder / "metrics.jsonl").exists() else [],
            sessions=environment["sessions"],
            seconds=float(environment["seconds"]),
        )

    @property
    def state(self) -> str:
        """Return whether the run is finished, in words."""
        if self.record is not None:
            return "finished"
        last = self.metrics[-1]["step"] if self.metrics else 0
        return f"unfinished, at step {last:,}"

    @property
    def command(self) -> str:
        """Return the command that started the run."""
        return shlex.join(self.sessions[0]["command"]) if self.sessions else ""

    @property
    def versions(self) -> dict[str, str]:
        """Return the versions used by the session that finished the run, or that was last."""
        return self.sessions[-1]["versions"] if self.sessions else {}


def find_runs(path: str | os.PathLike[str]) -> list[Path]:
    """Return the folder itself if it holds a run, else all runs below it at any depth.

    Sub-folders of a run belong to that run. Hidden folders are skipped.

    **Example**

    >>> import tempfile
    >>> from equipoise.report import find_runs
    >>> from equipoise.runs import Run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     for name in ("b", "a/deep"):
    ...         Run.create(f"{place}/{name}", {}).close()
    ...     [run.relative_to(place).as_posix() for run in find_runs(place)]
    ['a/deep', 'b']
    """
    folder = Path(path)
    if (folder / "config.json").exists():
        return [folder]
    if not folder.is_dir():
        raise InputError("runs", "run folders", f"none: {folder}")
    below = []
    for place, names, files in os.walk(folder):
        # Other programs write a config.json too, but not both files.
        if {"config.json", "environment.json"} <= set(files):
            below.append(Path(place))
            names.clear()
        names[:] = sorted(name for name in names if not name.startswith("."))
    below.sort()
    if not below:
        raise InputError("runs", "run folders or folders of runs", f"none in {folder}")
    return below


def read_runs(folders: Sequence[str | os.PathLike[str]]) -> list[RunFolder]:
    """Read runs and give each a unique label; a folder given twice is read once.

    **Example**

    >>> import tempfile
    >>> from equipoise.report import read_runs
    >>> from equipoise.runs import Run
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folders = [f"{place}/{name}" for name in ("old/omd", "new/omd", "new/exp3")]
    ...     for folder in folders:
    ...         Run.create(folder, {}).close()
    ...     [run.label for run in read_runs(folders)]
    ['old/omd', 'new/omd', 'new/exp3']
    """
    paths = [Path(folder) for folder in folders]
    unique = list(dict.fromkeys(path.resolve() for path in paths))
    parts = 1
    while True:
        labels = ["/".join(path.parts[-parts:]) for path in unique]
        if len(set(labels)) == len(labels):
            break
        parts += 1
    given = {path.resolve(): path for path in paths}
    pairs = zip(unique, labels, strict=True)
    return [RunFolder.read(given[path], label) for path, label in pairs]
