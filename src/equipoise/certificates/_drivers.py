"""Gains of whole drivers: each driver's path against the best path, its own car included.

A driver who leaves path p pays c(v) on links of p and c(v + 1) on all others. Drivers of one
population on one path have the same gain, so the work grows with the number of paths.
"""

from typing import NoReturn

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.kernels import choose, is_installed, over_games
from equipoise.core.results import AggregativeCertificate
from equipoise.games import FlowPolicy, NetworkGame

#: Approximate time of one path's best response, in seconds.
_SECONDS = 3e-5


def certify_drivers(game: NetworkGame, policy: FlowPolicy) -> AggregativeCertificate:
    """Return the exact gain of every driver, by classes of drivers on one path."""
    if policy.path_flows is None or policy.path_pairs is None or policy.path_starts is None:
        hint = "link flows do not say who drives where"
        raise InputError("flows", "a FlowPolicy with the path of every driver", "link flows", hint)
    used = np.flatnonzero(policy.path_flows > 0.0)
    amounts = policy.path_flows[used]
    if (amounts != np.floor(amounts)).any():
        found = f"{amounts[amounts != np.floor(amounts)][0]:g}"
        raise InputError("path_flows", "whole numbers of drivers", found)
    pairs = policy.path_pairs[used]
    there = np.bincount(pairs, amounts, len(game.demand))
    if (there != game.demand).any():
        k = int(np.argmax(there != game.demand))
        where = f"from {game.origins[k]} to {game.destinations[k]}"
        expected = f"{game.demand[k]:.0f} drivers {where}"
        raise InputError("path_flows", expected, f"{there[k]:.0f}")
    flows = np.zeros(game.links)
    sizes = np.diff(policy.path_starts)[used]
    chosen = np.repeat(np.isin(np.arange(policy.paths), used), np.diff(policy.path_starts))
    links = np.asarray(policy.path_links)[chosen]
    np.add.at(flows, links, np.repeat(amounts, sizes))  # whole numbers: exact
    _check_once(game, pairs, links, sizes)
    now, more = (Costs(game, there, 0.0) for there in (flows, flows + 1.0))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    _, dearest = path_sums(game, now, pairs, links, starts)
    own, reply, bound = best_replies(game, now, more, pairs, links, sizes)
    gains = np.maximum(own - reply, 0.0)
    upper = np.maximum(difference(dearest, bound), gains)
    return AggregativeCertificate(
        class_gains=gains,
        class_upper=upper,
        class_value=own,
        class_counts=amounts.astype(np.int64),
        class_rows=pairs,
        method="best responses of whole drivers, own car included",
        rounding=float((upper - gains).max()),
    )


class Costs:
    """(classes, links): costs at flows, and bounds on the true ones: `low` is not negative.

    Flows are assumed to be off by `summed` roundings.
    """

    def __init__(self, game: NetworkGame, flows: np.ndarray, summed: float, marginal: bool = False):
        with np.errstate(over="ignore", invalid="ignore"):
            self.costs = game.marginal_costs(flows) if marginal else game.costs(flows)
            errors = game.cost_errors(flows, summed, marginal=marginal)
            low, high = self.costs - errors, self.costs + errors
        low = np.where(errors > 0.0, np.nextafter(low, -np.inf), low)
        # A power, or its product with the rise, has overflowed.
        low = np.where(self.costs < np.inf, low, 1e300 * np.minimum(game.rise, 1.0))
        low = np.where(np.isnan(low), 0.0, low)
        self.low = np.maximum(low, 0.0)
        self.high = np.where(errors > 0.0, np.nextafter(high, np.inf), high)
        subsidised = np.where(game.tolls < 0.0, self.low - low, 0.0)
        #: (classes,): how much less than at `low` a path may cost, because of links that a subsidy
        #: makes free, and rounding cheaper than that.
        self.lost = subsidised.sum(-1) * (1.0 + 1e-9)

    def below(self, bound: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Return a bound on the true cost of paths that holds at `low` for these classes."""
        lost = self.lost[classes]
        return np.where(lost > 0.0, np.nextafter(bound - lost, -np.inf), bound)


def path_sums(
    game: NetworkGame, costs: Costs, pairs: np.ndarray, links: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(paths,) twice: costs of paths, and bounds above the true ones; the costs are finite."""
    own = np.repeat(game.classes[pairs], np.diff(starts))
    with np.errstate(over="ignore"):
        lengths = np.add.reduceat(costs.costs[own, links].astype(np.longdouble), starts[:-1])
        lengths = lengths.astype(np.float64)
        most = np.add.reduceat(costs.high[own, links].astype(np.longdouble), starts[:-1])
        most = most * (1 + np.diff(starts) * np.finfo(np.longdouble).eps)
        dearest = most.astype(np.float64)
    if not np.isfinite(lengths).all():
        path = int(np.argmin(np.isfinite(lengths)))
        used = slice(starts[path], starts[path + 1])
        refuse_overflow(game, int(links[used][np.argmax(costs.costs[own[used], links[used]])]))
    return lengths, np.where(dearest < most, np.nextafter(dearest, np.inf), dearest)


def difference(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return `above - below`, rounded upwards."""
    return np.where(above == below, 0.0, np.nextafter(above - below, np.inf))


def refuse_overflow(game: NetworkGame, link: int) -> NoReturn:
    """Refuse flows under which the cost of a link, or the sum over its travellers, overflows."""
    where = f"one that overflows on the link from {game.tails[link]} to {game.heads[link]}"
    raise InputError("flows", "flows at which all costs are finite", where)


def _check_once(game: NetworkGame, pairs: np.ndarray, links: np.ndarray, sizes: np.ndarray) -> None:
    """Reject paths that use a link twice: one driver would count as two cars there."""
    path = np.repeat(np.arange(len(sizes)), sizes)
    key = np.sort(path * game.links + links)
    again = np.flatnonzero(key[1:] == key[:-1])
    if len(again):
        path, link = divmod(int(key[again[0]]), game.links)
        where = f"from {game.tails[link]} to {game.heads[link]}"
        ends = f"from {game.origins[pairs[path]]} to {game.destinations[pairs[path]]}"
        found = f"one {ends} that uses the link {where} twice"
        raise InputError("path_links", "paths that use every link once", found)


def best_replies(
    game: NetworkGame,
    now: Costs,
    more: Costs,
    pairs: np.ndarray,
    links: np.ndarray,
    sizes: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(paths,): what each path costs a driver, and the best response, with a bound below all."""
    ends = np.cumsum(sizes)
    order = np.lexsort((game.origins[pairs], game.classes[pairs]))
    key = game.classes[pairs[order]] * (game.nodes + 1) + game.origins[pairs[order]]
    firsts = np.flatnonzero(np.diff(key, prepend=-1))
    work = _SECONDS * len(pairs)
    kernel = choose("driver_replies", work)[0] if is_installed() else None
    if kernel is None:
        own, reply, bound = _slow_replies(game, now, more, pairs, np.split(links, ends[:-1]))
        return own, reply, now.below(bound, game.classes[pairs])
    starts = np.concatenate([[0], np.cumsum(sizes[order])])
    place = np.repeat((ends - sizes)[order] - starts[:-1], sizes[order]) + np.arange(len(links))
    into = np.argsort(game.heads, kind="stable").astype(np.int32)
    into_start = np.searchsorted(game.heads[into], np.arange(game.nodes + 1)).astype(np.int32)
    found = np.empty((3, len(pairs)))
    tails, heads = game.graph.ends
    over_games(
        kernel,
        len(firsts),
        work / len(firsts),
        game.origins[pairs[order][firsts]].astype(np.int32),
        game.classes[pairs[order][firsts]].astype(np.int32),
        np.append(firsts, len(pairs)).astype(np.int32),
        *(tails, heads, *game.graph.outgoing, into_start, into),
        game.destinations.astype(np.int32),
        game.first_through,
        *(now.costs, more.costs, now.low, more.low),
        *(pairs[order].astype(np.int32), starts.astype(np.int32), links[place].astype(np.int32)),
        *found,
    )
    own, reply, bound = found[:, np.argsort(order, kind="stable")]
    return own, reply, now.below(bound, game.classes[pairs])


def _slow_replies(
    game: NetworkGame, now: Costs, more: Costs, pairs: np.ndarray, paths: list[np.ndarray]
) -> np.ndarray:
    """Compute the same without Numba: one shortest-path tree for every path."""
    found = np.empty((3, len(pairs)))
    for k, (pair, path) in enumerate(zip(pairs, paths, strict=True)):
        m = int(game.classes[pair])
        costs, low = more.costs[m].copy(), more.low[m].copy()
        costs[path], low[path] = now.costs[m, path], now.low[m, path]
        distance, bound = game.graph.bounds(costs, low, [game.origins[pair]])
        target, own = game.destinations[pair], costs[path].sum()
        found[:, k] = own, min(distance[0, target], own), bound[0, target]
    return found
