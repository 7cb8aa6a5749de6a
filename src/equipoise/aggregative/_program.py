"""The same program by a general solver: the path for many dimensions, and an oracle for tests."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from equipoise.aggregative._knapsack import Vertex


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
        return Program(
            self.weights[types],
            self.influence[types],
            self.counts[types],
            self.allowed[types],
            self.low - away,
            self.high - away,
        )


def solve_general(program: Program, method: str = "highs") -> tuple[Vertex, np.ndarray] | None:
    """Solve by HiGHS; the vertex and the prices of the coordinates, or None if infeasible.

    >>> one = np.ones((1, 2))
    >>> program = Program(
    ...     np.array([[1.0, 0.0]]), np.array([[[0.0], [1.0]]]), np.array([4.0]),
    ...     np.ones((1, 2), bool), np.array([1.0]), np.array([2.0]),
    ... )
    >>> vertex, prices = solve_general(program)
    >>> vertex.split.tolist(), vertex.objective, prices.tolist()
    ([[3.0, 1.0]], 3.0, [-1.0])
    """
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
        method=method,
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
    # Raising an upper edge helps, raising a lower one hurts; prices are in weight per influence.
    prices = worth * (marginals[d:] - marginals[:d]) / scale
    return vertex_of(program, share), prices


def vertex_of(program: Program, share: np.ndarray) -> Vertex:
    """A vertex from the shares of actions."""
    choice = share.argmax(1)
    mixed = np.flatnonzero(share[np.arange(len(share)), choice] < 1 - 1e-9)
    count = program.counts.astype(np.float64)
    chosen = program.weights[np.arange(len(choice)), choice]
    objective = count @ chosen
    split = count[mixed, None] * share[mixed]
    weights = np.where(program.allowed[mixed], program.weights[mixed], 0.0)
    objective += (split * weights).sum() - count[mixed] @ chosen[mixed]
    return Vertex(choice, mixed, split, float(objective))
