"""Whole drivers on paths, for Numba: best responses that account for the driver's own car.

A driver who leaves path p pays c(v) on links of p and c(v + 1) on all others. The best response is
found by A* backwards from the destination: nodes are visited in the order of the path cost so far
plus the distance from the origin at c(v), which is a lower bound. Few nodes off the best paths are
visited. Arrays are those of `_routes`; `into_start` and `into` list the links that enter each
node.
"""

import numpy as np

from equipoise.core.kernels._compile import compiled
from equipoise.core.kernels._routes import (
    bounding_tree,
    cut_price,
    path_cost,
    pop,
    rounded_down,
    tree,
    up,
)


@compiled()
def _search(origin, target, limit, distance, now, more, low_now, low_more, extra, mark, stamp,
            into_start, into, tails, first, way, spent, keys, onward, heap, place,
            touched):  # fmt: skip
    """Return a bound below the cost of every path, at most `limit`, and the cost of a path.

    The bound holds for `low_now` and `low_more`, if `distance` bounds all paths from the origin at
    `low_now`; the cost is that at `now` and `more`, infinite if no path is below `limit`. `onward`
    holds the links of the path by node. Sums are rounded downwards, so that a path costs at least
    the key of any of its nodes. Rounding may reopen a node.
    """
    count = 1
    touched[0], way[target], spent[target], onward[target] = target, 0.0, 0.0, -1
    keys[target], heap[0], place[target], size = distance[target], target, 0, 1
    bound, cost = limit, np.inf
    while size:
        if keys[heap[0]] >= limit:
            break
        node = pop(heap, place, keys, size)
        size -= 1
        if node == origin:
            bound, cost = way[node], spent[node]
            break
        for k in range(into_start[node], into_start[node + 1]):
            link = into[k]
            before = tails[link]
            if before < first and before != origin:
                continue
            if mark[link] == stamp:
                paid, least = now[link] + extra[link], low_now[link] + extra[link]
            else:
                paid, least = more[link] + extra[link], low_more[link] + extra[link]
            length = rounded_down(way[node], least)
            if place[before] != -1 and length >= way[before]:
                continue
            if place[before] < 0:
                if place[before] == -1:
                    touched[count] = before
                    count += 1
                heap[size], place[before] = before, size
                size += 1
            way[before], spent[before], onward[before] = length, spent[node] + paid, link
            keys[before] = rounded_down(length, distance[before])
            up(heap, place, keys, place[before])
    for k in range(count):
        place[touched[k]] = -1
    return bound, cost


@compiled(
    "read_int32s1 read_int32s1 read_int32s1 read_int32s1 read_int32s1 read_int32s1 "
    "read_int32s1 read_int32s1 read_int32s1 read_int32s1 index read2 read2 read2 read2 "
    "read_int32s1 read_int32s1 read_int32s1 write1 write1 write1 index index"
)
def driver_replies(
    group_origin, group_class, group_start, tails, heads, start, out, into_start, into, targets,
    first, now, more, low_now, low_more, path_pair, path_start, path_links, own, reply, bound,
    begin, end,
):  # fmt: skip
    """Compute the cost of each path, and of a driver's best response on it, in groups of paths.

    `now` and `more` are costs by class at the flows and with one additional car, and `low_now` and
    `low_more` bounds below the true ones. No response costs less than `bound`.
    """
    links, nodes = len(tails), len(start) - 1
    heap, place = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    distance, least = np.empty(nodes), np.empty(nodes)
    way, spent, keys = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    onward, touched = np.empty(nodes, np.int32), np.empty(nodes + 1, np.int32)
    mark, nothing = np.full(links, -1, np.int64), np.zeros(links)
    for group in range(begin, end):
        origin, m = group_origin[group], group_class[group]
        bounding_tree(
            origin, now[m], low_now[m], start, out, heads, first, least, distance, heap, place
        )
        place[:] = -1
        for path in range(group_start[group], group_start[group + 1]):
            limit = 0.0
            for k in range(path_start[path], path_start[path + 1]):
                mark[path_links[k]] = path
                limit = rounded_down(limit, low_now[m, path_links[k]])
            own[path] = path_cost(path, path_start, path_links, now[m], nothing)
            bound[path], cost = _search(
                origin, targets[path_pair[path]], limit, least, now[m], more[m], low_now[m],
                low_more[m], nothing, mark, path, into_start, into, tails, first, way, spent, keys,
                onward, heap, place, touched,
            )  # fmt: skip
            reply[path] = min(own[path], cost)
    return 0


@compiled()
def _costs(link, flow, table, free, rise, capacity, power, now, more, slope):
    """Cost of a link at its flow and with one more car: from the table, if it has columns."""
    if table.shape[1]:
        cars = int(flow[link])
        now[link], more[link] = table[link, cars], table[link, cars + 1]
        return
    cut_price(link, flow, free, rise, capacity, power, now, slope)
    flow[link] += 1.0
    cut_price(link, flow, free, rise, capacity, power, more, slope)
    flow[link] -= 1.0


@compiled()
def _shift(path, sign, path_start, path_links, flow, table, free, rise, capacity, power, now, more,
           slope):  # fmt: skip
    """Add a car to a path, or remove one from it."""
    for k in range(path_start[path], path_start[path + 1]):
        flow[path_links[k]] += sign
        _costs(path_links[k], flow, table, free, rise, capacity, power, now, more, slope)


@compiled(
    "read_int32s1 read_int32s1 read_int32s1 read_int32s1 read_int32s1 read_int32s1 "
    "read_int32s1 read_int32s1 read_int32s1 read_int32s1 index read1 read1 read1 read1 "
    "read2 read2 write1 int32s1 int32s1 int32s1 write1 int32s1 int32s1 int32s1 index index "
    "index float write1"
)
def move_drivers(
    group_origin, group_class, group_start, tails, heads, start, out, into_start, into, targets,
    first, free, rise, capacity, power, extra, table, flow, head, following, path_pair, path_flow,
    path_start, path_links, counts, begin, end, searching, least, found,
):  # fmt: skip
    """Run one pass of best responses over the drivers of groups `begin` to `end`.

    Each move is at current costs. A driver moves if that saves more than `least`: first among the
    paths that its pair has, then, while `searching`, to the best path of all. Adds the number of
    moves to `found`, and stores the largest saving there. Column n of `table` holds link costs with
    n cars; without columns the formula of `_routes` applies.
    Returns the first group for which memory was too small, or `end`.
    """
    links, nodes = len(tails), len(start) - 1
    heap, place = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    distance, last = np.empty(nodes), np.empty(nodes, np.int32)
    way, spent, keys = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    onward, touched = np.empty(nodes, np.int32), np.empty(nodes + 1, np.int32)
    mark, stamp = np.zeros(links, np.int64), 0
    now, more, slope, paid = np.empty(links), np.empty(links), np.empty(links), np.empty(links)
    for link in range(links):
        _costs(link, flow, table, free, rise, capacity, power, now, more, slope)
    for group in range(begin, end):
        origin, m = group_origin[group], group_class[group]
        own = extra[m]
        if searching:
            for link in range(links):
                paid[link] = now[link] + own[link]
            tree(origin, paid, start, out, heads, first, distance, last, heap, place)
            place[:] = -1
        for pair in range(group_start[group], group_start[group + 1]):
            path = head[pair]
            if not searching and following[path] < 0:
                continue
            while path >= 0:
                searched = not searching
                while path_flow[path] > 0.0:
                    stamp += 1
                    for k in range(path_start[path], path_start[path + 1]):
                        mark[path_links[k]] = stamp
                    mine = path_cost(path, path_start, path_links, now, own)
                    best, target, other = mine - least, -1, head[pair]
                    while other >= 0:
                        length = 0.0
                        for k in range(path_start[other], path_start[other + 1]):
                            link = path_links[k]
                            length += own[link]
                            length += now[link] if mark[link] == stamp else more[link]
                            if length >= best:
                                break
                        if length < best:
                            best, target = length, other
                        other = following[other]
                    if target < 0 and not searched:
                        searched = True
                        _, length = _search(
                            origin, targets[pair], best, distance, now, more, now, more, own, mark,
                            stamp, into_start, into, tails, first, way, spent, keys, onward, heap,
                            place, touched,
                        )  # fmt: skip
                        if length < best:
                            size, node = 0, origin
                            while node != targets[pair]:
                                node = heads[onward[node]]
                                size += 1
                            target, room = counts[0], path_start[counts[0]]
                            if target + 1 >= len(path_flow) or room + size > len(path_links):
                                return group
                            node = origin
                            for k in range(room, room + size):
                                path_links[k] = onward[node]
                                node = heads[onward[node]]
                            counts[0] = target + 1
                            path_start[target + 1] = room + size
                            path_pair[target], path_flow[target] = pair, 0.0
                            following[target], head[pair] = head[pair], target
                            best = length
                    if target < 0:
                        break
                    found[0] += 1.0
                    found[1] = max(found[1], mine - best)
                    path_flow[path] -= 1.0
                    path_flow[target] += 1.0
                    _shift(path, -1.0, path_start, path_links, flow, table, free, rise, capacity,
                           power, now, more, slope)  # fmt: skip
                    _shift(target, 1.0, path_start, path_links, flow, table, free, rise, capacity,
                           power, now, more, slope)  # fmt: skip
                path = following[path]
    return end
