"""Metrics as lines of JSON, appended as they come."""

import io
import json
import os
from pathlib import Path
from typing import Any

from equipoise.core.plain import dumps, revive


class MetricsFile:
    """The open end of a `metrics.jsonl`: every row is handed to the system at once.

    A process that is killed loses no row that `append` has returned from; at most the last
    line is torn, and the next opening cuts it.
    """

    def __init__(self, path: Path, keep: int | None):
        """Open for appending after cutting to `keep` bytes, or to whole lines when None."""
        path.touch()
        with open(path, "r+b") as file:
            length = file.seek(0, io.SEEK_END)
            if keep is None:
                file.seek(0)
                keep = file.read().rfind(b"\n") + 1
            elif keep > length:
                raise ValueError(
                    f"{path}: expected at least the {keep} bytes it had at the checkpoint, "
                    f"found {length}"
                )
            file.truncate(keep)
        self._file = open(path, "ab")  # noqa: SIM115 (open for the life of the run)

    def append(self, step: int, metrics: dict[str, Any]) -> None:
        """Append one row."""
        line = dumps({"step": step, **metrics}, "metrics") + "\n"
        self._file.write(line.encode())
        self._file.flush()

    def sync(self) -> int:
        """Force all rows to the disk; return the length of the file."""
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
        try:
            rows.append(revive(json.loads(line)))
        except ValueError as error:
            raise ValueError(f"{file}: line {number}: expected JSON, found {error}") from error
    return rows
