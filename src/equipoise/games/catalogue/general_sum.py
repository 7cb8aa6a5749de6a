"""General-sum games: no value, and often several equilibria. One of them is given."""

from itertools import product
from typing import Any

from equipoise.games.catalogue._entry import (
    Entry,
    bimatrix,
    check_table,
    check_whole,
    mix,
    named,
    pure,
    uniform,
)


def _three_player_pennies() -> dict[str, Any]:
    profiles = list(product((0, 1), repeat=3))
    payoffs = [[[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]] for _ in range(3)]
    for a, b, c in profiles:
        wins = (a == b, b == c, c != a)
        for player, won in enumerate(wins):
            payoffs[player][a][b][c] = 1.0 if won else -1.0
    return {"payoffs": payoffs, "labels": named("heads, tails")}


def _travellers_dilemma(low: int = 2, high: int = 100, bonus: int = 2) -> dict[str, Any]:
    import numpy as np

    most = 2**53
    low, high = check_whole("low", low, 0, most), check_whole("high", high, 0, most)
    bonus = check_whole("bonus", bonus, 2, most)
    if high <= low:
        raise ValueError(f"high: expected more than low, which is {low}, found {high}")

    check_table("high", 2, high - low + 1, high - low + 1)
    claims = np.arange(low, high + 1, dtype=np.float64)
    mine, other = claims[:, None], claims[None, :]
    row = np.minimum(mine, other) + bonus * np.sign(other - mine)
    labels = {"actions": [[f"claim {int(claim)}" for claim in claims]]}
    return {"payoffs": np.stack([row, row.T]), "labels": labels}


GAMES = (
    Entry(
        name="prisoners-dilemma",
        title="The prisoner's dilemma",
        kind="normal-form",
        source="R. Axelrod, The Evolution of Cooperation, Basic Books, 1984",
        build=bimatrix([[(3, 3), (0, 5)], [(5, 0), (1, 1)]], "cooperate, defect"),
        equilibrium=(pure(1, 2), pure(1, 2)),
        notes="Cooperate, defect. Defection dominates; the equilibrium is unique.",
    ),
    Entry(
        name="chicken",
        title="Chicken",
        kind="normal-form",
        source=(
            "R. J. Aumann, Subjectivity and correlation in randomized strategies, Journal of "
            "Mathematical Economics 1 (1974)"
        ),
        build=bimatrix([[(6, 6), (2, 7)], [(7, 2), (0, 0)]], "yield, dare"),
        equilibrium=(mix("2/3", "1/3"), mix("2/3", "1/3")),
        notes=(
            "Yield, dare. Two pure equilibria besides; a correlated equilibrium pays more than "
            "any mixture of the three."
        ),
    ),
    Entry(
        name="battle-of-the-sexes",
        title="The battle of the sexes",
        kind="normal-form",
        source="R. D. Luce and H. Raiffa, Games and Decisions, Wiley, 1957, section 5.3",
        build=bimatrix(
            [[(2, 1), (-1, -1)], [(-1, -1), (1, 2)]], "prize fight, ballet", players="he, she"
        ),
        equilibrium=(mix("3/5", "2/5"), mix("2/5", "3/5")),
        notes="Two pure equilibria besides, each better for both than the mixed one.",
    ),
    Entry(
        name="stag-hunt",
        title="The stag hunt",
        kind="normal-form",
        source=(
            "B. Skyrms, The Stag Hunt and the Evolution of Social Structure, Cambridge "
            "University Press, 2004; payoffs as matrix_sh of OpenSpiel"
        ),
        build=bimatrix([[(2, 2), (0, 1)], [(1, 0), (1, 1)]], "stag, hare"),
        equilibrium=(pure(0, 2), pure(0, 2)),
        notes="Stag, hare. Hunting hare is an equilibrium too, and the safe one.",
    ),
    Entry(
        name="shapley-cycle",
        title="Shapley's game, in which fictitious play cycles",
        kind="normal-form",
        source=(
            "L. S. Shapley, Some topics in two-person games, in Advances in Game Theory, Annals "
            "of Mathematics Studies 52, Princeton University Press, 1964"
        ),
        build=bimatrix(
            [[(0, 0), (0, 1), (1, 0)], [(1, 0), (0, 0), (0, 1)], [(0, 1), (1, 0), (0, 0)]]
        ),
        equilibrium=(uniform(3), uniform(3)),
        notes="The equilibrium is unique.",
    ),
    Entry(
        name="three-player-pennies",
        title="Jordan's matching pennies for three",
        kind="normal-form",
        source=(
            "J. S. Jordan, Three problems in learning mixed-strategy Nash equilibria, Games and "
            "Economic Behavior 5 (1993)"
        ),
        build=_three_player_pennies,
        equilibrium=(uniform(2), uniform(2), uniform(2)),
        notes=(
            "The first player wants to match the second, the second the third, and the third not "
            "to match the first. The equilibrium is unique."
        ),
    ),
    Entry(
        name="travellers-dilemma",
        title="The traveller's dilemma",
        kind="normal-form",
        source=(
            "K. Basu, The traveler's dilemma: paradoxes of rationality in game theory, American "
            "Economic Review 84 (1994)"
        ),
        build=_travellers_dilemma,
        equilibrium=(pure(0, 99), pure(0, 99)),
        notes=(
            "Both claim a number from `low` to `high` and get the lower claim; who claimed less "
            "gets `bonus` more, the other that much less. The equilibrium is unique."
        ),
    ),
)
