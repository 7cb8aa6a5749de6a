"""`equipoise report`: one page about any runs, side by side, from their folders alone."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from equipoise.cli._errors import CommandError, refusing
from equipoise.cli._flags import COMMON, CommonOptions, check_page, make_folder_of


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

    #: Run folders, or folders of runs.
    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN...", help_behavior_hint="(required)"),
    ]
    #: Where the page goes.
    out: Path = Path("report.html")
    #: What is written on top (the name of the run, or how many there are).
    title: Annotated[str, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")] = ""
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Read, draw, write."""
        from equipoise.cli._output import print_json
        from equipoise.report import compare, find_runs, read_runs

        if not self.runs:
            raise CommandError("RUN: expected at least one run folder, found none")
        check_page("--out", self.out)
        with refusing("RUN"):
            runs = read_runs([found for path in self.runs for found in find_runs(path)])
            drawings = {run.label: _paper_figure(run) for run in runs}
            page = compare(runs, title=self.title, drawings=drawings, command=self._command())
        with refusing("--out"):
            page.write(make_folder_of(self.out))
        if self.common.json:
            shown = [{"run": str(r.path), "label": r.label, "state": r.state} for r in runs]
            print_json({"report": str(self.out), "runs": shown})
        else:
            for run in runs:
                print(f"{run.label}: {run.state}")
            print(f"Report: {self.out}")
        return 0

    def _command(self) -> str:
        """The command that makes the same page of the same runs."""
        words = ["equipoise", "report", *map(str, self.runs), "--out", str(self.out)]
        return shlex.join([*words, "--title", self.title] if self.title else words)


def _paper_figure(run: Any) -> list[tuple[Any, str]]:
    """The drawing of a figure of a paper, which knows how to draw its own record."""
    from equipoise.papers import FIGURES

    if run.record is None or set(run.config) != {"figure", "key", "config"}:
        return []
    name, found = run.config["figure"], run.record.name.replace("-", "_")
    for figure in FIGURES:
        if figure.name == name and figure.module == found:
            return [(figure.plot(run.record), figure.title)]
    return []
