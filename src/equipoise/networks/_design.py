"""Price of anarchy, and tolls under which the system optimum is an equilibrium."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.files import write_text
from equipoise.core.results import Outcome, Solution
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._solve import solution_of, solve_network

#: A possible saving of at most this fraction of the total cost may be a rounding error.
_NOTHING = 1e-8


@dataclass(frozen=True)
class Design:
    """A network with tolls or capacities, its certified equilibrium, and a lower bound.

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
    #: Total cost of this equilibrium; tolls that are paid do not count.
    total_cost: float
    #: Total cost of the equilibrium without the design.
    before: float
    #: Lower bound on the total cost of every design of this kind, and of all flows under one.
    lower_bound: float
    #: Numbers of the links with a toll, or with added capacity.
    links: np.ndarray
    #: Kind of design: "tolls" or "capacities".
    what: str = "tolls"
    #: How the search ended: "solved", or "out of time" or "interrupted" (by Ctrl-C), after which
    #: more time may find a better design.
    ended: Outcome = Outcome.SOLVED

    @property
    def saved(self) -> float:
        """Fraction attained of the largest saving that the lower bound allows."""
        room = self.before - self.lower_bound
        return (self.before - self.total_cost) / room if room > 0.0 else 1.0

    @property
    def facts(self) -> dict[str, float]:
        """Total costs, lower bound and attained saving if one is possible, by readable names."""
        possible = self.before - self.lower_bound > _NOTHING * abs(self.before)
        return {
            f"total cost without {self.what}": self.before,
            f"total cost with {self.what}": self.total_cost,
            f"lower bound for any {self.what}": self.lower_bound,
            **({"part of the possible saving": self.saved} if possible else {}),
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write all links with their tolls, flows and costs, one per line, tab-separated."""
        flows = self.solution.policy.total
        parts = (self.game.tails, self.game.heads, self.game.tolls, flows, self.game.times(flows))
        rows = zip(*(part.tolist() for part in parts), strict=True)
        lines = ("\t".join(map(repr, row)) + "\n" for row in rows)
        write_text(path, "From\tTo\tToll\tVolume\tCost\n" + "".join(lines))


@dataclass(frozen=True)
class Anarchy:
    """User equilibrium and system optimum of one network; `ratio` compares their total costs.

    The price of anarchy of the instance lies between `ratio` and `upper`. The two differ only by
    what is unproven about the optimum. `price_of_anarchy` returns one.

    **Example**

    >>> import equipoise as eq
    >>> found = eq.networks.price_of_anarchy(eq.games.load("braess-network"))
    >>> bool(found.ratio <= found.upper)
    True
    """

    ratio: float
    upper: float
    #: The user equilibrium.
    equilibrium: Solution
    #: The system optimum.
    optimum: Solution


def price_of_anarchy(
    game: NetworkGame, *, tolerance: float = 1e-10, time_limit: float = 600.0
) -> Anarchy:
    """Return the total cost of the equilibrium over that of the optimum, both without tolls.

    **Example**

    >>> import equipoise as eq
    >>> round(eq.networks.price_of_anarchy(eq.games.load("braess-network")).ratio, 6)
    1.108434
    """
    check_divided(game)
    options: dict[str, Any] = {"tolerance": tolerance, "time_limit": time_limit}
    equilibrium = assigned(game, **options)
    optimum = assigned(game, concept="optimum", **options)
    total = equilibrium.stats["total_cost"]
    best = min(total, optimum.stats["total_cost"])  # of the two, in case both are zero but rounding
    low = least_total(game, optimum)
    ratio, upper = (total / one if one > 0 else np.inf if total > 0 else 1.0 for one in (best, low))
    return Anarchy(ratio, upper, equilibrium, optimum)


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


def least_total(game: NetworkGame, optimum: Solution) -> float:
    """Lower bound on the total cost of any flows.

    It is the cost of the optimum minus its gap at marginal costs, with an allowance for rounding.
    """
    found: Any = optimum.certificate
    gap = float(found.total_cost) - float(found.least_cost) + float(found.gap_rounding)
    return game.total_cost(optimum.policy.flows) - max(gap, 0.0)


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
    options: dict[str, Any] = {"tolerance": tolerance, "time_limit": time_limit}
    untolled = game.replace(tolls=0.0)
    before = assigned(untolled, **options)
    optimum = assigned(untolled, concept="optimum", **options)
    flows = optimum.policy.total
    start = optimum.policy
    if np.ptp(game.values_of_time) > 0.0:
        tolls, start = _prices(untolled, flows, time_limit)
    else:
        tolls = game.external_costs(flows) * float(game.values_of_time[0])
    charged = game.replace(tolls=tolls)
    # Certify the optimum itself under the tolls; search for an equilibrium only if it falls short.
    solution = solution_of(charged, start, "nash", tolerance, "stalled", optimum.stats)
    if not solution.status.ok:
        again = solve_network(charged, start=start, **options)
        worse = float(again.certificate.max_upper) > float(solution.certificate.max_upper)
        solution = solution if worse else again
    return _charged(charged, solution, before, optimum)


def given_tolls(
    game: NetworkGame, tolls: Any, *, tolerance: float = 1e-10, time_limit: float = 600.0
) -> Design:
    """Return the certified equilibrium under given tolls, (links,), in place of the game's own.

    `games.read_tolls` reads tolls from a file.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("braess-network")
    >>> design = eq.networks.given_tolls(game, [0, 0, 0, 0, 6.5])
    >>> round(design.before, 6), round(design.total_cost, 6), round(design.saved, 6)
    (552.0, 518.5, 0.62037)
    """
    check_divided(game)
    options: dict[str, Any] = {"tolerance": tolerance, "time_limit": time_limit}
    charged, untolled = game.replace(tolls=tolls), game.replace(tolls=0.0)
    before = assigned(untolled, **options)
    optimum = assigned(untolled, concept="optimum", start=before, **options)
    solution = assigned(charged, start=before, **options)
    return _charged(charged, solution, before, optimum)


def _charged(game: NetworkGame, solution: Any, before: Any, optimum: Any) -> Design:
    """Return the design whose tolls are those of the game."""
    return Design(
        game,
        solution,
        game.total_cost(solution.policy.flows),
        before.stats["total_cost"],
        max(least_total(game, optimum), 0.0),
        np.flatnonzero(game.tolls),
    )


def _prices(
    game: NetworkGame, flows: np.ndarray, time_limit: float
) -> tuple[np.ndarray, FlowPolicy]:
    """Tolls under which classes with different values of time produce these flows, and the paths.

    The program assigns every class and origin at the travel times of these flows so that the total
    money cost of time is least, with at most the given flow on each link. The dual prices of these
    limits are the tolls.
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
