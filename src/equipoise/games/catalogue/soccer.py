"""Littman's soccer on a grid: a Markov game with moves, a ball and goals."""

from itertools import product
from typing import Any, NamedTuple

from equipoise.games.catalogue._entry import Entry, check_table, check_whole

Cell = tuple[int, int]
#: North, south, east, west, stand.
_MOVES: tuple[Cell, ...] = ((-1, 0), (1, 0), (0, 1), (0, -1), (0, 0))


class _Position(NamedTuple):
    """Where the two players are, and which of them has the ball."""

    cells: tuple[Cell, Cell]
    ball: int


class _Field:
    """The rules; the first player scores beyond the last column, the second before the first."""

    def __init__(self, rows: int, columns: int):
        self.rows, self.columns = rows, columns
        cells = list(product(range(rows), range(columns)))
        pairs = [pair for pair in product(cells, cells) if pair[0] != pair[1]]
        self.positions = [_Position(pair, ball) for pair in pairs for ball in (0, 1)]
        self.goal_rows = range(rows) if rows < 3 else range(1, rows - 1)
        first = (rows // 2, (columns - 2) // 2)
        second = (rows - 1 - first[0], columns - 1 - first[1])
        self.kickoffs = [_Position((first, second), ball) for ball in (0, 1)]

    def step(self, position: _Position, player: int, move: Cell) -> _Position | None:
        """Where one player's move leads; None when it scores."""
        row, column = position.cells[player]
        target = (row + move[0], column + move[1])
        other = position.cells[1 - player]
        if target == other:
            return position._replace(ball=1 - player)
        beyond = self.columns if player == 0 else -1
        if target[1] == beyond and row in self.goal_rows and position.ball == player:
            return None
        if not (0 <= target[0] < self.rows and 0 <= target[1] < self.columns):
            return position
        cells = (target, other) if player == 0 else (other, target)
        return position._replace(cells=cells)

    def play(self, position: _Position, moves: tuple[Cell, Cell], first: int) -> Any:
        """The position after both moves, or the number of the player that scored."""
        for player in (first, 1 - first):
            after = self.step(position, player, moves[player])
            if after is None:
                return player
            position = after
        return position


def _soccer(rows: int = 2, columns: int = 4, discount: float = 0.9) -> dict[str, Any]:
    import numpy as np

    rows, columns = check_whole("rows", rows), check_whole("columns", columns, 2)
    places = rows * columns
    check_table("rows", len(_MOVES) ** 2, *[2 * places * (places - 1)] * 2)
    field = _Field(rows, columns)
    index = {position: state for state, position in enumerate(field.positions)}
    kickoffs = [index[position] for position in field.kickoffs]
    reward = np.zeros((len(index), len(_MOVES), len(_MOVES)))
    transition = np.zeros((*reward.shape, len(index)))
    for position, state in index.items():
        for (a, mine), (b, other) in product(enumerate(_MOVES), repeat=2):
            for first in (0, 1):  # who moves first is drawn at random
                after = field.play(position, (mine, other), first)
                if isinstance(after, _Position):
                    transition[state, a, b, index[after]] += 0.5
                else:
                    reward[state, a, b] += 0.5 if after == 0 else -0.5
                    transition[state, a, b, kickoffs] += 0.25
    labels = {
        "players": ["A", "B"],
        "actions": [["north", "south", "east", "west", "stand"]],
        "states": [_in_words(position) for position in index],
    }
    arrays = {"reward": reward, "transition": transition, "discount": discount}
    return arrays | {"labels": labels}


def _in_words(position: _Position) -> str:
    (a, b), holder = position
    return f"A {a[0]},{a[1]}; B {b[0]},{b[1]}; {'AB'[holder]} has the ball"


GAMES = (
    Entry(
        name="soccer",
        title="Littman's soccer, on a small field",
        kind="markov",
        source=(
            "M. L. Littman, Markov games as a framework for multi-agent reinforcement learning, "
            "International Conference on Machine Learning, 1994"
        ),
        build=_soccer,
        notes=(
            "Both move at once, one after the other in random order; running into the other "
            "player gives it the ball; a goal pays 1 and the ball is at random again. Littman's "
            "own field is load('soccer', rows=4, columns=5), with 760 states. Turning the field "
            "around changes the sign of the value."
        ),
    ),
)
