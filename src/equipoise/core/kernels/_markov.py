"""Zero-sum Markov games, compiled: Shapley's operator with safeguarded Newton steps.

The method is that of `solvers`, for one game after the other. Three choices make it fast: the
first sweep, from values of zero, reads no transitions; Newton's steps read only transitions of
actions that are played; and the linear systems are eliminated in place, without exchanging rows.
"""

import numpy as np

from equipoise.core.kernels._chains import add_scaled, dot, range_of, solve_chain, usual
from equipoise.core.kernels._compile import compiled
from equipoise.core.kernels._markov_gains import (
    best_reply,
    decision_processes,
    largest_of_states,
)
from equipoise.core.kernels._pivot import padded
from equipoise.core.kernels._zerosum import solve_range, workspace

_EPS = 2.0**-52
#: Smallest tolerance, as a fraction of the payoff range.
_ROUNDING = 16 * _EPS


@compiled()
def _pair_value(reward, transition, discount, x, y, matrix, value):
    """Compute the value of the two policies, by one linear system."""
    states, m, n = reward.shape
    k = padded(states + 1)
    matrix[:] = 0.0
    for s in range(states):
        earned = 0.0
        for a in range(m):
            for b in range(n):
                weight = x[s, a] * y[s, b]
                if weight != 0.0:
                    earned += weight * reward[s, a, b]
                    at = ((s * m + a) * n + b) * states
                    add_scaled(matrix, s * k, -discount * weight, transition, at, states)
        matrix[s * k + s] += 1.0
        matrix[s * k + states] = earned
    solve_chain(matrix, value, states)


@compiled()
def _reply_value(reward, transition, discount, x, y, matrix, value):
    """Value of the row player's best response to `y`, by policy iteration from the pair's value."""
    states, m, n = reward.shape
    rewards = np.empty(states * m), np.empty(states * n)
    sizes = np.empty(states * m), np.empty(states * n)
    following = np.empty(states * m * states), np.empty(states * n * states)
    chain, above, size = np.empty(states * states), np.empty(states), np.empty(states)
    space = np.empty(states * m), np.empty(states), np.empty(states)
    decision_processes(reward, 0.0, transition, x, y, rewards, sizes, following, chain)
    _pair_value(reward, transition, discount, x, y, matrix, value)
    largest_of_states(sizes[0], m, size)
    best_reply(
        rewards[0], following[0], m, discount, value, size, m, 0.0, matrix, above, space,
        np.empty(states, np.int64),
    )  # fmt: skip


@compiled(
    "read4 read5 float float float float index write3 write3 write2 write1 int64s2 index index"
)
def solve_markov(
    rewards, transitions, discount, absolute, relative, ordinary, max_sweeps,
    xs, ys, values, allowed, counts, first, last,
):  # fmt: skip
    """Solve the games `first` to `last`; return the number of games it could not solve.

    The largest gain allowed is `absolute`, or, if that is zero, `relative` times the range of
    rewards, divided by one minus the discount. The counts are those of sweeps, Newton steps,
    Hoffman-Karp steps, and stage games of the last sweep that were not solved. Games whose largest
    reward is not between 1 / `ordinary` and `ordinary` are skipped; their last count is -1.
    """
    _, states, m, n = rewards.shape
    flat = rewards.reshape(rewards.size)
    horizon, contraction, left = 1.0 / (1.0 - discount), max(discount, 0.5), 0
    matrix = np.empty(states * padded(states + 1))
    reward, stage, before = np.empty((states, m, n)), np.empty((states, m, n)), np.empty(states)
    tables, vectors = workspace(m, n, states)
    measures, pivots = np.empty((4, states)), np.empty((2, states), np.int32)
    for g in range(first, last):
        low, high, offset, size = range_of(flat, g * states * m * n, states * m * n)
        allowed[g] = absolute if absolute > 0.0 else relative * (high - low) * horizon
        if not usual(size, ordinary):
            counts[g], left = -1, left + 1
            continue
        for s in range(states):
            for a in range(m):
                for b in range(n):
                    reward[s, a, b] = rewards[g, s, a, b] - offset
        transition = transitions[g].reshape(transitions[g].size)
        x, y, value = xs[g], ys[g], values[g]
        # Stage policies at a residual r can be exploited by at most 2 r / (1 - discount).
        target = max(0.25 * allowed[g] / horizon, _ROUNDING * size * horizon)
        value[:] = 0.0
        last_residual, waiting, patience = np.inf, 0, 0
        counts[g] = 0
        for sweep in range(max_sweeps):
            p = 0
            for s in range(states):
                for a in range(m):
                    for b in range(n):
                        ahead = dot(transition, p, value, 0, states) if sweep else 0.0
                        stage[s, a, b] = reward[s, a, b] + discount * ahead
                        p += states
                before[s] = value[s]
            counts[g, 0] = sweep + 1
            counts[g, 3] = solve_range(
                stage, 0.1 * target, _ROUNDING, x, y, measures, pivots, 0, states, tables, vectors
            )
            residual = 0.0
            for s in range(states):
                value[s] = measures[0, s]
                residual = max(residual, abs(value[s] - before[s]))
            if residual <= target:
                break
            # Newton's step is used while each sweep shrinks the residual.
            if waiting == 0 and residual > contraction * last_residual:
                patience = max(1, 2 * patience)
                waiting = patience
            last_residual = residual
            if waiting == 0:
                counts[g, 1] += 1
                _pair_value(reward, transition, discount, x, y, matrix, value)
            else:
                counts[g, 2] += 1
                waiting -= 1
                if waiting == 0:  # the first residual after monotone steps is not informative
                    last_residual = np.inf
                _reply_value(reward, transition, discount, x, y, matrix, value)
        left += counts[g, 3] > 0
        for s in range(states):
            value[s] += offset * horizon
    return left
