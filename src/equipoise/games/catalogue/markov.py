"""Zero-sum Markov games whose value is known in closed form."""

from fractions import Fraction
from typing import Any

from equipoise.games.catalogue._entry import Entry, Strategy, mix, named, pure, uniform


def _absorbing(
    rewards: list[list[float]], next_state: list[list[int]], states: int, discount: float
) -> dict[str, Any]:
    """A game of one live state; in the others nobody has a say, and each stays as it is."""
    import numpy as np

    size = np.shape(rewards)
    reward = np.zeros((states, *size))
    reward[0] = rewards
    transition = np.zeros((states, *size, states))
    for state in range(1, states):
        transition[state, ..., state] = 1.0
    for (row, column), successor in np.ndenumerate(np.array(next_state)):
        transition[0, row, column, successor] = 1.0
    return {"reward": reward, "transition": transition, "discount": discount}


def _repeated_odd_or_even(discount: float = 0.9) -> dict[str, Any]:
    arguments = _absorbing([[-2, 3], [3, -4]], [[0, 0], [0, 0]], 1, discount)
    return arguments | {"labels": named("one, two", players="Odd, Even")}


def _big_match(discount: float = 0.9) -> dict[str, Any]:
    arguments = _absorbing([[1, 0], [0, 1]], [[1, 2], [0, 0]], 3, discount)
    arguments["reward"][1] = 1.0
    return arguments | {"labels": named(states="live, won, lost")}


def _hide_or_run(discount: float = 0.75) -> dict[str, Any]:
    labels = named("hide, run", "wait, throw", states="live, over")
    return _absorbing([[0, 1], [1, 0]], [[0, 1], [1, 1]], 2, discount) | {"labels": labels}


def _van_der_wal() -> dict[str, Any]:
    arguments = _absorbing([[3, 6], [2, 1]], [[0, 0], [0, 0]], 2, 0.75)
    arguments["transition"][0, 0, 1] = [1 / 3, 2 / 3]
    return arguments


def _then(first: Strategy, states: int) -> tuple[Strategy, ...]:
    """A strategy for the live state, and anything in the others, where it does not matter."""
    return (first, *((uniform(len(first)),) * (states - 1)))


GAMES = (
    Entry(
        name="repeated-odd-or-even",
        title="Odd or even, again and again",
        kind="markov",
        source=(
            "L. S. Shapley, Stochastic games, Proceedings of the National Academy of Sciences 39 "
            "(1953); the stage game is odd-or-even"
        ),
        build=_repeated_odd_or_even,
        value=(Fraction(5, 6),),
        equilibrium=((mix("7/12", "5/12"),), (mix("7/12", "5/12"),)),
        notes="One state: the value is that of the stage game over 1 - `discount`.",
    ),
    Entry(
        name="big-match",
        title="The big match, discounted",
        kind="markov",
        source=(
            "D. Gillette, Stochastic games with zero stop probabilities, in Contributions to the "
            "Theory of Games III, Annals of Mathematics Studies 39, Princeton University Press, "
            "1957; D. Blackwell and T. S. Ferguson, The big match, Annals of Mathematical "
            "Statistics 39 (1968)"
        ),
        build=_big_match,
        value=(Fraction(5), Fraction(10), Fraction(0)),
        equilibrium=(_then(mix("1/11", "10/11"), 3), _then(uniform(2), 3)),
        notes=(
            "The row player predicts what the column player does; a prediction of its first "
            "action ends the game and pays forever. The value of the live state is "
            "1 / (2 (1 - `discount`)), and the game ends with chance "
            "(1 - `discount`) / (2 - `discount`)."
        ),
    ),
    Entry(
        name="hide-or-run",
        title="Hide or run",
        kind="markov",
        source=(
            "H. Everett, Recursive games, in Contributions to the Theory of Games III, Annals of "
            "Mathematics Studies 39, Princeton University Press, 1957; L. de Alfaro, "
            "T. A. Henzinger and O. Kupferman, Concurrent reachability games, Theoretical "
            "Computer Science 386 (2007)"
        ),
        build=_hide_or_run,
        value=(Fraction(2, 3), Fraction(0)),
        equilibrium=(_then(mix("2/3", "1/3"), 2), _then(mix("2/3", "1/3"), 2)),
        notes=(
            "The row player hides or runs, the column player waits or throws its only snowball. "
            "Running pays 1 unless it is thrown, hiding pays 1 once it is. The value is "
            "1 / (1 + sqrt(1 - `discount`)): as the discount goes to one it moves like a square "
            "root, and running becomes ever rarer."
        ),
    ),
    Entry(
        name="van-der-wal",
        title="Van der Wal's game, on which Newton's method cycles",
        kind="markov",
        source=(
            "J. van der Wal, Discounted Markov games: generalized policy iteration method, "
            "Journal of Optimization Theory and Applications 25 (1978)"
        ),
        build=_van_der_wal,
        value=(Fraction(8), Fraction(0)),
        equilibrium=(_then(pure(0, 2), 2), _then(pure(1, 2), 2)),
        notes=(
            "The iteration of Pollatschek and Avi-Itzhak, which evaluates the equilibrium of the "
            "stage games at each step, goes from 12 to 4 and back."
        ),
    ),
)
