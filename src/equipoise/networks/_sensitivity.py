"""Derivatives of equilibrium flows: with the used paths fixed, their costs stay equal.

A change dc of link costs moves flows by dv within the differences of used paths, the rows of Z,
such that Z (H dv + dc) = 0 with the slopes H of the costs (Tobin and Friesz 1988). So
dv = -Z' (Z H Z')^+ Z dc: one symmetric system, solved by conjugate gradients, and its adjoint
gives gradients of anything that depends on the flows.
"""

from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._newton import differences, incidence

#: Paths with less than this part of their population's demand do not count as used.
_USED = 1e-7
#: Accuracy of the linear systems.
_ACCURACY = 1e-12


class Sensitivity:
    """How equilibrium flows answer to small changes; `sensitivity` makes it.

    **Example**

    Two roads with costs 1 + v and 2 + v: a toll of dt on the first moves dt / 2 to the second.

    >>> import equipoise as eq
    >>> game = eq.NetworkGame([0, 0], [1, 1], [0], [1], [3.0], free_flow=[1, 2], rise=1, power=1)
    >>> answer = eq.networks.sensitivity(game, eq.solve(game))
    >>> answer.flows(tolls=[1.0, 0.0]).round(9).tolist()
    [-0.5, 0.5]
    >>> answer.flows(demand=[1.0]).round(9).tolist()
    [0.5, 0.5]
    >>> answer.gradient([1.0, 0.0]).round(9).tolist()
    [-0.5, 0.5]
    """

    def __init__(self, game: NetworkGame, policy: FlowPolicy):
        if policy.path_flows is None or policy.path_pairs is None or policy.path_starts is None:
            raise InputError("solution", "flows on paths, as `solve` finds them", "link flows")
        self.game, self.total = game, policy.total
        self.slopes = game.slopes(self.total)
        pairs, amounts = policy.path_pairs, policy.path_flows
        used = amounts > _USED * game.demand[pairs]
        spans, links = policy.path_starts, np.asarray(policy.path_links)
        self.paths, others, busiest = differences(pairs, amounts, spans, links, game.links, used)
        self.main = incidence(spans, links, game.links)[busiest]
        self.weights = 1.0 / game.values_of_time[game.classes[pairs[others]]]

    def _solve(self, right: np.ndarray) -> np.ndarray:
        """(Z H Z')^+ right, for a right side in its range."""
        from scipy.sparse import diags
        from scipy.sparse.linalg import cg

        if not len(right) or not right.any():
            return np.zeros(len(right))
        scaled = self.paths @ diags(self.slopes) @ self.paths.T
        size = scaled.diagonal()
        scale = np.where(size > 0.0, 1.0 / np.sqrt(np.where(size > 0.0, size, 1.0)), 1.0)
        matrix = diags(scale) @ scaled @ diags(scale)
        with np.errstate(all="ignore"):  # whether there is a solution, its residual says
            found, _ = cg(matrix, scale * right, rtol=_ACCURACY, maxiter=20 * len(right) + 100)
            off = np.abs(matrix @ found - scale * right).max()
        if not off <= 1e-5 * np.abs(scale * right).max():
            expected = "flows that change smoothly"
            found = "used paths that differ in links of constant cost alone"
            raise InputError("solution", expected, found)
        return scale * found

    def flows(
        self, *, tolls: Any = None, fixed: Any = None, capacities: Any = None, demand: Any = None
    ) -> np.ndarray:
        """(links,): the derivative of the link flows along a change of one or more arguments.

        `tolls` (in money), `fixed` costs and `capacities` are by link, `demand` by population.
        """
        game, zero = self.game, np.zeros(self.game.links)
        cost = zero.copy() if fixed is None else _direction("fixed", fixed, game.links)
        if capacities is not None:
            cost = cost + _direction("capacities", capacities, game.links) * cost_of_room(
                game, self.total
            )
        right = self.paths @ cost
        if tolls is not None:
            right = right + self.weights * (self.paths @ _direction("tolls", tolls, game.links))
        base = zero
        if demand is not None:
            base = self.main.T @ _direction("demand", demand, len(game.demand))
            right = right + self.paths @ (self.slopes * base)
        return base - self.paths.T @ self._solve(right)

    def gradient(self, weights: Any, *, money: bool = False) -> np.ndarray:
        """(links,): derivative of the sum of weights times flows by a fixed cost on each link.

        With `money`, by a toll, which classes feel by their values of time.
        """
        answer = self._solve(self.paths @ _direction("weights", weights, self.game.links))
        return -(self.paths.T @ (answer * self.weights if money else answer))

    def of_total_cost(self) -> tuple[np.ndarray, np.ndarray]:
        """(links,) twice: derivative of the total cost by the toll, and by the capacity."""
        marginal = self.game.times(self.total) + self.total * self.slopes
        room = cost_of_room(self.game, self.total)
        by_capacity = (self.total + self.gradient(marginal)) * room
        return self.gradient(marginal, money=True), by_capacity


def sensitivity(game: NetworkGame, solution: Any) -> Sensitivity:
    """Implicit derivatives of the equilibrium that `solve` found, with its used paths fixed.

    They are exact where no path is about to be used or left; elsewhere flows have a kink, and
    these are the derivatives of one side. Solve to a small tolerance first.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("grid-city", rows=3, columns=3, zones=4)
    >>> answer = eq.networks.sensitivity(game, eq.solve(game, tolerance=1e-12))
    >>> by_toll, by_capacity = answer.of_total_cost()
    >>> by_toll.shape, bool((by_capacity < 0).any())
    ((24,), True)
    """
    policy = getattr(solution, "policy", solution)
    if not isinstance(policy, FlowPolicy):
        raise InputError("solution", "a solution or FlowPolicy", type(policy).__name__)
    return Sensitivity(game, policy)


def cost_of_room(game: NetworkGame, flows: np.ndarray) -> np.ndarray:
    """(links,): derivative of each cost by the capacity of its link."""
    if game.cost is not None:
        raise InputError("game", "capacities, and no function of its own for costs", "a function")
    part = flows / np.where(game.capacity > 0.0, game.capacity, 1.0)
    return -game.slopes(flows) * part


def _direction(name: str, value: Any, size: int) -> np.ndarray:
    array = np.asarray(checks.as_float_array(name, value))
    checks.check_shape(name, array, (size,), "one number for each")
    checks.check_finite(name, array)
    return array
