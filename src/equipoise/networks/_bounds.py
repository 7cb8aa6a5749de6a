"""What a certified gap says of every equilibrium: an interval for its total cost.

Let v be flows that cost at most G more than cheapest paths at their own costs, let v* be an
equilibrium, and let t be the costs that all classes share. No flows cost less than v* at the costs
of v*, and costs increase with flows. Hence

    sum_l (t_l(v*) - t_l(v)) (v*_l - v_l) + r_l v*_l <= G                                   (1)

where r_l is the least detour by link l at the costs of v: what a path with it costs more than a
cheapest path, over all origins.

If everybody values time alike, or there are no tolls, the total cost of v*, without its tolls, lies
between

    sum_l v_l t_l(v) - G + v*_l (t_l(v*) - t_l(v)) - toll_l (v*_l - v_l)    and
    sum_l v_l t_l(v) + v_l (t_l(v*) - t_l(v)) - toll_l (v*_l - v_l).

Otherwise it is the sum of v*_l t_l(v*). The extremes of these sums under (1) are bounded by a
Lagrange multiplier, link by link: flows between zero and the whole demand are cut into cells, and
costs lie between those at the ends of a cell. The interval is as wide as the square root of G.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.core.results import Interval
from equipoise.core.rounding import EPS
from equipoise.games import NetworkGame

#: Widths of the cells grow from this fraction of the demand; largest numbers of cells on each side
#: of a flow, and of all cells.
_FINEST, _CELLS, _MOST = 1e-13, 150, 2_000_000
#: Decimal logarithms of multipliers, and number of steps of the search for the best one.
_LOW, _HIGH, _STEPS = -3.0, 10.0, 24


def gap_of(certificate: Any) -> float:
    """Proven bound on how much more the flows cost than cheapest paths at their costs."""
    gap = float(certificate.total_cost) - float(certificate.least_cost)
    return max(gap, 0.0) + float(certificate.gap_rounding)


def cost_of_equilibria(game: NetworkGame, solution: Any, least: float) -> Interval:
    """Return an interval for the total cost of any equilibrium, without tolls.

    `solution` has certified flows of the game, and no flows cost less than `least`.
    """
    v, gap = solution.policy.total, min(gap_of(solution.certificate), 1e300)
    alike = np.ptp(game.values_of_time) == 0.0 or not game.tolls.any()
    here, tolls = game.times(v), game.tolls / game.values_of_time[0]
    most = max(float(game.demand.sum()), float(v.max()))
    error = 8.0 * EPS * (8.0 + float(game.power.max()))
    detours = _detours(game, game.costs(v), error + 4.0 * EPS * game.nodes)
    count = int(np.clip(_MOST // (2 * game.links), 10, _CELLS))
    steps = most * np.append(0.0, np.geomspace(_FINEST, 1.0, count))[:, None]
    high, low, burden = [], [], []
    for flows in (np.minimum(v + steps, most), np.maximum(v - steps, 0.0)):
        with np.errstate(over="ignore"):
            costs = np.stack([game.times(row) for row in flows])
        ends, times = (np.sort([x[:-1], x[1:]], axis=0) for x in (flows, costs))
        with np.errstate(over="ignore", invalid="ignore"):
            if alike:
                paid = np.sort(tolls * (ends - v), axis=0)
                reach = np.where(times[0] >= here, ends[0], ends[1])
                high.append(v * (times[1] - here) - paid[0])
                low.append(reach * (times[0] - here) - paid[1])
            else:
                high.append(ends[1] * times[1] - v * here)
                low.append(ends[0] * times[0] - v * here)
            lost = error * np.maximum(times[0], here)
            steep = (np.abs(costs[:-1] - here) - lost) * np.abs(flows[:-1] - v)
            burden.append(np.maximum(steep, 0.0) + detours * ends[0])
    high, low, burden = (np.concatenate(part) for part in (high, low, burden))
    within = burden <= gap * (1.0 + 1e-9)  # each term of (1) is at most the sum
    high, low = np.where(within, high, -np.inf), np.where(within, low, np.inf)
    burden = np.where(within, burden, 0.0)
    total = float(v @ here)
    upper = total + _smallest(lambda k: float((high - k * burden).max(0).sum()) + k * gap)
    lower = total + -_smallest(lambda k: -float((low + k * burden).min(0).sum()) + k * gap)
    lower -= gap if alike else 0.0
    slack = 2.0 * error * (total + float(v @ np.abs(tolls)))
    lower = max(lower - slack, least, 0.0)
    return Interval(lower, max(upper + slack, lower))


def _detours(game: NetworkGame, costs: np.ndarray, error: float) -> np.ndarray:
    """(links,): how much dearer than a cheapest path every path with this link is, at least.

    `error` is the relative error of the cost of a path.
    """
    least = np.full(game.links, np.inf)
    for m in np.unique(game.classes):
        starts = np.unique(game.origins[game.classes == m])
        for part in game.graph.chunks(starts):
            for to in game.graph.trees(costs[m], starts[part])[0]:
                far = float(to.max(where=to < np.inf, initial=0.0))
                with np.errstate(invalid="ignore"):  # nodes that are not reached
                    detour = to[game.tails] + costs[m] - to[game.heads]
                least = np.fmin(least, detour - error * (far + costs[m]))
    return np.maximum(least, 0.0)


def _smallest(bound: Callable[[float], float]) -> float:
    """Return a small value of a convex function of a multiplier; any of its values is a bound."""
    low, high = _LOW, _HIGH
    best = bound(0.0)
    if not np.isfinite(best):
        return best
    for _ in range(_STEPS):
        first, second = low + 0.382 * (high - low), low + 0.618 * (high - low)
        values = bound(10.0**first), bound(10.0**second)
        best = min(best, *values)
        low, high = (low, second) if values[0] <= values[1] else (first, high)
    return best
