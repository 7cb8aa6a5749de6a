"""The same self-play as a user would write it: corrected mirror descent under bandit feedback.

All of them play `OMD.vanishing()`: eta = 2 t^-3/4, beta = t^-1/3 / 2, eps = t^-1/4, a baseline.
"""

import numpy as np


def rates(t):
    """Step, exploration, regularisation, floor (of all actions together), baseline step."""
    return t**-0.75, 0.5 * t ** (-1 / 3), t**-0.25, (t + 1.0) ** -2.0, t**-0.5


def project(v, floor):
    """Projection of one point onto the truncated simplex, by sorting."""
    shifted = np.sort(v - floor)[::-1]
    sums = np.cumsum(shifted) - (1.0 - len(v) * floor)
    threshold = np.max(sums / np.arange(1, len(v) + 1))
    return floor + np.maximum(v - floor - threshold, 0.0)


def numpy_loop(payoff, rounds, rng):
    """One game, one round at a time."""
    rows, columns = payoff.shape
    policies, baselines = [np.full(rows, 1 / rows), np.full(columns, 1 / columns)], [0.5, 0.5]
    for t in range(1, rounds + 1):
        step, beta, eps, floor, weight = rates(t)
        actions = [rng.choice(len(p), p=p / p.sum()) for p in policies]
        r = payoff[actions[0], actions[1]]
        for i, reward in enumerate((r, 1.0 - r)):
            p, a = policies[i], actions[i]
            gradient = eps * p
            gradient[a] += (baselines[i] - reward) / (p[a] + beta)
            policies[i] = project(p - step * gradient, floor / len(p))
            baselines[i] += weight * (reward - baselines[i])
    return policies


def numpy_vectorised(payoff, rounds, rng):
    """All games at once, one round at a time."""
    games, rows, columns = payoff.shape
    index = np.arange(games)
    policies = [np.full((games, n), 1 / n, np.float32) for n in (rows, columns)]
    baselines = [np.full(games, 0.5, np.float32) for _ in range(2)]
    for t in range(1, rounds + 1):
        step, beta, eps, floor, weight = rates(t)
        actions = []
        for p in policies:
            u = rng.random((games, 1), dtype=np.float32)
            actions.append((u >= np.cumsum(p, 1)[:, :-1]).sum(1))
        r = payoff[index, actions[0], actions[1]]
        for i, reward in enumerate((r, 1 - r)):
            p, a = policies[i], actions[i]
            gradient = np.float32(eps) * p
            gradient[index, a] += (baselines[i] - reward) / (p[index, a] + np.float32(beta))
            low = np.float32(floor / p.shape[1])
            shifted = p - np.float32(step) * gradient - low
            ordered = -np.sort(-shifted, 1)
            sums = np.cumsum(ordered, 1) - np.float32(1 - floor)
            threshold = (sums / np.arange(1, p.shape[1] + 1, dtype=np.float32)).max(1)
            policies[i] = low + np.maximum(shifted - threshold[:, None], 0)
            baselines[i] = baselines[i] + np.float32(weight) * (reward - baselines[i])
    return policies


def jax_plain(payoff, rounds):
    """`vmap` over games of a `scan` over rounds that splits a key and calls `categorical`."""
    import jax
    import jax.numpy as jnp

    def step_player(p, b, action, reward, t):
        step, beta, eps, floor, weight = rates(t)
        played = jnp.arange(p.shape[0]) == action
        gradient = jnp.where(played, (b - reward) / (p + beta), 0.0) + eps * p
        low = floor / p.shape[0]
        shifted = p - step * gradient - low
        ordered = jnp.sort(shifted)[::-1]
        sums = jnp.cumsum(ordered) - (1 - floor)
        threshold = jnp.max(sums / jnp.arange(1, p.shape[0] + 1))
        return low + jnp.maximum(shifted - threshold, 0.0), b + weight * (reward - b)

    def play(payoff, key):
        def body(carry, t):
            (x, bx), (y, by), key = carry
            key, first, second = jax.random.split(key, 3)
            a = jax.random.categorical(first, jnp.log(x))
            b = jax.random.categorical(second, jnp.log(y))
            r = payoff[a, b]
            row = step_player(x, bx, a, r, t)
            column = step_player(y, by, b, 1 - r, t)
            return (row, column, key), None

        start = [(jnp.full(n, 1 / n), jnp.float32(0.5)) for n in payoff.shape]
        carry = (start[0], start[1], key)
        (row, column, _), _ = jax.lax.scan(body, carry, jnp.arange(1.0, rounds + 1.0))
        return row[0], column[0]

    keys = jax.random.split(jax.random.key(0), len(payoff))
    compiled = jax.jit(jax.vmap(play))
    device = jnp.asarray(payoff, jnp.float32)
    return lambda: [np.asarray(p) for p in compiled(device, keys)]


def numba_loop():
    """One compiled loop over games and rounds, for three actions, with its own generator."""
    import numba

    @numba.njit(fastmath=True, inline="always")
    def uniform(state):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        return state, np.float32(state >> np.uint64(40)) * np.float32(2.0**-24)

    @numba.njit(fastmath=True, inline="always")
    def update(p, b, a, reward, step, beta, eps, floor, weight):
        low = floor / np.float32(3)
        scaled = step * (b - reward) / (p[a] + beta)
        for k in range(3):
            p[k] = p[k] * (np.float32(1) - step * eps) - low
        p[a] -= scaled
        high, small = max(p[0], p[1], p[2]), min(p[0], p[1], p[2])
        whole = p[0] + p[1] + p[2]
        mass = np.float32(1) - floor
        two = (whole - small - mass) * np.float32(0.5)
        threshold = max(high - mass, two, (whole - mass) * np.float32(1 / 3))
        for k in range(3):
            p[k] = low + max(p[k] - threshold, np.float32(0))
        return b + weight * (reward - b)

    @numba.njit(fastmath=True)
    def play(payoff, rounds, table, x, y):
        p, q = np.empty(3, np.float32), np.empty(3, np.float32)
        for g in range(len(payoff)):
            game = payoff[g]
            state = np.uint64(g * 2 + 1) * np.uint64(0x9E3779B97F4A7C15)
            bx = by = np.float32(0.5)
            p[:] = np.float32(1 / 3)
            q[:] = np.float32(1 / 3)
            for t in range(rounds):
                step, beta, eps, floor, weight = table[t]
                state, u = uniform(state)
                state, v = uniform(state)
                a = (u >= p[0]) + (u >= p[0] + p[1])
                b = (v >= q[0]) + (v >= q[0] + q[1])
                r = game[a, b]
                bx = update(p, bx, a, r, step, beta, eps, floor, weight)
                by = update(q, by, b, np.float32(1) - r, step, beta, eps, floor, weight)
            x[g], y[g] = p, q

    return play


def openspiel_mccfr(payoff, rounds):
    """Outcome-sampling MCCFR in C++, one iteration of both players a round; average policies."""
    import pyspiel

    game = _openspiel_game(payoff)
    solver = pyspiel.OutcomeSamplingMCCFRSolver(pyspiel.convert_to_turn_based(game))
    for _ in range(rounds):
        solver.run_iteration()
    policy = solver.average_policy()
    state = pyspiel.convert_to_turn_based(game).new_initial_state()
    pair = []
    for _ in range(2):
        chances = dict(policy.action_probabilities(state))
        pair.append([chances.get(a, 0.0) for a in range(3)])
        state = state.child(0)
    return pair


def openspiel_regret_matching(payoff, rounds):
    """Regret matching in Python, with full information; average policies."""
    from open_spiel.python.algorithms import regret_matching

    averages = regret_matching.regret_matching(
        [payoff.astype(float), -payoff.astype(float)], iterations=rounds, gamma=1e-6
    )
    return [np.asarray(p) / np.sum(p) for p in averages]


def _openspiel_game(payoff):
    import pyspiel

    names = [[str(i) for i in range(n)] for n in payoff.shape]
    return pyspiel.create_matrix_game("t", "t", *names, payoff.tolist(), (-payoff).tolist())
