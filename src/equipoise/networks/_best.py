"""Tolls and capacities that lower the total cost of the equilibrium they lead to.

The upper level is not convex: the search finds a local optimum and returns it with its certified
equilibrium and a lower bound on the total cost under any tolls, or any capacities in the budget.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.results import Interval, Solution
from equipoise.games import NetworkGame
from equipoise.networks._bounds import cost_of_equilibria
from equipoise.networks._design import (
    Design,
    assigned,
    check_divided,
    designed,
    least_total,
    worst,
)
from equipoise.networks._sensitivity import Sensitivity, cost_of_room

#: Number of candidate links tried, by derivative and by excess traffic, before one receives a toll.
_TRIED = 4
#: First tolls tried on a link, as fractions of the largest.
_FIRST = (0.05, 0.15, 0.4)
#: Steps of gradient descent after each link, and at the end.
_STEPS, _LAST_STEPS = 6, 40
#: Fraction of the time in which capacities are sought; the rest is for the lower bound.
_SHARE = 0.7
#: Default upper limit on tolls, in multiples of the largest first-best toll.
_MOST = 3.0


class _LateError(Exception):
    """Raised when the time limit of a search has passed."""


class _Search:
    """Total cost of equilibria and its gradient, each solved with a warm start from the last.

    `best` is the game, the solution and the total cost of the cheapest equilibrium so far.
    `before` is the first one.
    """

    def __init__(self, game: NetworkGame, tolerance: float, time_limit: float, progress: Any):
        checks.check_range("time_limit", time_limit, 0.0, np.inf)
        self.game, self.tolerance, self.progress = game, tolerance, progress
        self.until = time.perf_counter() + time_limit
        self.last: Any = None
        self.best: tuple[NetworkGame, Solution, float] | None = None
        self.before: Any = None
        self.solved = 0
        self.ended = "solved"

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Note that the time was up, or that the user pressed Ctrl-C, and keep the best so far."""
        try:
            yield
        except _LateError:
            if self.ended == "solved":
                self.ended = "out of time"
        except KeyboardInterrupt:
            self.ended = "interrupted"

    def watch(self) -> None:
        """Raise `_LateError` once the time is up, if there is an equilibrium to return."""
        if self.best is not None and time.perf_counter() > self.until:
            raise _LateError

    def optimum(self, **changes: Any) -> tuple[NetworkGame, Solution]:
        """System optimum of the game with these arguments, as far as time allows."""
        return self._assigned("optimum", changes)

    def _assigned(self, concept: Any, changes: dict[str, Any]) -> tuple[NetworkGame, Solution]:
        game = self.game.replace(**changes)
        left = max(self.until - time.perf_counter(), 0.0)
        options: dict[str, Any] = {"tolerance": self.tolerance, "time_limit": left}
        return game, assigned(game, concept=concept, start=self.last, **options)

    def solve(self, **changes: Any) -> tuple[NetworkGame, Solution]:
        """Equilibrium of the game with these arguments; updates the best so far."""
        self.watch()
        game, solution = self._assigned("nash", changes)
        total = solution.stats["total_cost"]
        if self.best is None:
            self.best, self.before = (game, solution, total), solution
        elif not solution.status.ok:
            self.watch()
        elif total < self.best[2] or not self.best[1].status.ok:
            self.best = game, solution, total
        self.last, self.solved = solution.policy, self.solved + 1
        if self.progress is not None:
            self.progress({"iteration": self.solved, "total_cost": total})
        return game, solution

    def descend(
        self,
        value: Callable[[np.ndarray], tuple[float, np.ndarray]],
        project: Callable[[np.ndarray], np.ndarray],
        start: np.ndarray,
        size: float,
        steps: int,
    ) -> tuple[np.ndarray, float]:
        """Projected gradient descent with backtracking steps."""
        x = project(start)
        best, slope = value(x)
        most = float(np.abs(slope).max())
        step = 0.25 * size / most if most > 0.0 else 0.0
        for _ in range(steps):
            if step == 0.0:
                break
            for _ in range(8):
                tried = project(x - step * slope)
                move = tried - x
                found, new = value(tried)
                if found < best - 1e-4 * abs(float(slope @ move)):
                    break
                step *= 0.3
            else:
                break
            curved = float(move @ (new - slope))
            step = float(move @ move) / curved if curved > 0.0 else 2.0 * step
            change = best - found
            x, best, slope = tried, found, new
            if change <= 1e-9 * abs(best):
                break
        return x, best


@named_arguments
def best_tolls(
    game: NetworkGame,
    links: Any = 5,
    *,
    most: float | None = None,
    tolerance: float = 1e-9,
    time_limit: float = 120.0,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Design:
    """Search for tolls on a few links that lower the total cost of the equilibrium.

    Args:
        game: The network; its own tolls are replaced.
        links: The largest number of links with a toll, chosen one after the other by the gradient
            of the total cost; or the link numbers. Default: 5.
        most: The largest toll. Default: three times the largest first-best toll.
        tolerance: Tolerance of the equilibria; see `solve_network`. Default: 1e-9.
        time_limit: Seconds after which the best design so far is returned, as it is after Ctrl-C.
            Default: 120.
        progress: Called after each equilibrium with `iteration` and `total_cost`.

    **Example**

    A toll on the shortcut of Braess's network is as good as closing it:

    >>> import equipoise as eq
    >>> design = eq.networks.best_tolls(eq.games.load("braess-network"), links=1)
    >>> design.links.tolist(), round(design.total_cost, 3)
    ([4], 498.0)
    """
    check_divided(game)
    given = _link_numbers(game, links) if np.ndim(links) else None
    count = checks.check_count("links", links) if given is None else len(given)
    search = _Search(game.replace(tolls=0.0), tolerance, time_limit, progress)
    base, _ = search.solve()
    _, optimum = search.optimum()
    ideal = game.external_costs(optimum.policy.total) * float(game.values_of_time.mean())
    limit = _MOST * float(ideal.max()) if most is None else most
    checks.check_range("most", limit, 0.0, np.inf, high_open=True)

    def value_of(chosen: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        def value(tolls: np.ndarray) -> tuple[float, np.ndarray]:
            full = np.zeros(game.links)
            full[chosen] = tolls
            charged, solution = search.solve(tolls=full)
            slope = Sensitivity(charged, solution.policy, search.watch).of_total_cost()
            return solution.stats["total_cost"], slope[chosen]

        return value

    def inside(tolls: np.ndarray) -> np.ndarray:
        return np.clip(tolls, 0.0, limit)

    with search.ending():
        chosen = np.zeros(0, np.int64) if given is None else given
        tolls, best = np.zeros(len(chosen)), search.before.stats["total_cost"]
        if given is None and limit > 0.0:
            for _ in range(min(count, game.links)):
                aims = ideal, optimum.policy.total, limit
                found = _one_more(search, value_of, inside, chosen, tolls, best, *aims)
                if found is None:
                    break
                chosen, tolls, best = found
        if len(chosen) and limit > 0.0:
            start = tolls if given is None else inside(ideal[chosen])
            value = value_of(chosen)
            search.descend(value, inside, start, limit, _LAST_STEPS)
            if given is not None:  # small tolls may help where large ones do not
                search.descend(value, inside, np.zeros(len(chosen)), limit, _LAST_STEPS)
    charged, solution, _ = _found(search)
    return designed(base, charged, solution, search.before, optimum, search.ended)


def _found(search: _Search) -> tuple[NetworkGame, Solution, float]:
    assert search.best is not None
    return search.best


def _one_more(
    search: _Search,
    value_of: Any,
    inside: Any,
    chosen: np.ndarray,
    tolls: np.ndarray,
    best: float,
    ideal: np.ndarray,
    wanted: np.ndarray,
    limit: float,
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Return the link whose toll helps most in addition to the others; None if none helps.

    `ideal` are the first-best tolls and `wanted` the flows of the optimum.
    """
    full = np.zeros(len(ideal))
    full[chosen] = tolls
    charged, solution = search.solve(tolls=full)
    by_toll = Sensitivity(charged, solution.policy, search.watch).of_total_cost()
    flows = solution.policy.total
    # Small tolls change nothing while all travellers of a pair use one path; larger ones may.
    ranked = (
        -by_toll * np.maximum(ideal, 1e-3 * limit),
        np.maximum(flows - wanted, 0.0) * charged.external_costs(flows),
    )
    candidates: list[int] = []
    for promise in ranked:
        promise[[*chosen, *candidates]] = 0.0
        links = np.argsort(-promise, kind="stable")[:_TRIED]
        candidates += links[promise[links] > 0.0].tolist()
    found = None
    for link in candidates:
        more, first, costs = np.append(chosen, link), [ideal[link], 0.5 * ideal[link]], []
        first = np.unique(inside(np.array([*first, *(part * limit for part in _FIRST)])))
        for toll in first:
            full = np.zeros(len(ideal))
            full[more] = np.append(tolls, toll)
            costs.append(search.solve(tolls=full)[1].stats["total_cost"])
        start = np.append(tolls, first[int(np.argmin(costs))])
        point, cost = search.descend(value_of(more), inside, start, limit, _STEPS)
        if cost < best * (1.0 - 1e-9):
            found, best = (more, point, cost), cost
    return found


@named_arguments
def best_capacities(
    game: NetworkGame,
    budget: float,
    *,
    prices: Any = 1.0,
    tolerance: float = 1e-9,
    time_limit: float = 120.0,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Design:
    """Search for capacities to add within a budget that lower the total cost of the equilibrium.

    Args:
        game: The network, with costs by formula and one class of travellers.
        budget: The amount that may be spent.
        prices: (links,) price of a unit of capacity, or one number for all links; infinite for
            links that cannot be widened. Default: 1.
        tolerance: Tolerance of the equilibria; see `solve_network`. Default: 1e-9.
        time_limit: Seconds after which the best design so far is returned, as it is after Ctrl-C.
            Default: 120.
        progress: Called after each equilibrium with `iteration` and `total_cost`.

    The lower bound is the value of the convex program in which the planner also chooses the paths.

    **Example**

    >>> import equipoise as eq
    >>> city = eq.games.load("grid-city", rows=3, columns=3, zones=4)
    >>> design = eq.networks.best_capacities(city, budget=1000.0)
    >>> design.lower_bound <= design.after.upper < design.before.lower
    True
    """
    check_divided(game)
    checks.check_range("budget", budget, 0.0, np.inf, low_open=True, high_open=True)
    price = np.asarray(checks.as_float_array("prices", prices))
    price = np.full(game.links, float(price)) if price.ndim == 0 else price
    checks.check_shape("prices", price, (game.links,), "one for each link")
    if not (price > 0.0).all():
        raise InputError("prices", "positive numbers", price[~(price > 0.0)][0])
    cost_of_room(game, np.zeros(game.links))  # raises an error for costs given as functions
    open_to = np.flatnonzero(np.isfinite(price) & (game.slopes(np.ones(game.links)) > 0.0))
    if not len(open_to):
        raise InputError("prices", "a link whose capacity matters and can be bought", "none")

    search, lows = _Search(game, tolerance, time_limit, progress), [0.0]
    plans: list[Solution] = []

    def widened(added: np.ndarray) -> np.ndarray:
        capacity = game.capacity.copy()
        capacity[open_to] += added / price[open_to]
        return capacity

    def equilibrium(added: np.ndarray) -> tuple[float, np.ndarray]:
        wider, solution = search.solve(capacity=widened(added))
        slope = Sensitivity(wider, solution.policy, search.watch).of_capacities()
        return solution.stats["total_cost"], (slope / price)[open_to]

    def planned(added: np.ndarray) -> tuple[float, np.ndarray]:
        if len(lows) > 1:
            search.watch()
        wider, solution = search.optimum(capacity=widened(added))
        flows = solution.policy.total
        # By the envelope theorem, the change of the flows does not matter.
        slope = (flows * cost_of_room(wider, flows) / price)[open_to]
        # Convex in flows and capacities together: the tangent at any point is a lower bound.
        low = least_total(wider, solution) - slope @ added + min(float(slope.min()), 0.0) * budget
        lows.append(float(low))
        plans.append(solution)
        return solution.stats["total_cost"], slope

    def spend(added: np.ndarray) -> np.ndarray:
        return _within_budget(added, budget)

    search.solve()
    nothing = np.zeros(len(open_to))
    planned(nothing)
    end, added = search.until, nothing
    if np.isfinite(end):  # the rest is for the bound
        search.until = time.perf_counter() + _SHARE * max(end - time.perf_counter(), 0.0)
    with search.ending():
        added, _ = search.descend(equilibrium, spend, nothing, budget, _LAST_STEPS)
    search.until = end if search.ended != "interrupted" else 0.0
    with search.ending():
        search.descend(planned, spend, added, budget, _LAST_STEPS)
    wider, solution, total = _found(search)
    more = (wider.capacity - game.capacity) * np.where(np.isfinite(price), price, 0.0)
    links = np.flatnonzero(more > 1e-9 * budget)
    low = min(max(lows), total)
    before = cost_of_equilibria(game, search.before, 0.0)
    after = cost_of_equilibria(wider, solution, low)
    told = f"the total cost is {after} with the capacities and {before} without"
    status = worst(told, search.before, plans[0], solution, ended=search.ended)
    least = Interval(low, max(low, min(after.upper, before.upper)))
    return Design(wider, solution, total, before, after, least, links, status, "capacities")


def _within_budget(added: np.ndarray, budget: float) -> np.ndarray:
    """Project onto the points without negative entries whose sum is at most the budget.

    >>> _within_budget(np.array([3.0, 1.0, -1.0]), 2.0).tolist()
    [2.0, 0.0, 0.0]
    """
    added = np.maximum(added, 0.0)
    if added.sum() <= budget:
        return added
    ranked = np.sort(added)[::-1]
    level = (np.cumsum(ranked) - budget) / np.arange(1, len(ranked) + 1)
    above = np.flatnonzero(ranked > level)  # empty if the budget is lost in rounding
    if not len(above):
        return np.where(added == ranked[0], budget / np.count_nonzero(added == ranked[0]), 0.0)
    return np.maximum(added - level[above[-1]], 0.0)


def _link_numbers(game: NetworkGame, links: Any) -> np.ndarray:
    array = np.asarray(links)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise InputError("links", "a number of links, or a list of link numbers", links)
    if array.min() < 0 or array.max() >= game.links or len(set(array.tolist())) < len(array):
        raise InputError("links", f"different links from 0 to {game.links - 1}", links)
    return array.astype(np.int64)
