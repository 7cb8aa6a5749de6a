"""Zero-sum Markov games, compiled: Shapley's operator with safeguarded Newton steps.

The method is that of `solvers`, for one game after the other. Three things make it fast: the
first sweep, from values of zero, reads no transitions; Newton's steps read only those of actions
that are played; and the linear systems are eliminated in place, without exchanging rows.
"""

import numpy as np
from numba import types

from equipoise.core.kernels._chains import add_scaled, dot, solve_chain
from equipoise.core.kernels._compile import READ, WRITE, compiled
from equipoise.core.kernels.zerosum import solve_games

_EPS = 2.0**-52


@compiled()
def _pair_value(reward, transition, discount, x, y, matrix, value):
    """Value of the two policies, by one linear system."""
    states, m, n = reward.shape
    k = states + 1
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
def _reply_value(reward, transition, discount, y, matrix, value):
    """Value of the row player's best reply to `y`, by policy iteration."""
    states, m, n = reward.shape
    k = states + 1
    own_reward, own_next = np.zeros((states, m)), np.zeros(states * m * states)
    scale = 0.0
    for s in range(states):
        for a in range(m):
            for b in range(n):
                if y[s, b] != 0.0:
                    own_reward[s, a] += y[s, b] * reward[s, a, b]
                    at = ((s * m + a) * n + b) * states
                    add_scaled(own_next, (s * m + a) * states, y[s, b], transition, at, states)
            scale = max(scale, abs(own_reward[s, a]))
    margin = 32 * _EPS * scale / (1.0 - discount)
    choice = np.zeros(states, np.int64)
    for s in range(states):
        choice[s] = np.argmax(own_reward[s])
    moved = True
    while moved:
        for s in range(states):
            at = (s * m + choice[s]) * states
            for t in range(states):
                matrix[s * k + t] = -discount * own_next[at + t]
            matrix[s * k + s] += 1.0
            matrix[s * k + states] = own_reward[s, choice[s]]
        solve_chain(matrix, value, states)
        moved = False
        for s in range(states):
            best, action = -np.inf, 0
            current = 0.0
            for a in range(m):
                ahead = dot(own_next, (s * m + a) * states, value, 0, states)
                q = own_reward[s, a] + discount * ahead
                if a == choice[s]:
                    current = q
                if q > best:
                    best, action = q, a
            if best > current + margin:
                choice[s], moved = action, True


@compiled(
    types.void(
        READ[4], READ[5], types.float64, READ[1], types.intp, WRITE[3], WRITE[3], WRITE[2],
        types.Array(types.int64, 2, "C"), types.intp, types.intp,
    )
)  # fmt: skip
def solve_markov(
    rewards, transitions, discount, targets, max_sweeps, xs, ys, values, counts, first, last
):
    """Solve the games `first` to `last`, until residuals meet their targets.

    Counted are the sweeps, Newton's steps, Hoffman and Karp's, and stage games that missed a
    tenth of the target.
    """
    _, states, m, n = rewards.shape
    matrix = np.empty(states * (states + 1))
    stage, before = np.empty((states, m, n)), np.empty(states)
    measures, pivots = np.empty((states, 3)), np.empty((states, 2), np.int32)
    contraction = max(discount, 0.5)
    for g in range(first, last):
        reward, transition = rewards[g], transitions[g].reshape(transitions[g].size)
        x, y, value, target = xs[g], ys[g], values[g], targets[g]
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
            solve_games(stage, x, y, measures, pivots, 0, states)
            residual, missed = 0.0, 0
            for s in range(states):
                value[s] = measures[s, 0]
                residual = max(residual, abs(value[s] - before[s]))
                missed += measures[s, 1] > 0.1 * target
            counts[g, 0], counts[g, 3] = sweep + 1, missed
            if residual <= target:
                break
            # Newton's step is trusted while each sweep shrinks the residual.
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
                if waiting == 0:  # the first residual after monotone steps judges nothing
                    last_residual = np.inf
                _reply_value(reward, transition, discount, y, matrix, value)
