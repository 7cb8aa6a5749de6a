"""Flows in a network against cheapest paths; the only parts of the game used are its costs and its
shortest-path oracle.

Path flows are rescaled to sum to the demand of their population. Link flows are summed from them in
extended precision. Rounding changes the costs at these flows, which the game bounds (a
user-supplied function is taken as computed), and their sums along paths, which potentials of the
nodes bound (`Graph.bounds`).
"""

import math
from typing import Any

import numpy as np

from equipoise.certificates._drivers import (
    Costs,
    certify_drivers,
    difference,
    path_sums,
    refuse_overflow,
)
from equipoise.certificates._split import split
from equipoise.core.errors import InputError
from equipoise.core.network_results import NetworkCertificate
from equipoise.core.results import Certificate
from equipoise.core.rounding import EPS
from equipoise.core.routes import CONSERVED
from equipoise.games import FlowPolicy, NetworkGame

#: Float64 rounding errors that each term of a sum in extended precision stands for.
_SUMMED = float(np.finfo(np.longdouble).eps) / EPS
#: Paths with less than this fraction of their population do not count as used.
_USED = 1e-6
#: Link flows that miss less than this fraction of the demand may have been rounded.
_ROUNDED = 1e-2


def certify_network(game: NetworkGame, policy: FlowPolicy, concept: str) -> Certificate:
    """Gains of populations from path flows, or of all travellers together from link flows."""
    if concept not in ("auto", "nash", "optimum"):
        raise InputError("concept", '"nash" or "optimum" for a NetworkGame', repr(concept))
    if game.atomic:
        if concept == "optimum":
            raise InputError("concept", '"nash" for whole drivers', repr(concept))
        if policy.path_flows is not None:
            check_paths(game, policy)
        return certify_drivers(game, policy)
    concept = "optimum" if concept == "optimum" else "nash"
    if policy.path_flows is None:
        return _by_links(game, policy, concept)
    return _by_paths(game, policy, concept)


def _costs(game: NetworkGame, flows: np.ndarray, concept: str, summed: float) -> Costs:
    """Link costs for this concept, with bounds; refuses flows for which travellers pay too much."""
    if concept == "optimum":
        game.check_convex()
    costs = Costs(game, flows, summed, concept == "optimum")
    with np.errstate(over="ignore", invalid="ignore"):
        spent = (flows * costs.costs[: len(flows)]).sum(0)
        lost = ~np.isfinite(costs.costs).all(0) | ~np.isfinite(spent.sum() + spent)
    if lost.any():
        refuse_overflow(game, int(np.argmax(np.where(lost, costs.costs.max(0), -np.inf))))
    return costs


def _gap_rounding(total: float, gap: float, most: float, spread: float) -> float:
    """Return what added to the gap bounds the true gap, and as a part of `total` its true part.

    The true gap is at most `most`, and the true total differs from `total` by at most `spread`.
    """
    if 2.0 * spread >= total:  # no part is larger than the whole
        return max(most, total)
    return max(most * (1.0 + 4.0 * EPS) / (1.0 - spread / total) - max(gap, 0.0), 0.0)


# Path flows


def _by_paths(game: NetworkGame, policy: FlowPolicy, concept: str) -> NetworkCertificate:
    flows = check_paths(game, policy)
    pairs, amounts = np.asarray(policy.path_pairs), carrying_all(game, policy).astype(np.float64)
    starts, links = np.asarray(policy.path_starts), np.asarray(policy.path_links)
    costs = _costs(game, flows, concept, 2.0 + _SUMMED * len(links))
    lengths, dearest = path_sums(game, costs, pairs, links, starts)
    least, bound = _distances(game, costs)
    np.minimum.at(least, pairs, lengths)
    excess = np.where(amounts > 0.0, lengths - least[pairs], -np.inf)
    beyond = np.where(amounts > 0.0, difference(dearest, bound[pairs]), -np.inf)
    gains, upper = np.full((2, len(game.demand)), -np.inf)
    np.maximum.at(gains, pairs, excess)
    np.maximum.at(upper, pairs, np.maximum(beyond, excess))
    spent = np.bincount(pairs, amounts * lengths, len(gains))
    carried = np.bincount(pairs, amounts, len(gains))
    total, cheapest = math.fsum(amounts * lengths), math.fsum(carried * least)
    most = float((amounts * np.maximum(beyond, 0.0)).sum()) * (1.0 + EPS * len(amounts))
    spread = float((amounts * (dearest - lengths)).sum()) + 8.0 * EPS * total
    worst = int(np.argmax(gains))
    path = int(np.argmax(np.where(pairs == worst, excess, -np.inf)))
    used = links[starts[path] : starts[path + 1]]
    return NetworkCertificate(
        gains=gains,
        upper=upper,
        value=spent / carried,
        method=f"path flows against shortest paths by {game.graph.method}",
        total_cost=total,
        least_cost=cheapest,
        gap_rounding=_gap_rounding(total, total - cheapest, most, 2.0 * spread),
        travellers=float(carried.sum()),
        largest_excess=float(gains.max()),
        worst_pair=worst,
        worst_path=_nodes(game, used),
        better_path=_cheapest(game, costs.costs, worst),
        concept=concept,
        rounding=upper - gains,
    )


def check_paths(game: NetworkGame, policy: FlowPolicy) -> np.ndarray:
    """(classes, links): flows of paths that lead from origins to destinations and carry all."""
    policy.check_paths(game)
    pairs, amounts = np.asarray(policy.path_pairs), np.asarray(policy.path_flows)
    carried = np.bincount(pairs, amounts, len(game.demand))
    lost = np.abs(carried - game.demand) > CONSERVED * game.demand
    if lost.any():
        k = int(np.argmax(lost))
        where = f"from {game.origins[k]} to {game.destinations[k]}"
        expected = f"the demand of {game.demand[k]:g} {where}"
        raise InputError("path_flows", expected, f"{carried[k]:g}")
    flows = sum_paths(game, policy)
    sums = flows.sum(0) if policy.flows.ndim == 1 else flows
    apart = np.abs(policy.flows - sums).max()
    if apart > CONSERVED * float(game.demand.sum()):
        raise InputError("flows", "the sums of the path flows", f"a link that is {apart:g} off")
    return flows


def carrying_all(game: NetworkGame, policy: FlowPolicy) -> np.ndarray:
    """(paths,): path flows in extended precision that sum to the demand of each population.

    The check of path flows tolerates a small shortfall or excess, which steep costs would amplify.
    """
    pairs, amounts = np.asarray(policy.path_pairs), np.asarray(policy.path_flows)
    carried = np.zeros(len(game.demand), np.longdouble)
    np.add.at(carried, pairs, amounts.astype(np.longdouble))
    return amounts * (game.demand / carried)[pairs]


def sum_paths(game: NetworkGame, policy: FlowPolicy) -> np.ndarray:
    """(classes, links): path flows summed over links in extended precision."""
    starts, links = np.asarray(policy.path_starts), np.asarray(policy.path_links)
    own = np.repeat(game.classes[np.asarray(policy.path_pairs)], np.diff(starts))
    key = own * game.links + links
    amounts = np.repeat(carrying_all(game, policy), np.diff(starts))
    order = np.argsort(key, kind="stable")
    cuts = np.flatnonzero(np.diff(key[order], prepend=-1))
    sums = np.add.reduceat(amounts[order], cuts)
    flows = np.zeros(len(game.values_of_time) * game.links)
    flows[key[order][cuts]] = sums
    return flows.reshape(-1, game.links)


def _distances(game: NetworkGame, costs: Costs) -> tuple[np.ndarray, np.ndarray]:
    """(pairs,): the cheapest cost of each population, and a bound below the cost of every path."""
    found = np.empty((2, len(game.demand)))
    for m in np.unique(game.classes):
        mine = np.flatnonzero(game.classes == m)
        starts, where = np.unique(game.origins[mine], return_inverse=True)
        for part in game.graph.chunks(starts):
            trees = game.graph.bounds(costs.costs[m], costs.low[m], starts[part])
            here = mine[(where >= part.start) & (where < part.stop)]
            row = np.searchsorted(starts, game.origins[here]) - part.start
            found[:, here] = [tree[row, game.destinations[here]] for tree in trees]
    return found[0], costs.below(found[1], game.classes)


def _cheapest(game: NetworkGame, costs: np.ndarray, pair: int) -> np.ndarray:
    """Return the nodes of a cheapest path of a population."""
    origin = int(game.origins[pair])
    _, last = game.graph.trees(costs[game.classes[pair]], [origin])
    return _nodes(game, game.graph.path(last[0], origin, int(game.destinations[pair])))


def _nodes(game: NetworkGame, links: Any) -> np.ndarray:
    links = np.asarray(links, np.int64)
    return np.concatenate([game.tails[links[:1]], game.heads[links]])


# Link flows


def _by_links(game: NetworkGame, policy: FlowPolicy, concept: str) -> NetworkCertificate:
    classes = len(game.values_of_time)
    flows = np.maximum(np.atleast_2d(policy.flows), 0.0)
    alike = concept == "optimum" or not game.tolls.any() or classes == 1
    if len(flows) < classes and not alike:
        hint = "classes respond to tolls differently, so their sum does not say who pays"
        raise InputError("flows", f"shape ({classes}, {game.links})", policy.flows.shape, hint)
    _check_conserved(game, flows)
    costs = _costs(game, flows, concept, float(len(flows)))
    least, bound = _distances(game, costs)
    now, high = costs.costs[: len(flows)], costs.high[: len(flows)]
    total = math.fsum((flows * now).ravel())
    cheapest = math.fsum(game.demand * least)
    columns = split(game, flows, costs.costs, total - cheapest)
    paths = FlowPolicy.of_paths(game, *columns)
    carried = check_paths(game, paths)
    over = np.maximum((carried if len(flows) > 1 else carried.sum(0)) - flows, 0.0)
    # Travellers missing from the flows would pay what their link costs with them on it.
    crowded = _costs(game, flows + over, concept, float(len(flows))).high[: len(flows)]
    missed = math.fsum((over * np.maximum(crowded, high)).ravel())
    spread = math.fsum((flows * (high - now)).ravel()) + 4.0 * EPS * total
    most = max(total - cheapest, 0.0) + spread + missed
    most += math.fsum(game.demand * np.maximum(least - bound, 0.0)) + 4.0 * EPS * total
    pairs, amounts, links, starts = columns
    own = np.repeat(game.classes[pairs], np.diff(starts))
    lengths = np.add.reduceat(costs.costs[own, links], starts[:-1])
    excess = np.where(amounts > _USED * game.demand[pairs], lengths - least[pairs], -np.inf)
    path = int(np.argmax(excess))
    worst = int(pairs[path])
    demand = float(game.demand.sum())
    mean, upper = (total - cheapest) / demand, most * (1.0 + 4.0 * EPS) / demand
    return NetworkCertificate(
        gains=np.array([mean]),
        upper=np.array([upper]),
        value=np.array([total / demand]),
        method=f"link flows, split into paths, against shortest paths by {game.graph.method}",
        total_cost=total,
        least_cost=cheapest,
        gap_rounding=_gap_rounding(total, total - cheapest, most, 2.0 * spread),
        travellers=demand,
        largest_excess=max(float(excess[path]), mean),
        worst_pair=worst,
        worst_path=_nodes(game, paths.path(path)),
        better_path=_cheapest(game, costs.costs, worst),
        concept=concept,
        rounding=upper - max(mean, 0.0) - missed / demand,
        split=len(amounts),
    )


def _check_conserved(game: NetworkGame, flows: np.ndarray) -> None:
    """Reject flows that do not balance at some node, or that pass through a zone."""
    demand = float(game.demand.sum())
    for m in range(len(flows)):
        mine = game.classes == m if len(flows) > 1 else np.ones(len(game.demand), bool)
        size = game.nodes
        out = np.bincount(game.tails, flows[m], size)
        into = np.bincount(game.heads, flows[m], size)
        leaving = np.bincount(game.origins[mine], game.demand[mine], size)
        arriving = np.bincount(game.destinations[mine], game.demand[mine], size)
        with np.errstate(invalid="ignore"):  # sums of flows may overflow
            net = out - into
        off = net - (leaving - arriving)
        if not np.abs(off).sum() <= CONSERVED * demand:
            node = int(np.argmax(np.abs(off)))
            asked = f"{leaving[node] - arriving[node]:g} (its demand)"
            expected = f"a net flow of {asked} out of node {node}"
            rounded = np.abs(off).sum() <= _ROUNDED * demand
            hint = "if these are rounded numbers, give more digits" if rounded else ""
            raise InputError("flows", expected, f"{net[node]:g}", hint)
        through = (into - arriving)[: game.first_through]
        if len(through) and through.max() > CONSERVED * demand:
            node = int(np.argmax(through))
            found = f"{through[node]:g} through zone {node}"
            raise InputError("flows", "no flow through zones", found)
