"""Whole drivers: the flows of an equilibrium rounded, and best replies that count the own car.

Every move lowers Rosenthal's potential, so that best replies end in a pure equilibrium.
"""

import time
from typing import Any

import numpy as np

from equipoise.certificates import certify
from equipoise.core.errors import InputError
from equipoise.core.kernels import choose, is_installed
from equipoise.core.results import Outcome, Solution, Status
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._assign import assign
from equipoise.networks._paths import Paths

#: Excess of the flows that are rounded, as a part of the mean cost of a trip.
_ROUGH = 2e-3
#: Passes between two in which drivers look beyond the paths that are known.
_SEARCH = 8
#: About what a driver takes in a pass, compiled, in seconds.
_DRIVER = 2e-6
#: Entries of a table of costs.
_MOST = 100_000_000
#: What counts as better, as a part of the mean cost of a trip.
_BETTER = 1e-12


def whole_drivers(game: NetworkGame, drivers: int | None = None) -> NetworkGame:
    """The game of whole drivers: demands rounded, by largest remainders, to a total of `drivers`.

    Without `drivers`, the total is that of the demand, rounded. With it, demands are scaled, and
    capacities with them, so that costs stay what they are.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.networks.whole_drivers(eq.games.load("braess-network"), drivers=600)
    >>> solution = eq.solve(game)
    >>> game.players, float(solution.certificate.max_gain)
    (600, 0.0)
    """
    total = float(game.demand.sum())
    count = round(total) if drivers is None else drivers
    if isinstance(count, bool) or count != int(count) or not 1 <= count <= 2**53:
        raise InputError("drivers", "a whole number from 1 to 2^53", repr(drivers))
    scale = int(count) / total
    wanted = game.demand * scale
    demand = np.floor(wanted)
    short = round(count - float(demand.sum()))
    demand[np.argsort(demand - wanted, kind="stable")[:short]] += 1.0
    changes: dict[str, Any] = {"demand": demand, "atomic": True}
    if drivers is not None:
        if game.cost is not None:
            expected = "no number for costs that are a function, which cannot be scaled"
            raise InputError("drivers", expected, drivers)
        changes["capacity"] = game.capacity * scale
    kept = demand > 0.0
    for name in ("demand", "origins", "destinations", "classes"):
        changes[name] = changes.get(name, getattr(game, name))[kept]
    if not kept.all():
        changes["labels"] = None
    return game.replace(**changes)


def solve_drivers(
    game: NetworkGame, tolerance: float, start: FlowPolicy | None, time_limit: float, progress: Any
) -> Solution:
    """A path for every driver that none wants to leave."""
    begun = time.perf_counter()
    if not is_installed():
        raise InputError("game", "Numba, which compiles best replies of drivers", "none installed")
    table = _table(game)
    divided = game.replace(atomic=False)
    policy, ended, stats = assign(divided, "nash", _ROUGH, start, time_limit)
    paths = Paths(game)
    paths.start_from(policy)
    _round(paths)
    mean = float(paths.flow @ game.times(paths.flow)) / float(paths.demand.sum())
    into = np.argsort(game.heads, kind="stable").astype(np.int32)
    into_start = np.searchsorted(game.heads[into], np.arange(game.nodes + 1)).astype(np.int32)
    tails, heads, *outgoing, first = paths.network
    capacity = np.where(game.capacity > 0.0, game.capacity, 1.0)
    extra = game.tolls / game.values_of_time[:, None]
    about = (*paths.groups, tails, heads, *outgoing, into_start, into, paths.targets, first)
    about += (game.free_flow + game.fixed, game.rise, capacity, game.power, extra, table)
    moves = passes = 0
    searching = True
    ended = ended if ended in ("time", "interrupted") else ""
    try:
        while not ended:
            found = np.zeros(2)
            kernel: Any = choose("move_drivers", _DRIVER * float(paths.demand.sum()))[0]
            paths.run(kernel, about, int(searching), _BETTER * mean, found)
            passes, moves = passes + 1, moves + int(found[0])
            if progress is not None:
                told = {"iteration": passes, "moves": int(found[0]), "excess": found[1]}
                progress(told | {"paths": paths.count, "seconds": time.perf_counter() - begun})
            if found[0] == 0.0 and searching:
                ended = "solved"
            searching = found[0] == 0.0 or passes % _SEARCH == 0
            if not ended and time.perf_counter() - begun > time_limit:
                ended = "time"
            _forget(paths)
    except KeyboardInterrupt:
        ended = "interrupted"
    policy = paths.policy()
    certificate = certify(game, policy)
    allowed = max(tolerance, 1e-9) * mean
    upper = float(certificate.max_upper)
    outcomes = {"time": Outcome.OUT_OF_TIME, "interrupted": Outcome.INTERRUPTED}
    solved = upper <= allowed
    outcome = Outcome.SOLVED if solved else outcomes.get(ended, Outcome.INEXACT)
    side = "at most" if solved else "above"
    told = f"the largest gain of a driver is {upper:.2g}, {side} {allowed:.2g}"
    status = Status(outcome, told, np.array(solved))
    stats |= {"rounds": passes, "moves": moves, "paths": policy.paths}
    stats |= {"total_cost": game.total_cost(policy.flows)}
    stats["seconds"] = time.perf_counter() - begun
    return Solution(policy, np.asarray(mean), certificate, status, allowed, stats)


def _table(game: NetworkGame) -> np.ndarray:
    """(links, cars): what links cost with any number of cars, where costs are a function."""
    cars = 0 if game.cost is None else int(game.demand.sum()) + 2
    if cars * game.links > _MOST:
        expected = f"at most {_MOST:,} links times drivers where costs are a function"
        raise InputError("game", expected, f"{cars * game.links:,}")
    table = np.zeros((game.links, cars))
    for n in range(cars):
        table[:, n] = game.times(np.full(game.links, float(n)))
    return table


def _round(paths: Paths) -> None:
    """Whole drivers on the paths of every population, by largest remainders."""
    count = paths.count
    pairs, flows = paths.pairs[:count], paths.flows[:count]
    whole = np.floor(flows + 1e-9)
    short = np.rint(paths.demand - np.bincount(pairs, whole, len(paths.demand))).astype(np.int64)
    order = np.lexsort((whole - flows, pairs))
    first = np.searchsorted(pairs[order], np.arange(len(paths.demand)))
    rank = np.arange(count) - first[pairs[order]]
    whole[order] += rank < short[pairs[order]]
    paths.flows[:count] = whole
    paths.reload()


def _forget(paths: Paths) -> None:
    kept = np.flatnonzero(paths.flows[: paths.count] > 0.0)
    if len(kept) < 0.7 * paths.count:
        paths.keep(kept)
