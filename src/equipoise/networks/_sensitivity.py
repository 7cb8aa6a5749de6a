"""Derivatives of equilibrium flows, with the set of used paths fixed and their costs equal.

A change dc of link costs moves flows by dv within the differences of used paths, the rows of Z,
such that Z (H dv + dc) = 0 with the slopes H of the costs (Tobin and Friesz 1988). Hence
dv = -Z' (Z H Z')^+ Z dc. This is one symmetric system, solved by conjugate gradients; its adjoint
gives gradients of any function of the flows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._newton import differences, incidence

#: Paths with less than this fraction of their population's demand do not count as used.
_USED = 1e-7
#: Relative accuracy of the linear systems.
_ACCURACY = 1e-12
#: Flows with an excess above this fraction of a mean trip are not accepted as an equilibrium.
_NEAR = 1e-3


class Sensitivity:
    """Derivatives of equilibrium flows with respect to costs, demands and capacities.

    Call `sensitivity` to make one.

    **Example**

    Two roads have costs 1 + v and 2 + v. A toll of dt on the first moves dt / 2 to the second.

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

    def __init__(
        self, game: NetworkGame, policy: FlowPolicy, watch: Callable[[], None] | None = None
    ):
        #: Called in every iteration of a linear system; an exception that it raises ends the work.
        self.watch = watch or (lambda: None)
        if game.atomic:
            raise InputError("game", "travellers who can be divided", "whole drivers")
        if policy.path_flows is None or policy.path_pairs is None or policy.path_starts is None:
            raise InputError("solution", "path flows, as `solve` returns", "link flows")
        policy.check_paths(game)
        self.game, self.total = game, policy.total
        self.slopes = game.slopes(self.total)
        pairs, amounts = policy.path_pairs, policy.path_flows
        used = amounts > _USED * game.demand[pairs]
        spans, links = policy.path_starts, np.asarray(policy.path_links)
        self.paths, others, busiest = differences(pairs, amounts, spans, links, game.links, used)
        self.main = incidence(spans, links, game.links)[busiest]
        self.weights = 1.0 / game.values_of_time[game.classes[pairs[others]]]

    def _solve(self, right: np.ndarray) -> np.ndarray:
        """Return (Z H Z')^+ right, for a right-hand side in its range."""
        from scipy.sparse import diags
        from scipy.sparse.linalg import cg

        if not len(right) or not right.any():
            return np.zeros(len(right))
        scaled = self.paths @ diags(self.slopes) @ self.paths.T
        size = scaled.diagonal()
        scale = np.where(size > 0.0, 1.0 / np.sqrt(np.where(size > 0.0, size, 1.0)), 1.0)
        matrix = diags(scale) @ scaled @ diags(scale)
        with np.errstate(all="ignore"):  # the residual shows whether there is a solution
            found, _ = cg(
                matrix,
                scale * right,
                rtol=_ACCURACY,
                maxiter=20 * len(right) + 100,
                callback=lambda _: self.watch(),
            )
            off = np.abs(matrix @ found - scale * right).max()
        if not off <= 1e-5 * np.abs(scale * right).max():
            expected = "flows that change smoothly"
            found = "used paths that differ only in links of constant cost"
            raise InputError("solution", expected, found)
        return scale * found

    def flows(
        self, *, tolls: Any = None, fixed: Any = None, capacities: Any = None, demand: Any = None
    ) -> np.ndarray:
        """(links,): directional derivative of the link flows along a change of the arguments.

        `tolls` (in money), `fixed` costs and `capacities` are by link, `demand` is by population.
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
        """(links,): derivative of the weighted sum of flows by a fixed cost on each link.

        With `money`, the derivative is by a toll, which each class weighs by its value of time.
        """
        answer = self._solve(self.paths @ _direction("weights", weights, self.game.links))
        return -(self.paths.T @ (answer * self.weights if money else answer))

    def of_total_cost(self, *, money: bool = True) -> np.ndarray:
        """(links,): derivative of the total cost by the toll of each link, or by a fixed cost."""
        marginal = self.game.times(self.total) + self.game.external_costs(self.total)
        return self.gradient(marginal, money=money)

    def of_capacities(self) -> np.ndarray:
        """(links,): derivative of the total cost by the capacity of each link."""
        room = cost_of_room(self.game, self.total)
        return (self.total + self.of_total_cost(money=False)) * room


def sensitivity(game: NetworkGame, solution: Any) -> Sensitivity:
    """Return implicit derivatives of the equilibrium that `solve` found, with fixed used paths.

    They are exact where no path is about to be used or abandoned. Elsewhere flows have a kink, and
    these are one-sided derivatives. Solve to a small tolerance first.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("grid-city", rows=3, columns=3, zones=4)
    >>> answer = eq.networks.sensitivity(game, eq.solve(game, tolerance=1e-12))
    >>> by_toll, by_capacity = answer.of_total_cost(), answer.of_capacities()
    >>> by_toll.shape, bool((by_capacity < 0).any())
    ((24,), True)
    """
    policy = getattr(solution, "policy", solution)
    if not isinstance(policy, FlowPolicy):
        raise InputError("solution", "a solution or FlowPolicy", type(policy).__name__)
    found = Sensitivity(game, policy)
    certificate: Any = certify(game, policy)
    part = float(certificate.max_upper) * float(certificate.travellers)
    part /= max(float(certificate.total_cost), 1e-300)
    if part > _NEAR:
        expected = f"an equilibrium to within {_NEAR:g} of the mean cost of a trip"
        raise InputError("solution", expected, f"an excess of {part:.2g} of it")
    return found


def cost_of_room(game: NetworkGame, flows: np.ndarray) -> np.ndarray:
    """(links,): derivative of each cost by the capacity of its link."""
    if game.cost is not None:
        raise InputError("game", "capacities, and costs by formula", "costs given as a function")
    return -game.external_costs(flows) / np.where(game.capacity > 0.0, game.capacity, 1.0)


def _direction(name: str, value: Any, size: int) -> np.ndarray:
    array = np.asarray(checks.as_float_array(name, value))
    checks.check_shape(name, array, (size,), "one number for each")
    checks.check_finite(name, array)
    return array
