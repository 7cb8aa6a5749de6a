"""The tables of the pages about the papers: functions of records that return rows of text."""

from collections.abc import Callable, Sequence
from typing import Any

from equipoise.papers import rows_of
from equipoise.runs import Record

#: Rows of text; the first is the head.
Grid = list[list[str]]


def _pick(rows: Sequence[dict[str, Any]], **wanted: Any) -> dict[str, Any] | None:
    """Return the row with these entries, the last one if there are several, or None."""
    chosen = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return chosen[-1] if chosen else None


def _grid(
    corner: str,
    heads: dict[str, Any],
    sides: dict[str, Any],
    cell: Callable[[Any, Any], str],
) -> Grid:
    """Return a table with a row for each side and a column for each head, by their labels."""
    head = [corner, *heads]
    return [head] + [
        [label, *(cell(side, at) for at in heads.values())] for label, side in sides.items()
    ]


def _thousandths(number: float) -> str:
    """
    >>> _thousandths(0.05)
    '.050'
    """
    return f"{number:.3f}".removeprefix("0")


_PANELS = ("A=2", "A=3", "A=5", "S=2", "S=3", "S=5")
_PLAYERS = {
    "ours": "ours",
    "paper": "paper's preset",
    "omd": "mirror descent",
    "exp3-ix (average)": "EXP3-IX, average",
    "v-learning": "V-learning",
    "base Nash": "base Nash",
    "mean Nash": "mean Nash",
    "best static": "best static",
    "uniform": "uniform",
}


def final_gaps(record: Record, family: str) -> Grid:
    """Gaps after the last round in one family: a row for each player, a column for each panel."""
    rows = [row for row in rows_of(record.tables["gaps"]) if row["family"] == family]
    known = {row["player"] for row in rows}

    def cell(player: str, panel: str) -> str:
        row = _pick(rows, player=player, panel=panel)
        return "" if row is None else _thousandths(row["gap"])

    sides = {label: name for name, label in _PLAYERS.items() if name in known}
    return _grid(family.replace("=", " = "), dict(zip(_PANELS, _PANELS, strict=True)), sides, cell)


def protocol(record: Record, player: str) -> Grid:
    """Gaps against the length of trajectories, for the players named or for those that stop."""
    rows = rows_of(record.tables["gaps"])
    name = {"separate": "a model for each length", "longest": "the longest model"}[player]
    lengths = sorted({row["length"] for row in rows})
    heads: dict[str, Any] = {f"{n} rounds" if n == lengths[0] else f"{n}": n for n in lengths}
    if player == "separate":
        heads |= {"base Nash": "base Nash", "uniform": "uniform"}

    def cell(panel: str, at: Any) -> str:
        if isinstance(at, str):
            row = _pick(rows, panel=panel, player=at)
            return "" if row is None else _thousandths(row["gap"])
        row = _pick(rows, panel=panel, player=name, length=at)
        if row is None:
            return ""
        return f"{_thousandths(row['gap'])} ± {_thousandths(row['between seeds'])}"

    return _grid("", heads, dict(zip(_PANELS, _PANELS, strict=True)), cell)


def stopping(record: Record) -> Grid:
    """How often training stops: a row for each number of actions and kind of data."""
    head = ["actions", "data", "nearly pure", "stops", "nearly pure and stops", "median step"]
    grid = [[*head, "others", "floor below 0.01"]]
    for row in rows_of(record.tables["stops"]):
        names = ("actions", "data", "nearly pure", "stops", "stops, nearly pure")
        step = "" if row["median step"] is None else f"{row['median step']:.0f}"
        floors = [row[name] for name in ("floor below", "long floor below")]
        floor = ", ".join(str(count) for count in floors if count is not None)
        cells = [str(row[name]) for name in names]
        grid.append([*cells, step, _thousandths(row["lowest, not pure"]), floor])
    return grid


def last_gaps(record: Record, kind: str) -> Grid:
    """Gaps and errors at the last round, and the slope for three actions or states."""
    rows = rows_of(record.tables["slopes"])
    panels = {
        "matrix": {f"A={n}": f"A={n}" for n in (2, 3, 5, 10)},
        "markov": {f"S={n}": f"S={n}, Dirichlet 0.1" for n in (2, 3, 5)},
    }[kind]
    middle = list(panels)[1]

    def cell(learner: str, at: tuple[str, str]) -> str:
        row = _pick(rows, panel=at[1], learner=learner)
        if row is None:
            return ""
        if at[0] == "slope":
            return f"{row['slope']:z.2f}"
        return f"{row['gap']:.2g} ± {row['error']:.1g}"

    heads = {label: ("gap", panel) for label, panel in panels.items()}
    heads[f"slope, {middle}"] = ("slope", panels[middle])
    learners = dict.fromkeys(row["learner"] for row in rows if row["panel"] == panels[middle])
    return _grid("learner", heads, {name: name for name in learners}, cell)


#: Names in markers -> functions of records and words.
TABLES: dict[str, Callable[..., Grid]] = {
    make.__name__: make for make in (final_gaps, protocol, stopping, last_gaps)
}
