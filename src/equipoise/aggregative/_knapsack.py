"""The linear program of one cell for a one-dimensional aggregate: a fractional knapsack.

Maximise `sum_t c_t sum_a w_ta p_ta` over mixed actions p of the types, with the influences' sum
in a band: a multiple-choice knapsack with one resource. Each type's mixed actions span, in the
plane of (influence, weight), a polygon whose upper hull is all that matters. Start every type at
its best weight; if the sum is below the band, move along the hulls, least loss per influence
first. Only the segment that ends inside the band is taken in part: the solution is a vertex, with
one type at most between two actions.

The threshold slope (the dual price) is found by a weighted selection, so nothing is sorted and
the cost is linear in types and actions.
"""

from dataclasses import dataclass

import numpy as np

#: Rounding allowed at the edges of the band, relative to the sum of all influences.
EDGE = 1e-12


@dataclass(frozen=True)
class Vertex:
    """A vertex of the program: what share of each type plays what, in agents."""

    #: (types,) the action of all agents of a type, or of those that are not moved.
    choice: np.ndarray
    #: Types of which some agents play something else than `choice`.
    moved: np.ndarray
    #: (moved, actions): how many of the agents of those types play what; rows sum to the count.
    split: np.ndarray
    #: Value of the objective, a sum over agents.
    objective: float

    def mass(self, counts: np.ndarray, actions: int) -> np.ndarray:
        """(types, actions): how many agents of each type play what; fractions in few places."""
        mass = np.zeros((len(self.choice), actions))
        mass[np.arange(len(self.choice)), self.choice] = counts
        mass[self.moved] = self.split
        return mass


#: Edges of the upper hulls, one for each of some types: those types, the actions at which the
#: edges end, their slopes (weight per influence: what moving along one costs), and by how much the
#: sum of influences rises when all agents of the type move.
_Edges = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def solve_knapsack(
    weights: np.ndarray,
    influence: np.ndarray,
    counts: np.ndarray,
    allowed: np.ndarray,
    low: float,
    high: float,
) -> Vertex | None:
    """Solve the program exactly; None when no mixed actions reach the band [low, high].

    Arrays are (types, actions); the band is of the sum `sum_t c_t f_t`. Every type needs one
    allowed action at least.

    >>> f = np.array([[0.0, 1.0], [0.0, 2.0]])
    >>> w = np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> vertex = solve_knapsack(w, f, np.ones(2), np.ones((2, 2), bool), 1.0, 1.5)
    >>> vertex.mass(np.ones(2), 2).tolist(), vertex.objective
    ([[1.0, 0.0], [0.5, 0.5]], 1.5)
    """
    # Long axes last, where NumPy is quick; what is barred is worth nothing.
    w, f = np.ascontiguousarray(weights.T), np.ascontiguousarray(influence.T)
    w = np.where(np.ascontiguousarray(allowed.T), w, -np.inf)
    counts = np.asarray(counts, np.float64)
    choice, at_w, at_f = _best(w, f)
    total = float(counts @ at_f)
    slack = EDGE * float(counts @ np.maximum(np.abs(at_f), np.ptp(f, axis=0)))
    if total < low - slack:
        return _move(w, f, counts, choice, at_w, at_f, low - total, slack)
    if total > high + slack:
        return _move(w, -f, counts, choice, at_w, -at_f, total - high, slack)
    nobody = np.zeros(0, np.int64)
    return Vertex(choice, nobody, np.zeros((0, len(w))), float(counts @ at_w))


# `np.where` throughout: on masks that look random, assigning where they are true is many times
# as slow.


def _best(w: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The action of the largest weight of each type, that weight, and its influence."""
    choice, at_w, at_f = np.zeros(w.shape[1], np.int64), w[0], f[0]
    for a in range(1, len(w)):
        better = w[a] > at_w
        choice = np.where(better, a, choice)
        at_w = np.maximum(w[a], at_w)
        at_f = np.where(better, f[a], at_f)
    return choice, at_w, at_f


def _move(w, f, counts, choice, at_w, at_f, need: float, slack: float) -> Vertex | None:
    """Raise the sum of influences by `need` at the least loss of weight."""
    steps = _hulls(w, f, counts, at_w, at_f, need)
    if not steps:
        return None
    types, ends, slopes, rises = (np.concatenate(column) for column in zip(*steps, strict=True))
    reach = float(rises.sum())
    if reach < need - slack:
        return None
    price = threshold(slopes, rises, min(need, reach))
    taken, tied = np.flatnonzero(slopes > price), np.flatnonzero(slopes == price)
    need -= float(rises[taken].sum())
    # Edges at the price itself, in order, until nothing is needed.
    whole = int(np.searchsorted(np.cumsum(rises[tied]), need, side="right"))
    choice = choice.copy()
    for edges in (taken, tied[:whole]):  # the last edge of a type decides
        choice[types[edges]] = ends[edges]
    gained = float(rises[tied[:whole]].sum())
    need -= gained
    objective = float(counts @ at_w + rises[taken] @ slopes[taken]) + gained * price
    if whole == len(tied) or need <= slack:
        return Vertex(choice, np.zeros(0, np.int64), np.zeros((0, len(w))), objective)
    edge = tied[whole]
    kind = types[edge]
    agents = counts[kind] * min(need / rises[edge], 1.0)
    split = np.zeros((1, len(w)))
    split[0, choice[kind]] = counts[kind] - agents
    split[0, ends[edge]] += agents
    return Vertex(choice, np.array([kind]), split, objective + need * price)


def _hulls(w, f, counts, at_w, at_f, need: float) -> list[_Edges]:
    """Walk all upper hulls to the right at once; one list entry for each edge of a hull.

    Once the edges so far reach what is needed at some price, a further edge of a type can only
    matter if its last one was above that price: the others are walked no further.
    """
    steps: list[_Edges] = []
    types, last = np.arange(w.shape[1]), None
    for _ in range(len(w) - 1):
        slopes, ends = _next_edges(w, f, at_w, at_f)
        kept = np.flatnonzero(ends >= 0)
        if len(kept) < len(types):
            types, slopes, ends, at_f = (v.take(kept) for v in (types, slopes, ends, at_f))
            w, f = w.take(kept, axis=1), f.take(kept, axis=1)
            last = None if last is None else last.take(kept)
        if not len(types):
            break
        if last is not None:
            slopes = np.minimum(slopes, last)  # hulls are concave; rounding may say otherwise
        place = ends * len(types) + np.arange(len(types))
        new_f = f.ravel().take(place)
        steps.append((types, ends, slopes, counts.take(types) * (new_f - at_f)))
        at_w, at_f, last = w.ravel().take(place), new_f, slopes
        if len(steps) == len(w) - 1:
            break
        known = np.concatenate([rises for _, _, _, rises in steps])
        if known.sum() >= need:
            price = threshold(np.concatenate([slopes for _, _, slopes, _ in steps]), known, need)
            kept = np.flatnonzero(slopes >= price)
            types, at_w, at_f, last = (v.take(kept) for v in (types, at_w, at_f, last))
            w, f = w.take(kept, axis=1), f.take(kept, axis=1)
    return steps


def _next_edges(w, f, at_w, at_f) -> tuple[np.ndarray, np.ndarray]:
    """The steepest edge that leads right from each current point, and where it ends, or -1."""
    slopes, ends = np.full(w.shape[1], -np.inf), np.full(w.shape[1], -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        for a in range(len(w)):
            rise = f[a] - at_f
            candidate = (w[a] - at_w) / rise
            better = (rise > 0) & (candidate > slopes)
            slopes = np.where(better, candidate, slopes)
            ends = np.where(better, a, ends)
    return slopes, ends


def threshold(slopes: np.ndarray, rises: np.ndarray, need: float) -> float:
    """The slope at which edges, steepest first, have risen by `need`: a weighted selection.

    >>> threshold(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0]), 1.5)
    2.0
    """
    while len(slopes) > 64:
        # The middle of a sample is near enough to the middle of all.
        sample = slopes[:: max(1, len(slopes) // 501)]
        middle = len(sample) // 2
        pivot = np.partition(sample, middle)[middle]
        above = slopes > pivot
        risen = float(rises @ above)
        if risen >= need:
            keep = above
        else:
            at_pivot = float(rises @ (slopes == pivot))
            if risen + at_pivot >= need:
                return float(pivot)
            need -= risen + at_pivot
            keep = slopes < pivot
        kept = np.flatnonzero(keep)
        if not len(kept):  # rounding: what is needed is all there is
            return float(pivot)
        slopes, rises = slopes.take(kept), rises.take(kept)
    order = np.argsort(-slopes, kind="stable")
    index = int(np.searchsorted(np.cumsum(rises[order]), need))
    return float(slopes[order[min(index, len(order) - 1)]])
