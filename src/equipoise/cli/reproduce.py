"""`equipoise reproduce`: the figures of the papers, theirs and ours, from config to page."""

import sys
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from equipoise.cli._inputs import check_folder, check_seed
from equipoise.cli._main import Interrupted
from equipoise.cli._output import print_json, print_pairs, print_table, record_document
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.core.errors import InputError
from equipoise.core.files import atomic_write
from equipoise.papers import FIGURES, PAPERS, figures_of
from equipoise.report import Report, RunFolder
from equipoise.runs import Table, progress


@dataclass(frozen=True)
class Reproduce:
    """Make the figures of the papers again, theirs and ours side by side.

    What a paper prints runs as printed beside the corrected version. Every figure is a run folder
    with its config, record, drawings, machine and seconds; those that are there are read, not
    made again, so that a command which was interrupted goes on when it is given again. The page
    report.html shows all of them.

    Examples:
      equipoise reproduce --list
      equipoise reproduce aggregative
      equipoise reproduce in-context --figure last-iterate --scale full --run runs/figures
    """

    #: Which paper; not needed with --list.
    paper: Annotated[
        Literal["in-context", "interaction-rank", "aggregative"] | None, tyro.conf.Positional
    ] = None
    #: Make this figure, one of those that --list shows; may be repeated. Default: all.
    figure: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME"), tyro.conf.UseAppendAction
    ] = ()
    #: quick takes minutes on a CPU; full makes the whole figure.
    scale: Literal["quick", "full"] = "quick"
    #: List the figures and how long they take.
    list: bool = False
    #: Random seed; the records in the documentation were made with 0.
    seed: int = 0
    #: Folder for the run folders. Default: runs/PAPER-SCALE.
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """List the figures, or make them and the page."""
        check_seed(self.seed)
        if self.paper is None and (self.figure or not self.list):
            hint = "--list shows what there is"
            raise InputError("paper", f"one of {', '.join(PAPERS)}", "none", hint)
        chosen = FIGURES if self.paper is None else figures_of(self.paper, self.figure)
        if self.list:
            self._list(chosen)
            return 0
        name = f"{self.paper}-{self.scale}" + (f"-seed-{self.seed}" if self.seed else "")
        folder = Path("runs", name) if self.run is None else self.run
        check_folder(folder, _holds_figures)
        made: Any = []
        try:
            with progress(f"figures of {self.paper}", total=len(chosen)) as bar:
                for figure in chosen:
                    bar.advance(0, figure=figure.name)
                    made.append(self._make(figure, folder / figure.name))
                    bar.advance(1)
        except KeyboardInterrupt as end:
            more = f"; what was done is kept in {folder}; to go on, give the same command again"
            raise Interrupted(more) from end
        self._page(made, folder).write(folder / "report.html")
        self._show(folder, made)
        return 0

    def _make(self, figure: Any, folder: Path) -> dict[str, Any]:
        """Run one figure, unless it was run, and draw it."""
        # Figures that take long tell how far they are; the standard output is for the result.
        with redirect_stdout(sys.stderr):
            record, known = figure.run(folder, self.scale, self.seed)
        drawn = figure.plot(record)
        files = [folder / f"{figure.name}.{kind}" for kind in ("svg", "png")]
        for file in files:
            with atomic_write(file) as temporary:
                drawn.savefig(temporary, dpi=110)
        run = RunFolder.read(folder)
        told = {"machine": _machines(run.sessions), "seconds": run.seconds}
        place = {"folder": folder, "files": files, "known": known, "told": told}
        return {"figure": figure, "record": record, "drawn": drawn, **place}

    def _page(self, made: Any, folder: Path) -> Report:
        page = Report(
            f"Reproduction: {self.paper}",
            f"{PAPERS[str(self.paper)]}, at {self.scale} scale. What the paper prints and what is "
            "put in its place, on the same axes; gaps are exact.",
        )
        for entry in made:
            figure, record = entry["figure"], entry["record"]
            page.section(f"{figure.printed}: {figure.title}")
            page.figure(entry["drawn"], alt=figure.title)
            for name, table in record.tables.items():
                page.table(table, caption=name)
            page.facts({**entry["told"], "record": str(entry["folder"])})
            page.config(record.config)
        figures = "".join(f" --figure {name}" for name in self.figure)
        options = f"--scale {self.scale} --seed {self.seed} --run {folder}"
        return page.reproduce(f"equipoise reproduce {self.paper}{figures} {options}")

    def _show(self, folder: Path, made: Any) -> None:
        report = str(folder / "report.html")
        if self.common.json:
            figures = [
                {
                    "figure": entry["figure"].name,
                    "printed": entry["figure"].printed,
                    "folder": str(entry["folder"]),
                    "files": [str(file) for file in entry["files"]],
                    **entry["told"],
                    "read_from_disk": entry["known"],
                    **record_document(entry["record"]),
                }
                for entry in made
            ]
            place = {"paper": self.paper, "scale": self.scale, "folder": str(folder)}
            print_json({**place, "report": report, "figures": figures})
            return
        rows = []
        for entry in made:
            told = (entry["told"]["seconds"], "read" if entry["known"] else "made")
            rows.append((entry["figure"].name, entry["figure"].printed, *told))
        print_table(Table(("figure", "of the paper", "seconds", ""), rows))
        print_pairs([("figures", str(folder / "*" / "*.svg")), ("report", report)])

    def _list(self, chosen: Any) -> None:
        if self.common.json:
            print_json([asdict(figure) for figure in chosen])
            return
        for paper in dict.fromkeys(figure.paper for figure in chosen):
            own = [figure for figure in chosen if figure.paper == paper]
            rows = [(f.name, f.printed, f.takes["quick"], f.takes["full"], f.title) for f in own]
            columns = ("figure", "of the paper", "quick", "full", "what is to be seen")
            print_table(Table(columns, rows), f"{paper}: {PAPERS[paper]}")
        print("Times are processor time, at the scales quick and full.")


def _machines(sessions: Any) -> str:
    """Where the sessions of a run took place; a machine without a name is described.

    >>> machine = {"system": "Linux", "architecture": "x86_64", "cores": 2}
    >>> _machines([{"machine": machine}, {"machine": {"name": "one GPU"}}])
    'Linux, 2 cores; one GPU'
    """
    machines = [session.get("machine", {}) for session in sessions]
    names = [m.get("name") or f"{m.get('system')}, {m.get('cores')} cores" for m in machines]
    return "; ".join(dict.fromkeys(names))


def _holds_figures(folder: Path) -> bool:
    """Whether there is nothing in a folder but figures, of any paper, and their page."""
    known = {"report.html", *(figure.name for figure in FIGURES)}
    return folder.is_dir() and known >= {entry.name for entry in folder.iterdir()}
