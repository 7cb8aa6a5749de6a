"""What players are compared by: learners at the same rounds, and what opponents make of them."""

from typing import Any

import numpy as np

from equipoise.dynamics import (
    EXP3IX,
    OMD,
    BestResponder,
    EntropicOMD,
    Fixed,
    Learner,
    LogBarrierOMD,
    MarkovEntropicOMD,
    MarkovOMD,
    Uniform,
    VLearning,
)
from equipoise.dynamics import play as play_learners
from equipoise.games import MatrixGame
from equipoise.incontext._curves import Games
from equipoise.incontext._outcome import Episode
from equipoise.solvers import solve

#: What is added to the name of a learner for the mean of its policies.
AVERAGE = ", average"

#: Mirror descent with rates that vanish, in tables.
VANISHING = "OMD, vanishing"

#: Rounds at which a learner is compared with a target, in every decade.
PER_DECADE = 16


def bandit_learners(games: Games) -> dict[str, Learner]:
    """Every learner that sees what a player sees, by the name it has in tables.

    >>> list(bandit_learners(MatrixGame([[0.0]])))[:2]
    ['OMD', 'OMD, vanishing']
    """
    if isinstance(games, MatrixGame):
        return {
            "OMD": OMD(),
            VANISHING: OMD.vanishing(),
            "log-barrier OMD": LogBarrierOMD(),
            "entropic OMD": EntropicOMD(),
            "EXP3-IX": EXP3IX(),
        }
    return {
        "OMD": MarkovOMD(),
        VANISHING: MarkovOMD.vanishing(),
        "entropic OMD": MarkovEntropicOMD(),
        "V-learning": VLearning(),
    }


def learner_curves(
    games: Games, name: str, learner: Learner, rounds: np.ndarray, key: Any, settings: Any
) -> dict[str, np.ndarray]:
    """(records, games) gaps of a learner against itself; of its averages, too, if made for that.

    The guarantees of EXP3-IX and of V-learning are about averages.
    """
    stops = rounds.tolist()
    trace = play_learners(
        games, learner, learner, rounds=stops[-1], key=key, record=stops, **settings
    )
    curves = {name: trace.curve}
    if isinstance(learner, EXP3IX | VLearning):
        curves[name + AVERAGE] = trace.average_curve
    return {name: curve.reshape(len(rounds), -1) for name, curve in curves.items()}


def rounds_to_gap(
    games: Games, learner: Learner, target: float, key: Any, *, most: int, settings: Any
) -> tuple[int | None, np.ndarray]:
    """How many rounds a learner needs until the mean gap of its last policies is at the target.

    Looked at 16 times a decade; None when `most` rounds are not enough. Also (rounds, mean gap)
    of every look.
    """
    powers = np.arange(PER_DECADE, 10 * PER_DECADE) / PER_DECADE
    stops = sorted({min(round(10**power), most) for power in powers})
    state, looks, before = None, [], 0
    for stop in stops:
        trace = play_learners(
            games,
            learner,
            learner,
            rounds=stop - before,
            key=key if state is None else None,
            state=state,
            **settings,
        )
        state, before = trace.state, stop
        looks.append((stop, float(trace.curve[-1].mean())))
        if looks[-1][1] <= target:
            return stop, np.array(looks)
    return None, np.array(looks)


def make_opponents(games: Games, seat: int) -> dict[str, Learner]:
    """Strong opponents, the learners, and weak ones who sit in a seat, by their name in tables.

    Of the learners that are compared, all but mirror descent with vanishing rates, which is another
    one with other rates: every meeting takes a program of its own.

    >>> list(make_opponents(MatrixGame([[0.0]]), 1))[:3]
    ['best responder', 'OMD', 'log-barrier OMD']
    """
    matrix = isinstance(games, MatrixGame)
    first = np.eye(games.actions[seat])[0]
    learners = {n: learner for n, learner in bandit_learners(games).items() if n != VANISHING}
    return {
        "best responder": BestResponder(),
        **learners,
        "uniform": Uniform(),
        "the first action": Fixed(first if matrix else np.tile(first, (games.states, 1))),
    }


def beyond_value(episode: Episode, value: np.ndarray) -> np.ndarray:
    """(games, rounds): what the row player earned in each round beyond the value of the game.

    In a Markov game, `r + discount V(s') - V(s)` with the value `V` of the game: what a round
    added to what either player could have secured. Both policies' mean reward stands for `r`.
    """
    expected = episode.expected.reshape(-1, episode.expected.shape[-1])
    games = episode.games
    if isinstance(games, MatrixGame):
        return expected - value.reshape(-1, 1)
    if episode.history.states is None:
        raise ValueError("episode: expected the states of a Markov game, found none")
    states = episode.history.states.reshape(len(expected), -1)
    values = np.take_along_axis(value.reshape(len(expected), -1), states, 1)
    return expected + games.discount * values[:, 1:] - values[:, :-1]


def game_values(games: Games) -> np.ndarray:
    """(...) or (..., states): exact values to the row player."""
    return np.asarray(solve(games).value)
