"""Card games, built from their rules."""

from itertools import permutations, product
from typing import Any

import numpy as np

from equipoise.games.catalogue._parameters import check_positive

_RANKS = range(1, 14)
#: Ways to deal three cards of a deck in order.
_DEALS = 52 * 51 * 50


def _kuhn_payoff(first: str, second: tuple[str, str], wins: bool) -> int:
    """What the first player gets, with a plan for its card and the second with one for its own."""
    facing_bet, facing_pass = second
    showdown = 1 if wins else -1
    if first == "bet":
        return 2 * showdown if facing_bet == "call" else 1
    if facing_pass == "pass":
        return showdown
    return 2 * showdown if first == "pass, then call" else -1


def kuhn_poker() -> dict[str, Any]:
    """A plan for each card; the second player's is one for a bet and one for a pass."""
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
    """Bluff or not with a losing hand, call or fold."""
    check_positive("bet", bet)
    win, lose = win_probability, 1 - win_probability
    pot = 1 + bet
    labels = {"players": ["bettor", "caller"], "actions": [["bluff", "do not"], ["call", "fold"]]}
    payoff = [[win * pot - lose * pot, 1.0], [win * pot - lose, win - lose]]
    return {"payoff": payoff, "labels": labels}


def _paul_wins_draws(paul: int, pierre: int, dealt: tuple[int, int]) -> int:
    """Of the 50 cards that Pierre may draw, how many let Paul win."""
    wins = 0
    for rank in _RANKS:
        # A king drawn goes back, and Pierre keeps what he has. Pierre wins ties.
        final = pierre if rank == 13 else rank
        wins += (final < paul) * (4 - dealt.count(rank))
    return wins


def _le_her_wins(paul: int, pierre: int) -> tuple[int, int, int]:
    """Of the deals that begin with these cards, how many Paul wins.

    When he switches; when both hold; when he holds and Pierre draws.
    """
    dealt = (paul, pierre)
    ways = 4 * (3 if paul == pierre else 4)
    # The king refuses the exchange, and wins. After it Pierre knows both cards, and draws only
    # when he would lose.
    switched = _paul_wins_draws(pierre, paul, dealt) if paul < pierre < 13 else 0
    drawn = _paul_wins_draws(paul, pierre, dealt)
    return ways * switched, ways * 50 * (paul > pierre), ways * drawn


def le_her() -> dict[str, Any]:
    """The rank from which each player holds."""
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
