"""`equipoise report`: compare any runs on one HTML page, from their folders alone."""

import shlex
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

import equipoise as eq
from equipoise.cli._inputs import check_suffix, make_folder_of
from equipoise.cli._output import print_json
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.cli.reproduce import checkout, reproduction
from equipoise.core.errors import InputError


@dataclass(frozen=True)
class Report:
    """Compare runs in one HTML file: numbers, certificates, curves and settings.

    A run is the folder of any command: solve --run, play, learn, offline, pretrain, evaluate, an
    act of demo, or a figure of reproduce. The page also shows the figures of the runs. If you pass
    a folder that contains runs, all of them are included. Unfinished runs are shown with their
    progress so far. The HTML file is self-contained and can be opened offline.

    Examples:
      equipoise report runs/play runs/play-2 --out learners.html
      equipoise report runs/demo
    """

    ARGUMENTS: ClassVar = {"runs": "RUN"}

    #: Run folders, or folders that contain runs.
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]

    # -- output

    #: HTML file to write.
    out: Path = Path("report.html")
    #: Title of the page. Default: the name of the run, or the number of runs.
    title: Annotated[str, tyro.conf.arg(metavar="TEXT")] = ""
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Read the runs and write the page."""
        if not self.runs:
            raise InputError("runs", "at least one run folder", "none")
        check_suffix("out", self.out, ".html", ".htm")
        runs = eq.report.read_runs(
            [found for path in self.runs for found in eq.report.find_runs(path)]
        )
        drawings = {run.label: _drawings(run) for run in runs}
        words = ["equipoise", "report", *map(str, self.runs), "--out", str(self.out)]
        command = shlex.join([*words, "--title", self.title] if self.title else words)
        page = eq.report.compare(runs, title=self.title, drawings=drawings, command=command)
        page.write(make_folder_of(self.out))
        if self.common.json:
            shown = [{"run": str(r.path), "label": r.label, "state": r.state} for r in runs]
            print_json({"report": str(self.out), "runs": shown})
        else:
            for run in runs:
                print(f"{run.label}: {run.state}")
            print(f"Report: {self.out}")
        return 0


def _drawings(run: "eq.report.RunFolder") -> list[tuple[Any, str]]:
    """Return the drawing of the figure of a paper; other runs have none."""
    if set(run.config) != {"figure", "key", "config"}:
        return []
    if checkout() is None:
        note = "is shown without its drawing, which needs a clone of the repository"
        warnings.warn(f"{run.label} {note}", stacklevel=2)
        return []
    return reproduction().drawings_of(run)
