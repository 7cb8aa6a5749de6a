"""One solver for user equilibria, system optima and whole drivers in networks."""

import time
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.kernels import is_installed
from equipoise.core.results import Solution, finish
from equipoise.core.text import named
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._assign import Progress, assign, certified
from equipoise.networks._drivers import solve_drivers
from equipoise.networks._oracle import assign_by_oracle

#: Default tolerance.
TOLERANCE = 1e-10
#: Fraction of a population below which the flow of a path is lost in rounding.
_TRACE = 1e-20
#: Default time limit in seconds.
TIME_LIMIT = 600.0
#: What helps where flows were not found to the tolerance, by what ended the passes.
_HINTS = {
    "out of time": "allow a longer time_limit, or continue with start=",
    "interrupted": "continue from these flows with start=",
}
_STALLED = "rounding allows no more: use a larger tolerance"
_STUCK = (
    "progress has ended far above rounding: use a larger tolerance, or check that the costs are "
    "smooth and that `derivative` is their derivative"
)


@named_arguments
def solve_network(
    game: NetworkGame,
    *,
    concept: str = "nash",
    tolerance: float = TOLERANCE,
    start: Any = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Solution:
    """Find the user equilibrium or the system optimum; in an atomic game, paths of whole drivers.

    Args:
        game: The network.
        concept: "nash" for the user equilibrium (default), or "optimum" for the least total cost
            without tolls, certified at marginal costs.
        tolerance: The largest excess of a used path, as a fraction of the mean cost of a trip. The
            relative gap is never larger. Default: 1e-10.
        start: A solution or policy for a warm start, on the same network, possibly with other
            demands, costs or tolls.
        time_limit: Seconds after which the flows found so far are returned. Default: 600.
        progress: Called after each pass with `iteration`, `relative_gap`, `log_gap` (its decimal
            logarithm), `excess`, `paths` and `seconds`.

    `solution.policy` is a `FlowPolicy`, `solution.value` is the mean cost of a trip, and
    `solution.certificate` has the relative gap and the other measures. `stats["unique"]` is True
    for each link whose equilibrium flow is unique, that is, where the cost increases strictly.
    Flows on links of constant cost, and on paths, need not be unique. Ctrl-C returns the flows
    found so far.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("grid-city", rows=4, columns=4, zones=6)
    >>> solution = eq.networks.solve_network(game, tolerance=1e-12)
    >>> solution.status.ok, bool(solution.certificate.relative_gap_upper <= 1e-12)
    (True, True)
    >>> again = eq.networks.solve_network(game, start=solution)
    >>> again.stats["passes"] < solution.stats["passes"]
    True
    """
    if concept not in ("nash", "optimum"):
        raise InputError("concept", "nash or optimum", repr(concept))
    if concept == "optimum":
        game.check_convex()
    checks.check_range("tolerance", tolerance, 0.0, 1.0, low_open=True)
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    start = getattr(start, "policy", start)
    if start is not None:
        found = type(start).__name__
        if not isinstance(start, FlowPolicy) or start.path_flows is None:
            found = "link flows" if isinstance(start, FlowPolicy) else found
            raise InputError("start", "a solution, or a FlowPolicy with paths", found)
        try:
            start.check_paths(game)
        except InputError as error:
            found = f"{error.argument} of another network: {error.found}"
            raise InputError("start", "flows on paths of this network", found) from error
    if game.atomic:
        if concept != "nash":
            raise InputError("concept", "nash for whole drivers", repr(concept))
        return solve_drivers(game, tolerance, start, time_limit, progress)
    begun = time.perf_counter()
    if not is_installed():
        policy, ended, stats = assign_by_oracle(game, concept, tolerance, time_limit, progress)
    else:
        policy, ended, stats = assign(game, concept, tolerance, start, time_limit, progress)
    stats["seconds"] = time.perf_counter() - begun
    solution = solution_of(game, policy, concept, tolerance, ended, stats)
    if not solution.status.ok and (trimmed := _without_traces(game, policy)) is not None:
        again = solution_of(game, trimmed, concept, tolerance, ended, stats)
        if float(again.certificate.max_upper) < float(solution.certificate.max_upper):
            solution, policy = again, trimmed
    if solution.status.ok or ended != "solved" or not is_installed():
        return solution
    # Rounding lifts the bound just above the tolerance: solve to a tenth of it.
    left = max(time_limit - stats["seconds"], 0.0)
    policy, ended, more = assign(game, concept, 0.1 * tolerance, policy, left, progress)
    more |= {name: stats[name] + more[name] for name in ("passes", "sweeps", "newton_steps")}
    more["seconds"] = time.perf_counter() - begun
    again = solution_of(game, policy, concept, tolerance, ended, more)
    worse = float(again.certificate.max_upper) > float(solution.certificate.max_upper)
    return solution if worse else again


def _without_traces(game: NetworkGame, policy: FlowPolicy) -> FlowPolicy | None:
    """Return the flows without paths that carry next to nothing; None if there are none.

    Where an equilibrium costs nothing, no excess is small compared with the cost of a trip. Sweeps
    then halve the flow of a path that is too expensive, again and again, and leave a trace of it.
    """
    pairs, flows = np.asarray(policy.path_pairs), np.asarray(policy.path_flows)
    kept = flows > _TRACE * game.demand[pairs]
    if kept.all():
        return None
    sizes = np.diff(np.asarray(policy.path_starts))
    starts = np.concatenate([[0], np.cumsum(sizes[kept])])
    links = np.asarray(policy.path_links)[np.repeat(kept, sizes)]
    return FlowPolicy.of_paths(game, pairs[kept], flows[kept], links, starts)


def solution_of(
    game: NetworkGame,
    policy: FlowPolicy,
    concept: str,
    tolerance: float,
    ended: str,
    stats: dict[str, Any],
) -> Solution:
    """Return the flows as a solution, with their certificate and status."""
    certificate = certified(game, policy, concept, ended)
    mean = float(certificate.total_cost) / float(certificate.travellers)
    allowed = tolerance * mean
    stats = stats | {
        "relative_gap": certificate.relative_gap,
        "average_excess": certificate.average_excess,
        "potential": game.potential(policy.flows),
        "total_cost": game.total_cost(policy.flows),
        "paths": policy.paths,
        "interrupted": ended == "interrupted",
        "unique": _increasing(game, policy.total),
    }
    told = f"tolerance {tolerance:g} of the mean cost of a trip; relative gap "
    told += f"{certificate.relative_gap:.2g}"
    hint = _STUCK if ended == "stuck" else _STALLED
    words: dict[str, Any] = {"who": "traveller", "told": told, "hints": _HINTS}
    words |= {"advice": _steepest(game) or hint, "bound": hint, "value": np.asarray(mean)}
    solution = finish(policy, certificate, allowed, ended, **words, stats=stats, game=game)
    return named(solution, game.about)


def _increasing(game: NetworkGame, flows: np.ndarray) -> np.ndarray:
    """(links,): whether the cost of each link increases strictly at its flow."""
    if game.cost is None:
        return (game.rise > 0.0) & (game.power > 0.0)
    step = 1e-5 * np.maximum(flows, float(game.demand.mean()))
    below, at, above = (game.times(v) for v in (flows - step, flows, flows + step))
    return (above > at) & ((at > below) | (flows <= 0.0))


def _steepest(game: NetworkGame) -> str:
    """Name the link with the smallest power between zero and one; empty if there is none."""
    steep = (game.rise > 0.0) & (game.power > 0.0) & (game.power < 1.0) & (game.cost is None)
    if not steep.any():
        return ""
    link = int(np.argmin(np.where(steep, game.power, np.inf)))
    where = f"the power {game.power[link]:g} of the link from {game.tails[link]} to "
    where += f"{game.heads[link]} makes its cost jump at an empty road"
    return f"{where}: use a power of at least 1, or a constant cost (b=0)"
