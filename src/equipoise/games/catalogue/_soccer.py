"""Littman's soccer on a grid: a Markov game with moves, a ball and goals."""

from itertools import product
from typing import Any

import numpy as np

from equipoise.games.catalogue._parameters import check_table

Cell = tuple[int, int]
#: Where the two players are, and which of them has the ball.
Position = tuple[tuple[Cell, Cell], int]
_MOVES = {"north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1), "stand": (0, 0)}


def soccer(rows: int, columns: int, discount: float) -> dict[str, Any]:
    """The first player scores beyond the last column, the second before the first."""
    places = rows * columns
    check_table("rows", len(_MOVES) ** 2, *[2 * places * (places - 1)] * 2)
    cells = list(product(range(rows), range(columns)))
    pairs = [(a, b) for a, b in product(cells, repeat=2) if a != b]
    index: dict[Position, int] = {
        position: state for state, position in enumerate(product(pairs, (0, 1)))
    }
    goal_rows = range(rows) if rows < 3 else range(1, rows - 1)
    corner = (rows // 2, (columns - 2) // 2)
    kickoff = (corner, (rows - 1 - corner[0], columns - 1 - corner[1]))
    kickoffs = [index[kickoff, ball] for ball in (0, 1)]

    def after(position: Position, player: int, move: Cell) -> Position | None:
        """Where one player's move leads; None when it scores."""
        pair, ball = position
        (row, column), other = pair[player], pair[1 - player]
        target = (row + move[0], column + move[1])
        if target == other:
            return pair, 1 - player
        if target[1] == (columns, -1)[player] and row in goal_rows and ball == player:
            return None
        if not (0 <= target[0] < rows and 0 <= target[1] < columns):
            return position
        return ((target, other) if player == 0 else (other, target)), ball

    reward = np.zeros((len(index), len(_MOVES), len(_MOVES)))
    transition = np.zeros((*reward.shape, len(index)))
    for position, state in index.items():
        for (a, mine), (b, other) in product(enumerate(_MOVES.values()), repeat=2):
            for order in (0, 1), (1, 0):  # who moves first is drawn at random
                here: Any = position
                for player in order:
                    here = after(here, player, (mine, other)[player])
                    if here is None:
                        reward[state, a, b] += 0.5 if player == 0 else -0.5
                        transition[state, a, b, kickoffs] += 0.25
                        break
                else:
                    transition[state, a, b, index[here]] += 0.5
    states = [
        f"A {a[0]},{a[1]}; B {b[0]},{b[1]}; {'AB'[ball]} has the ball" for (a, b), ball in index
    ]
    labels = {"players": ["A", "B"], "actions": [list(_MOVES)], "states": states}
    return {"reward": reward, "transition": transition, "discount": discount, "labels": labels}
