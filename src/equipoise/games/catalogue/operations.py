"""Games of search, inspection and allocation."""

import math
from collections.abc import Iterator
from fractions import Fraction
from math import comb
from typing import Any

from equipoise.games.catalogue._entry import Entry, check_table, check_whole, mix, named, uniform


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
    import numpy as np

    first, second = check_whole("first", first, 0), check_whole("second", second, 0)
    fields = check_whole("fields", fields)
    if scoring not in ("regiments", "fields"):
        raise ValueError(f"scoring: expected 'regiments' or 'fields', found {scoring!r}")

    check_table("fields", fields, *(_ways(troops, fields) for troops in (first, second)))
    names = [[*_allocations(troops, fields)] for troops in (first, second)]
    rows, columns = (np.array(ways, np.float64) for ways in names)
    payoff = np.zeros((len(rows), len(columns)))
    for mine, other in zip(rows.T[:, :, None], columns.T[:, None], strict=True):
        worth = 1 + np.minimum(mine, other) if scoring == "regiments" else 1.0
        payoff += np.sign(mine - other) * worth
    actions = [["-".join(map(str, way)) for way in ways] for ways in names]
    return {"payoff": payoff, "labels": {"actions": actions}}


def _ways(troops: int, fields: int) -> float:
    """In how many ways troops can be divided; infinite where that is beyond counting."""
    return comb(troops + fields - 1, fields - 1) if max(troops, fields) < 1000 else math.inf


def _inspection_value(periods: int, inspections: int) -> Fraction:
    """What the violator gets, with this much time and this many inspections left."""
    reach = sum(comb(periods, i) for i in range(inspections + 1))
    return Fraction(comb(periods - 1, inspections), reach) if periods else Fraction(0)


def _inspection(periods: int = 4, inspections: int = 2) -> dict[str, Any]:
    periods = check_whole("periods", periods, 2, 2_000)
    inspections = check_whole("inspections", inspections)
    if inspections >= periods:
        raise ValueError(
            f"inspections: expected fewer than the {periods} periods, found {inspections}"
        )
    wait = [_inspection_value(periods - 1, left) for left in (inspections - 1, inspections)]
    labels = named("wait, violate", "inspect, do not", players="violator, inspector")
    return {"payoff": [[float(value) for value in wait], [-1.0, 1.0]], "labels": labels}


def _hide_and_seek(size: int = 3) -> dict[str, Any]:
    import numpy as np

    size = check_whole("size", size)
    check_table("size", 2 * size, size, size)
    each = np.eye(size)
    payoff = np.concatenate([np.repeat(each, size, 1), np.tile(each, (1, size))])
    lines = [f"{axis} {line}" for axis in ("row", "column") for line in range(1, size + 1)]
    cells = [f"{row}, {column}" for row in range(1, size + 1) for column in range(1, size + 1)]
    labels = {"players": ["seeker", "hider"], "actions": [lines, cells]}
    return {"payoff": payoff, "labels": labels}


def _diagonal(entries: tuple[float, ...] | list[float] = (1.0, 2.0, 3.0, 4.0)) -> dict[str, Any]:
    import numpy as np

    if not entries or not all(entry > 0 for entry in entries):
        raise ValueError(f"entries: expected one or more positive numbers, found {entries!r}")
    check_table("entries", len(entries), len(entries))
    return {"payoff": np.diag(np.array(entries, np.float64))}


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
