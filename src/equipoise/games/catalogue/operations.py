"""Games of search, inspection and allocation."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import comb
from typing import Any

from equipoise.games.catalogue._entry import Entry, check_whole, mix, uniform


def _allocations(troops: int, fields: int) -> Iterator[tuple[int, ...]]:
    """All ways to divide the troops among the fields, in lexicographic order."""
    if fields == 1:
        yield (troops,)
        return
    for here in range(troops + 1):
        for rest in _allocations(troops - here, fields - 1):
            yield here, *rest


def _colonel_blotto(
    first: int = 4, second: int = 3, fields: int = 2, scoring: str = "regiments"
) -> dict[str, Any]:
    first, second = check_whole("first", first, 0), check_whole("second", second, 0)
    fields = check_whole("fields", fields)
    if scoring not in ("regiments", "fields"):
        raise ValueError(f"scoring: expected 'regiments' or 'fields', found {scoring!r}")

    def score(row: int, column: int) -> int:
        sign = (row > column) - (row < column)
        return sign * (1 + min(row, column)) if scoring == "regiments" else sign

    def payoff(row: Sequence[int], column: Sequence[int]) -> int:
        return sum(score(mine, other) for mine, other in zip(row, column, strict=True))

    columns = list(_allocations(second, fields))
    return {"payoff": [[payoff(r, c) for c in columns] for r in _allocations(first, fields)]}


def _inspection_value(periods: int, inspections: int) -> Fraction:
    """What the violator gets, with this much time and this many inspections left."""
    reach = sum(comb(periods, i) for i in range(inspections + 1))
    return Fraction(comb(periods - 1, inspections), reach) if periods else Fraction(0)


def _inspection(periods: int = 4, inspections: int = 2) -> dict[str, Any]:
    periods = check_whole("periods", periods, 2)
    inspections = check_whole("inspections", inspections)
    if inspections >= periods:
        raise ValueError(
            f"inspections: expected fewer than the {periods} periods, found {inspections}"
        )
    wait = [_inspection_value(periods - 1, left) for left in (inspections - 1, inspections)]
    return {"payoff": [[float(value) for value in wait], [-1.0, 1.0]]}


def _hide_and_seek(size: int = 3) -> dict[str, Any]:
    size = check_whole("size", size)
    cells = [(row, column) for row in range(size) for column in range(size)]
    lines = [(axis, line) for axis in (0, 1) for line in range(size)]
    return {"payoff": [[float(cell[axis] == line) for cell in cells] for axis, line in lines]}


def _diagonal(entries: Sequence[float] = (1.0, 2.0, 3.0, 4.0)) -> dict[str, Any]:
    if not entries or not all(entry > 0 for entry in entries):
        raise ValueError(f"entries: expected one or more positive numbers, found {entries!r}")
    size = len(entries)
    return {"payoff": [[entries[i] if i == j else 0.0 for j in range(size)] for i in range(size)]}


GAMES = (
    Entry(
        name="colonel-blotto",
        title="Colonel Blotto, four regiments against three on two fields",
        kind="matrix",
        source=(
            "E. Borel, La théorie du jeu et les équations intégrales à noyau symétrique, Comptes "
            "Rendus de l'Académie des Sciences 173 (1921); O. Gross and R. Wagner, A continuous "
            "Colonel Blotto game, RAND RM-408, 1950"
        ),
        build=_colonel_blotto,
        value=Fraction(14, 9),
        equilibrium=(
            mix("4/9", "0", "1/9", "0", "4/9"),
            mix("1/18", "4/9", "4/9", "1/18"),
        ),
        notes=(
            "Actions are the ways to divide the troops, in lexicographic order. Who has more "
            "on a field scores one, and one more for each regiment beaten there "
            "(`scoring='regiments'`), or just one (`scoring='fields'`)."
        ),
    ),
    Entry(
        name="inspection",
        title="Dresher's inspection game, in its first period",
        kind="matrix",
        source=(
            "M. Dresher, A sampling inspection problem in arms control agreements: a "
            "game-theoretic analysis, RAND RM-2972, 1962; B. von Stengel, Recursive inspection "
            "games, Mathematics of Operations Research 41 (2016)"
        ),
        build=_inspection,
        value=_inspection_value(4, 2),
        equilibrium=(mix("28/33", "5/33"), mix("4/11", "7/11")),
        notes=(
            "The row player violates at most once in `periods`, the column player inspects "
            "`inspections` times. Rows: wait, violate; columns: inspect, not. A violation pays 1, "
            "or -1 when inspected; waiting leads to the value of what is left, "
            "C(n - 1, m) / (C(n, 0) + ... + C(n, m))."
        ),
    ),
    Entry(
        name="hide-and-seek",
        title="Von Neumann's hide and seek",
        kind="matrix",
        source=(
            "J. von Neumann, A certain zero-sum two-person game equivalent to the optimal "
            "assignment problem, in Contributions to the Theory of Games II, Annals of "
            "Mathematics Studies 28, Princeton University Press, 1953"
        ),
        build=_hide_and_seek,
        value=Fraction(1, 3),
        equilibrium=(uniform(6), uniform(9)),
        notes=(
            "The column player hides in a cell of a square, the row player searches a row or a "
            "column. The value is 1 / `size`. The hider has many equilibrium strategies: every "
            "assignment gives one."
        ),
    ),
    Entry(
        name="diagonal",
        title="A diagonal game: hide among places of different worth",
        kind="matrix",
        source="T. S. Ferguson, Game Theory, second edition, UCLA, 2014, part II, chapter 3",
        build=_diagonal,
        value=Fraction(12, 25),
        equilibrium=(
            mix("12/25", "6/25", "4/25", "3/25"),
            mix("12/25", "6/25", "4/25", "3/25"),
        ),
        notes="The value is the inverse of the sum of the inverses of `entries`.",
    ),
)
