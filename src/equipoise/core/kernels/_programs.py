"""The linear program of an aggregative game with a one-dimensional aggregate, for Numba.

`aggregative._knapsack` explains the method, and does the same in NumPy. Here `w` and `f` hold the
weights and influences of all types for action 0, then for action 1, and so on, each padded to `k`
numbers. The index of type t and action a is `a k + t`, and the action is represented by `a k`.

If there are many types, a sample of them first gives two prices that should enclose the price
sought. A type whose best action is the same at both prices keeps it at every price in between, so
that only the hulls of the other types are walked. The two prices are checked; if they fail, the
hulls of all types are walked.
"""

import numpy as np

from equipoise.core.kernels._compile import compiled
from equipoise.core.kernels._lanes import WIDTH, full, load, store, take, total, where
from equipoise.core.kernels._pivot import padded

#: Number of types from which a sample saves time.
_MANY = 500


@compiled(inline=True)
def _best(w, f, k, t, price):
    """Return the actions of eight types with the largest weight minus `price` times influence."""
    most, best = load(w, t) - price * load(f, t), full(0.0)
    for at in range(k, len(w), k):
        score = load(w, at + t) - price * load(f, at + t)
        better = most < score
        best, most = where(better, full(float(at)), best), where(better, score, most)
    return best


@compiled()
def _sum(counts, values, choice):
    """Return the sum over agents of the values of their choices."""
    result = full(0.0)
    for t in range(0, len(counts), WIDTH):
        result = result + load(counts, t) * take(values, t, load(choice, t))
    return total(result)


@compiled(inline=True)
def _next_edge(w, f, k, t, at):
    """Return the end of the steepest edge of a hull that leads on from an index, or -1; slope."""
    steepest, end = -np.inf, -1
    for place in range(t, len(w), k):
        rise = f[place] - f[at]
        if rise > 0.0:
            slope = (w[place] - w[at]) / rise
            if slope > steepest:
                steepest, end = slope, place
    return end, steepest


@compiled()
def _walk(w, f, counts, types, choice, slopes, rises):
    """Fill in slopes and rises of all edges of some types' hulls; return their number."""
    k, edges = len(counts), 0
    for t in types:
        at, last = t + int(choice[t]), np.inf
        while True:
            end, slope = _next_edge(w, f, k, t, at)
            if end < 0:
                break
            last = min(slope, last)  # hulls are concave up to rounding
            slopes[edges], rises[edges] = last, counts[t] * (f[end] - f[at])
            at = end
            edges += 1
    return edges


@compiled()
def _threshold(slopes, rises, edges, need):
    """Return the slope at which edges, steepest first, have risen by `need`; reorder the edges."""
    first, last = 0, edges
    while True:
        a, b, c = slopes[first], slopes[(first + last) // 2], slopes[last - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        # Steeper edges come first, then those of the pivot's slope, then the others.
        above, at, below = first, first, last
        risen = level = 0.0
        while at < below:
            slope, rise = slopes[at], rises[at]
            if slope > pivot:
                slopes[at], rises[at] = slopes[above], rises[above]
                slopes[above], rises[above] = slope, rise
                risen += rise
                above += 1
                at += 1
            elif slope == pivot:
                level += rise
                at += 1
            else:
                below -= 1
                slopes[at], rises[at] = slopes[below], rises[below]
                slopes[below], rises[below] = slope, rise
        if risen >= need and above > first:
            last = above
        elif risen + level >= need or below == last:
            return pivot
        else:
            need -= risen + level
            first = below


@compiled()
def _settle(w, f, counts, types, choice, need):
    """Move all types to a price at which little is needed; return which types may still move."""
    k, everybody = len(counts), np.arange(types)
    if types < _MANY:
        return everybody
    sample = everybody[:: int(types ** (1 / 3))]
    slopes, rises = np.empty((2, len(sample) * (len(w) // k)))
    edges = _walk(w, f, counts, sample, choice, slopes, rises)
    if edges == 0:
        return everybody
    sampled = squares = size = 0.0
    for t in sample:
        sampled += counts[t]
    for i in range(edges):
        squares += rises[i] ** 2
        size = max(size, abs(slopes[i]))
    middle = need * sampled / counts.sum()
    # Between slopes, so that a type that is tied at the price sought stays unsettled.
    apart = 1e-9 * (size if size > 0.0 else 1.0)
    here, there = np.empty(k), np.empty(k)
    for width in (1.0, 4.0):
        margin = width * np.sqrt(squares)
        dear = full(min(_threshold(slopes, rises, edges, middle - margin) + apart, 0.0))
        cheap = full(_threshold(slopes, rises, edges, middle + margin) - apart)
        for t in range(0, k, WIDTH):
            store(here, t, _best(w, f, k, t, dear))
            store(there, t, _best(w, f, k, t, cheap))
        before = _sum(counts, f, choice)
        if _sum(counts, f, here) - before <= need <= _sum(counts, f, there) - before:
            choice[:] = here
            return np.flatnonzero(here[:types] != there[:types])
    return everybody


@compiled("read2 read2 read1 read_bools2 float float float int64s1 write1")
def solve_program(weights, influence, counts, allowed, low, high, rounding, choice, numbers):
    """Fill in the action of each type, and `numbers`: objective, agents moved, and where to.

    The sum of influences must lie in [low, high], up to `rounding` relative to the sum of their
    absolute values. Returns the type of which some agents are moved, -1 if there is none, and -2 if
    no mixed actions reach the interval.
    """
    types, actions = weights.shape
    k = padded(types)
    w, f, c, chosen = np.zeros(actions * k), np.zeros(actions * k), np.zeros(k), np.zeros(k)
    for t in range(types):
        c[t] = counts[t]
        for a in range(actions):
            w[a * k + t] = weights[t, a] if allowed[t, a] else -np.inf
            f[a * k + t] = influence[t, a]
    zero, size = full(0.0), full(0.0)
    for t in range(0, k, WIDTH):
        best, least, most = _best(w, f, k, t, zero), load(f, t), load(f, t)
        for at in range(k + t, len(f), k):
            e = load(f, at)
            least, most = where(e < least, e, least), where(most < e, e, most)
        store(chosen, t, best)
        e, most = take(f, t, best), most - least
        e = where(e < zero, zero - e, e)
        size = size + load(c, t) * where(e < most, most, e)
    slack, aggregate = rounding * total(size), _sum(c, f, chosen)
    moved, edge = -1, low
    if not low - slack <= aggregate <= high + slack:
        if aggregate > high:
            edge, f = -high, -f
            aggregate = -aggregate
        some = _settle(w, f, c, types, chosen, edge - aggregate)
        need = edge - _sum(c, f, chosen)
        slopes, rises = np.empty((2, len(some) * actions))
        edges = _walk(w, f, c, some, chosen, slopes, rises)
        reach = rises[:edges].sum()
        if reach < need - slack:
            return -2
        price = _threshold(slopes, rises, edges, min(need, reach)) if edges else 0.0
        for t in some:
            while True:
                end, slope = _next_edge(w, f, k, t, t + int(chosen[t]))
                if end < 0 or slope <= price:
                    break
                chosen[t] = end - t
        need, gained, done = edge - _sum(c, f, chosen), 0.0, False
        for t in some:  # edges at the price itself, in order, until nothing is needed
            while not done:
                at = t + int(chosen[t])
                end, slope = _next_edge(w, f, k, t, at)
                if end < 0 or slope < price:
                    break
                rise = c[t] * (f[end] - f[at])
                if gained + rise <= need:
                    gained += rise
                    chosen[t] = end - t
                    continue
                done = True
                if need - gained > slack:
                    moved = t
                    numbers[1] = c[t] * min((need - gained) / rise, 1.0)
                    numbers[2] = end // k
    numbers[0] = _sum(c, w, chosen)
    for t in range(types):
        choice[t] = int(chosen[t]) // k
    if moved >= 0:
        end = int(numbers[2]) * k + moved
        numbers[0] += numbers[1] * (w[end] - w[moved + int(chosen[moved])])
    return moved
