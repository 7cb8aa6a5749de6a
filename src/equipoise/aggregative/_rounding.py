"""From a vertex to a pure profile: only the few agents between two actions are decided anew."""

from itertools import islice, product

import numpy as np

from equipoise.aggregative._knapsack import Vertex

#: Ways to decide the agents in between that are compared, at most.
_WAYS = 4096


def round_vertex(vertex: Vertex, influence: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(types, actions): whole numbers of agents, with the sum of influences nearly kept.

    A vertex leaves at most d agents between actions. Of all ways to decide them, the one whose
    sum is nearest in the sup norm is taken: it is off by at most d/2 times the largest influence
    of one agent.

    >>> vertex = Vertex(np.array([0]), np.array([0]), np.array([[2.6, 0.4]]), 0.0)
    >>> round_vertex(vertex, np.array([[[0.0], [1.0]]]), np.array([3])).tolist()
    [[3, 0]]
    """
    types, actions = influence.shape[:2]
    plays = np.zeros((types, actions), np.int64)
    plays[np.arange(types), vertex.choice] = counts
    if not len(vertex.moved):
        return plays
    whole = np.floor(vertex.split + 1e-9)
    plays[vertex.moved] = whole.astype(np.int64)
    fractions = np.maximum(vertex.split - whole, 0.0)
    between: list[tuple[int, np.ndarray]] = []
    for kind, fraction in zip(vertex.moved, fractions, strict=True):
        missing = int(counts[kind] - plays[kind].sum())
        options = np.flatnonzero(fraction > 1e-9)
        options = options if len(options) else np.array([vertex.choice[kind]])
        between += [(int(kind), options[np.argsort(-fraction[options])])] * missing
    wanted = np.einsum("ta,tad->d", fractions, influence[vertex.moved])
    best, chosen = np.inf, ()
    for way in islice(product(*(options for _, options in between)), _WAYS):
        pull = sum((influence[k, a] for (k, _), a in zip(between, way, strict=True)), 0.0 * wanted)
        off = float(np.abs(pull - wanted).max())
        if off < best:
            best, chosen = off, way
    for (kind, _), action in zip(between, chosen, strict=True):
        plays[kind, action] += 1
    return plays


def sample_vertex(
    vertex: Vertex, counts: np.ndarray, actions: int, rng: np.random.Generator
) -> np.ndarray:
    """(types, actions): every agent draws its action from its type's mix, as printed."""
    share = vertex.mass(counts, actions) / counts[:, None]
    share = np.maximum(share, 0.0)
    return rng.multinomial(counts, share / share.sum(1, keepdims=True)).astype(np.int64)
