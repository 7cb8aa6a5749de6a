"""Whole drivers: round equilibrium flows, then run best-reply dynamics that count each own car.

Every move lowers Rosenthal's potential, so the dynamics end in a pure equilibrium.
"""

import time
from typing import Any

import numpy as np

from equipoise.core.errors import InputError, named_arguments
from equipoise.core.kernels import choose, is_installed
from equipoise.core.paths import Paths
from equipoise.core.results import Solution, finish
from equipoise.core.text import named
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._assign import Costs, LateError, assign, certified, mean_cost, paths_of

#: Excess of the flows before rounding, as a fraction of the mean cost of a trip.
_ROUGH = 2e-3
#: Number of passes after which drivers also consider paths that are not yet known.
_SEARCH = 8
#: Approximate seconds per driver and pass in compiled code.
_DRIVER = 2e-6
#: Largest number of entries in a table of costs.
_MOST = 100_000_000
#: Smallest improvement that counts, as a fraction of the mean cost of a trip.
_BETTER = 1e-12


@named_arguments
def whole_drivers(game: NetworkGame, drivers: Any = None) -> NetworkGame:
    """Convert a network to whole drivers: demands are rounded by largest remainders.

    The total is `drivers`; without it, the rounded total demand. With `drivers`, demands are scaled
    to that total and capacities with them, so that costs do not change.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.networks.whole_drivers(eq.games.load("braess-network"), drivers=600)
    >>> solution = eq.solve(game)
    >>> game.players, float(solution.certificate.max_gain)
    (600, 0.0)
    """
    total = float(game.demand.sum())
    count = round(total) if drivers is None else drivers
    whole = isinstance(count, int | float | np.number) and not isinstance(count, bool)
    if not whole or not 1 <= count <= 2**53 or count != int(count):
        raise InputError("drivers", "a whole number from 1 to 2^53", repr(drivers))
    scale = int(count) / total
    wanted = game.demand * scale
    demand = np.floor(wanted)
    short = round(count - float(demand.sum()))
    demand[np.argsort(demand - wanted, kind="stable")[:short]] += 1.0
    changes: dict[str, Any] = {"demand": demand, "atomic": True}
    if drivers is not None:
        if game.cost is not None:
            expected = "no number of drivers for costs given as a function, which cannot be scaled"
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
    """Find a path for every driver from which none gains by deviating."""
    begun = time.perf_counter()
    if not is_installed():
        raise InputError("game", "Numba, which compiles best-reply dynamics", "none installed")
    table = _table(game)
    divided = game.replace(atomic=False)
    policy, ended, stats = assign(divided, "nash", _ROUGH, start, time_limit)
    paths = paths_of(game, policy)
    _round(paths)
    better = _BETTER * mean_cost(paths, Costs(game, "nash"))
    into = np.argsort(game.heads, kind="stable").astype(np.int32)
    into_start = np.searchsorted(game.heads[into], np.arange(game.nodes + 1)).astype(np.int32)
    tails, heads, *outgoing, first = paths.network
    capacity = np.where(game.capacity > 0.0, game.capacity, 1.0)
    extra = game.tolls / game.values_of_time[:, None]
    about = (*paths.groups, tails, heads, *outgoing, into_start, into, paths.targets, first)
    about += (game.free_flow + game.fixed, game.rise, capacity, game.power, extra, table)
    work, moves, passes = _DRIVER * float(paths.demand.sum()), 0, 0
    searching = True

    def watch() -> None:
        if time.perf_counter() - begun > time_limit:
            raise LateError

    ended = ended if ended in ("out of time", "interrupted") else ""
    try:
        while not ended:
            found = np.zeros(2)
            kernel: Any = choose("move_drivers", work)[0]
            chosen = int(searching), better, found
            paths.run(kernel, about, *chosen, seconds=work, watch=watch)
            passes, moves = passes + 1, moves + int(found[0])
            if progress is not None:
                told = {"iteration": passes, "moves": int(found[0]), "excess": found[1]}
                progress(told | {"paths": paths.count, "seconds": time.perf_counter() - begun})
            if found[0] == 0.0 and searching:
                ended = "solved"
            searching = found[0] == 0.0 or passes % _SEARCH == 0
            if not ended and time.perf_counter() - begun > time_limit:
                ended = "out of time"
            _forget(paths)
    except LateError:
        ended = "out of time"
    except KeyboardInterrupt:
        ended = "interrupted"
    policy = FlowPolicy.of_paths(game, *paths.used())
    certificate: Any = certified(game, policy, "nash", ended)
    mean = float(certificate.class_value @ certificate.class_counts) / game.players
    allowed = max(tolerance, 1e-9) * mean
    stats |= {"rounds": passes, "moves": moves, "paths": policy.paths}
    stats |= {"total_cost": game.total_cost(policy.flows)}
    stats["seconds"] = time.perf_counter() - begun
    words: dict[str, Any] = {"who": "driver", "told": f"tolerance {allowed:.3g}"}
    words |= {"value": np.asarray(mean), "stats": stats, "game": game}
    solution = finish(policy, certificate, allowed, ended, **words)
    return named(solution, game.about)


def _table(game: NetworkGame) -> np.ndarray:
    """(links, cars): costs of links by number of cars, for costs given as a function."""
    cars = 0 if game.cost is None else int(game.demand.sum()) + 2
    if cars * game.links > _MOST:
        expected = f"at most {_MOST:,} links times drivers with costs given as a function"
        raise InputError("game", expected, f"{cars * game.links:,}")
    table = np.zeros((game.links, cars))
    for n in range(cars):
        table[:, n] = game.times(np.full(game.links, float(n)))
    return table


def _round(paths: Paths) -> None:
    """Round the path flows of every population to whole drivers, by largest remainders."""
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
