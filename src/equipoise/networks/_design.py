"""Price of anarchy, and tolls under which the system optimum is an equilibrium."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.files import write_text
from equipoise.core.results import Interval, Prices, Solution, Status, judged
from equipoise.core.text import first_rows, wrapped
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._bounds import cost_of_equilibria, gap_of
from equipoise.networks._solve import solution_of, solve_network

#: A possible saving of at most this fraction of the total cost may be a rounding error.
_NOTHING = 1e-8
#: From the best to the worst way in which one of several computations may end.
_ORDER = ("solved", "not solved", "out of time", "interrupted")


@dataclass(frozen=True)
class Design:
    """A network with tolls or capacities, its certified equilibrium, and bounds.

    Total costs are those of equilibria, which are proven to lie in intervals, whether or not the
    time was enough to find one. The certificates of the flows found prove them.

    **Example**

    >>> import equipoise as eq
    >>> design = eq.networks.first_best_tolls(eq.games.load("braess-network"))
    >>> str(design.before), str(design.after), round(design.total_cost, 6)
    ('552', '498', 498.0)
    >>> design.saved.lower > 0.9999, design.status.name == "solved"
    (True, True)
    """

    #: The network with the tolls or capacities.
    game: NetworkGame
    #: Its equilibrium, as far as it was found, with its certificate.
    solution: Solution
    #: Total cost of the flows found; tolls that are paid do not count.
    total_cost: float
    #: Total cost of the equilibrium without the design.
    before: Interval
    #: Total cost of the equilibrium with the design.
    after: Interval
    #: Least total cost that any design of this kind could lead to; no flows under one cost less
    #: than its lower end.
    least: Interval
    #: Numbers of the links with a toll, or with added capacity.
    links: np.ndarray
    #: "solved" if all assignments that the design rests on were solved and the search ended;
    #: otherwise how the worst of them ended, after which more time may find a better design.
    status: Status
    #: Kind of design: "tolls" or "capacities".
    what: str = "tolls"

    @property
    def lower_bound(self) -> float:
        """Lower bound on the total cost of every design of this kind, and of all flows."""
        return self.least.lower

    @property
    def saved(self) -> Interval:
        """Fraction attained of the largest saving that is possible."""
        before, after, least = self.before, self.after, self.least
        low, high = before.lower - after.upper, before.upper - after.lower
        if not len(self.links):  # the same network
            low = high = 0.0
        room, narrow = before.lower - least.lower, before.lower - least.upper
        if low < 0.0:
            lower = low / narrow if narrow > 0.0 else -np.inf
        else:
            lower = low / room if room > 0.0 else 1.0
        widest = before.upper - least.upper
        upper = min(high / widest, 1.0) if widest > 0.0 else 1.0
        return Interval(min(lower, upper), upper)

    @property
    def facts(self) -> dict[str, Interval | float]:
        """Total costs, lower bound and the saving if one is proven possible, by readable names."""
        possible = self.before.lower - self.least.upper > _NOTHING * self.before.lower
        return {
            f"total cost without {self.what}": self.before,
            f"total cost with {self.what}": self.after,
            f"lower bound for any {self.what}": self.lower_bound,
            **({"part of the possible saving": self.saved} if possible else {}),
        }

    def __str__(self) -> str:
        lines = (f"{name}: {value:.6g}" for name, value in self.facts.items())
        return "\n".join((*wrapped(self.status), *lines, *self._changed(), str(self.solution)))

    def _changed(self) -> Iterator[str]:
        """Yield a line for each of the first links with a toll or with added capacity."""
        if self.what == "tolls":
            values = np.asarray(self.game.tolls)
        else:
            values = np.asarray(self.game.capacity)
        names = self.game.about
        rows = ((names.link(int(e)), f"{values[e]:.6g}") for e in self.links)
        yield f"{self.what} on {len(self.links):,} links"
        yield from first_rows(rows, len(self.links))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write all links with their tolls, flows and costs, one per line, tab-separated."""
        flows = self.solution.policy.total
        parts = (self.game.tails, self.game.heads, self.game.tolls, flows, self.game.times(flows))
        rows = zip(*(part.tolist() for part in parts), strict=True)
        lines = ("\t".join(map(repr, row)) + "\n" for row in rows)
        write_text(path, "From\tTo\tToll\tVolume\tCost\n" + "".join(lines))


@named_arguments
def price_of_anarchy(
    game: NetworkGame, *, tolerance: float = 1e-10, time_limit: float = 600.0
) -> Prices:
    """Return the total cost of the equilibrium over that of the optimum, both without tolls.

    `equipoise.prices` calls this function. All equilibria of a network without tolls cost the same.
    If the game has tolls, they change which flows are an equilibrium and do not count as a cost;
    the intervals then hold for every equilibrium. `solutions` has the "equilibrium" and the
    "optimum".

    **Example**

    >>> import equipoise as eq
    >>> prices = eq.networks.price_of_anarchy(eq.games.load("braess-network"))
    >>> prices.anarchy.lower <= 92 / 83 <= prices.anarchy.upper
    True
    >>> round(float(prices.solutions["optimum"].policy.flows[4]), 6)
    0.0
    """
    check_divided(game)
    share = shares(time_limit)
    equilibrium = assigned(game, tolerance=tolerance, time_limit=share(2))
    optimum = assigned(game, concept="optimum", tolerance=tolerance, time_limit=share(1))
    least = least_cost(game, optimum, equilibrium)
    total = cost_of_equilibria(game, equilibrium, least.lower)
    lower, upper = ratio(total.lower, least.upper), ratio(total.upper, least.lower)
    price = Interval(max(lower, 1.0), max(upper, lower, 1.0))
    status = worst(f"the price of anarchy is {price}", equilibrium, optimum)
    found = {"equilibrium": equilibrium, "optimum": optimum}
    return Prices(least, total, total, price, price, status, found, "total cost")


def ratio(above: float, below: float) -> float:
    """Return a quotient of numbers that may be zero; one where both are."""
    return above / below if below > 0.0 else np.inf if above > 0.0 else 1.0


def shares(time_limit: float) -> Callable[[int], float]:
    """Return a function that gives the next of so many assignments its share of what is left."""
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    until = time.perf_counter() + time_limit
    return lambda several: max(until - time.perf_counter(), 0.0) / several


def worst(told: str, *solutions: Solution, ended: str = "solved") -> Status:
    """Return the status of a result that rests on several solutions, and on a search that ended."""
    names = [ended, *(solution.status.name for solution in solutions)]
    name = max(names, key=_ORDER.index)
    hint = {
        "solved": "",
        "not solved": "; flows were not found to the tolerance",
        "out of time": "; allow a longer time_limit",
        "interrupted": "; Ctrl-C ended the computation",
    }[name]
    return judged(name == "solved", told + hint, name)


def assigned(game: NetworkGame, **options: Any) -> Solution:
    """Solve one assignment of several; Ctrl-C ends them all, not only this one."""
    solution = solve_network(game, **options)
    if solution.stats["interrupted"]:
        raise KeyboardInterrupt
    return solution


def check_divided(game: NetworkGame) -> None:
    """Refuse whole drivers, who have many equilibria that jump when parameters change."""
    if game.atomic:
        hint = "set atomic=False"
        raise InputError("game", "travellers who can be divided", "whole drivers", hint)


def least_cost(game: NetworkGame, optimum: Solution, *others: Solution) -> Interval:
    """Return an interval for the least total cost of any flows; those of the others attain one."""
    totals = [game.total_cost(one.policy.flows) for one in (optimum, *others)]
    lower = max(least_total(game, optimum), 0.0)
    return Interval(lower, max(min(totals), lower))


def least_total(game: NetworkGame, optimum: Solution) -> float:
    """Lower bound on the total cost of any flows.

    It is the cost of the optimum minus its gap at marginal costs, with an allowance for rounding.
    """
    return game.total_cost(optimum.policy.flows) - gap_of(optimum.certificate)


@named_arguments
def first_best_tolls(
    game: NetworkGame, *, tolerance: float = 1e-10, time_limit: float = 600.0
) -> Design:
    """Return tolls on all links under which the system optimum is a certified equilibrium.

    The toll of a link is its flow times the slope of its cost at the optimum (Pigou 1920), in
    money, if all travellers have the same value of time. If classes have different values of time,
    the tolls are the dual prices of a linear program that assigns classes to the link flows of the
    optimum (Fleischer, Jain and Mahdian 2004): everybody pays the same toll, and the total time is
    the least possible. Existing tolls of the game are replaced.

    **Example**

    >>> import equipoise as eq
    >>> design = eq.networks.first_best_tolls(eq.games.load("braess-network"))
    >>> design.game.tolls.round(6).tolist()
    [30.0, 3.0, 3.0, 30.0, 0.0]
    >>> bool(design.solution.certificate.relative_gap_upper < 1e-9)
    True
    """
    check_divided(game)
    share, untolled = shares(time_limit), game.replace(tolls=0.0)
    before = assigned(untolled, tolerance=tolerance, time_limit=share(3))
    optimum = assigned(untolled, concept="optimum", tolerance=tolerance, time_limit=share(2))
    flows, late = optimum.policy.total, False
    tolls, start = game.external_costs(flows) * float(game.values_of_time.mean()), optimum.policy
    if np.ptp(game.values_of_time) > 0.0:
        found = _prices(untolled, flows, share(2))
        late = found is None
        tolls, start = found or (tolls, start)
    charged = game.replace(tolls=tolls)
    # Certify the optimum itself under the tolls; search for an equilibrium only if it falls short.
    solution = solution_of(charged, start, "nash", tolerance, "stalled", optimum.stats)
    if not solution.status.ok:
        again = solve_network(charged, start=start, tolerance=tolerance, time_limit=share(1))
        worse = float(again.certificate.max_upper) > float(solution.certificate.max_upper)
        solution = solution if worse else again
    ended = "out of time" if late else "solved"
    return designed(untolled, charged, solution, before, optimum, ended)


@named_arguments
def given_tolls(
    game: NetworkGame, tolls: Any, *, tolerance: float = 1e-10, time_limit: float = 600.0
) -> Design:
    """Return the certified equilibrium under given tolls, (links,), in place of the game's own.

    `games.read_tolls` reads tolls from a file.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("braess-network")
    >>> design = eq.networks.given_tolls(game, [0, 0, 0, 0, 6.5])
    >>> str(design.before), str(design.after), round(design.saved.lower, 4)
    ('552', '518.5', 0.6204)
    """
    check_divided(game)
    charged, untolled = game.replace(tolls=tolls), game.replace(tolls=0.0)
    share, options = shares(time_limit), {"tolerance": tolerance}
    before = assigned(untolled, time_limit=share(3), **options)
    optimum = assigned(untolled, concept="optimum", start=before, time_limit=share(2), **options)
    solution = assigned(charged, start=before, time_limit=share(1), **options)
    return designed(untolled, charged, solution, before, optimum)


def designed(
    untolled: NetworkGame,
    charged: NetworkGame,
    solution: Solution,
    before: Solution,
    optimum: Solution,
    ended: str = "solved",
) -> Design:
    """Return the design whose tolls are those of the game `charged`."""
    least = least_cost(untolled, optimum, before, solution)
    first = cost_of_equilibria(untolled, before, least.lower)
    after = cost_of_equilibria(charged, solution, least.lower)
    told = f"the total cost is {after} with the tolls and {first} without"
    return Design(
        charged,
        solution,
        charged.total_cost(solution.policy.flows),
        first,
        after,
        least,
        np.flatnonzero(charged.tolls),
        worst(told, before, optimum, solution, ended=ended),
    )


def _prices(
    game: NetworkGame, flows: np.ndarray, time_limit: float
) -> tuple[np.ndarray, FlowPolicy] | None:
    """Tolls under which classes with different values of time produce these flows, and the paths.

    The program assigns every class and origin at the travel times of these flows so that the total
    money cost of time is least, with at most the given flow on each link. The dual prices of these
    limits are the tolls. Returns None when it runs out of time.
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
    if found.status == 1:
        return None
    if found.status != 0:
        expected = "classes that a linear program can assign to the optimum"
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
    return tolls, FlowPolicy.of_paths(game, pairs, amounts, links, starts)


def _ways(
    game: NetworkGame, use: np.ndarray, origin: int, pair: int, last: np.ndarray
) -> list[tuple[float, list[int]]]:
    """Decompose the flows of an origin into paths of one population, and subtract them."""
    left, least = float(game.demand[pair]), 1e-12 * float(game.demand[pair])
    found: list[tuple[float, list[int]]] = []
    while left > 0.0:
        node, path, amount = int(game.destinations[pair]), [], left
        while node != origin and amount > least:
            into = np.flatnonzero(game.heads == node)
            path.append(int(into[np.argmax(use[into])]))
            node, amount = int(game.tails[path[-1]]), min(amount, float(use[path[-1]]))
        if amount <= least:  # the remainder is rounding and takes the cheapest path
            path, amount = game.graph.path(last, origin, game.destinations[pair])[::-1], left
        use[path] -= amount
        left -= amount
        found.append((amount, path[::-1]))
    return found
