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


@dataclass
class _Segments:
    """Edges of the upper hulls to the right of the starting points, first edges first."""

    types: np.ndarray
    ends: np.ndarray
    slopes: np.ndarray
    lengths: np.ndarray


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
    w, f = np.ascontiguousarray(weights.T), np.ascontiguousarray(influence.T)
    use = np.ascontiguousarray(allowed.T)
    counts = np.asarray(counts, np.float64)
    choice, at_w, at_f = _best(w, f, use)
    total = float(counts @ at_f)
    slack = EDGE * float(counts @ np.abs(f).max(0))
    if total < low - slack:
        return _move(w, f, use, counts, choice, at_w, at_f, low - total, slack)
    if total <= high + slack:
        nobody = np.zeros(0, np.int64)
        return Vertex(choice, nobody, np.zeros((0, len(w))), float(counts @ at_w))
    f = -f
    choice, at_w, at_f = _best(w, f, use)
    return _move(w, f, use, counts, choice, at_w, at_f, -high - float(counts @ at_f), slack)


def _best(w: np.ndarray, f: np.ndarray, use: np.ndarray):
    """The allowed action of the largest weight, and of the least influence among those."""
    actions, types = w.shape
    choice = np.zeros(types, np.int64)
    at_w = np.where(use[0], w[0], -np.inf)
    at_f = f[0].copy()
    for a in range(1, actions):
        better = use[a] & ((w[a] > at_w) | ((w[a] == at_w) & (f[a] < at_f)))
        choice[better] = a
        np.copyto(at_w, w[a], where=better)
        np.copyto(at_f, f[a], where=better)
    return choice, at_w, at_f


def _move(w, f, use, counts, choice, at_w, at_f, need: float, slack: float) -> Vertex | None:
    """Raise the sum of influences by `need` at the least loss of weight."""
    objective = float(counts @ at_w)
    if need <= 0:  # ties alone reach the band
        return Vertex(choice, np.zeros(0, np.int64), np.zeros((0, len(w))), objective)
    steps = _hulls(w, f, use, choice, at_w, at_f)
    slopes = np.concatenate([step.slopes for step in steps]) if steps else np.zeros(0)
    rises = np.concatenate([counts[s.types] * s.lengths for s in steps]) if steps else slopes
    reach = float(rises.sum())
    if reach < need - slack:
        return None
    price = threshold(slopes, rises, min(need, reach))
    choice = choice.copy()
    moved, split = np.zeros(0, np.int64), np.zeros((0, len(w)))
    left = need
    for step in steps:
        taken = step.slopes > price
        choice[step.types[taken]] = step.ends[taken]
        gained = counts[step.types[taken]] * step.lengths[taken]
        left -= float(gained.sum())
        objective += float(gained @ step.slopes[taken])
    for step in steps:  # edges at the price itself, in order, until nothing is needed
        tied = np.flatnonzero(step.slopes == price)
        if not len(tied) or left <= 0:
            continue
        rise = counts[step.types[tied]] * step.lengths[tied]
        whole = int(np.searchsorted(np.cumsum(rise), left, side="right"))
        choice[step.types[tied[:whole]]] = step.ends[tied[:whole]]
        gained = float(rise[:whole].sum())
        left, objective = left - gained, objective + gained * price
        if whole < len(tied) and left > slack:
            edge = tied[whole]
            kind = step.types[edge]
            agents = min(left / step.lengths[edge], counts[kind])
            split = np.zeros((1, len(w)))
            split[0, choice[kind]] = counts[kind] - agents
            split[0, step.ends[edge]] += agents
            moved = np.array([kind])
            objective += left * price
            left = 0.0
    return Vertex(choice, moved, split, objective)


def _hulls(w, f, use, choice, at_w, at_f) -> list[_Segments]:
    """Walk all upper hulls to the right at once; one list entry for each edge of a hull."""
    steps: list[_Segments] = []
    types = np.arange(w.shape[1])
    last = np.full(len(types), np.inf)
    for _ in range(len(w) - 1):
        slope, end, length = _next_edge(w, f, use, at_w, at_f)
        going = end >= 0
        if not going.all():
            types, slope, end, length = types[going], slope[going], end[going], length[going]
            w, f, use = w[:, going], f[:, going], use[:, going]
            at_f, last = at_f[going], last[going]
        if not len(types):
            break
        slope = np.minimum(slope, last)  # hulls are concave; rounding may say otherwise
        steps.append(_Segments(types, end, slope, length))
        here = np.arange(len(types))
        at_w, at_f, last = w[end, here], f[end, here], slope
    return steps


def _next_edge(w, f, use, at_w, at_f):
    """The steepest edge that leads right from each current point; ties go as far as they can."""
    slope = np.full(w.shape[1], -np.inf)
    end = np.full(w.shape[1], -1)
    length = np.zeros(w.shape[1])
    for a in range(len(w)):
        rise = f[a] - at_f
        right = use[a] & (rise > 0)
        candidate = np.full_like(slope, -np.inf)
        np.divide(w[a] - at_w, rise, out=candidate, where=right)
        better = right & ((candidate > slope) | ((candidate == slope) & (rise > length)))
        np.copyto(slope, candidate, where=better)
        np.copyto(length, rise, where=better)
        end[better] = a
    return slope, end, length


def threshold(slopes: np.ndarray, rises: np.ndarray, need: float) -> float:
    """The slope at which edges, steepest first, have risen by `need`: a weighted selection.

    >>> threshold(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0]), 1.5)
    2.0
    """
    while len(slopes) > 64:
        middle = len(slopes) // 2
        pivot = np.partition(slopes, middle)[middle]
        above = slopes > pivot
        risen = float(rises[above].sum())
        if risen >= need:
            keep = above
        else:
            below = slopes < pivot
            at_pivot = float(rises[~above & ~below].sum())
            if risen + at_pivot >= need:
                return float(pivot)
            need -= risen + at_pivot
            keep = below
        if not keep.any():  # rounding: what is needed is all there is
            return float(pivot)
        slopes, rises = slopes[keep], rises[keep]
    order = np.argsort(-slopes, kind="stable")
    index = int(np.searchsorted(np.cumsum(rises[order]), need))
    return float(slopes[order[min(index, len(order) - 1)]])
