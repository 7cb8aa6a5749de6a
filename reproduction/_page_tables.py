"""Tables of the pages about in-context learning, and what the tables of all pages share.

Functions of records, and of words in the marker, return rows of text; the first row is the head.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from equipoise.runs import Record
from reproduction import rows_of

#: Rows of text.
Grid = list[list[str]]


def pick(rows: Sequence[dict[str, Any]], **wanted: Any) -> dict[str, Any] | None:
    """Return the row with these entries, the last one if there are several, or None."""
    chosen = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return chosen[-1] if chosen else None


def grid(
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


def thousandths(number: float) -> str:
    """
    >>> thousandths(0.05)
    '.050'
    """
    return f"{number:.3f}".removeprefix("0")


def significant(number: float, digits: int = 2) -> str:
    """Return a number with two significant digits or others; a power of ten below 1e-3.

    >>> [significant(x) for x in (0.2, 14.26, 0.00799, 0.000184, -0.5, 0.0, 1234.0)]
    ['0.20', '14', '0.0080', '1.8e-4', '-0.50', '0', '1,234']
    """
    if number == 0:
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{number:.{digits - 1}e}"))))
    if exponent < -3:
        return f"{number:.{digits - 1}e}".replace("e-0", "e-")
    return f"{number:,.{max(0, digits - 1 - exponent)}f}"


def general(number: float, digits: int = 2) -> str:
    """Return a number with at most so many significant digits, without zeros at the end.

    >>> [general(x) for x in (0.2, 0.00799, 1.84e-7, 0.0)]
    ['0.2', '0.008', '1.8e-7', '0']
    """
    return f"{number:.{digits}g}".replace("e-0", "e-").replace("e+0", "e")


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
        row = pick(rows, player=player, panel=panel)
        return "" if row is None else thousandths(row["gap"])

    sides = {label: name for name, label in _PLAYERS.items() if name in known}
    return grid(family.replace("=", " = "), dict(zip(_PANELS, _PANELS, strict=True)), sides, cell)


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
            row = pick(rows, panel=panel, player=at)
            return "" if row is None else thousandths(row["gap"])
        row = pick(rows, panel=panel, player=name, length=at)
        if row is None:
            return ""
        return f"{thousandths(row['gap'])} ± {thousandths(row['between seeds'])}"

    return grid("", heads, dict(zip(_PANELS, _PANELS, strict=True)), cell)


def stopping(record: Record) -> Grid:
    """How often training stops: a row for each number of actions and kind of data."""
    head = ["actions", "data", "nearly pure", "stops", "nearly pure and stops", "median step"]
    table = [[*head, "others", "floor below 0.01"]]
    for row in rows_of(record.tables["stops"]):
        names = ("actions", "data", "nearly pure", "stops", "stops, nearly pure")
        step = "" if row["median step"] is None else f"{row['median step']:.0f}"
        floors = [row[name] for name in ("floor below", "long floor below")]
        floor = ", ".join(str(count) for count in floors if count is not None)
        cells = [str(row[name]) for name in names]
        table.append([*cells, step, thousandths(row["lowest, not pure"]), floor])
    return table


def trajectories(record: Record) -> Grid:
    """Errors and gaps against the number of trajectories, for both kinds of labels."""
    rows = rows_of(record.tables["errors"])
    heads: dict[str, tuple[str, str]] = {
        "total variation, policies as labels": ("policies", "total variation"),
        "actions as labels": ("actions", "total variation"),
        "NashConv, policies as labels": ("policies", "NashConv"),
        "actions as labels ": ("actions", "NashConv"),
        "root of the bound's term": ("policies", "root of the term"),
    }

    def cell(n: int, at: tuple[str, str]) -> str:
        row = pick(rows, labels=at[0], n=n)
        if row is None:
            return ""
        return f"{row[at[1]]:.0f}" if at[1] == "root of the term" else thousandths(row[at[1]])

    table = grid("n", heads, {f"{n:,}": n for n in sorted({row["n"] for row in rows})}, cell)
    return [[head.rstrip() for head in table[0]], *table[1:]]


def last_gaps(record: Record, kind: str) -> Grid:
    """Gaps and errors at the last round, and the slope for three actions or states."""
    rows = rows_of(record.tables["slopes"])
    panels = {
        "matrix": {f"A={n}": f"A={n}" for n in (2, 3, 5, 10)},
        "markov": {f"S={n}": f"S={n}, Dirichlet 0.1" for n in (2, 3, 5)},
    }[kind]
    middle = list(panels)[1]

    def cell(learner: str, at: tuple[str, str]) -> str:
        row = pick(rows, panel=at[1], learner=learner)
        if row is None:
            return ""
        if at[0] == "slope":
            return f"{row['slope']:z.2f}"
        return f"{row['gap']:.2g} ± {row['error']:.1g}"

    heads = {label: ("gap", panel) for label, panel in panels.items()}
    heads[f"slope, {middle}"] = ("slope", panels[middle])
    learners = dict.fromkeys(row["learner"] for row in rows if row["panel"] == panels[middle])
    return grid("learner", heads, {name: name for name in learners}, cell)


def reciprocals(record: Record, actions: str) -> Grid:
    """Accuracy of the network built by hand against its number of linear pieces."""
    rows = [row for row in rows_of(record.tables["sizes"]) if row["actions"] == int(actions)]
    gap = rows[0]["learner's gap"]
    learner = f"gap in play (learner {gap:.4f})".replace("0.", ".")
    pieces = "$N$ (pieces), Newton steps"
    table = [[pieces, "residual of $1 / z$", "distance to the learner", learner, "norm"]]
    for row in rows:
        cells = [significant(row[name]).removeprefix("0") for name in ("residual", "error")]
        gap = f"{row['gap']:.4f}".removeprefix("0")
        name = f"{row['units']}, {row['newton steps']}"
        table.append([name, *cells, gap, f"{row['norm']:.0f}"])
    return table


def _imitator(record: Record, panel: str, rounds: int, attention: str, **size: int) -> Any:
    wanted = {"panel": panel, "rounds": rounds, "attention": attention}
    return pick(rows_of(record.tables["means"]), **{"layers": 2, "width": 64, **wanted, **size})


_ATTENTION = ("softmax", "relu")


def _panels_and_rounds(record: Record) -> tuple[dict[str, str], list[int]]:
    rows = rows_of(record.tables["means"])
    return {row["panel"]: row["panel"] for row in rows}, sorted({row["rounds"] for row in rows})


def imitation_distances(record: Record) -> Grid:
    """Realisability of trained imitators by game, attention and rounds."""
    panels, rounds = _panels_and_rounds(record)
    heads = {f"{kind}, {n} rounds": (kind, n) for kind in _ATTENTION for n in rounds}

    def cell(panel: str, at: tuple[str, int]) -> str:
        return thousandths(_imitator(record, panel, at[1], at[0])["realisability"])

    return grid("", heads, panels, cell)


def imitation_gaps(record: Record) -> Grid:
    """NashConv of trained imitators beside their learner's and uniform play's."""
    panels, rounds = _panels_and_rounds(record)
    heads = {f"{kind}, {n} rounds": (kind, n, "gap") for kind in _ATTENTION for n in rounds}
    heads |= {f"learner, {n} rounds": ("relu", n, "expert") for n in rounds}
    heads |= {"uniform": ("relu", rounds[-1], "uniform")}

    def cell(panel: str, at: tuple[str, int, str]) -> str:
        return thousandths(_imitator(record, panel, at[1], at[0])[at[2]])

    return grid("", heads, panels, cell)


def imitation_sizes(record: Record) -> Grid:
    """Realisability and NashConv of trained imitators against layers and width, in one game."""
    sides = {
        f"{layers} layer{'s' if layers > 1 else ''} of width {width}": {
            "layers": layers,
            "width": width,
        }
        for layers, width in ((1, 64), (2, 64), (4, 64), (2, 16), (2, 32))
    }
    heads = {
        f"{name}, {kind}": (name, kind) for name in ("realisability", "gap") for kind in _ATTENTION
    }

    def cell(size: dict[str, int], at: tuple[str, str]) -> str:
        return thousandths(_imitator(record, "A=3", 32, at[1], **size)[at[0]])

    return grid("", heads, sides, cell)


TABLES = (
    *(final_gaps, protocol, stopping, trajectories, last_gaps, reciprocals),
    *(imitation_distances, imitation_gaps, imitation_sizes),
)
