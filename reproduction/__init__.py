"""One module per figure or table of a paper: `Config`, `run(config, key)`, `plot(record)`.

`FIGURES` lists all figures, with their paper and running time. `Config()` reproduces a figure at
full scale, and `Config.quick()` in some minutes. Modules are imported when they are used.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from equipoise import runs
from equipoise.core.errors import InputError
from equipoise.core.files import atomic_write
from equipoise.report import Report, RunFolder
from equipoise.runs import Record, Run, Table, progress

__all__ = [
    "FIGURES",
    "PAPERS",
    "SCALES",
    "Figure",
    "Made",
    "drawings_of",
    "figures_of",
    "reproduce",
]

#: The papers and their figures; `Figure` documents the fields of a figure.
_LISTED = tomllib.loads((Path(__file__).parent / "figures.toml").read_text(encoding="utf-8"))
#: Name on the command line -> title.
PAPERS: dict[str, str] = _LISTED["papers"]
SCALES = ("quick", "full")


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper, or an experiment that tests its claims.

    **Example**

    >>> from reproduction import figures_of
    >>> figure = figures_of("aggregative", ["planning"])[0]
    >>> figure.config("quick").horizon
    5
    """

    #: Name of the paper on the command line.
    paper: str
    #: Name on the command line.
    name: str
    #: Figure, table or claim of the paper.
    printed: str
    #: Title that says what the figure shows.
    title: str
    #: Module of this package that makes the figure.
    module: str
    #: Scale -> processor time at that scale, on an ordinary machine.
    takes: Mapping[str, str]
    #: Settings in which its config differs from other figures of the same module.
    changes: Mapping[str, Any] = field(default_factory=dict)
    #: Settings in which its config at the quick scale differs besides.
    quick: Mapping[str, Any] = field(default_factory=dict)
    #: Whether its parts are saved one by one, so that a run can be stopped between them.
    in_parts: bool = False

    def load(self) -> ModuleType:
        """Import the module, which has `Config`, `run` and `plot`."""
        return import_module(f"reproduction.{self.module}")

    def config(self, scale: str) -> Any:
        """Return the config at a scale."""
        if scale not in SCALES:
            raise InputError("scale", f"one of {SCALES}", repr(scale))
        kind = self.load().Config
        if scale == "quick":
            return replace(kind.quick(), **{**self.changes, **self.quick})
        return replace(kind(), **self.changes)

    def run(self, folder: Path, scale: str, key: int = 0) -> tuple[Record, bool]:
        """Compute the record in a run folder, or read it; return it and whether it was read.

        A folder with a run of another config is refused.
        """
        config = self.config(scale)
        with Run.start(folder, {"figure": self.name, "key": key, "config": config}) as run:
            if run.finished:
                return run.record(), True
            places = {"folder": folder / "parts"} if self.in_parts else {}
            return run.finish(self.load().run(config, key, **places)), False

    def plot(self, record: Record) -> Any:
        """Return the Matplotlib figure, drawn from the record alone."""
        return self.load().plot(record)


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def _figure(entry: dict[str, Any]) -> Figure:
    """Return a figure of the list. TOML has lists, and the settings of a config are tuples."""
    settings: dict[str, Any] = {}
    for name in ("changes", "quick"):
        settings[name] = {k: _tuple(v) for k, v in entry.get(name, {}).items()}
    return Figure(**{**entry, **settings})


FIGURES = tuple(map(_figure, _LISTED["figures"]))


def kept(folder: Any, name: str, settings: Any, make: Callable[[], Record]) -> Record:
    """Return the record of one part of a figure, read from its run folder or computed now.

    >>> kept(None, "part", {}, lambda: Record("made")).name
    'made'
    """
    run = None if folder is None else Path(folder) / name
    return runs.kept(run, settings, lambda _: make())


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts.

    >>> rows_of(Table(("a", "b"), [(1, 2)]))
    [{'a': 1, 'b': 2}]
    """
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def figures_of(paper: str, names: tuple[str, ...] | list[str] = ()) -> list[Figure]:
    """Return all figures of a paper, or those with the given names.

    **Example**

    >>> from reproduction import figures_of
    >>> [figure.name for figure in figures_of("aggregative")]
    ['planning', 'learning', 'regret', 'dimensions']
    """
    if paper not in PAPERS:
        raise InputError("paper", f"one of {', '.join(PAPERS)}", repr(paper))
    known = {figure.name: figure for figure in FIGURES if figure.paper == paper}
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else ""
            raise InputError("figure", f"one of {', '.join(known)} for {paper}", repr(name), hint)
    return [figure for name, figure in known.items() if not names or name in names]


def drawings_of(run: RunFolder) -> list[tuple[Any, str]]:
    """Return the drawing and title of the figure of a run folder; nothing for other runs.

    **Example**

    >>> from pathlib import Path
    >>> from equipoise import report
    >>> from reproduction import drawings_of
    >>> drawings_of(report.RunFolder(Path("unfinished"), "unfinished", {}, None))
    []
    """
    if run.record is None or set(run.config) != {"figure", "key", "config"}:
        return []
    name, found = run.config["figure"], run.record.name.replace("-", "_")
    known = (f for f in FIGURES if (f.name, f.module) == (name, found))
    return [(figure.plot(run.record), figure.title) for figure in known]


class Made(NamedTuple):
    """A figure that was computed, or read from its run folder."""

    #: The figure.
    figure: Figure
    #: Its record.
    record: Record
    #: Run folder.
    folder: Path
    #: Drawings in the run folder.
    files: tuple[Path, ...]
    #: Whether the record was read from the run folder.
    known: bool
    #: Machine on which it was computed.
    machine: str
    #: Time that it took, in seconds.
    seconds: float


def reproduce(
    paper: str,
    figures: tuple[str, ...] | list[str] = (),
    *,
    scale: str = "quick",
    key: int = 0,
    folder: str | Path,
) -> list[Made]:
    """Reproduce all figures of a paper, or those named, and write a page about them.

    Every figure has its own run folder in `folder`, with its drawings. Finished figures are read
    from their folders, so you can repeat an interrupted call to resume it. The page is
    `report.html`.

    **Example**

    >>> from reproduction import reproduce
    >>> reproduce("aggregative", ["plan"], folder="figures")
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: figure: expected one of planning, learning, regret, dimensions
    for aggregative; found 'plan'; did you mean planning?
    """
    import jax

    chosen, folder, made = figures_of(paper, figures), Path(folder), []
    page = Report(
        f"Reproduction: {paper}",
        f"{PAPERS[paper]}, at {scale} scale. The printed and the corrected versions share the same "
        "axes; gains are exact.",
    )
    with progress(f"figures of {paper}", total=len(chosen)) as bar:
        for figure in chosen:
            bar.advance(0, figure=figure.name)
            made.append(_make(figure, folder / figure.name, scale, key, page))
            # The compiled programs of all figures are more memory maps than a process may have.
            jax.clear_caches()
            bar.advance(1)
    names = "".join(f" --figure {name}" for name in figures)
    options = f"--scale {scale} --seed {key} --run {folder}"
    page.reproduce(f"equipoise reproduce {paper}{names} {options}").write(folder / "report.html")
    return made


def _make(figure: Figure, folder: Path, scale: str, key: int, page: Report) -> Made:
    """Run or read one figure, and draw it into its folder and onto the page."""
    record, known = figure.run(folder, scale, key)
    drawn = figure.plot(record)
    files = tuple(folder / f"{figure.name}.{kind}" for kind in ("svg", "png"))
    for file in files:
        with atomic_write(file) as temporary:
            drawn.savefig(temporary, dpi=110)
    run = RunFolder.read(folder)
    machine = _machines(run.sessions)
    page.section(f"{figure.printed}: {figure.title}")
    page.figure(drawn, alt=figure.title)
    for name, table in record.tables.items():
        page.table(table, caption=name)
    page.facts({"machine": machine, "seconds": run.seconds, "record": str(folder)})
    page.config(record.config)
    return Made(figure, record, folder, files, known, machine, run.seconds)


def _machines(sessions: Any) -> str:
    """Describe the machines on which the sessions of a run took place.

    >>> machine = {"system": "Linux", "architecture": "x86_64", "cores": 2}
    >>> _machines([{"machine": machine}, {"machine": {"name": "one GPU"}}])
    'Linux, 2 cores; one GPU'
    """
    machines = [session.get("machine", {}) for session in sessions]
    names = [m.get("name") or f"{m.get('system')}, {m.get('cores')} cores" for m in machines]
    return "; ".join(dict.fromkeys(names))
