"""Tolls and capacities that lower the total cost of the equilibrium they lead to.

The upper level is not convex: what is found is a local optimum, with the certified equilibrium
under it and a lower bound that no tolls, or no capacities within the budget, can undercut.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.results import Solution
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._paths import policy_of
from equipoise.networks._sensitivity import cost_of_room, sensitivity
from equipoise.networks._solve import solution_of, solve_network

#: Links that are tried before one is added to those with a toll.
_TRIED = 4
#: Steps of gradient descent after each link, and at the end.
_STEPS, _LAST_STEPS = 6, 40
#: Tolls go up to this many times the largest first-best one.
_MOST = 3.0


@dataclass(frozen=True)
class Design:
    """A network with tolls or capacities, its certified equilibrium, and what could be had at best.

    **Example**

    >>> import equipoise as eq
    >>> design = eq.networks.first_best_tolls(eq.games.load("braess-network"))
    >>> round(design.before, 6), round(design.total_cost, 6), round(design.saved, 6)
    (552.0, 498.0, 1.0)
    """

    #: The network with the tolls or capacities.
    game: NetworkGame
    #: Its equilibrium, certified.
    solution: Solution
    #: Total cost, without tolls, in this equilibrium, and in that without the design.
    total_cost: float
    before: float
    #: No design of this kind, and no flows at all under one, have a smaller total cost.
    lower_bound: float
    #: Links with a toll, or with more capacity.
    links: np.ndarray

    @property
    def saved(self) -> float:
        """What part of the saving that the lower bound leaves room for is attained."""
        room = self.before - self.lower_bound
        return (self.before - self.total_cost) / room if room > 0.0 else 1.0


@dataclass(frozen=True)
class Anarchy:
    """Equilibrium and optimum side by side: `ratio` is total cost over total cost.

    `ratio` is at least, and `upper` at most what the price of anarchy of the instance is; they
    differ by the gap of the optimum alone. The example of `price_of_anarchy` shows one.

    **Example**

    >>> import equipoise as eq
    >>> found = eq.networks.price_of_anarchy(eq.games.load("braess-network"))
    >>> bool(found.ratio <= found.upper)
    True
    """

    ratio: float
    upper: float
    equilibrium: Solution
    optimum: Solution


def price_of_anarchy(
    game: NetworkGame, *, tolerance: float = 1e-10, time_limit: float = 600.0
) -> Anarchy:
    """Total cost of the equilibrium over that of the optimum, without tolls in either sum.

    **Example**

    >>> import equipoise as eq
    >>> round(eq.networks.price_of_anarchy(eq.games.load("braess-network")).ratio, 6)
    1.108434
    """
    options: dict[str, Any] = {"tolerance": tolerance, "time_limit": time_limit}
    equilibrium = solve_network(game, **options)
    optimum = solve_network(game, concept="optimum", **options)
    total = equilibrium.stats["total_cost"]
    best = optimum.stats["total_cost"]
    low = _least_total(game, optimum)
    ratio, upper = (total / best if best > 0 else 1.0), (total / low if low > 0 else np.inf)
    return Anarchy(ratio, upper, equilibrium, optimum)


def _least_total(game: NetworkGame, optimum: Solution) -> float:
    """A lower bound on the total cost of any flows.

    It is the cost of the optimum minus its gap at marginal costs, rounding included.
    """
    found: Any = optimum.certificate
    gap = float(found.total_cost) - float(found.least_cost) + float(found.gap_rounding)
    return game.total_cost(optimum.policy.flows) - max(gap, 0.0)


def first_best_tolls(
    game: NetworkGame, *, tolerance: float = 1e-10, time_limit: float = 600.0
) -> Design:
    """Tolls on all links under which the optimum is an equilibrium, certified as one.

    The toll of a link is its flow times the slope of its cost, at the optimum (Pigou 1920), in the
    money of travellers who all value time alike. Where classes value time differently, tolls are
    the prices of a linear program that assigns classes to the optimum's link flows (Fleischer,
    Jain and Mahdian 2004): everybody pays the same toll, and the total time is the least possible.
    Tolls that the game has are replaced.

    **Example**

    >>> import equipoise as eq
    >>> design = eq.networks.first_best_tolls(eq.games.load("braess-network"))
    >>> design.game.tolls.round(6).tolist()
    [30.0, 3.0, 3.0, 30.0, 0.0]
    >>> bool(design.solution.certificate.relative_gap_upper < 1e-9)
    True
    """
    options: dict[str, Any] = {"tolerance": tolerance, "time_limit": time_limit}
    untolled = game.replace(tolls=0.0)
    before = solve_network(untolled, **options)
    optimum = solve_network(untolled, concept="optimum", **options)
    flows = optimum.policy.total
    start = optimum.policy
    if np.ptp(game.values_of_time) > 0.0:
        tolls, start = _prices(untolled, flows, time_limit)
    else:
        tolls = flows * game.slopes(flows) * float(game.values_of_time[0])
    charged = game.replace(tolls=tolls)
    # The optimum itself is certified under the tolls; others are sought where it falls short.
    solution = solution_of(charged, start, "nash", tolerance, "stalled", optimum.stats)
    if not solution.status.ok:
        again = solve_network(charged, start=start, **options)
        worse = float(again.certificate.max_upper) > float(solution.certificate.max_upper)
        solution = solution if worse else again
    return Design(
        charged,
        solution,
        charged.total_cost(solution.policy.flows),
        before.stats["total_cost"],
        _least_total(game, optimum),
        np.flatnonzero(tolls > 0.0),
    )


def _prices(
    game: NetworkGame, flows: np.ndarray, time_limit: float
) -> tuple[np.ndarray, FlowPolicy]:
    """Tolls under which classes with their own values of time make these link flows; on paths.

    Assign every class and origin at the times of these flows so that the money that classes lose
    is least, with at most the given flow on each link: the prices of these limits are the tolls.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix, hstack, identity, kron

    groups, links, times = game.groups(), game.links, game.times(flows)
    unit, each = float(game.demand.mean()), np.arange(game.links)
    ends = np.concatenate([game.tails, game.heads])
    signs = np.repeat([1.0, -1.0], links)
    leaving = coo_matrix((signs, (ends, np.tile(each, 2))), (game.nodes, links))
    balance = np.zeros((len(groups), game.nodes))
    most = np.full((len(groups), links), np.inf)
    for k, (_, origin, pairs) in enumerate(groups):
        np.subtract.at(balance[k], game.destinations[pairs], game.demand[pairs] / unit)
        balance[k, origin] -= balance[k].sum()
        most[k, (game.tails < game.first_through) & (game.tails != origin)] = 0.0
    loses = [times * game.values_of_time[m] for m, _, _ in groups]
    found: Any = linprog(
        np.concatenate(loses),
        A_ub=hstack([identity(links)] * len(groups), format="csc"),
        b_ub=flows / unit,
        A_eq=kron(identity(len(groups)), leaving, format="csc"),
        b_eq=balance.ravel(),
        bounds=np.stack([np.zeros(most.size), most.ravel()], 1),
        method="highs",
        options={"time_limit": time_limit, "dual_feasibility_tolerance": 1e-10},
    )
    if found.status != 0:
        expected = "classes that a linear program can assign to the optimum within time_limit"
        raise InputError("game", expected, found.message)
    use, tolls = unit * found.x.reshape(most.shape), np.maximum(-found.ineqlin.marginals, 0.0)
    rows = [
        (pair, amount, path)
        for k, (m, origin, pairs) in enumerate(groups)
        for (last,) in [game.graph.trees(times + tolls / game.values_of_time[m], [origin])[1]]
        for pair in pairs.tolist()
        for amount, path in _ways(game, use[k], origin, pair, last)
    ]
    pairs, amounts = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    starts = np.cumsum([0, *(len(path) for _, _, path in rows)])
    links = np.concatenate([path for _, _, path in rows]).astype(np.int32)
    return tolls, policy_of(game, pairs, amounts, links, starts)


def _ways(
    game: NetworkGame, use: np.ndarray, origin: int, pair: int, last: np.ndarray
) -> list[tuple[float, list[int]]]:
    """Paths of a population along the flows of its origin, which they are subtracted from."""
    left, least = float(game.demand[pair]), 1e-12 * float(game.demand[pair])
    found: list[tuple[float, list[int]]] = []
    while left > 0.0:
        node, path, amount = int(game.destinations[pair]), [], left
        while node != origin and amount > least:
            into = np.flatnonzero(game.heads == node)
            path.append(int(into[np.argmax(use[into])]))
            node, amount = int(game.tails[path[-1]]), min(amount, float(use[path[-1]]))
        if amount <= least:  # what is left is rounding, and takes the cheapest path
            path, amount = game.graph.path(last, origin, game.destinations[pair])[::-1], left
        use[path] -= amount
        left -= amount
        found.append((amount, path[::-1]))
    return found


class _Search:
    """Total cost of equilibria and its gradient, each solved from the one before."""

    def __init__(self, game: NetworkGame, tolerance: float, time_limit: float, progress: Any):
        self.game, self.tolerance, self.progress = game, tolerance, progress
        self.until = time.perf_counter() + time_limit
        self.last: Any = None
        self.solved = 0

    @property
    def out_of_time(self) -> bool:
        return time.perf_counter() > self.until

    def solve(self, concept: str = "nash", **changes: Any) -> tuple[NetworkGame, Solution]:
        """The equilibrium of the game with these arguments."""
        game = self.game.replace(**changes)
        left = max(self.until - time.perf_counter(), 1.0)
        options: dict[str, Any] = {"tolerance": self.tolerance, "time_limit": left}
        solution = solve_network(game, concept=concept, start=self.last, **options)
        self.last, self.solved = solution.policy, self.solved + 1
        if self.progress is not None:
            told = {"iteration": self.solved, "total_cost": solution.stats["total_cost"]}
            self.progress(told)
        return game, solution

    def descend(
        self,
        value: Callable[[np.ndarray], tuple[float, np.ndarray]],
        project: Callable[[np.ndarray], np.ndarray],
        start: np.ndarray,
        size: float,
        steps: int,
    ) -> tuple[np.ndarray, float]:
        """Projected gradient descent with steps that shrink until they help."""
        x = project(start)
        best, slope = value(x)
        most = float(np.abs(slope).max())
        step = 0.25 * size / most if most > 0.0 else 0.0
        for _ in range(steps):
            if self.out_of_time or step == 0.0:
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


def best_tolls(
    game: NetworkGame,
    links: int | Sequence[int] = 5,
    *,
    most: float | None = None,
    tolerance: float = 1e-9,
    time_limit: float = 120.0,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Design:
    """Tolls on a few links that lower the total cost of the equilibrium, as far as a search finds.

    Args:
        game: The network; its own tolls are replaced.
        links: At most how many links have a toll, chosen one after the other by the gradient of
            the total cost; or the numbers of the links.
        most: The largest toll; three times the largest first-best one unless given.
        tolerance: Of the equilibria; see `solve_network`.
        time_limit: Seconds.
        progress: Called after each equilibrium with `iteration` and `total_cost`.

    **Example**

    A toll on the shortcut of Braess's network is as good as closing it:

    >>> import equipoise as eq
    >>> design = eq.networks.best_tolls(eq.games.load("braess-network"), links=1)
    >>> design.links.tolist(), round(design.total_cost, 3)
    ([4], 498.0)
    """
    given = None if isinstance(links, int) else _link_numbers(game, links)
    count = checks.check_count("links", links) if given is None else len(given)
    base = game.replace(tolls=0.0)
    search = _Search(base, tolerance, time_limit, progress)
    optimum = solve_network(base, concept="optimum", tolerance=tolerance, time_limit=time_limit)
    ideal = optimum.policy.total * game.slopes(optimum.policy.total)
    ideal = ideal * float(game.values_of_time.mean())
    limit = _MOST * float(ideal.max()) if most is None else most
    checks.check_range("most", limit, 0.0, np.inf, high_open=True)

    def value_of(chosen: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        def value(tolls: np.ndarray) -> tuple[float, np.ndarray]:
            full = np.zeros(game.links)
            full[chosen] = tolls
            charged, solution = search.solve(tolls=full)
            by_toll, _ = sensitivity(charged, solution).of_total_cost()
            return solution.stats["total_cost"], by_toll[chosen]

        return value

    def inside(tolls: np.ndarray) -> np.ndarray:
        return np.clip(tolls, 0.0, limit)

    _, first = search.solve()
    before = first.stats["total_cost"]
    chosen = np.zeros(0, np.int64) if given is None else given
    tolls, best = np.zeros(len(chosen)), before
    if given is None and limit > 0.0:
        for _ in range(min(count, game.links)):
            found = _one_more(search, value_of, inside, chosen, tolls, best, ideal, limit)
            if found is None:
                break
            chosen, tolls, best = found
    if len(chosen) and limit > 0.0:
        start = tolls if given is None else inside(ideal[chosen])
        value, steps = value_of(chosen), _LAST_STEPS
        tolls, best = search.descend(value, inside, start, limit, steps)
        if given is not None and not search.out_of_time:  # small tolls may do what large ones spoil
            low, other = search.descend(value, inside, np.zeros(len(chosen)), limit, steps)
            tolls, best = (low, other) if other < best else (tolls, best)
    full = np.zeros(game.links)
    full[chosen] = tolls if best < before else 0.0
    charged, solution = search.solve(tolls=full)
    total = solution.stats["total_cost"]
    low = _least_total(base, optimum)
    return Design(charged, solution, total, before, low, np.flatnonzero(full > 0.0))


def _one_more(
    search: _Search,
    value_of: Any,
    inside: Any,
    chosen: np.ndarray,
    tolls: np.ndarray,
    best: float,
    ideal: np.ndarray,
    limit: float,
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """The link whose toll helps most with those there are; None where none is found to help."""
    full = np.zeros(len(ideal))
    full[chosen] = tolls
    charged, solution = search.solve(tolls=full)
    by_toll, _ = sensitivity(charged, solution).of_total_cost()
    promise = -by_toll * np.maximum(ideal, 1e-3 * limit)
    promise[chosen] = -np.inf
    found = None
    for link in np.argsort(-promise)[:_TRIED]:
        if promise[link] <= 0.0 or search.out_of_time:
            break
        more, start = (
            np.append(chosen, link),
            np.append(tolls, max(0.5 * ideal[link], 0.05 * limit)),
        )
        point, cost = search.descend(value_of(more), inside, start, limit, _STEPS)
        if cost < best * (1.0 - 1e-9):
            found, best = (more, point, cost), cost
    return found


def best_capacities(
    game: NetworkGame,
    budget: float,
    *,
    prices: Any = 1.0,
    tolerance: float = 1e-9,
    time_limit: float = 120.0,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Design:
    """Capacities to add within a budget, for a small total cost of the equilibrium they lead to.

    Args:
        game: The network, with costs by formula and one class of travellers.
        budget: What may be spent.
        prices: (links,) price of a unit of capacity, or one for all; infinite where none can be
            added.
        tolerance: Of the equilibria; see `solve_network`.
        time_limit: Seconds.
        progress: Called after each equilibrium with `iteration` and `total_cost`.

    The lower bound is that of the convex program in which the planner also chooses the paths.

    **Example**

    >>> import equipoise as eq
    >>> city = eq.games.load("grid-city", rows=3, columns=3, zones=4)
    >>> design = eq.networks.best_capacities(city, budget=1000.0)
    >>> bool(design.lower_bound <= design.total_cost < design.before)
    True
    """
    checks.check_range("budget", budget, 0.0, np.inf, low_open=True, high_open=True)
    price = np.broadcast_to(np.asarray(prices, np.float64), (game.links,)).copy()
    if not (price > 0.0).all():
        raise InputError("prices", "positive numbers", prices)
    cost_of_room(game, np.zeros(game.links))  # refuses functions
    open_to = np.flatnonzero(np.isfinite(price) & (game.slopes(np.ones(game.links)) > 0.0))
    if not len(open_to):
        raise InputError("prices", "a link whose capacity matters and can be bought", "none")

    def total(added: np.ndarray, concept: str) -> tuple[float, np.ndarray, Any, Any]:
        capacity = game.capacity.copy()
        capacity[open_to] += added / price[open_to]
        wider, solution = search.solve(concept, capacity=capacity)
        flows = solution.policy.total
        if concept == "optimum":  # by the envelope theorem, flows need not be followed
            slope = flows * cost_of_room(wider, flows)
        else:
            slope = sensitivity(wider, solution).of_total_cost()[1]
        slope = (slope / price)[open_to]
        return solution.stats["total_cost"], slope, wider, solution

    def spend(added: np.ndarray) -> np.ndarray:
        return _within_budget(added, budget)

    search = _Search(game, tolerance, time_limit, progress)
    _, first = search.solve()
    before = first.stats["total_cost"]
    nothing = np.zeros(len(open_to))
    added, _ = search.descend(lambda y: total(y, "nash")[:2], spend, nothing, budget, _LAST_STEPS)
    ideal, _ = search.descend(lambda y: total(y, "optimum")[:2], spend, added, budget, _LAST_STEPS)
    _, slope, wider, optimum = total(ideal, "optimum")
    # Convex in flows and capacities together: the tangent at any point is below.
    low = _least_total(wider, optimum) + min(float(slope.min()), 0.0) * budget - slope @ ideal
    _, _, wider, solution = total(added, "nash")
    return Design(
        wider,
        solution,
        solution.stats["total_cost"],
        before,
        float(low),
        open_to[added > 1e-9 * budget],
    )


def _within_budget(added: np.ndarray, budget: float) -> np.ndarray:
    """The nearest point with no negative entry and a sum of at most the budget.

    >>> _within_budget(np.array([3.0, 1.0, -1.0]), 2.0).tolist()
    [2.0, 0.0, 0.0]
    """
    added = np.maximum(added, 0.0)
    if added.sum() <= budget:
        return added
    ranked = np.sort(added)[::-1]
    level = (np.cumsum(ranked) - budget) / np.arange(1, len(ranked) + 1)
    above = np.flatnonzero(ranked > level)  # none where the budget is lost in rounding
    if not len(above):
        return np.where(added == ranked[0], budget / np.count_nonzero(added == ranked[0]), 0.0)
    return np.maximum(added - level[above[-1]], 0.0)


def _link_numbers(game: NetworkGame, links: Any) -> np.ndarray:
    array = np.asarray(links)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise InputError("links", "a count, or numbers of links", links)
    if array.min() < 0 or array.max() >= game.links or len(set(array.tolist())) < len(array):
        raise InputError("links", f"different links from 0 to {game.links - 1}", links)
    return array.astype(np.int64)
