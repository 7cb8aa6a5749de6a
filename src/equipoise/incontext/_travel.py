"""The travel time of a Markov game: Assumption 4.2 of the in-context paper, computed exactly.

For a fixed target, the largest expected time to reach it, over stationary policies of all players,
is the value of a Markov decision process in which each step costs one. A deterministic joint policy
attains it, and such a policy is one policy for each player. Policy iteration finds it exactly.
"""

from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.games import MarkovGame

#: Relative improvement below which another action is no better.
_SLACK = 1e-12

PLAYS = ("worst", "uniform")


def hitting_times(game: Any, *, play: str = "worst") -> np.ndarray:
    """Return the expected numbers of steps to reach each state (last axis) from each state.

    The shape is (..., states, states), with zeros on the diagonal, and infinity where a state may
    never be reached. `play`: "worst" takes, for every pair of states, the largest time over all
    stationary policies of the players; "uniform" takes uniformly random actions.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> from equipoise.incontext import theory
    >>> moves = np.array([[[[.5, .5]], [[.8, .2]]], [[[1., 0.]], [[1., 0.]]]])
    >>> game = eq.MarkovGame(reward=np.zeros((2, 2, 1)), transition=moves, discount=0.5)
    >>> theory.hitting_times(game).round(6).tolist()
    [[0.0, 5.0], [1.0, 0.0]]
    >>> theory.hitting_times(game, play="uniform").round(6).tolist()
    [[0.0, 2.857143], [1.0, 0.0]]
    """
    if not isinstance(game, MarkovGame):
        raise InputError("game", "a MarkovGame", type(game).__name__)
    if play not in PLAYS:
        raise InputError("play", f"one of {PLAYS}", repr(play))
    states = game.states
    joint = int(np.prod(game.actions))
    moves = np.asarray(game.transition, np.float64).reshape(-1, states, joint, states)
    if play == "uniform":
        moves = moves.mean(2, keepdims=True)
    times = [[_longest(one, goal) for goal in range(states)] for one in moves]
    return np.moveaxis(np.array(times), 1, 2).reshape(*game.batch_shape, states, states)


def travel_time(game: Any, *, play: str = "worst") -> Any:
    """Return the L of Assumption 4.2: the largest of `hitting_times`, for each game of a batch.

    It is infinite if some policies never reach some state; the bound of Theorem 4.4 then says
    nothing.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.incontext import theory
    >>> game = eq.games.families.uniform(2, states=3).sample(1, key=0)[0]
    >>> travel = theory.travel_time(game)
    >>> 2.0 < theory.travel_time(game, play="uniform") < travel
    True
    >>> bound = theory.markov_bound(1e6, 2, 3, discount=0.5, travel=travel, distance=1.0,
    ...     realisability=1e-6, log_cover=100.0, samples=1e6)
    """
    longest = hitting_times(game, play=play).max((-2, -1))
    return longest if game.batch_shape else float(longest)


def _longest(moves: np.ndarray, goal: int) -> np.ndarray:
    """(states,): largest expected times to reach the goal, from (states, actions, states)."""
    states = len(moves)
    finite = ~_avoids(moves, goal)
    inside = np.flatnonzero(finite & (np.arange(states) != goal))
    times = np.where(finite, 0.0, np.inf)
    if not len(inside):
        return times
    # From here all actions lead only here or to the goal, so that every policy gets there.
    onward, ends = moves[inside][:, :, inside], moves[inside][:, :, goal]
    rows, choice = np.arange(len(inside)), np.zeros(len(inside), int)
    while True:
        found = _steps(onward[rows, choice], ends[rows, choice])
        value = onward @ found
        better = value.max(1) > value[rows, choice] + _SLACK * found.max()
        if not better.any():
            break
        choice = np.where(better, value.argmax(1), choice)
    times[inside] = found
    return times


def _steps(moves: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """(states,): expected steps of a chain until it ends, which it does from every state.

    States are eliminated one by one without any subtraction (Grassmann, Taksar and Heyman, 1985):
    every entry is accurate, however small a probability is.

    >>> _steps(np.array([[0.5, 0.25], [0.0, 0.0]]), np.array([0.25, 1.0])).tolist()
    [2.5, 1.0]
    """
    moves, ends, cost = moves.copy(), ends.copy(), np.ones(len(ends))
    for k in reversed(range(len(ends))):
        share = moves[:k, k] / (moves[k, :k].sum() + ends[k])
        cost[:k] += share * cost[k]
        ends[:k] += share * ends[k]
        moves[:k, :k] += share[:, None] * moves[k, :k]
    times = np.zeros(len(ends))
    for k in range(len(ends)):
        leaves = moves[k, :k].sum() + ends[k]
        times[k] = (cost[k] + moves[k, :k] @ times[:k]) / leaves
    return times


def _avoids(moves: np.ndarray, goal: int) -> np.ndarray:
    """(states,): whether some stationary policy may never reach the goal from each state."""
    possible = moves > 0
    # The largest set of states that some policy never leaves, without the goal.
    kept = np.arange(len(moves)) != goal
    while True:
        stays = kept & np.any(~np.any(possible[:, :, ~kept], axis=2), axis=1)
        if (stays == kept).all():
            break
        kept = stays
    # From other states it is enough to get into this set with some probability, before the goal.
    while True:
        more = kept | possible[:, :, kept].any((1, 2))
        more[goal] = False
        if (more == kept).all():
            return kept
        kept = more
