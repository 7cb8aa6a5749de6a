"""Gains of whole drivers: each driver's path against the best path, its own car included.

A driver who leaves path p pays c(v) on links of p and c(v + 1) on all others. Drivers of one
population on one path have the same gain, so the work grows with the number of paths.
"""

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.kernels import choose, is_installed, over_games
from equipoise.core.results import SMALLEST, AggregativeCertificate
from equipoise.core.rounding import EPS
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
    own, reply = best_replies(game, flows, pairs, links, sizes)
    gains = np.maximum(own - reply, 0.0)
    # A cheapest path may have more links than the path that it is compared with.
    slack = EPS * (game.nodes + sizes.max() + 8) * own
    for there in (flows, flows + 1.0):
        slack += 2.0 * largest_error(game, game.costs(there), game.cost_errors(there, 0.0), own)
    return AggregativeCertificate(
        class_gains=gains,
        class_upper=gains + slack,
        class_value=own,
        class_counts=amounts.astype(np.int64),
        class_rows=pairs,
        method="best responses of whole drivers, own car included",
        rounding=2.0 * float(slack.max()),
    )


def largest_error(
    game: NetworkGame, costs: np.ndarray, errors: np.ndarray, least: np.ndarray
) -> np.ndarray:
    """Return how far the cost of a cheapest path can be below `least` if costs have these errors.

    That path need not be the one found. All link costs have at most the same relative error, and
    the cost of a path has at most as many such errors as there are nodes.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        part = float(np.max(errors / costs, where=costs > SMALLEST, initial=0.0))
    free = float(np.max(errors, where=costs <= SMALLEST, initial=0.0))
    most = game.nodes * float(errors.max())
    return np.minimum(2.0 * part * least + game.nodes * free, most)


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
    game: NetworkGame, flows: np.ndarray, pairs: np.ndarray, links: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(paths,): what each path costs a driver, and what the best response would cost."""
    now, more = game.times(flows), game.times(flows + 1.0)
    extra = game.tolls / game.values_of_time[:, None]
    ends = np.cumsum(sizes)
    order = np.lexsort((game.origins[pairs], game.classes[pairs]))
    key = game.classes[pairs[order]] * (game.nodes + 1) + game.origins[pairs[order]]
    firsts = np.flatnonzero(np.diff(key, prepend=-1))
    work = _SECONDS * len(pairs)
    kernel = choose("driver_replies", work)[0] if is_installed() else None
    own, reply = np.empty(len(pairs)), np.empty(len(pairs))
    if kernel is None:
        _slow_replies(game, now, more, extra, pairs, np.split(links, ends[:-1]), own, reply)
        return own, reply
    starts = np.concatenate([[0], np.cumsum(sizes[order])])
    place = np.repeat((ends - sizes)[order] - starts[:-1], sizes[order]) + np.arange(len(links))
    into = np.argsort(game.heads, kind="stable").astype(np.int32)
    into_start = np.searchsorted(game.heads[into], np.arange(game.nodes + 1)).astype(np.int32)
    mine, theirs = np.empty(len(pairs)), np.empty(len(pairs))
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
        *(now, more, extra, pairs[order].astype(np.int32), starts.astype(np.int32)),
        links[place].astype(np.int32),
        *(mine, theirs),
    )
    own[order], reply[order] = mine, theirs
    return own, reply


def _slow_replies(
    game: NetworkGame,
    now: np.ndarray,
    more: np.ndarray,
    extra: np.ndarray,
    pairs: np.ndarray,
    paths: list[np.ndarray],
    own: np.ndarray,
    reply: np.ndarray,
) -> None:
    """Compute the same without Numba: one shortest-path tree for every path."""
    for k, (pair, path) in enumerate(zip(pairs, paths, strict=True)):
        m = int(game.classes[pair])
        costs = more + extra[m]
        costs[path] = now[path] + extra[m, path]
        distance, _ = game.graph.trees(costs, [game.origins[pair]])
        own[k] = costs[path].sum()
        reply[k] = min(distance[0, game.destinations[pair]], own[k])
