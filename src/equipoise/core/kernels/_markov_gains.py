"""Gains in zero-sum Markov games, compiled: best responses with proven residuals.

The proof is that of `core.mdp`: if no action has an advantage of more than c over a value V, in a
state that can be reached, no policy is worth more than V + c / (1 - discount). Policy iteration
starts at the value of the policy itself, so that an equilibrium needs only one linear system. One
pass over the transitions computes the decision processes of both players.
"""

import numpy as np

from equipoise.core.kernels._chains import (
    add_scaled,
    dot,
    is_distribution,
    range_of,
    solve_chain,
    usual,
)
from equipoise.core.kernels._compile import compiled
from equipoise.core.kernels._pivot import padded

_EPS = 2.0**-52
#: Maximum number of rounds of policy iteration.
_MOST_ROUNDS = 1000


@compiled()
def _evaluate(reward, following, choice, discount, matrix, value):
    """Value of the chain that `choice`, a row for each state, selects from a decision process."""
    states = len(choice)
    k = padded(states + 1)
    for s in range(states):
        for t in range(states):
            matrix[s * k + t] = -discount * following[choice[s] * states + t]
        matrix[s * k + s] += 1.0
        matrix[s * k + states] = reward[choice[s]]
    solve_chain(matrix, value, states)


@compiled()
def _advantages(reward, following, actions, discount, value, size, operations, tiny, space):
    """Advantages of all actions over `value`, and bounds on their errors in each state.

    `reward` is (states * actions), `following` (states * actions * states).
    """
    states = len(value)
    advantage, error, difference = space
    uneven = size.max() > 4.0 * size.min()
    low, high = value.min(), value.max()
    for s in range(states):
        here = value[s]
        for t in range(states):
            difference[t] = value[t] - here
        away = max(high - here, here - low)
        if uneven:
            away = 0.0
            for p in range(s * actions * states, (s + 1) * actions * states, states):
                for t in range(states):
                    if following[p + t] > 0.0:
                        away = max(away, abs(difference[t]))
        for p in range(s * actions, (s + 1) * actions):
            ahead = dot(following, p * states, difference, 0, states)
            advantage[p] = reward[p] + discount * ahead - (1.0 - discount) * here
        terms = (operations + 8) * size[s] + 8 * (1.0 - discount) * abs(here)
        terms += (operations + states + 8) * (away + 2 * _EPS * abs(here))
        error[s] = _EPS * terms + tiny


@compiled()
def _discounted(error, following, actions, discount, states):
    """Largest error of any state that can be reached, summed over all steps; in place."""
    if error.max() <= 4.0 * error.min():
        error[:] = error.max()
    moved = error.max() > error.min()
    while moved:
        moved = False
        for s in range(states):
            for p in range(s * actions * states, (s + 1) * actions * states, states):
                for t in range(states):
                    if following[p + t] > 0.0 and error[t] > error[s]:
                        error[s], moved = error[t], True
    for s in range(states):
        error[s] *= (1.0 + 8 * _EPS) / (1.0 - discount)


@compiled()
def best_reply(
    reward, following, actions, discount, value, size, operations, tiny,
    matrix, above, space, choice,
):  # fmt: skip
    """Value of a best response, starting from the policy's, in place; false if rounds ran out."""
    states, refined, (advantage, error, _) = len(value), False, space
    choice[:] = -1
    for _ in range(_MOST_ROUNDS):
        _advantages(reward, following, actions, discount, value, size, operations, tiny, space)
        moved = off = False
        for s in range(states):
            best = s * actions
            for p in range(s * actions, (s + 1) * actions):
                if advantage[p] > advantage[best]:
                    best = p
            here = advantage[choice[s]] if choice[s] >= 0 else 0.0
            above[s] = max(advantage[best], 0.0) + error[s]
            off |= abs(here) > error[s]
            if advantage[best] > here + 2.0 * error[s]:
                choice[s], moved = best, True
        if not moved and off and not refined:
            # Rows of transitions may not quite sum to one: their value is corrected once.
            refined = True
            _evaluate(advantage, following, choice, discount, matrix, space[2])
            for s in range(states):
                value[s] += space[2][s]
            continue
        if not moved:
            _discounted(above, following, actions, discount, states)
            return True
        for s in range(states):
            if choice[s] < 0:  # the policy has no single action: take the best
                choice[s] = s * actions + np.argmax(advantage[s * actions : (s + 1) * actions])
        _evaluate(reward, following, choice, discount, matrix, value)
    return False


@compiled()
def decision_processes(reward, offset, transition, x, y, rewards, sizes, following, chain):
    """Decision process of each player, in the row player's rewards, and the chain of both."""
    states, m, n = reward.shape
    for i in range(2):
        rewards[i][:], sizes[i][:], following[i][:] = 0.0, 0.0, 0.0
    chain[:] = 0.0
    p = 0
    for s in range(states):
        for a in range(m):
            for b in range(n):
                earned = reward[s, a, b] - offset
                row, column = s * m + a, s * n + b
                if y[s, b] != 0.0:
                    rewards[0][row] += y[s, b] * earned
                    sizes[0][row] += y[s, b] * abs(earned)
                    add_scaled(following[0], row * states, y[s, b], transition, p, states)
                if x[s, a] != 0.0:
                    rewards[1][column] += x[s, a] * earned
                    sizes[1][column] += x[s, a] * abs(earned)
                    add_scaled(following[1], column * states, x[s, a], transition, p, states)
                p += states
            add_scaled(chain, s * states, x[s, a], following[0], (s * m + a) * states, states)


@compiled(inline=True)
def largest_of_states(values, actions, result):
    """Write the largest number of each state to `result`."""
    for s in range(len(result)):
        result[s] = values[s * actions]
        for p in range(s * actions + 1, (s + 1) * actions):
            result[s] = max(result[s], values[p])


@compiled("read4 read5 float read3 read3 index float float write3 write4 index index")
def markov_gains(
    rewards, transitions, discount, xs, ys, operations, tiny, ordinary,
    results, by_state, first, last,
):  # fmt: skip
    """Write both players' gains, bounds on them and rounding errors to `results` (3, games, 2).

    `by_state` (3, games, states, 2) holds gains, bounds and values in every state. Returns the
    number of games that the kernel does not support: rewards whose largest is not between
    1 / `ordinary` and `ordinary`, policies that are not probabilities, and policy iteration that
    ran out of rounds.
    """
    _, states, m, n = rewards.shape
    matrix = np.zeros(states * padded(states + 1))
    own_rewards = np.empty(states * m), np.empty(states * n)
    sizes = np.empty(states * m), np.empty(states * n)
    following = np.empty(states * m * states), np.empty(states * n * states)
    chain, reward, size = np.empty(states * states), np.empty(states), np.empty(states)
    own, value, above = np.empty(states), np.empty(states), np.empty(states)
    off, reach = np.empty(states), np.empty(states)
    space = np.empty(states * max(m, n)), np.empty(states), np.empty(states)
    far, choice = np.empty(states), np.empty(states, np.int64)
    flat, flat_x, flat_y = rewards.reshape(rewards.size), xs.reshape(xs.size), ys.reshape(ys.size)
    each, left = np.arange(states), 0
    for g in range(first, last):
        x, y = xs[g], ys[g]
        _, _, offset, most = range_of(flat, g * states * m * n, states * m * n)
        fine = usual(most, ordinary)
        for s in range(g * states, (g + 1) * states):
            fine &= is_distribution(flat_x, s * m, m) and is_distribution(flat_y, s * n, n)
        if not fine:
            left += 1
            continue
        transition = transitions[g].reshape(transitions[g].size)
        decision_processes(
            rewards[g], offset, transition, x, y, own_rewards, sizes, following, chain
        )
        for s in range(states):
            reward[s] = dot(own_rewards[0], s * m, x[s], 0, m)
            size[s] = dot(sizes[0], s * m, x[s], 0, m)
        _evaluate(reward, chain, each, discount, matrix, own)
        least = tiny * (1.0 + most) if most > 0.0 else 0.0
        _advantages(reward, chain, 1, discount, own, size, operations, least, space)
        for s in range(states):
            off[s] = abs(space[0][s]) + space[1][s]
            reach[s] = size[s]
            by_state[2, g, s, 0] = own[s] + offset / (1.0 - discount)
            by_state[2, g, s, 1] = -by_state[2, g, s, 0]
        _discounted(off, chain, 1, discount, states)
        _discounted(reach, chain, 1, discount, states)
        for i in range(2):
            actions, sign = (m, 1.0) if i == 0 else (n, -1.0)
            for p in range(states * actions):
                own_rewards[i][p] *= sign
            for s in range(states):
                value[s] = sign * own[s]
            largest_of_states(sizes[i], actions, far)
            left += not best_reply(
                own_rewards[i], following[i], actions, discount, value, far, operations, least,
                matrix, above, space, choice,
            )  # fmt: skip
            _discounted(far, following[i], actions, discount, states)
            results[0, g, i], results[1, g, i] = -np.inf, -np.inf
            for s in range(states):
                gain = value[s] - sign * own[s]
                slack = (1.0 + 8 * _EPS) * (above[s] + off[s]) + 8 * _EPS * abs(gain)
                by_state[0, g, s, i], by_state[1, g, s, i] = gain, gain + slack
                results[0, g, i] = max(results[0, g, i], gain)
                if gain + slack > results[1, g, i]:
                    results[1, g, i] = gain + slack
                    results[2, g, i] = 8 * _EPS * (operations + states) * (far[s] + reach[s])
    return left
