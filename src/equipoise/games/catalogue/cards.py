"""Card games, built from their rules."""

from fractions import Fraction
from itertools import permutations, product
from typing import Any

from equipoise.games.catalogue._entry import Entry, Strategy, mix, named

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


#: What a player may plan for each card it may hold; the second player for a bet and for a pass.
_FIRST_PLANS = ("pass, then fold", "pass, then call", "bet")
_SECOND_PLANS = tuple(product(("fold", "call"), ("pass", "bet")))
_FIRST_STRATEGIES = tuple(product(_FIRST_PLANS, repeat=3))
_SECOND_STRATEGIES = tuple(product(_SECOND_PLANS, repeat=3))


def _kuhn_poker() -> dict[str, Any]:
    deals = list(permutations(range(3), 2))

    def payoff(first: tuple[str, ...], second: tuple[tuple[str, str], ...]) -> float:
        total = sum(_kuhn_payoff(first[mine], second[other], mine > other) for mine, other in deals)
        return total / len(deals)

    # A plan for each card: "jack: pass, then fold; queen: bet; ...".
    actions = [
        [_in_words(strategy) for strategy in strategies]
        for strategies in (_FIRST_STRATEGIES, _SECOND_STRATEGIES)
    ]
    table = [[payoff(f, s) for s in _SECOND_STRATEGIES] for f in _FIRST_STRATEGIES]
    return {"payoff": table, "labels": {"actions": actions}}


def _in_words(strategy: tuple[Any, ...]) -> str:
    plans = (plan if isinstance(plan, str) else " or ".join(plan) for plan in strategy)
    return "; ".join(
        f"{card}: {plan}" for card, plan in zip(("jack", "queen", "king"), plans, strict=True)
    )


def _kuhn_equilibrium() -> tuple[Strategy, Strategy]:
    """The equilibrium in which the first player never bets (Kuhn's alpha is zero)."""
    third = Fraction(1, 3)
    fold, call, _ = _FIRST_PLANS
    first: dict[tuple[str, ...], Fraction] = {
        (fold, call, call): third,
        (fold, fold, call): 1 - third,
    }
    honest = (("fold", "pass"), ("fold", "pass"), ("call", "bet"))
    second: dict[tuple[tuple[str, str], ...], Fraction] = {
        honest: third,
        (("fold", "bet"), *honest[1:]): third,
        (honest[0], ("call", "pass"), honest[2]): third,
    }
    return (
        tuple(first.get(strategy, Fraction(0)) for strategy in _FIRST_STRATEGIES),
        tuple(second.get(strategy, Fraction(0)) for strategy in _SECOND_STRATEGIES),
    )


def _poker_endgame(win_probability: float = 0.25, bet: float = 2.0) -> dict[str, Any]:
    if not 0 <= win_probability <= 1:
        raise ValueError(f"win_probability: expected a number in [0, 1], found {win_probability}")
    if not bet > 0:
        raise ValueError(f"bet: expected a positive number, found {bet}")
    win, lose = win_probability, 1 - win_probability
    pot = 1 + bet
    payoff = [[win * pot - lose * pot, 1.0], [win * pot - lose, win - lose]]
    labels = named("bluff, do not", "call, fold", players="bettor, caller")
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


def _le_her() -> dict[str, Any]:
    cards = list(product(_RANKS, repeat=2))
    wins = [(paul, pierre, *_le_her_wins(paul, pierre)) for paul, pierre in cards]
    payoff = []
    for paul_holds in _RANKS:
        payoff.append([])
        for pierre_holds in _RANKS:
            total = 0
            for paul, pierre, switched, held, drawn in wins:
                reply = held if pierre >= pierre_holds else drawn
                total += reply if paul >= paul_holds else switched
            payoff[-1].append(total / _DEALS)
    cards = ["ace", *map(str, range(2, 11)), "jack", "queen", "king"]
    names = [f"hold from {card}" for card in cards]
    return {"payoff": payoff, "labels": {"players": ["Paul", "Pierre"], "actions": [names]}}


def _le_her_strategy(lower: int, weight: str) -> Strategy:
    """Hold from `lower` up with this probability, else from one above it."""
    weights = {lower: Fraction(weight), lower + 1: 1 - Fraction(weight)}
    return tuple(weights.get(rank, Fraction(0)) for rank in _RANKS)


GAMES = (
    Entry(
        name="kuhn-poker",
        title="Kuhn's simplified poker, in reduced normal form",
        kind="matrix",
        source=(
            "H. W. Kuhn, A simplified two-person poker, in Contributions to the Theory of Games "
            "I, Annals of Mathematics Studies 24, Princeton University Press, 1950"
        ),
        build=_kuhn_poker,
        value=Fraction(-1, 18),
        equilibrium=_kuhn_equilibrium(),
        notes=(
            "Three cards, one ante, one bet of one. The first player has three plans for each of "
            "its cards (27 strategies), the second four (64). The first has a segment of "
            "equilibrium strategies; the one given never bets."
        ),
    ),
    Entry(
        name="poker-endgame",
        title="The basic endgame in poker: bluff or not, call or fold",
        kind="matrix",
        source=(
            "C. Ferguson and T. S. Ferguson, The endgame in poker, in Optimal Play: Mathematical "
            "Studies of Games and Gambling, University of Nevada, 2007"
        ),
        build=_poker_endgame,
        value=Fraction(-1, 4),
        equilibrium=(mix("1/6", "5/6"), mix("1/2", "1/2")),
        notes=(
            "After antes of one, the row player holds a sure winner with `win_probability` and "
            "otherwise a sure loser. It bets with the winner, and bluffs with the loser (first "
            "action) or not; the column player calls (first action) or folds."
        ),
    ),
    Entry(
        name="le-her",
        title="Le Her",
        kind="matrix",
        source=(
            "P. R. de Montmort, Essay d'analyse sur les jeux de hazard, second edition, 1713, "
            "with Waldegrave's solution; D. R. Bellhouse and N. Fillion, Le Her and other "
            "problems in probability discussed by Bernoulli, Montmort and Waldegrave, "
            "Statistical Science 30 (2015)"
        ),
        build=_le_her,
        value=Fraction(11327, 22100),
        equilibrium=(_le_her_strategy(7, "5/8"), _le_her_strategy(8, "3/8")),
        notes=(
            "The first solution in mixed strategies that is known. Paul (rows) may exchange his "
            "card with Pierre's, who may refuse with a king; Pierre may then exchange his for one "
            "of the deck, unless that is a king; the higher card wins, Pierre at a tie. Payoffs "
            "are Paul's chances. Action r holds cards from rank r + 1 up."
        ),
    ),
)
