"""`equipoise reproduce`: reproduce the figures of the papers, as printed and as corrected."""

import sys
import tomllib
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import tyro

import equipoise as eq
from equipoise.cli._inputs import check_folder, check_seed
from equipoise.cli._main import Interrupted
from equipoise.cli._output import PAGE, print_json, print_pairs, print_table, record_document
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.core.errors import InputError


def checkout() -> Path | None:
    """Return the checkout that holds this package, else the working directory if it is one.

    The folder `reproduction` makes the figures. It is in a checkout, and not in an installed wheel.

    >>> checkout() / "reproduction"
    PosixPath('...reproduction')
    """
    places = (Path(__file__).parents[3], Path.cwd())
    return next((p for p in places if (p / "reproduction" / "figures.toml").is_file()), None)


def reproduction() -> ModuleType:
    """Import `reproduction` from the checkout.

    >>> list(reproduction().PAPERS)
    ['in-context', 'interaction-rank', 'aggregative']
    """
    place = checkout()
    if place is None:
        raise InputError(
            "equipoise reproduce",
            "the folder reproduction of the repository in the working directory",
            f"none in {Path.cwd()}",
            "an installed package does not have it: clone the repository and run this there",
        )
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))
    return import_module("reproduction")


def _papers() -> Any:
    """Return the type of a paper: without a checkout any word, which `execute` refuses."""
    if (place := checkout()) is None:
        return str | None
    listed = (place / "reproduction" / "figures.toml").read_text(encoding="utf-8")
    return tyro.extras.literal_type_from_choices(tomllib.loads(listed)["papers"]) | None


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the figures of the papers, as printed and as corrected.

    Each algorithm runs as printed in its paper, next to the corrected version. Every figure has a
    run folder with its config, record, drawings, machine and running time. Finished figures are
    read from their folders, so you can run an interrupted command again to resume it. The page
    report.html shows all figures of a paper. This command needs a clone of the repository, whose
    folder "reproduction" makes the figures.

    Examples:
      equipoise reproduce --list
      equipoise reproduce --quick
      equipoise reproduce aggregative
      equipoise reproduce in-context --figure last-iterate --scale full --run runs/figures
    """

    #: The paper. Default: with --quick or --list, all papers.
    paper: Annotated[
        str | None, tyro.conf.arg(constructor_factory=_papers), tyro.conf.Positional
    ] = None

    # -- figure

    #: Reproduce this figure, one of those that --list shows. Repeat the flag for more. Default: all
    #: figures of the paper.
    figure: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME"), tyro.conf.UseAppendAction
    ] = ()
    #: Size of the experiments: quick takes minutes on a CPU, full reproduces the whole figure.
    scale: Literal["quick", "full"] = "quick"
    #: Reproduce every figure of all papers, or of PAPER, at the quick scale. All of them together
    #: take about a quarter of an hour of processor time.
    quick: bool = False
    #: List the figures and the time they take, and exit.
    list: bool = False
    #: Random seed, a whole number in [0, 2^32). The documentation uses 0.
    seed: int = 0

    # -- output

    #: Folder for the run folders; without PAPER, for a folder for each paper. Default:
    #: runs/PAPER-SCALE.
    run: Path | None = None
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """List the figures, or reproduce them and write the page."""
        papers = reproduction()
        check_seed(self.seed)
        if self.quick and self.scale != "quick":
            raise InputError("quick", "this option only without --scale full", self.scale)
        if self.paper is None and (self.figure or not (self.list or self.quick)):
            hint = "--list shows all papers and figures; --quick makes all of them"
            raise InputError("paper", f"one of {', '.join(papers.PAPERS)}", "none", hint)
        if self.list:
            named = papers.figures_of(self.paper, self.figure) if self.paper else papers.FIGURES
            self._list(named)
            return 0
        if self.paper is not None:
            papers.figures_of(self.paper, self.figure)  # refuses unknown figures
            places = {self.paper: self._folder(self.paper) if self.run is None else self.run}
        elif self.run is None:
            places = {paper: self._folder(paper) for paper in papers.PAPERS}
        else:
            check_folder(self.run, _holds_papers)
            places = {paper: self.run / paper for paper in papers.PAPERS}
        for folder in places.values():
            check_folder(folder, _holds_figures)
        made = {paper: self._make(paper, folder) for paper, folder in places.items()}
        if self.common.json:
            documents = [
                self._document(paper, folder, made[paper]) for paper, folder in places.items()
            ]
            whole = {"papers": documents, "scale": self.scale}
            print_json(whole if self.paper is None else documents[0])
            return 0
        for paper, folder in places.items():
            self._show(paper, folder, made[paper])
        return 0

    def _folder(self, paper: str) -> Path:
        """Return the default folder of a paper."""
        seed = f"-seed-{self.seed}" if self.seed else ""
        return Path("runs", f"{paper}-{self.scale}{seed}")

    def _make(self, paper: str, folder: Path) -> Sequence[Any]:
        """Make the figures of a paper, or read those that are finished."""
        options: Any = {"scale": self.scale, "key": self.seed, "folder": folder}
        try:
            # Long figures report their progress; the standard output is for the result.
            with redirect_stdout(sys.stderr):
                return reproduction().reproduce(paper, self.figure, **options)
        except KeyboardInterrupt as end:
            more = f"; progress is saved in {folder}; to resume, run the same command again"
            raise Interrupted(more) from end

    def _document(self, paper: str, folder: Path, made: Sequence[Any]) -> dict[str, Any]:
        """Return the figures of a paper as plain data."""
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
        place = {"paper": paper, "scale": self.scale, "folder": str(folder)}
        return {**place, "report": str(folder / PAGE), "figures": figures}

    def _show(self, paper: str, folder: Path, made: Sequence[Any]) -> None:
        """Print the figures of a paper."""
        rows = [
            (one.figure.name, one.figure.printed, one.seconds, "read" if one.known else "made")
            for one in made
        ]
        columns = ("figure", "of the paper", "seconds", "")
        print_table(eq.runs.Table(columns, rows), "" if self.paper else paper)
        print_pairs([("figures", str(folder / "*" / "*.svg")), ("report", str(folder / PAGE))])

    def _list(self, chosen: Any) -> None:
        if self.common.json:
            print_json([asdict(figure) for figure in chosen])
            return
        for paper in dict.fromkeys(figure.paper for figure in chosen):
            own = [figure for figure in chosen if figure.paper == paper]
            rows = [(f.name, f.printed, f.takes["quick"], f.takes["full"], f.title) for f in own]
            columns = ("figure", "of the paper", "quick", "full", "title")
            print_table(eq.runs.Table(columns, rows), f"{paper}: {reproduction().PAPERS[paper]}")
        print("The columns quick and full give the processor time at each scale.")


def _holds_figures(folder: Path) -> bool:
    """Return whether a folder contains only figures, of any paper, and their page."""
    known = {"report.html", *(figure.name for figure in reproduction().FIGURES)}
    return folder.is_dir() and known >= {entry.name for entry in folder.iterdir()}


def _holds_papers(folder: Path) -> bool:
    """Return whether a folder contains only folders of papers."""
    return folder.is_dir() and set(reproduction().PAPERS) >= {
        entry.name for entry in folder.iterdir()
    }
