"""The linear program of one cell for a one-dimensional aggregate: a fractional knapsack.

Maximise `sum_t c_t sum_a w_ta p_ta` over mixed actions p of the types, with the sum of influences
in a band: a multiple-choice knapsack with one resource. In the plane of (influence, weight), each
type's mixed actions span a polygon of which only the upper hull matters. Every type starts at its
best weight. If the sum is below the band, types move along their hulls, least loss per influence
first. Only the segment that ends inside the band is taken in part: the solution is a vertex, with
at most one type between two actions.

The threshold slope (the dual price) is found by selection. If Numba is installed and the problem is
large enough, a compiled kernel does this; otherwise NumPy does. Both give the same bits, because
sums have a fixed order.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from equipoise.core import kernels

#: Allowance for rounding at the edges of the band, relative to the sum of all influences.
EDGE = 1e-12


@dataclass(frozen=True)
class Vertex:
    """A vertex of the program: the number of agents of each type on each action."""

    #: (types,) the action of all agents of a type, or of those that are not moved.
    choice: np.ndarray
    #: Types some of whose agents play another action than `choice`.
    moved: np.ndarray
    #: (moved, actions): numbers of agents of those types by action; rows sum to the count.
    split: np.ndarray
    #: Value of the objective, a sum over agents.
    objective: float

    def mass(self, counts: np.ndarray, actions: int) -> np.ndarray:
        """(types, actions): numbers of agents by type and action; few of them are fractions."""
        mass = np.zeros((len(self.choice), actions))
        mass[np.arange(len(self.choice)), self.choice] = counts
        mass[self.moved] = self.split
        return mass


def solve_knapsack(
    weights: np.ndarray,
    influence: np.ndarray,
    counts: np.ndarray,
    allowed: np.ndarray,
    low: float,
    high: float,
) -> Vertex | None:
    """Solve the program exactly; None if no mixed actions reach the band [low, high].

    Arrays are (types, actions); the band limits the sum `sum_t c_t f_t`. Every type needs at least
    one allowed action.

    >>> f = np.array([[0.0, 1.0], [0.0, 2.0]])
    >>> w = np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> vertex = solve_knapsack(w, f, np.ones(2), np.ones((2, 2), bool), 1.0, 1.5)
    >>> vertex.mass(np.ones(2), 2).tolist(), vertex.objective
    ([[1.0, 0.0], [0.5, 0.5]], 1.5)
    """
    types, actions = weights.shape
    kernel, engine = kernels.choose("solve_program", 3e-9 * types * (actions + 3))
    arrays = (np.ascontiguousarray(x, np.float64) for x in (weights, influence, counts))
    choice, numbers = np.empty(types, np.int64), np.empty(3)
    allowed = np.ascontiguousarray(allowed)
    solve: Callable[..., int] = kernel if kernel and engine == "Numba" else _by_numpy
    moved = solve(*arrays, allowed, low, high, EDGE, choice, numbers)
    if moved == -2:
        return None
    objective, agents, end = numbers
    if moved == -1:
        return Vertex(choice, np.zeros(0, np.int64), np.zeros((0, actions)), float(objective))
    split = np.zeros((1, actions))
    split[0, choice[moved]] = counts[moved] - agents
    split[0, int(end)] += agents
    return Vertex(choice, np.array([moved]), split, float(objective))


# `np.where` throughout: assignment through masks that look random is many times slower.


def _by_numpy(weights, influence, counts, allowed, low, high, rounding, choice, numbers) -> int:
    """NumPy version of `core.kernels._programs.solve_program`."""
    # Long axes last, where NumPy is fast; actions that are not allowed have weight -inf.
    w, f = np.where(allowed, weights, -np.inf).T.copy(), influence.T.copy()
    each = np.arange(len(counts))
    best, at_w = np.zeros(len(counts), np.int64), w[0]
    for a in range(1, len(w)):
        best = np.where(w[a] > at_w, a, best)
        at_w = np.maximum(w[a], at_w)
    at_f = f[best, each]
    choice[:] = best
    numbers[0], total = _total(counts * at_w), _total(counts * at_f)
    slack = rounding * _total(counts * np.maximum(np.abs(at_f), np.ptp(f, axis=0)))
    if low - slack <= total <= high + slack:
        return -1
    edge = low
    if total > high:
        f, at_f, total, edge = -f, -at_f, -total, -high
    types, ends, slopes, rises = _hulls(w, f, counts, at_w, at_f)
    need, reach = edge - total, _total(rises)
    if reach < need - slack:
        return -2
    order = np.argsort(-slopes, kind="stable")
    index = int(np.searchsorted(np.cumsum(rises[order]), min(need, reach)))
    price = slopes[order[min(index, len(order) - 1)]]
    taken, tied = np.flatnonzero(slopes > price), np.flatnonzero(slopes == price)
    choice[types[taken]] = ends[taken]  # the last edge of a type decides
    need = edge - _total(counts * f[choice, each])
    # Edges at the price itself, in order, until the band is reached.
    tied = tied[np.argsort(types[tied], kind="stable")]
    gained = np.cumsum(rises[tied])
    whole = int(np.searchsorted(gained, need, side="right"))
    choice[types[tied[:whole]]] = ends[tied[:whole]]
    numbers[0] = _total(counts * w[choice, each])
    if whole == len(tied):
        return -1
    need -= gained[whole - 1] if whole else 0.0
    if need <= slack:
        return -1
    moved, end, rise = (int(types[tied[whole]]), ends[tied[whole]], rises[tied[whole]])
    numbers[1:] = counts[moved] * min(need / rise, 1.0), end
    numbers[0] += numbers[1] * (w[end, moved] - w[choice[moved], moved])
    return moved


def _total(values: np.ndarray) -> float:
    """Sum in the kernel's order: every eighth number first."""
    lanes = np.zeros((len(values) // 8 + 1, 8))
    lanes.reshape(-1)[: len(values)] = values
    lanes = np.cumsum(lanes, axis=0)[-1]
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return float(lanes[0])


def _hulls(w, f, counts, at_w, at_f) -> list[np.ndarray]:
    """Follow all upper hulls to the right at once, edge by edge.

    Returns for every edge its type, the action at which it ends, its slope (weight per influence,
    the cost of moving along it), and the rise of the sum of influences if all agents move.
    """
    types, last = np.arange(len(counts)), np.inf
    steps = [[types[:0], types[:0], counts[:0], counts[:0]]]
    for _ in range(len(w) - 1):
        slopes, ends = _next_edges(w, f, at_w, at_f)
        slopes = np.minimum(slopes, last)  # hulls are concave, except for rounding
        kept = np.flatnonzero(ends >= 0)
        types, slopes, ends, at_f = (v.take(kept) for v in (types, slopes, ends, at_f))
        w, f = w.take(kept, axis=1), f.take(kept, axis=1)
        place = ends, np.arange(len(types))
        steps.append([types, ends, slopes, counts[types] * (f[place] - at_f)])
        at_w, at_f, last = w[place], f[place], slopes
    return [np.concatenate(column) for column in zip(*steps, strict=True)]


def _next_edges(w, f, at_w, at_f) -> tuple[np.ndarray, np.ndarray]:
    """The steepest edge to the right of each current point, and the action at its end, or -1."""
    slopes, ends = np.full(w.shape[1], -np.inf), np.full(w.shape[1], -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        for a in range(len(w)):
            rise = f[a] - at_f
            candidate = (w[a] - at_w) / rise
            better = (rise > 0) & (candidate > slopes)
            slopes = np.where(better, candidate, slopes)
            ends = np.where(better, a, ends)
    return slopes, ends
