"""`equipoise reproduce`: reproduce the figures of the papers, as printed and as corrected."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from equipoise import papers
from equipoise.cli._inputs import check_folder, check_seed
from equipoise.cli._main import Interrupted
from equipoise.cli._output import print_json, print_pairs, print_table, record_document
from equipoise.cli._parsing import COMMON, CommonOptions, one_of
from equipoise.core.errors import InputError
from equipoise.papers import FIGURES, PAPERS, figures_of
from equipoise.runs import Table


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the figures of the papers, as printed and as corrected.

    Each algorithm runs as printed in its paper, next to the corrected version. Every figure has a
    run folder with its config, record, drawings, machine and running time. Finished figures are
    read from their folders, so you can run an interrupted command again to resume it. The page
    report.html shows all figures.

    Examples:
      equipoise reproduce --list
      equipoise reproduce aggregative
      equipoise reproduce in-context --figure last-iterate --scale full --run runs/figures
    """

    #: The paper. It is optional with --list.
    paper: Annotated[
        str | None, one_of("equipoise.papers", "PAPERS", optional=True), tyro.conf.Positional
    ] = None

    # -- figure

    #: Reproduce this figure, one of those that --list shows. Repeat the flag for more. Default: all
    #: figures of the paper.
    figure: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME"), tyro.conf.UseAppendAction
    ] = ()
    #: Size of the experiments: quick takes minutes on a CPU, full reproduces the whole figure.
    scale: Literal["quick", "full"] = "quick"
    #: List the figures and the time they take, and exit.
    list: bool = False
    #: Random seed, a whole number in [0, 2^32). The documentation uses 0.
    seed: int = 0

    # -- output

    #: Folder for the run folders. Default: runs/PAPER-SCALE.
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """List the figures, or reproduce them and write the page."""
        check_seed(self.seed)
        if self.paper is None and (self.figure or not self.list):
            hint = "--list shows all papers and figures"
            raise InputError("paper", f"one of {', '.join(PAPERS)}", "none", hint)
        chosen = FIGURES if self.paper is None else figures_of(self.paper, self.figure)
        if self.list:
            self._list(chosen)
            return 0
        name = f"{self.paper}-{self.scale}" + (f"-seed-{self.seed}" if self.seed else "")
        folder = Path("runs", name) if self.run is None else self.run
        check_folder(folder, _holds_figures)
        options: Any = {"scale": self.scale, "key": self.seed, "folder": folder}
        try:
            # Long figures report their progress; the standard output is for the result.
            with redirect_stdout(sys.stderr):
                made = papers.reproduce(str(self.paper), self.figure, **options)
        except KeyboardInterrupt as end:
            more = f"; progress is saved in {folder}; to resume, run the same command again"
            raise Interrupted(more) from end
        self._show(folder, made)
        return 0

    def _show(self, folder: Path, made: Sequence[papers.Made]) -> None:
        report = str(folder / "report.html")
        if self.common.json:
            figures = [
                {
                    "figure": one.figure.name,
                    "printed": one.figure.printed,
                    "folder": str(one.folder),
                    "files": [str(file) for file in one.files],
                    "machine": one.machine,
                    "seconds": one.seconds,
                    "read_from_disk": one.known,
                    **record_document(one.record),
                }
                for one in made
            ]
            place = {"paper": self.paper, "scale": self.scale, "folder": str(folder)}
            print_json({**place, "report": report, "figures": figures})
            return
        rows = [
            (one.figure.name, one.figure.printed, one.seconds, "read" if one.known else "made")
            for one in made
        ]
        print_table(Table(("figure", "of the paper", "seconds", ""), rows))
        print_pairs([("figures", str(folder / "*" / "*.svg")), ("report", report)])

    def _list(self, chosen: Any) -> None:
        if self.common.json:
            print_json([asdict(figure) for figure in chosen])
            return
        for paper in dict.fromkeys(figure.paper for figure in chosen):
            own = [figure for figure in chosen if figure.paper == paper]
            rows = [(f.name, f.printed, f.takes["quick"], f.takes["full"], f.title) for f in own]
            columns = ("figure", "of the paper", "quick", "full", "title")
            print_table(Table(columns, rows), f"{paper}: {PAPERS[paper]}")
        print("The columns quick and full give the processor time at each scale.")


def _holds_figures(folder: Path) -> bool:
    """Return whether a folder contains only figures, of any paper, and their page."""
    known = {"report.html", *(figure.name for figure in FIGURES)}
    return folder.is_dir() and known >= {entry.name for entry in folder.iterdir()}
