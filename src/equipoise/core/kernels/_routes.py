"""Shortest paths and path flows, for Numba.

Links are arrays. `start` and `out` list the links that leave each node: those of node i are
`out[start[i]:start[i + 1]]`. Nodes below `first` are zones: paths begin and end there and never
pass through. Paths are stored one after the other in `path_links`; those of a pair form a linked
list, `head[pair]` and `following[path]`.

The cost of link l at flow v is `free[l] + rise[l] (v / capacity[l])^power[l]`, plus the surcharge
of class m, `extra[m, l]`. Costs are cut at 1e250 where they may overflow, so that
solvers can leave such flows; certificates use the true costs.
"""

import numpy as np

from equipoise.core.kernels._compile import compiled

#: Largest cost of a link, and largest slope.
CEILING, STEEPEST = 1e250, 1e300
#: Powers above this one count as large: flows that differ by a tenth differ in cost by a factor 7.
STEEP = 20.0
#: Steps of a bisection of logarithms, from 1 to the smallest number and to its last digit.
_HALVINGS = 160


@compiled()
def up(heap, place, keys, i):
    node = heap[i]
    while i:
        above = (i - 1) >> 2
        if keys[heap[above]] <= keys[node]:
            break
        heap[i] = heap[above]
        place[heap[i]] = i
        i = above
    heap[i] = node
    place[node] = i


@compiled()
def pop(heap, place, keys, size):
    """Remove the first of `size` nodes of a 4-ary heap."""
    top, node = heap[0], heap[size - 1]
    size -= 1
    place[top] = -2
    if size == 0:
        return top
    i = 0
    while True:
        child = 4 * i + 1
        if child >= size:
            break
        least = child
        for other in range(child + 1, min(child + 4, size)):
            if keys[heap[other]] < keys[heap[least]]:
                least = other
        if keys[heap[least]] >= keys[node]:
            break
        heap[i] = heap[least]
        place[heap[i]] = i
        i = least
    heap[i] = node
    place[node] = i
    return top


@compiled()
def tree(origin, costs, start, out, heads, first, distance, last, heap, place):
    """Dijkstra's algorithm: `distance` to every node, and the `last` link on the way there."""
    for node in range(len(distance)):
        distance[node], last[node], place[node] = np.inf, -1, -1
    distance[origin], heap[0], place[origin], size = 0.0, origin, 0, 1
    while size:
        node = pop(heap, place, distance, size)
        size -= 1
        if node < first and node != origin:
            continue
        for k in range(start[node], start[node + 1]):
            link = out[k]
            to, length = heads[link], distance[node] + costs[link]
            if length < distance[to] and place[to] != -2:  # rounding must not reopen a node
                distance[to], last[to] = length, link
                if place[to] == -1:
                    heap[size], place[to] = to, size
                    size += 1
                up(heap, place, distance, place[to])


@compiled(
    "read_int32s1 read1 read_int32s1 read_int32s1 read_int32s1 index write2 int32s2 index index"
)
def shortest_trees(origins, costs, start, out, heads, first, distance, last, begin, end):
    """Compute the trees of shortest paths from origins `begin` to `end`."""
    nodes = distance.shape[1]
    heap, place = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    for i in range(begin, end):
        tree(origins[i], costs, start, out, heads, first, distance[i], last[i], heap, place)
    return 0


@compiled()
def rounded_down(a, b):
    """Return a + b, rounded towards minus infinity: by the error of the sum (Knuth 1969)."""
    total = a + b
    part = total - a
    if (a - (total - part)) + (b - part) < 0.0:
        return np.nextafter(total, -np.inf)
    return total


@compiled()
def lower(origin, low, start, out, heads, first, bound):
    """Lower `bound` until `bound[head] <= bound[tail] + low` holds exactly on every link."""
    again = True
    while again:
        again = False
        for node in range(len(bound)):
            here = bound[node]
            if here == np.inf or (node < first and node != origin):
                continue
            for k in range(start[node], start[node + 1]):
                link = out[k]
                if bound[heads[link]] < here + low[link]:
                    continue  # nor is it larger than the next smaller number
                most = rounded_down(here, low[link])
                if bound[heads[link]] > most:
                    bound[heads[link]], again = most, True


@compiled()
def bounding_tree(origin, costs, low, start, out, heads, first, bound, distance, heap, place):
    """Bound the cost of every path from the origin, whatever the number of its links.

    If `bound[head] <= bound[tail] + low` holds on every link, these conditions add up along a path:
    it costs at least `bound` of its end (weak duality). Dijkstra's algorithm finds such numbers if
    sums are rounded downwards; each link is checked. `distance` is the cost of the tree's paths at
    `costs`.
    """
    for node in range(len(bound)):
        bound[node], distance[node], place[node] = np.inf, np.inf, -1
    bound[origin], distance[origin] = 0.0, 0.0
    heap[0], place[origin], size = origin, 0, 1
    while size:
        node = pop(heap, place, bound, size)
        size -= 1
        if node < first and node != origin:
            continue
        here = bound[node]
        for k in range(start[node], start[node + 1]):
            link = out[k]
            to = heads[link]
            if place[to] == -2 or here + low[link] > bound[to]:
                continue  # rounding downwards does not make it smaller
            length = rounded_down(here, low[link])
            if length < bound[to]:
                bound[to], distance[to] = length, distance[node] + costs[link]
                if place[to] == -1:
                    heap[size], place[to] = to, size
                    size += 1
                up(heap, place, bound, place[to])
    lower(origin, low, start, out, heads, first, bound)


@compiled(
    "read_int32s1 read1 read1 read_int32s1 read_int32s1 read_int32s1 index write2 write2 "
    "index index"
)
def bounding_trees(origins, costs, low, start, out, heads, first, bound, distance, begin, end):
    """Compute the bounding trees of origins `begin` to `end`."""
    nodes = bound.shape[1]
    heap, place = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    for i in range(begin, end):
        bounding_tree(
            origins[i], costs, low, start, out, heads, first, bound[i], distance[i], heap, place
        )
    return 0


@compiled()
def price(link, flow, free, rise, capacity, power, cost, slope):
    """Return cost and slope of one link at its flow."""
    v, p = max(flow[link], 0.0), power[link]
    if rise[link] == 0.0 or p == 0.0:
        cost[link], slope[link] = free[link] + rise[link], 0.0
        return
    x = v / capacity[link]
    if p == 4.0:
        below = x * x * x
    elif p == 1.0:
        below = 1.0
    else:
        below = x ** (p - 1.0) if x > 0.0 or p > 1.0 else 1e300
    cost[link] = free[link] + (rise[link] * below * x if x > 0.0 else 0.0)
    slope[link] = rise[link] * p * below / capacity[link]


@compiled()
def cut_price(link, flow, free, rise, capacity, power, cost, slope):
    """Return the same, cut where a cost or a slope is too large."""
    price(link, flow, free, rise, capacity, power, cost, slope)
    if not cost[link] < CEILING:
        cost[link] = CEILING
        slope[link] = power[link] * (CEILING / flow[link]) if flow[link] > 0.0 else 0.0
    if not slope[link] < STEEPEST:
        slope[link] = STEEPEST


@compiled()
def _load(path_flow, path_pair, path_start, path_links, count, flow):
    """Compute link flows from path flows."""
    flow[:] = 0.0
    for path in range(count):
        amount = path_flow[path]
        if amount != 0.0:
            for k in range(path_start[path], path_start[path + 1]):
                flow[path_links[k]] += amount


@compiled()
def path_cost(path, path_start, path_links, cost, extra):
    total = 0.0
    for k in range(path_start[path], path_start[path + 1]):
        total += cost[path_links[k]] + extra[path_links[k]]
    return total


@compiled()
def _add_path(pair, origin, target, last, tails, head, following, path_pair, path_flow,
              path_start, path_links, counts):  # fmt: skip
    """Add the tree's path of a pair unless it exists; return its index, or -1 if memory is full."""
    length, node = 0, target
    while node != origin:
        length += 1
        node = tails[last[node]]
    path = head[pair]
    while path >= 0:
        if path_start[path + 1] - path_start[path] == length:
            same, node, k = True, target, path_start[path + 1] - 1
            while node != origin:
                if path_links[k] != last[node]:
                    same = False
                    break
                node = tails[last[node]]
                k -= 1
            if same:
                return path
        path = following[path]
    path, begin = counts[0], path_start[counts[0]]
    if path + 1 >= len(path_flow) or begin + length > len(path_links):
        return -1
    counts[0] = path + 1
    path_start[path + 1] = begin + length
    node, k = target, begin + length - 1
    while node != origin:
        path_links[k] = last[node]
        node = tails[last[node]]
        k -= 1
    path_pair[path], path_flow[path] = pair, 0.0
    following[path], head[pair] = head[pair], path
    return path


@compiled(
    "read_int32s1 read_int32s1 read_int32s1 read_int32s1 read1 read_int32s1 read_int32s1 "
    "read_int32s1 read_int32s1 index read1 read1 read1 read1 read2 write1 int32s1 int32s1 "
    "int32s1 write1 int32s1 int32s1 int32s1 index index index write1"
)
def extend_paths(
    group_origin, group_class, group_start, targets, demand, tails, heads, start, out, first, free,
    rise, capacity, power, extra, flow, head, following, path_pair, path_flow, path_start,
    path_links, counts, begin, end, loading, found,
):  # fmt: skip
    """Add the shortest path of every pair of groups `begin` to `end`, all at the same costs.

    A group consists of the pairs of one class and origin. While `loading`, new paths carry the
    demand of their pairs, and each group sees the costs that the groups before it cause. Adds the
    least total cost to `found`, and stores the largest excess of a used path with its pair and
    path. Returns the first group for which memory was too small, or `end`.
    """
    links, nodes = len(tails), len(start) - 1
    heap, place = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    distance, last = np.empty(nodes), np.empty(nodes, np.int32)
    cost, slope, paid = np.empty(links), np.empty(links), np.empty(links)
    for link in range(links):
        cut_price(link, flow, free, rise, capacity, power, cost, slope)
    for group in range(begin, end):
        origin, m = group_origin[group], group_class[group]
        for link in range(links):
            paid[link] = cost[link] + extra[m, link]
        tree(origin, paid, start, out, heads, first, distance, last, heap, place)
        total = 0.0
        for pair in range(group_start[group], group_start[group + 1]):
            target = targets[pair]
            path = _add_path(
                pair, origin, target, last, tails, head, following, path_pair, path_flow,
                path_start, path_links, counts,
            )  # fmt: skip
            if path < 0:
                return group
            if loading:
                path_flow[path] = demand[pair]
                for k in range(path_start[path], path_start[path + 1]):
                    link = path_links[k]
                    flow[link] += demand[pair]
                    cut_price(link, flow, free, rise, capacity, power, cost, slope)
                continue
            total += demand[pair] * distance[target]
            path = head[pair]
            while path >= 0:
                if path_flow[path] > 0.0:
                    excess = path_cost(path, path_start, path_links, cost, extra[m])
                    excess -= distance[target]
                    if excess > found[1]:
                        found[1], found[2] = excess, path
                path = following[path]
        found[0] += total  # a group for which memory was too small comes again
    return end


@compiled()
def _cost_at(v, free, rise, capacity, power):
    """Return the cost of a link at a flow, cut where it is too large."""
    cost = free + rise
    if rise > 0.0 and power > 0.0:  # a rise of zero is none, also where the power overflows
        cost = free + rise * (max(v, 0.0) / capacity) ** power
    return cost if cost < CEILING else CEILING


@compiled()
def _surplus(path, best, shift, mark, stamp, path_start, path_links, free, rise, capacity, power,
             extra, flow):  # fmt: skip
    """Return how much more `path` costs than `best` after `shift` has moved from it to `best`.

    Links of both have the mark `stamp + 1`, other links of `best` the mark `stamp`.
    """
    total = 0.0
    for side in range(2):
        sign = 1.0 - 2.0 * side
        of = best if side else path
        for k in range(path_start[of], path_start[of + 1]):
            link = path_links[k]
            if mark[link] != stamp + 1:
                cost = _cost_at(
                    flow[link] - sign * shift, free[link], rise[link], capacity[link], power[link]
                )
                total += sign * (cost + extra[link])
    return total


@compiled()
def _balance(path, best, carried, step, enough, mark, stamp, path_start, path_links, free, rise,
             capacity, power, extra, flow):  # fmt: skip
    """Return the flow that `path` loses to `best` so that both cost the same, and what it keeps.

    The smaller of the two is found to all its digits by bisection of its logarithm: next to an
    empty link whose power is below one, costs change by as much from 1e-20 to 1e-10 as from there
    to 1. If `step` leaves at most `enough` of the difference, it is returned. Flows are left as
    they were. `path` costs more than `best` and carries `carried`.
    """
    about = mark, stamp, path_start, path_links, free, rise, capacity, power, extra, flow
    if abs(_surplus(path, best, step, *about)) <= enough:
        return step, carried - step
    if _surplus(path, best, carried, *about) >= 0.0:
        return carried, 0.0
    keeps = _surplus(path, best, 0.5 * carried, *about) > 0.0
    if keeps:  # start from the other end
        for side in range(2):
            sign = 1.0 - 2.0 * side
            of = best if side else path
            for k in range(path_start[of], path_start[of + 1]):
                if mark[path_links[k]] != stamp + 1:
                    flow[path_links[k]] -= sign * carried
    sign = -1.0 if keeps else 1.0
    low, high = 0.0, 0.5 * carried
    for _ in range(_HALVINGS):
        middle = np.sqrt(low) * np.sqrt(high) if low > 0.0 else 1e-8 * high
        if not low < middle < high:
            break
        if sign * _surplus(path, best, sign * middle, *about) > 0.0:
            low = middle
        else:
            high = middle
    if not keeps:
        return high, carried - high
    for side in range(2):
        back = 1.0 - 2.0 * side
        of = best if side else path
        for k in range(path_start[of], path_start[of + 1]):
            if mark[path_links[k]] != stamp + 1:
                flow[path_links[k]] += back * carried
    return carried - high, high


@compiled(
    "read_int32s1 read1 read1 read1 read1 read2 write1 read_int32s1 read_int32s1 "
    "read_int32s1 write1 read_int32s1 read_int32s1 int32s1 index float"
)
def shift_flows(
    pair_class, free, rise, capacity, power, extra, flow, head, following, path_pair, path_flow,
    path_start, path_links, counts, sweeps, enough,
):  # fmt: skip
    """Run sweeps of gradient projection over the pairs; stop when no excess is above `enough`.

    A path that is more expensive than the cheapest of its pair by d gives it the flow d / s, at
    most all of its own, where s sums the slopes of the links that lie on exactly one of the two.
    Costs are updated at once. Link flows are first recomputed, since rounding makes them drift.
    Returns the number of sweeps.
    """
    links = len(flow)
    cost, slope = np.empty(links), np.empty(links)
    mark, stamp = np.zeros(links, np.int64), 0
    _load(path_flow, path_pair, path_start, path_links, counts[0], flow)
    for link in range(links):
        price(link, flow, free, rise, capacity, power, cost, slope)
    done = 0
    while done < sweeps:
        done += 1
        worst = 0.0
        for pair in range(len(head)):
            best = head[pair]
            if following[best] < 0:
                continue
            own = extra[pair_class[pair]]
            least, path = np.inf, best
            while path >= 0:
                length = path_cost(path, path_start, path_links, cost, own)
                if length < least:
                    least, best = length, path
                path = following[path]
            path = head[pair]
            while path >= 0:
                if path == best or path_flow[path] <= 0.0:
                    path = following[path]
                    continue
                excess = path_cost(path, path_start, path_links, cost, own)
                excess -= path_cost(best, path_start, path_links, cost, own)
                worst = max(worst, abs(excess))
                stamp += 2
                steep = 0.0
                for k in range(path_start[best], path_start[best + 1]):
                    mark[path_links[k]] = stamp
                for k in range(path_start[path], path_start[path + 1]):
                    link = path_links[k]
                    if mark[link] == stamp:
                        mark[link] = stamp + 1
                    else:
                        steep += slope[link]
                for k in range(path_start[best], path_start[best + 1]):
                    if mark[path_links[k]] == stamp:
                        steep += slope[path_links[k]]
                if excess >= 0.0:
                    step = path_flow[path]
                    if excess < step * steep:
                        step = excess / steep
                else:
                    step = -path_flow[best]
                    if excess > step * steep:
                        step = excess / steep
                if step == 0.0 or excess == 0.0:
                    path = following[path]
                    continue
                path_flow[path] -= step
                path_flow[best] += step
                for k in range(path_start[best], path_start[best + 1]):
                    link = path_links[k]
                    if mark[link] == stamp:
                        flow[link] += step
                        price(link, flow, free, rise, capacity, power, cost, slope)
                for k in range(path_start[path], path_start[path + 1]):
                    link = path_links[k]
                    if mark[link] != stamp + 1:
                        flow[link] -= step
                        price(link, flow, free, rise, capacity, power, cost, slope)
                path = following[path]
        if worst <= enough:
            break
    _load(path_flow, path_pair, path_start, path_links, counts[0], flow)
    return done


@compiled(
    "read_int32s1 read1 read1 read1 read1 read2 write1 read_int32s1 read_int32s1 "
    "read_int32s1 write1 read_int32s1 read_int32s1 int32s1 index float"
)
def balance_flows(
    pair_class, free, rise, capacity, power, extra, flow, head, following, path_pair, path_flow,
    path_start, path_links, counts, sweeps, enough,
):  # fmt: skip
    """Do the same where powers are below one or large, or costs overflow: tangents tell little.

    Slopes of the former are infinite at zero, those of the latter vanish there. A step must halve
    the excess; otherwise both paths are made to cost the same by bisection.
    """
    links = len(flow)
    cost, slope = np.empty(links), np.empty(links)
    mark, stamp = np.zeros(links, np.int64), 0
    _load(path_flow, path_pair, path_start, path_links, counts[0], flow)
    for link in range(links):
        cut_price(link, flow, free, rise, capacity, power, cost, slope)
    done = 0
    while done < sweeps:
        done += 1
        worst = 0.0
        for pair in range(len(head)):
            own = extra[pair_class[pair]]
            least, best, path = np.inf, head[pair], head[pair]
            while path >= 0:
                length = path_cost(path, path_start, path_links, cost, own)
                if length < least:
                    least, best = length, path
                path = following[path]
            path = head[pair]
            while path >= 0:
                excess = path_cost(path, path_start, path_links, cost, own)
                excess -= path_cost(best, path_start, path_links, cost, own)
                if path == best or path_flow[path] <= 0.0 or excess <= 0.0:
                    path = following[path]
                    continue
                worst = max(worst, excess)
                stamp += 2
                for k in range(path_start[best], path_start[best + 1]):
                    mark[path_links[k]] = stamp
                steep = 0.0
                for k in range(path_start[path], path_start[path + 1]):
                    link = path_links[k]
                    if mark[link] == stamp:
                        mark[link] = stamp + 1
                    else:
                        steep += slope[link]
                for k in range(path_start[best], path_start[best + 1]):
                    if mark[path_links[k]] == stamp:
                        steep += slope[path_links[k]]
                carried = path_flow[path]
                step = excess / steep if excess < carried * steep else carried
                step, keeps = _balance(
                    path, best, carried, step, 0.5 * excess, mark, stamp, path_start, path_links,
                    free, rise, capacity, power, own, flow,
                )  # fmt: skip
                path_flow[path] = keeps
                path_flow[best] += step
                for k in range(path_start[best], path_start[best + 1]):
                    link = path_links[k]
                    if mark[link] == stamp:
                        flow[link] += step
                        cut_price(link, flow, free, rise, capacity, power, cost, slope)
                for k in range(path_start[path], path_start[path + 1]):
                    link = path_links[k]
                    if mark[link] != stamp + 1:
                        flow[link] = flow[link] - carried + keeps
                        cut_price(link, flow, free, rise, capacity, power, cost, slope)
                path = following[path]
        if worst <= enough:
            break
    _load(path_flow, path_pair, path_start, path_links, counts[0], flow)
    return done
