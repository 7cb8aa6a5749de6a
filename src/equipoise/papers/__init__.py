"""One module per figure or table of a paper: `Config`, `run(config, key)`, `plot(record)`.

`FIGURES` lists them, with the paper each belongs to and how long it takes; `Config()` is the full
scale of a figure and `Config.quick()` one of minutes. Modules are imported when they are used.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from equipoise.core.errors import InputError
from equipoise.runs import Record, Run, Table

__all__ = ["FIGURES", "PAPERS", "SCALES", "Figure", "figures_of"]

#: The papers and their figures; what the fields of a figure mean is said by `Figure`.
_LISTED = tomllib.loads((Path(__file__).parent / "figures.toml").read_text(encoding="utf-8"))
#: Name on the command line -> title.
PAPERS: dict[str, str] = _LISTED["papers"]
SCALES = ("quick", "full")


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper, or one that its claims ask for.

    **Example**

    >>> from equipoise import papers
    >>> figure = papers.figures_of("aggregative", ["planning"])[0]
    >>> figure.config("quick").horizon
    5
    """

    paper: str
    #: Its name on the command line.
    name: str
    #: The figure, table or claim of the paper.
    printed: str
    #: What the figure shows.
    title: str
    #: The module of this package that makes it.
    module: str
    #: Scale -> processor time there, on an ordinary machine.
    takes: Mapping[str, str]
    #: Settings in which its config differs from others of the same module.
    changes: Mapping[str, Any] = field(default_factory=dict)
    #: Whether its parts are kept one by one, so that a run can be stopped between them.
    in_parts: bool = False

    def load(self) -> ModuleType:
        """The module, with `Config`, `run` and `plot`."""
        return import_module(f"equipoise.papers.{self.module}")

    def config(self, scale: str) -> Any:
        """The config at a scale."""
        if scale not in SCALES:
            raise InputError("scale", f"one of {SCALES}", repr(scale))
        kind = self.load().Config
        return replace(kind.quick() if scale == "quick" else kind(), **self.changes)

    def run(self, folder: Path, scale: str, key: int = 0) -> tuple[Record, bool]:
        """Make the record in a run folder, unless it is there; says which.

        A folder with the run of another config is refused.
        """
        config = self.config(scale)
        with Run.start(folder, {"figure": self.name, "key": key, "config": config}) as run:
            if run.finished:
                return run.record(), True
            places = {"folder": folder / "parts"} if self.in_parts else {}
            return run.finish(self.load().run(config, key, **places)), False

    def plot(self, record: Record) -> Any:
        """The figure, by Matplotlib, from the record alone."""
        return self.load().plot(record)


FIGURES = tuple(
    # Settings of a config are tuples.
    Figure(**(entry | {"changes": {k: tuple(v) for k, v in entry.get("changes", {}).items()}}))
    for entry in _LISTED["figures"]
)


def kept(folder: Any, name: str, settings: Any, make: Callable[[], Record]) -> Record:
    """The record of one part of a figure: from its run folder, if there is one, or made now.

    >>> kept(None, "part", {}, lambda: Record("made")).name
    'made'
    """
    if folder is None:
        return make()
    with Run.start(Path(folder) / name, settings) as place:
        return place.record() if place.finished else place.finish(make())


def rows_of(table: Table) -> list[dict[str, Any]]:
    """The rows of a table by the names of their columns.

    >>> rows_of(Table(("a", "b"), [(1, 2)]))
    [{'a': 1, 'b': 2}]
    """
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def figures_of(paper: str, names: tuple[str, ...] | list[str] = ()) -> list[Figure]:
    """The figures of a paper, all or those named.

    **Example**

    >>> from equipoise import papers
    >>> [figure.name for figure in papers.figures_of("aggregative")]
    ['planning', 'learning']
    """
    if paper not in PAPERS:
        raise InputError("paper", f"one of {', '.join(PAPERS)}", repr(paper))
    known = {figure.name: figure for figure in FIGURES if figure.paper == paper}
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else ""
            raise InputError("figure", f"for {paper} some of {', '.join(known)}", repr(name), hint)
    return [figure for name, figure in known.items() if not names or name in names]
