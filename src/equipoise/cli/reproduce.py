"""`equipoise reproduce`: the figures of the papers, theirs and ours, from config to page."""

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from equipoise.cli._errors import CommandError, refusing, tell_interrupted
from equipoise.cli._flags import COMMON, CommonOptions, Folder, check_seed
from equipoise.cli._folders import check_folder

#: As `equipoise.papers.PAPERS`, which is not imported to show help.
PAPERS = ("in-context", "interaction-rank", "aggregative")
_SOME = f"{', '.join(PAPERS[:-1])} or {PAPERS[-1]}"


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
        str | None,
        tyro.conf.Positional,
        tyro.conf.arg(metavar=f"[{{{','.join(PAPERS)}}}]", help_behavior_hint=""),
    ] = None
    #: Make this figure, of those that --list shows; all if not given.
    figure: Annotated[
        tuple[str, ...],
        tyro.conf.arg(metavar="NAME", help_behavior_hint="(repeatable)"),
        tyro.conf.UseAppendAction,
    ] = ()
    #: Minutes on a CPU, or all there is.
    scale: Literal["quick", "full"] = "quick"
    #: Say what there is, and how long it takes.
    list: bool = False
    #: Where randomness begins; the records in the documentation began at 0.
    seed: int = 0
    #: Where the run folders go (runs/PAPER-SCALE).
    run: Folder = None
    common: CommonOptions = COMMON

    def __post_init__(self) -> None:
        if self.paper is not None and self.paper not in PAPERS:
            raise CommandError(
                f"PAPER: expected {_SOME}, found {self.paper!r}{_nearest(self.paper)}"
            )

    def execute(self) -> int:
        """List, or make one figure after the other, and the page."""
        from equipoise.papers import FIGURES, figures_of

        check_seed(self.seed)
        if self.paper is None and not self.list:
            raise CommandError(f"PAPER: expected {_SOME}, found none; --list shows what there is")
        if self.paper is None and self.figure:
            raise CommandError("--figure: expected a paper with it, found none")
        with refusing(figure="--figure"):
            chosen = FIGURES if self.paper is None else figures_of(self.paper, self.figure)
        if self.list:
            self._list(chosen)
            return 0
        folder = self._folder()
        check_folder(folder, _holds_figures)
        try:
            made = [self._make(figure, folder / figure.name) for figure in chosen]
        except KeyboardInterrupt:
            more = f"; what was done is kept in {folder}; to go on, give the same command again"
            return tell_interrupted(more, self.common.json)
        with refusing():
            self._page(made).write(folder / "report.html")
        self._show(folder, made)
        return 0

    def _folder(self) -> Path:
        name = f"{self.paper}-{self.scale}" + (f"-seed-{self.seed}" if self.seed else "")
        return Path("runs", name) if self.run is None else self.run

    def _make(self, figure: Any, folder: Path) -> dict[str, Any]:
        """Run one figure, unless it was run, and draw it."""
        from equipoise.core.files import atomic_write
        from equipoise.core.plain import read_json
        from equipoise.runs import progress

        with refusing(), progress(f"{figure.paper}: {figure.name}") as bar:
            # Figures that take long tell how far they are; the standard output is for the result.
            with redirect_stdout(sys.stderr):
                record, known = figure.run(folder, self.scale, self.seed)
            drawn = figure.plot(record)
            files = [folder / f"{figure.name}.{kind}" for kind in ("svg", "png")]
            for file in files:
                with atomic_write(file) as temporary:
                    drawn.savefig(temporary, dpi=110)
            bar.advance(1)
            environment = read_json(folder / "environment.json", "sessions")
        return {
            "figure": figure,
            "folder": folder,
            "record": record,
            "drawn": drawn,
            "files": files,
            "known": known,
            "seconds": environment["seconds"],
            "machines": _machines(environment),
        }

    def _page(self, made: Any) -> Any:
        from equipoise.papers import PAPERS
        from equipoise.report import Report

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
            facts = {"machine": entry["machines"], "seconds": entry["seconds"]}
            page.facts({**facts, "record": str(entry["folder"])})
            page.config(record.config)
        return page.reproduce(self._command())

    def _command(self) -> str:
        figures = "".join(f" --figure {name}" for name in self.figure)
        return (
            f"equipoise reproduce {self.paper}{figures} --scale {self.scale} "
            f"--seed {self.seed} --run {self._folder()}"
        )

    def _show(self, folder: Path, made: Any) -> None:
        from equipoise.cli._output import print_json, print_pairs, print_table, record_document
        from equipoise.runs import Table

        report = str(folder / "report.html")
        if self.common.json:
            figures = [
                {
                    "figure": entry["figure"].name,
                    "printed": entry["figure"].printed,
                    "folder": str(entry["folder"]),
                    "files": [str(file) for file in entry["files"]],
                    "machine": entry["machines"],
                    "seconds": entry["seconds"],
                    "read_from_disk": entry["known"],
                    **record_document(entry["record"]),
                }
                for entry in made
            ]
            place = {"paper": self.paper, "scale": self.scale, "folder": str(folder)}
            print_json({**place, "report": report, "figures": figures})
            return
        rows = [
            (
                entry["figure"].name,
                entry["figure"].printed,
                entry["seconds"],
                "read" if entry["known"] else "made",
            )
            for entry in made
        ]
        print_table(Table(("figure", "of the paper", "seconds", ""), rows))
        print_pairs([("figures", str(folder / "*" / "*.svg")), ("report", report)])

    def _list(self, chosen: Any) -> None:
        from dataclasses import asdict

        from equipoise.cli._output import print_json, print_table
        from equipoise.papers import PAPERS
        from equipoise.runs import Table

        if self.common.json:
            print_json([asdict(figure) for figure in chosen])
            return
        for paper in dict.fromkeys(figure.paper for figure in chosen):
            rows = [
                (f.name, f.printed, f.takes["quick"], f.takes["full"], f.title)
                for f in chosen
                if f.paper == paper
            ]
            columns = ("figure", "of the paper", "quick", "full", "what is to be seen")
            print_table(Table(columns, rows), f"{paper}: {PAPERS[paper]}")
        print("Times are processor time, at the scales quick and full.")


def _machines(environment: dict[str, Any]) -> str:
    """Where the sessions of a run took place; a machine without a name is described.

    >>> machine = {"system": "Linux", "architecture": "x86_64", "cores": 2}
    >>> _machines({"sessions": [{"machine": machine}, {"machine": {"name": "one GPU"}}]})
    'Linux, 2 cores; one GPU'
    """
    machines = [session.get("machine", {}) for session in environment["sessions"]]
    names = [m.get("name") or f"{m.get('system')}, {m.get('cores')} cores" for m in machines]
    return "; ".join(dict.fromkeys(names))


def _holds_figures(folder: Path) -> bool:
    """Whether there is nothing in a folder but figures, of any paper, and their page."""
    from equipoise.papers import FIGURES

    known = {"report.html", *(figure.name for figure in FIGURES)}
    return folder.is_dir() and known >= {entry.name for entry in folder.iterdir()}


def _nearest(word: str) -> str:
    """A hint at the papers that a word is a part of, or else at the one that is most like it."""
    word = word.strip().lower()
    near = [paper for paper in PAPERS if word and word in paper]
    near = near or get_close_matches(word, PAPERS, n=1)
    return f"; did you mean {' or '.join(near)}?" if near else ""
