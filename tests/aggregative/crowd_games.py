"""Games that several tests draw."""

import numpy as np

import equipoise as eq


def crowd(agents, d=1, actions=3, seed=0, counts=None, slope=0.5):
    """Rewards linear in the aggregate, with an exact Lipschitz constant."""
    rng = np.random.default_rng(seed)
    influence = rng.random((agents, actions, d))
    base = rng.uniform(-0.5, 0.5, (agents, actions))
    slopes = rng.uniform(-slope, slope, (agents, actions, d)) / d
    return eq.AggregativeGame(
        influence,
        lambda x: base + (slopes * x).sum(-1),
        float(np.abs(slopes).sum(-1).max()),
        counts=counts,
    )


def city(agents, states, horizon, d=1, actions=3, seed=0, counts=None):
    """A Markov game of random rewards and transitions, both linear in the aggregate."""
    rng = np.random.default_rng(seed)
    shape = (horizon, states, agents, actions)
    influence = rng.random((agents, actions, d))
    base, slopes = rng.uniform(-0.5, 0.5, shape), rng.uniform(-0.5, 0.5, (*shape, d)) / d
    calm, busy = rng.dirichlet(np.ones(states), (2, horizon, states))
    return eq.AggregativeMarkovGame(
        influence,
        lambda h, s, x: base[h, s] + (slopes[h, s] * x).sum(-1),
        lambda h, s, x: calm[h, s] + x[..., :1] * (busy[h, s] - calm[h, s]),
        horizon,
        states,
        counts,
        lipschitz=0.5,
        transition_lipschitz=float(0.5 * np.abs(busy - calm).sum(-1).max()),
    )


def roads(agents, routes, seed=0, *, alike=False):
    """Parallel roads with the BPR's travel times, in minutes; the last road has no coordinate."""
    rng = np.random.default_rng(seed)
    free, room = np.linspace(8.0, 14.0, routes), np.linspace(0.25, 0.45, routes)
    detour = np.zeros((1, routes)) if alike else rng.uniform(0.0, 2.0, (agents, routes))
    hurry = np.ones((1, 1)) if alike else rng.uniform(0.5, 2.0, (agents, 1))

    def reward(x):
        x = np.asarray(x)
        shape = np.broadcast_shapes(x.shape[:-1], (1, routes))
        loads = [*np.moveaxis(x, -1, 0), 1.0 - x.sum(-1)]
        load = np.stack([np.broadcast_to(v, shape)[..., r] for r, v in enumerate(loads)], -1)
        return -(hurry * free * (1.0 + 0.15 * (np.maximum(load, 0.0) / room) ** 4) + detour)

    influence = np.tile(np.eye(routes)[:, : routes - 1], (len(detour), 1, 1))
    counts = [agents] if alike else None
    return eq.AggregativeGame(influence, reward, counts=counts, bounds=(-1e6, 1e6))
