"""`equipoise report`: one page about any runs, side by side, from their folders alone."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from equipoise.cli._inputs import check_suffix, make_folder_of
from equipoise.cli._output import print_json
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.core.errors import InputError
from equipoise.report import compare, find_runs, read_runs


@dataclass(frozen=True)
class Report:
    """Compare runs in one HTML file: numbers, certificates, curves, pictures, settings.

    A run is the folder of any command: solve --run, play, learn, offline, pretrain, evaluate, or an
    act of the demo or a figure of reproduce; a folder of runs stands for all below it. Unfinished
    runs are shown as far as they are. The file needs nothing else and can be opened offline.

    Examples:
      equipoise report runs/play runs/play-2 --out learners.html
      equipoise report runs/demo
    """

    ARGUMENTS: ClassVar = {"runs": "RUN"}

    #: Run folders, or folders of runs.
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    #: Where the page goes.
    out: Path = Path("report.html")
    #: What is written on top; the name of the run, or how many there are, if not given.
    title: Annotated[str, tyro.conf.arg(metavar="TEXT")] = ""
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Read, draw, write."""
        if not self.runs:
            raise InputError("runs", "at least one run folder", "none")
        check_suffix("out", self.out, ".html", ".htm")
        runs = read_runs([found for path in self.runs for found in find_runs(path)])
        drawings = {run.label: _paper_figure(run) for run in runs}
        words = ["equipoise", "report", *map(str, self.runs), "--out", str(self.out)]
        command = shlex.join([*words, "--title", self.title] if self.title else words)
        page = compare(runs, title=self.title, drawings=drawings, command=command)
        page.write(make_folder_of(self.out))
        if self.common.json:
            shown = [{"run": str(r.path), "label": r.label, "state": r.state} for r in runs]
            print_json({"report": str(self.out), "runs": shown})
        else:
            for run in runs:
                print(f"{run.label}: {run.state}")
            print(f"Report: {self.out}")
        return 0


def _paper_figure(run: Any) -> list[tuple[Any, str]]:
    """The drawing of a figure of a paper, which knows how to draw its own record."""
    from equipoise.papers import FIGURES

    if run.record is None or set(run.config) != {"figure", "key", "config"}:
        return []
    name, found = run.config["figure"], run.record.name.replace("-", "_")
    known = (f for f in FIGURES if (f.name, f.module) == (name, found))
    return [(figure.plot(run.record), figure.title) for figure in known]
