"""The linear program of one cell for an aggregate of two or more dimensions.

The program couples the types in only d rows, so its dual has d variables, the prices of the
coordinates: `g(y) = sum_t c_t max_a (w_ta - y . f_ta) + max_{z in band} y . z`, convex and
piecewise linear. Cutting planes find its minimum: by centres of gravity of a polygon for d = 2, and
by Kelley's method for d >= 3. All but a few types then have one best action by a margin. A small
program of the nearly tied types gives a vertex of the whole, and its prices prove optimality: the
dual value at these prices is an upper bound that the vertex must attain. If it does not, more types
are left free, in the end all of them.

`solve_general` solves the same program with HiGHS. It is used in many dimensions, and as an oracle
in tests.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from equipoise.aggregative._knapsack import Vertex

#: Number of types left free in the small program, for each dimension.
FREE = 40
#: Relative gap between a vertex and its upper bound below which the vertex counts as optimal.
GAP = 1e-9


@dataclass(frozen=True)
class Program:
    """Maximise the weight of mixed actions with the sum of influences in a box."""

    #: (types, actions)
    weights: np.ndarray
    #: (types, actions, d)
    influence: np.ndarray
    #: (types,)
    counts: np.ndarray
    #: (types, actions) bool
    allowed: np.ndarray
    #: (d,) edges of the box, for the sum over all agents
    low: np.ndarray
    high: np.ndarray

    @property
    def dimensions(self) -> int:
        """Number of coordinates of the aggregate."""
        return self.influence.shape[2]

    def part(self, types: np.ndarray, away: np.ndarray) -> "Program":
        """The program of some types alone, when the others add `away` to the sum."""
        weights, influence = self.weights[types], self.influence[types]
        counts, allowed = self.counts[types], self.allowed[types]
        return Program(weights, influence, counts, allowed, self.low - away, self.high - away)


def solve_general(program: Program) -> tuple[Vertex, np.ndarray] | None:
    """Solve with HiGHS; return the vertex and the prices of the coordinates, or None if infeasible.

    >>> one = np.ones((1, 2))
    >>> program = Program(
    ...     np.array([[1.0, 0.0]]), np.array([[[0.0], [1.0]]]), np.array([4.0]),
    ...     np.ones((1, 2), bool), np.array([1.0]), np.array([2.0]),
    ... )
    >>> vertex, prices = solve_general(program)
    >>> vertex.split.tolist(), vertex.objective, prices.tolist()
    ([[3.0, 1.0]], 3.0, [-1.0])
    """
    from scipy import sparse
    from scipy.optimize import linprog

    types, actions = np.nonzero(program.allowed)
    count = program.counts.astype(np.float64)
    size, columns = len(count), len(types)
    own = sparse.csr_array((np.ones(columns), (types, np.arange(columns))), (size, columns))
    pull = (count[types, None] * program.influence[types, actions]).T
    scale = np.maximum(np.abs(pull).max(1, initial=0.0), 1e-300)  # HiGHS has absolute tolerances
    rows = sparse.csr_array(pull / scale[:, None])
    reward = count[types] * program.weights[types, actions]
    worth = max(float(np.abs(reward).max(initial=0.0)), 1e-300)
    result = linprog(
        -reward / worth,
        A_ub=sparse.vstack([rows, -rows]),
        b_ub=np.concatenate([program.high / scale, -program.low / scale]),
        A_eq=own,
        b_eq=np.ones(size),
        bounds=(0, 1),
    )
    if result.status == 2:
        return None
    if result.status != 0:
        raise RuntimeError(f"the linear program of a cell ended with: {result.message}")
    share = np.zeros(program.weights.shape)
    share[types, actions] = np.clip(result.x, 0.0, 1.0)
    share /= share.sum(1, keepdims=True)
    d = program.dimensions
    marginals = result.ineqlin.marginals
    # Raising an upper edge helps and raising a lower one hurts; prices are weight per influence.
    prices = worth * (marginals[d:] - marginals[:d]) / scale
    return vertex_of(program, share), prices


def vertex_of(program: Program, share: np.ndarray) -> Vertex:
    """Make a vertex from the shares of actions."""
    choice = share.argmax(1)
    mixed = np.flatnonzero(share[np.arange(len(share)), choice] < 1 - 1e-9)
    count = program.counts.astype(np.float64)
    chosen = program.weights[np.arange(len(choice)), choice]
    objective = count @ chosen
    split = count[mixed, None] * share[mixed]
    weights = np.where(program.allowed[mixed], program.weights[mixed], 0.0)
    objective += (split * weights).sum() - count[mixed] @ chosen[mixed]
    return Vertex(choice, mixed, split, float(objective))


class Dual:
    """The dual function of a program, with its slope."""

    def __init__(self, program: Program):
        self.program = program
        self.counts = program.counts.astype(np.float64)
        allowed = np.ascontiguousarray(program.allowed.T)
        self.weights = np.where(allowed, program.weights.T, -np.inf)
        # (d, actions, types): long axes last, where NumPy is fast
        self.influence = np.ascontiguousarray(
            np.moveaxis(program.influence, 0, 2).transpose(1, 0, 2)
        )

    def scores(self, prices: np.ndarray) -> np.ndarray:
        """(actions, types): weights at these prices."""
        scores = self.weights.copy()
        for price, influence in zip(prices, self.influence, strict=True):
            scores -= price * influence
        return scores

    def at(self, prices: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and a subgradient."""
        scores = self.scores(prices)
        best, choice = scores[0], np.zeros(scores.shape[1], np.int64)
        for a in range(1, len(scores)):
            choice = np.where(scores[a] > best, a, choice)
            best = np.maximum(scores[a], best)
        edge = np.where(prices > 0, self.program.high, self.program.low)
        value = float(self.counts @ best + prices @ edge)
        place = choice * len(choice) + np.arange(len(choice))
        total = np.array([self.counts @ f.ravel().take(place) for f in self.influence])
        return value, edge - total


def solve_dual(program: Program) -> Vertex | None:
    """Solve the program; None if it is infeasible."""
    types = len(program.counts)
    if types <= (2 * FREE if program.dimensions == 2 else 250) * program.dimensions:
        solved = solve_general(program)
        return None if solved is None else solved[0]
    dual = Dual(program)
    lowest = np.where(dual.weights > -np.inf, dual.weights, np.inf).min(0)
    # All mixed actions have at least this weight: a smaller dual value proves infeasibility.
    floor = float(dual.counts @ lowest)
    spread = dual.weights.max() - lowest.min()
    ranges = np.ptp(dual.influence, axis=1)
    size = 4.0 * (spread or 1.0) / np.maximum(ranges.mean(1), 1e-300)
    rounding = 1e-12 * (1.0 + abs(floor))
    prices = np.zeros(program.dimensions)
    for _ in range(8):
        minimise = _by_centres if program.dimensions == 2 else _by_planes
        prices, value = minimise(dual, size, floor - rounding)
        if value < floor - rounding:
            return None
        if (np.abs(prices) < 0.98 * size).all():
            break
        vertex = _polish(dual, prices, attempts=2)
        if vertex is not None:
            return vertex
        size = 16.0 * size
    vertex = _polish(dual, prices, attempts=3)
    if vertex is not None:
        return vertex
    solved = solve_general(program)  # degenerate: leave it to the general solver
    return None if solved is None else solved[0]


def _by_centres(dual: Dual, size: np.ndarray, floor: float) -> tuple[np.ndarray, float]:
    """Prices that nearly minimise the dual in a box, or with any value below `floor`.

    Centre-of-gravity method: each subgradient cuts the polygon that contains the minimum through
    its centre.
    """
    # Accurate enough for all but about ten types to have one best action by a margin.
    near = max(1.0 / len(dual.counts), 1e-7)
    (a, b), (reach_a, reach_b) = size.tolist(), (near * size).tolist()
    polygon = [(-a, -b), (a, -b), (a, b), (-a, b)]
    best, prices = np.inf, np.zeros(2)
    for _ in range(60):
        centre = np.array(_centroid(polygon))
        value, slope = dual.at(centre)
        if value < best:
            best, prices = value, centre
        if best < floor or not slope.any():
            break
        # The minimum lies below this line: a cut through the centre or deeper.
        polygon = _clip(polygon, slope.tolist(), float(slope @ centre) + best - value)
        if len(polygon) < 3:
            break
        across, along = zip(*polygon, strict=True)
        if max(across) - min(across) < reach_a and max(along) - min(along) < reach_b:
            break
    return prices, best


# A polygon has few corners: plain floats are several times faster than arrays.
_Polygon = list[tuple[float, float]]


def _centroid(polygon: _Polygon) -> tuple[float, float]:
    (x, y), *others = polygon
    total = across = along = 0.0
    for (a, b), (c, d) in pairwise((a - x, b - y) for a, b in others):
        area = a * d - b * c
        total += area
        across += area * (a + c)
        along += area * (b + d)
    if total == 0.0:
        count = len(polygon)
        return sum(a for a, _ in polygon) / count, sum(b for _, b in polygon) / count
    return x + across / (3.0 * total), y + along / (3.0 * total)


def _clip(polygon: _Polygon, normal: list[float], level: float) -> _Polygon:
    """The part of a polygon where `normal . y <= level`."""
    corners = [(a, b, normal[0] * a + normal[1] * b - level) for a, b in polygon]
    points = []
    for (a, b, height), (c, d, after) in pairwise([*corners, corners[0]]):
        if height <= 0:
            points.append((a, b))
        if height < 0 < after or after < 0 < height:
            share = height / (height - after)
            points.append((a + share * (c - a), b + share * (d - b)))
    return points


def _by_planes(dual: Dual, size: np.ndarray, floor: float) -> tuple[np.ndarray, float]:
    """Kelley's method: minimise the maximum of the planes so far, then add the next plane."""
    from scipy.optimize import linprog

    d = len(size)
    best, prices = np.inf, np.zeros(d)
    point, planes, levels = np.zeros(d), [], []
    worth = 1.0
    for _ in range(40 + 40 * d):
        value, slope = dual.at(point)
        if value < best:
            best, prices = value, point
        if best < floor or not slope.any():
            break
        worth = max(worth, abs(value))
        planes.append(slope * size)
        levels.append(slope @ point - value)
        result = linprog(
            [0.0] * d + [1.0],
            A_ub=np.column_stack([np.array(planes) / worth, np.full(len(planes), -1.0)]),
            b_ub=np.array(levels) / worth,
            bounds=[(-1, 1)] * d + [(None, None)],
        )
        if result.status != 0 or best - result.fun * worth <= 1e-8 * max(1.0, abs(best)):
            break
        point = result.x[:d] * size
    return prices, best


def _polish(dual: Dual, prices: np.ndarray, attempts: int) -> Vertex | None:
    """Vertex from prices: fix the types with a clear choice, solve the rest, check by duality."""
    program, types = dual.program, len(dual.counts)
    free = FREE * program.dimensions
    for _ in range(attempts):
        if 2 * free >= types:
            break
        scores = dual.scores(prices)
        choice = scores.argmax(0)
        top = np.partition(scores, len(scores) - 2, axis=0)[-2:]
        near = np.argpartition(top[1] - top[0], free)[:free]
        fixed = np.ones(types, bool)
        fixed[near] = False
        away = dual.counts[fixed] @ program.influence[fixed, choice[fixed]]
        solved = solve_general(program.part(near, away))
        free *= 4
        if solved is None:
            continue
        small, prices = solved
        worth = dual.counts[fixed] @ program.weights[fixed, choice[fixed]] + small.objective
        bound, _ = dual.at(prices)
        if bound - worth <= GAP * max(1.0, abs(worth)):
            choice[near] = small.choice
            return Vertex(choice, near[small.moved], small.split, float(worth))
    return None
