"""One function for user equilibria, system optima and whole drivers in networks."""

import time
from typing import Any

import numpy as np

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.kernels import is_installed
from equipoise.core.results import Outcome, Solution, Status
from equipoise.games import FlowPolicy, NetworkGame
from equipoise.networks._assign import Progress, assign
from equipoise.networks._drivers import solve_drivers
from equipoise.networks._oracle import assign_by_oracle

#: Relative gap that is asked for unless told.
TOLERANCE = 1e-10
#: Seconds within which a network is solved, unless told.
TIME_LIMIT = 600.0


def solve_network(
    game: NetworkGame,
    *,
    concept: str = "nash",
    tolerance: float = TOLERANCE,
    start: Any = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Solution:
    """Equilibrium flows, or the flows of least total cost; whole drivers in an atomic game.

    Args:
        game: The network.
        concept: "nash", the user equilibrium; or "optimum", the least total cost without tolls,
            certified at marginal costs.
        tolerance: The largest excess of a used path, as a part of the mean cost of a trip. The
            relative gap is never larger.
        start: A solution or policy to begin with: of the same network, perhaps with other
            demands, costs or tolls.
        time_limit: Seconds after which the flows found so far are returned.
        progress: Called after each pass with `iteration`, `relative_gap`, `log_gap` (its decimal
            logarithm), `excess`, `paths` and `seconds`.

    `solution.policy` is a `FlowPolicy`; `solution.value` is the mean cost of a trip, and
    `solution.certificate` has the measures. `stats["unique"]` says of each link whether its
    equilibrium flow is unique: it is where costs increase. Flows on paths are not. Ctrl-C returns
    the flows found so far.

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
    if start is not None and not isinstance(start, FlowPolicy):
        raise InputError("start", "a solution, or a FlowPolicy with paths", type(start).__name__)
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
    return solution_of(game, policy, concept, tolerance, ended, stats)


def solution_of(
    game: NetworkGame,
    policy: FlowPolicy,
    concept: str,
    tolerance: float,
    ended: str,
    stats: dict[str, Any],
) -> Solution:
    """Flows with their certificate, and the status that follows from it."""
    certificate: Any = certify(game, policy, concept=concept)
    mean = float(certificate.total_cost) / float(certificate.travellers)
    allowed = tolerance * mean
    stats = stats | {
        "relative_gap": certificate.relative_gap,
        "average_excess": certificate.average_excess,
        "potential": game.potential(policy.flows),
        "total_cost": game.total_cost(policy.flows),
        "paths": policy.paths,
        "unique": game.slopes(policy.flows) > 0.0,
    }
    status = _status(certificate, allowed, tolerance, ended)
    return Solution(policy, np.asarray(mean), certificate, status, allowed, stats)


def _status(certificate: Any, allowed: float, tolerance: float, ended: str) -> Status:
    upper, gap = float(certificate.max_upper), certificate.relative_gap
    told = f"relative gap {gap:.2g}, largest excess {upper:.2g}"
    if np.isfinite(upper) and upper <= allowed:
        told += f", at most {tolerance:g} of the mean cost of a trip"
        return Status(Outcome.SOLVED, told, np.array(True))
    outcomes = {"time": Outcome.OUT_OF_TIME, "interrupted": Outcome.INTERRUPTED}
    hints = {
        "time": "allow a longer time_limit, or go on from here with start=",
        "interrupted": "go on from here with start=",
        "stalled": "rounding allows no more: ask for a larger tolerance",
    }
    told += f", above {tolerance:g} of the mean cost of a trip; {hints[ended]}"
    return Status(outcomes.get(ended, Outcome.INEXACT), told, np.array(False))
