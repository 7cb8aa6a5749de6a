"""Games with too many equilibria, or hardly a choice: what breaks careless solvers."""

from fractions import Fraction
from typing import Any

from equipoise.games.catalogue._entry import (
    Entry,
    check_table,
    check_whole,
    matrix,
    mix,
    pure,
    uniform,
)

_MADE_HERE = "made for this catalogue"


def _constant(rows: int = 3, columns: int = 4, payoff: float = 2.0) -> dict[str, Any]:
    rows, columns = check_whole("rows", rows), check_whole("columns", columns)
    import numpy as np

    check_table("rows", rows, columns)
    return {"payoff": np.full((rows, columns), float(payoff))}


GAMES = (
    Entry(
        name="constant",
        title="Nothing matters",
        kind="matrix",
        source=_MADE_HERE,
        build=_constant,
        value=Fraction(2),
        equilibrium=(uniform(3), uniform(4)),
        notes="Every pair of strategies is an equilibrium.",
    ),
    Entry(
        name="duplicated-actions",
        title="Rock, paper, scissors with two kinds of rock and three of scissors",
        kind="matrix",
        source=_MADE_HERE,
        build=matrix(
            [
                [0, 0, -1, 1, 1, 1],
                [0, 0, -1, 1, 1, 1],
                [1, 1, 0, -1, -1, -1],
                [-1, -1, 1, 0, 0, 0],
                [-1, -1, 1, 0, 0, 0],
                [-1, -1, 1, 0, 0, 0],
            ],
            "rock 1, rock 2, paper, scissors 1, scissors 2, scissors 3",
        ),
        value=Fraction(0),
        equilibrium=(
            mix("1/6", "1/6", "1/3", "1/9", "1/9", "1/9"),
            mix("1/6", "1/6", "1/3", "1/9", "1/9", "1/9"),
        ),
        notes="Rocks and scissors share a third each in any way: a polytope of equilibria.",
    ),
    Entry(
        name="saddle-square",
        title="Four saddle points",
        kind="matrix",
        source=_MADE_HERE,
        build=matrix([[1, 3, 1], [0, 2, -1], [1, 5, 1]]),
        value=Fraction(1),
        equilibrium=(pure(0, 3), pure(0, 3)),
        notes="Rows one and three with columns one and three, in any mixture.",
    ),
    Entry(
        name="one-row",
        title="Only the column player chooses",
        kind="matrix",
        source=_MADE_HERE,
        build=matrix([[3, 1, 4, 1, 5]]),
        value=Fraction(1),
        equilibrium=(pure(0, 1), pure(1, 5)),
        notes="Columns two and four are both best, in any mixture.",
    ),
)
