"""Games built from their rules: card games, and Littman's soccer on a grid."""

from itertools import permutations, product
from typing import Any

import numpy as np

from equipoise.games.catalogue._parameters import check_positive, check_table

_RANKS = range(1, 14)
#: Number of ordered deals of three cards from a deck.
_DEALS = 52 * 51 * 50

#: A cell of the grid, and a step from one cell to another.
Cell = tuple[int, int]
#: Positions of the two players, and the player who has the ball.
Position = tuple[tuple[Cell, Cell], int]
_MOVES = {"north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1), "stand": (0, 0)}


def _kuhn_payoff(first: str, second: tuple[str, str], wins: bool) -> int:
    """Return the first player's payoff, given each player's plan for its own card."""
    facing_bet, facing_pass = second
    showdown = 1 if wins else -1
    if first == "bet":
        return 2 * showdown if facing_bet == "call" else 1
    if facing_pass == "pass":
        return showdown
    return 2 * showdown if first == "pass, then call" else -1


def kuhn_poker() -> dict[str, Any]:
    """Strategies hold a plan for each card; the second player's plan covers a bet and a pass."""
    deals = list(permutations(range(3), 2))
    first_plans = ("pass, then fold", "pass, then call", "bet")
    second_plans = tuple(product(("fold", "call"), ("pass", "bet")))
    rows, columns = (list(product(plans, repeat=3)) for plans in (first_plans, second_plans))

    def payoff(first: tuple[Any, ...], second: tuple[Any, ...]) -> float:
        total = sum(_kuhn_payoff(first[mine], second[other], mine > other) for mine, other in deals)
        return total / len(deals)

    def in_words(strategy: tuple[Any, ...]) -> str:
        plans = [plan if isinstance(plan, str) else " or ".join(plan) for plan in strategy]
        return "jack: {}; queen: {}; king: {}".format(*plans)

    actions = [[in_words(strategy) for strategy in strategies] for strategies in (rows, columns)]
    table = [[payoff(first, second) for second in columns] for first in rows]
    return {"payoff": table, "labels": {"actions": actions}}


def poker_endgame(win_probability: float, bet: float) -> dict[str, Any]:
    """Bluff or not with a losing hand; call or fold."""
    check_positive("bet", bet)
    win, lose = win_probability, 1 - win_probability
    pot = 1 + bet
    labels = {"players": ["bettor", "caller"], "actions": [["bluff", "do not"], ["call", "fold"]]}
    payoff = [[win * pot - lose * pot, 1.0], [win * pot - lose, win - lose]]
    return {"payoff": payoff, "labels": labels}


def _paul_wins_draws(paul: int, pierre: int, dealt: tuple[int, int]) -> int:
    """Count the cards, of the 50 that Pierre may draw, with which Paul wins."""
    wins = 0
    for rank in _RANKS:
        # If Pierre draws a king he must keep his card. Pierre wins ties.
        final = pierre if rank == 13 else rank
        wins += (final < paul) * (4 - dealt.count(rank))
    return wins


def _le_her_wins(paul: int, pierre: int) -> tuple[int, int, int]:
    """Count the deals that begin with these cards and that Paul wins.

    Returns three counts: Paul switches; both hold; Paul holds and Pierre draws.
    """
    dealt = (paul, pierre)
    ways = 4 * (3 if paul == pierre else 4)
    # A king refuses the exchange, and wins. After an exchange Pierre knows both cards and draws
    # only if he would lose.
    switched = _paul_wins_draws(pierre, paul, dealt) if paul < pierre < 13 else 0
    drawn = _paul_wins_draws(paul, pierre, dealt)
    return ways * switched, ways * 50 * (paul > pierre), ways * drawn


def le_her() -> dict[str, Any]:
    """A strategy is the lowest rank that a player holds."""
    deals = list(product(_RANKS, repeat=2))
    paul, pierre = np.array(deals).T
    switched, held, drawn = np.array([_le_her_wins(*deal) for deal in deals]).T
    ranks = np.array(_RANKS)[:, None]
    paul_holds, pierre_holds = paul >= ranks, pierre >= ranks
    wins = (~paul_holds @ switched)[:, None]
    wins = wins + (paul_holds * held) @ pierre_holds.T + (paul_holds * drawn) @ ~pierre_holds.T
    names = ["ace", *map(str, range(2, 11)), "jack", "queen", "king"]
    labels = {"players": ["Paul", "Pierre"], "actions": [[f"hold from {name}" for name in names]]}
    return {"payoff": wins / _DEALS, "labels": labels}


def soccer(rows: int, columns: int, discount: float) -> dict[str, Any]:
    """The first player scores beyond the last column, the second player beyond the first."""
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
        """Return the position after one player's move; None if the move scores."""
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
