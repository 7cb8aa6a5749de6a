"""Flows in a network against cheapest paths; the game is asked for costs and the oracle alone.

Computed costs count as they are. Flows on links are summed from those on paths in extended
precision, so that what rounding can change is the summing of costs along paths.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.certificates._drivers import certify_drivers
from equipoise.core.errors import InputError
from equipoise.core.network_results import NetworkCertificate
from equipoise.core.results import Certificate
from equipoise.core.rounding import EPS
from equipoise.games import FlowPolicy, NetworkGame, flows_of_table

#: How much of the demand flows may lose or gain.
CONSERVED = 1e-6
#: Flows below this part of the demand do not show that anybody uses a link.
_USED = 1e-9
#: Prices drawn at random under which link flows must not be cheaper than cheapest paths.
_PRICES = 6
#: Entries of an array that is held at once.
_CHUNK = 10_000_000


def certify_network(game: NetworkGame, policy: Any, concept: str) -> Certificate:
    """Gains of populations by path flows, or of all travellers together by link flows."""
    if concept not in ("auto", "nash", "optimum"):
        raise InputError("concept", '"nash" or "optimum" for a NetworkGame', repr(concept))
    policy = as_flows(game, policy)
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


def as_flows(game: NetworkGame, policy: Any) -> FlowPolicy:
    """Flows as users give them: a policy, an array, or a table; checked against the links."""
    if isinstance(policy, Mapping) or hasattr(policy, "columns"):
        policy = flows_of_table(game, policy)
    policy = policy if isinstance(policy, FlowPolicy) else FlowPolicy(policy)
    classes, links = len(game.values_of_time), game.links
    if policy.flows.shape[-1] != links:
        raise InputError("flows", f"those of {links} links", f"shape {policy.flows.shape}")
    if policy.flows.ndim == 2 and len(policy.flows) != classes:
        raise InputError("flows", f"those of {classes} classes", f"{len(policy.flows)} rows")
    if policy.path_pairs is not None and policy.paths:
        most = int(policy.path_pairs.max())
        if most >= len(game.demand):
            raise InputError("path_pairs", f"populations below {len(game.demand)}", most)
    low = policy.flows.min()
    if low < -CONSERVED * float(game.demand.sum()):
        link = int(np.argmin(policy.total if policy.flows.ndim == 2 else policy.flows))
        where = f"{low:g} on the link from {game.tails[link]} to {game.heads[link]}"
        raise InputError("flows", "flows >= 0", where)
    return policy


def _costs(game: NetworkGame, flows: np.ndarray, concept: str) -> np.ndarray:
    """(classes, links): what counts as the cost of a link; finite."""
    if concept == "optimum":
        game.check_convex()
    with np.errstate(over="ignore", invalid="ignore"):
        costs = game.marginal_costs(flows) if concept == "optimum" else game.costs(flows)
    if not np.isfinite(costs).all():
        link = int(np.argmin(np.isfinite(costs).all(0)))
        where = f"one that overflows on the link from {game.tails[link]} to {game.heads[link]}"
        raise InputError("flows", "flows at which all costs are finite", where)
    return costs


# Path flows


def _by_paths(game: NetworkGame, policy: FlowPolicy, concept: str) -> NetworkCertificate:
    flows = check_paths(game, policy)
    costs = _costs(game, flows, concept)
    pairs, amounts = np.asarray(policy.path_pairs), np.asarray(policy.path_flows)
    starts, links = np.asarray(policy.path_starts), np.asarray(policy.path_links)
    classes = np.repeat(game.classes[pairs], np.diff(starts))
    lengths = np.add.reduceat(costs[classes, links], starts[:-1])
    least, hops = _distances(game, costs)
    excess = np.where(amounts > 0.0, lengths - least[pairs], -np.inf)
    gains = np.full(len(game.demand), -np.inf)
    np.maximum.at(gains, pairs, excess)
    steps = np.maximum(np.diff(starts), hops[pairs]) + 4
    size = EPS * steps * np.maximum(lengths, least[pairs])
    slack = np.zeros(len(gains))
    np.maximum.at(slack, pairs, 2.0 * size)
    spent = np.bincount(pairs, amounts * lengths, len(gains))
    carried = np.bincount(pairs, amounts, len(gains))
    total, cheapest = math.fsum(amounts * lengths), math.fsum(carried * least)
    worst = int(np.argmax(gains))
    path = int(np.argmax(np.where(pairs == worst, excess, -np.inf)))
    used = links[starts[path] : starts[path + 1]]
    m, origin = int(game.classes[worst]), int(game.origins[worst])
    _, last = game.graph.trees(costs[m], [origin])
    better = game.graph.path(last[0], origin, int(game.destinations[worst]))
    return NetworkCertificate(
        gains=gains,
        upper=gains + slack,
        value=spent / carried,
        method=f"path flows against shortest paths by {game.graph.method}",
        total_cost=total,
        least_cost=cheapest,
        gap_rounding=float((amounts * size).sum()) + 4 * EPS * total,
        travellers=float(carried.sum()),
        largest_excess=float(gains.max()),
        worst_pair=worst,
        worst_path=_nodes(game, used),
        better_path=_nodes(game, better),
        concept=concept,
        rounding=slack,
    )


def check_paths(game: NetworkGame, policy: FlowPolicy) -> np.ndarray:
    """(classes, links): flows of paths that lead from origins to destinations and carry all."""
    pairs, amounts = np.asarray(policy.path_pairs), np.asarray(policy.path_flows)
    starts, links = np.asarray(policy.path_starts), np.asarray(policy.path_links)
    ends = game.tails[links[starts[:-1]]], game.heads[links[starts[1:] - 1]]
    inner = np.ones(len(links), bool)
    inner[starts[:-1]] = False
    inside = np.flatnonzero(inner)
    broken = np.zeros(len(links), bool)
    broken[inside] = game.heads[links[inside - 1]] != game.tails[links[inside]]
    broken[inside] |= game.tails[links[inside]] < game.first_through
    wrong = (ends[0] != game.origins[pairs]) | (ends[1] != game.destinations[pairs])
    wrong |= np.logical_or.reduceat(broken, starts[:-1])
    if wrong.any():
        path = int(np.argmax(wrong))
        k, nodes = int(pairs[path]), _nodes(game, policy.path(path)).tolist()
        where = f"from {game.origins[k]} to {game.destinations[k]}"
        raise InputError("path_links", f"a path {where}, not through zones", f"nodes {nodes}")
    carried = np.bincount(pairs, amounts, len(game.demand))
    lost = np.abs(carried - game.demand) > CONSERVED * game.demand
    if lost.any():
        k = int(np.argmax(lost))
        where = f"from {game.origins[k]} to {game.destinations[k]}"
        expected = f"the demand of {game.demand[k]:g} {where}"
        raise InputError("path_flows", expected, f"{carried[k]:g}")
    flows = sum_paths(game, policy)
    apart = np.abs(policy.total - flows.sum(0)).max()
    if apart > CONSERVED * float(game.demand.sum()):
        raise InputError("flows", "the sums of the path flows", f"a link that is {apart:g} off")
    return flows


def sum_paths(game: NetworkGame, policy: FlowPolicy) -> np.ndarray:
    """(classes, links): flows of paths, summed in extended precision."""
    starts, links = np.asarray(policy.path_starts), np.asarray(policy.path_links)
    own = np.repeat(game.classes[np.asarray(policy.path_pairs)], np.diff(starts))
    key = own * game.links + links
    amounts = np.repeat(np.asarray(policy.path_flows), np.diff(starts))
    order = np.argsort(key, kind="stable")
    cuts = np.flatnonzero(np.diff(key[order], prepend=-1))
    sums = np.add.reduceat(amounts[order].astype(np.longdouble), cuts)
    flows = np.zeros(len(game.values_of_time) * game.links)
    flows[key[order][cuts]] = sums
    return flows.reshape(-1, game.links)


def _distances(game: NetworkGame, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(pairs,): the cheapest cost of each population, and over how many links it is summed."""
    least, hops = np.empty(len(game.demand)), np.zeros(len(game.demand))
    for m in np.unique(game.classes):
        mine = np.flatnonzero(game.classes == m)
        starts, where = np.unique(game.origins[mine], return_inverse=True)
        for part in game.graph.chunks(starts):
            distance, last = game.graph.trees(costs[m], starts[part])
            here = mine[(where >= part.start) & (where < part.stop)]
            row = np.searchsorted(starts, game.origins[here]) - part.start
            node = game.destinations[here].copy()
            least[here] = distance[row, node]
            while True:
                on = np.flatnonzero(node != game.origins[here])
                if not len(on):
                    break
                node[on] = game.tails[last[row[on], node[on]]]
                hops[here[on]] += 1
    return least, hops


def _nodes(game: NetworkGame, links: Any) -> np.ndarray:
    links = np.asarray(links, np.int64)
    return np.concatenate([game.tails[links[:1]], game.heads[links]])


# Link flows


@dataclass
class _Lost:
    """What travellers on some link lose at least, and how they could do better."""

    excess: float = 0.0
    link: int = -1
    origin: int = -1
    last: np.ndarray | None = None


def _by_links(game: NetworkGame, policy: FlowPolicy, concept: str) -> NetworkCertificate:
    classes = len(game.values_of_time)
    flows = np.maximum(np.atleast_2d(policy.flows), 0.0)
    alike = concept == "optimum" or not game.tolls.any() or classes == 1
    if len(flows) < classes and not alike:
        hint = "classes feel tolls differently, so that their sum does not say who pays"
        raise InputError("flows", f"shape ({classes}, {game.links})", policy.flows.shape, hint)
    lacking = _check_conserved(game, flows)
    costs = _costs(game, flows, concept)
    total, cheapest, size, dearest = _priced(game, flows, costs)
    if total < cheapest * (1.0 - CONSERVED) - size:
        raise _too_cheap()
    _check_prices(game, flows)
    lost = _least_loss(game, flows, costs)
    demand = float(game.demand.sum())
    # Flows that cost less than cheapest paths, or do not balance, carry too few travellers.
    hidden = 2.0 * max(cheapest - total, 0.0) + lacking * dearest
    mean, slack = (total - cheapest) / demand, (size + hidden) / demand
    used, better = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if lost.last is not None:
        tail, head = int(game.tails[lost.link]), int(game.heads[lost.link])
        way = game.graph.path(lost.last, lost.origin, tail)
        used = _nodes(game, [*way, lost.link])
        better = _nodes(game, game.graph.path(lost.last, lost.origin, head))
    return NetworkCertificate(
        gains=np.array([mean]),
        upper=np.array([mean + slack]),
        value=np.array([total / demand]),
        method=f"link flows against shortest paths by {game.graph.method}",
        total_cost=total,
        least_cost=cheapest,
        gap_rounding=size + hidden,
        travellers=demand,
        largest_excess=max(lost.excess, mean),
        worst_pair=-1,
        worst_path=used,
        better_path=better,
        concept=concept,
        rounding=size / demand,
    )


def _priced(
    game: NetworkGame, flows: np.ndarray, costs: np.ndarray
) -> tuple[float, float, float, float]:
    """What flows cost, what cheapest paths would, what rounding can change, the dearest trip."""
    least, hops = _distances(game, costs)
    total = math.fsum((flows * (costs if len(flows) > 1 else costs[0])).ravel())
    cheapest = math.fsum(game.demand * least)
    size = EPS * (4.0 * total + float((game.demand * least * (hops + 4)).sum()))
    return total, cheapest, size, float(least.max())


def _check_conserved(game: NetworkGame, flows: np.ndarray) -> float:
    """Refuse flows that do not carry the demand, at some node or through a zone.

    Returns by how many travellers they miss, which is at most `CONSERVED` of the demand.
    """
    demand, missed = float(game.demand.sum()), 0.0
    for m in range(len(flows)):
        mine = game.classes == m if len(flows) > 1 else np.ones(len(game.demand), bool)
        size = game.nodes
        out = np.bincount(game.tails, flows[m], size)
        into = np.bincount(game.heads, flows[m], size)
        leaving = np.bincount(game.origins[mine], game.demand[mine], size)
        arriving = np.bincount(game.destinations[mine], game.demand[mine], size)
        off = (out - into) - (leaving - arriving)
        # Sums of flows are rounded, which is no imbalance.
        exceeding = np.maximum(np.abs(off) - 8 * EPS * (out + into + leaving + arriving), 0.0)
        missed += float(exceeding.sum())
        if np.abs(off).sum() > CONSERVED * demand:
            node = int(np.argmax(np.abs(off)))
            expected = f"flows that carry the demand: {leaving[node] - arriving[node]:g} more out "
            expected += f"of node {node} than into it"
            raise InputError("flows", expected, f"{out[node] - into[node]:g}")
        through = (into - arriving)[: game.first_through]
        if len(through) and through.max() > CONSERVED * demand:
            node = int(np.argmax(through))
            found = f"{through[node]:g} through zone {node}"
            raise InputError("flows", "no flow through zones", found)
    return missed


def _too_cheap() -> InputError:
    expected = "flows that carry the demand from each origin to its destinations"
    found = "shorter ways than there are: some trips are missing or end elsewhere"
    return InputError("flows", expected, found)


def _check_prices(game: NetworkGame, flows: np.ndarray) -> None:
    """Refuse flows that carry other trips, as far as some prices show.

    Flows carry the demand only if under all prices of links they cost at least what cheapest
    paths do (Onaga and Kakusho 1971). Nodes alone would balance with two destinations swapped.
    """
    rng = np.random.default_rng(0)
    classes = len(game.values_of_time)
    for draw in range(_PRICES):
        prices = rng.exponential(size=game.links) if draw else np.ones(game.links)
        total, cheapest, *_ = _priced(game, flows, np.tile(prices, (classes, 1)))
        if total < cheapest * (1.0 - CONSERVED):
            raise _too_cheap()


def _least_loss(game: NetworkGame, flows: np.ndarray, costs: np.ndarray) -> _Lost:
    """The link on which travellers, whoever they are, lose most.

    A traveller from o on link (i, j) loses at least d_o(i) + c_ij - d_o(j), with distances d_o.
    """
    found, floor = _Lost(), _USED * float(game.demand.sum())
    for m in range(len(flows)):
        mine = game.classes == m if len(flows) > 1 else np.ones(len(game.demand), bool)
        starts = np.unique(game.origins[mine])
        least, whose = np.full(game.links, np.inf), np.zeros(game.links, np.int64)
        size = max(1, _CHUNK // max(game.nodes, game.links))
        for begin in range(0, len(starts), size):
            part = starts[begin : begin + size]
            distance, _ = game.graph.trees(costs[m], part)
            near, far = distance[:, game.tails], distance[:, game.heads]
            with np.errstate(invalid="ignore"):
                loss = np.where(np.isfinite(near), near + costs[m] - far, np.inf)
            closed = (game.tails < game.first_through) & (game.tails != part[:, None])
            loss[closed] = np.inf
            row = loss.argmin(0)
            best = loss[row, np.arange(game.links)]
            better = best < least
            least[better], whose[better] = best[better], part[row[better]]
        loss = np.where((flows[m] > floor) & np.isfinite(least), least, 0.0)
        link = int(np.argmax(loss))
        if loss[link] > max(found.excess, 64 * EPS * costs[m].max()):
            _, last = game.graph.trees(costs[m], [whose[link]])
            found = _Lost(float(loss[link]), link, int(whose[link]), last[0])
    return found
