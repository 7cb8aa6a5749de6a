"""Zero-sum Markov games with QuantEcon's compiled `minmax` at every state, in one Numba loop.

No library offers this; it is what a careful user of QuantEcon would write, and a strong
opponent: nothing in it returns to Python.

Both methods stop by the same rule. If the stage games at v have values Tv with
|Tv - v| <= r everywhere, the stage equilibria at v have a duality gap of at most
2 r / (1 - discount), so that r <= tolerance (1 - discount) / 2 suffices.
"""

import numba
import numpy as np
from quantecon.optimize import minmax


@numba.njit
def stage_games(reward, transition, discount, value):
    """(states, rows, columns): payoffs of the stage games when the future is worth `value`."""
    states, rows, columns = reward.shape
    future = np.dot(transition.reshape(states * rows * columns, states), value)
    return reward + discount * future.reshape(states, rows, columns)


@numba.njit
def backup(reward, transition, discount, value, x, y, updated):
    """Solve every stage game, in place; return the largest change of value."""
    stages = stage_games(reward, transition, discount, value)
    residual = 0.0
    for s in range(len(stages)):
        updated[s], x[s], y[s] = minmax(stages[s])
        residual = max(residual, abs(updated[s] - value[s]))
    return residual


@numba.njit
def pair_value(reward, transition, discount, x, y):
    """Value of a policy pair, by one linear solve; pairs of weight zero are passed over."""
    states, rows, columns = reward.shape
    chain = np.eye(states)
    earned = np.zeros(states)
    for s in range(states):
        for a in range(rows):
            for b in range(columns):
                weight = x[s, a] * y[s, b]
                if weight != 0.0:
                    earned[s] += weight * reward[s, a, b]
                    for t in range(states):
                        chain[s, t] -= discount * weight * transition[s, a, b, t]
    return np.linalg.solve(chain, earned)


@numba.njit
def shapley(reward, transition, discount, tolerance, x, y):
    """Shapley's iteration: v <- Tv until the rule above holds; returns the sweeps."""
    value = np.zeros(len(reward))
    updated = np.empty(len(reward))
    target = tolerance * (1.0 - discount) / 2.0
    sweeps = 0
    while True:
        sweeps += 1
        residual = backup(reward, transition, discount, value, x, y, updated)
        if residual <= target:
            return sweeps
        value, updated = updated, value


@numba.njit
def newton(reward, transition, discount, tolerance, x, y):
    """Pollatschek and Avi-Itzhak's steps: v <- value of the stage equilibria at v.

    Alone they may cycle. A step that does not reduce the residual is replaced by v <- Tv,
    which always does, so that the method converges on every game.
    """
    states = len(reward)
    value = np.zeros(states)
    updated = np.empty(states)
    target = tolerance * (1.0 - discount) / 2.0
    residual = backup(reward, transition, discount, value, x, y, updated)
    next_updated = np.empty(states)
    next_x, next_y = np.empty_like(x), np.empty_like(y)
    solves = 1
    while residual > target:
        proposal = pair_value(reward, transition, discount, x, y)
        next_residual = backup(reward, transition, discount, proposal, next_x, next_y, next_updated)
        solves += 1
        if next_residual >= residual:
            proposal = updated.copy()
            next_residual = backup(
                reward, transition, discount, proposal, next_x, next_y, next_updated
            )
            solves += 1
        value, residual = proposal, next_residual
        updated, next_updated = next_updated, updated
        x[:], y[:] = next_x, next_y
    return solves


@numba.njit
def shapley_each(reward, transition, discount, tolerance, x, y):
    """Shapley's iteration on one game after the other."""
    for i in range(len(reward)):
        shapley(reward[i], transition[i], discount, tolerance, x[i], y[i])


@numba.njit
def newton_each(reward, transition, discount, tolerance, x, y):
    """Safeguarded Newton steps on one game after the other."""
    for i in range(len(reward)):
        newton(reward[i], transition[i], discount, tolerance, x[i], y[i])


@numba.njit(parallel=True)
def newton_each_parallel(reward, transition, discount, tolerance, x, y):
    """Safeguarded Newton steps, the games spread over the cores."""
    for i in numba.prange(len(reward)):
        newton(reward[i], transition[i], discount, tolerance, x[i], y[i])
