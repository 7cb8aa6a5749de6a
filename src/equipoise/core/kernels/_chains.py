"""Sums over states, and the value of a Markov chain, in vectors of eight numbers."""

from equipoise.core.kernels._compile import compiled
from equipoise.core.kernels._lanes import (
    WIDTH,
    full,
    largest,
    load,
    smallest,
    store,
    total,
    where,
)
from equipoise.core.kernels._pivot import padded


@compiled(inline=True)
def dot(a, i, b, j, size):
    """Product of `a[i : i + size]` and `b[j : j + size]`."""
    even, odd = full(0.0), full(0.0)  # two sums, since each waits for its last addition
    t = 0
    while t + 2 * WIDTH <= size:
        even = even + load(a, i + t) * load(b, j + t)
        odd = odd + load(a, i + t + WIDTH) * load(b, j + t + WIDTH)
        t += 2 * WIDTH
    if t + WIDTH <= size:
        even = even + load(a, i + t) * load(b, j + t)
        t += WIDTH
    result = 0.0
    for r in range(t, size):
        result += a[i + r] * b[j + r]
    return result if t == 0 else result + total(even + odd)


@compiled(inline=True)
def add_scaled(out, i, weight, a, j, size):
    """`out[i : i + size] += weight * a[j : j + size]`."""
    t, weights = 0, full(weight)
    while t + WIDTH <= size:
        store(out, i + t, load(out, i + t) + weights * load(a, j + t))
        t += WIDTH
    for r in range(t, size):
        out[i + r] += weight * a[j + r]


@compiled()
def solve_chain(matrix, value, states):
    """Solve `matrix @ value = right` in place, where `right` is column `states` of `matrix`.

    The matrix is the identity minus discounted transitions. Its rows are diagonally dominant, so
    that elimination is stable without exchanging rows (Higham, 2002, section 9.5). Rows are padded
    to multiples of eight. Entries that a pass changes left of its column are not read again.
    """
    k = padded(states + 1)
    for c in range(states):
        inverse, start = 1.0 / matrix[c * k + c], c // WIDTH * WIDTH
        for r in range(c + 1, states):
            factor = matrix[r * k + c] * inverse
            if factor != 0.0:
                factors = full(factor)
                for t in range(start, k, WIDTH):
                    e = load(matrix, r * k + t) - factors * load(matrix, c * k + t)
                    store(matrix, r * k + t, e)
    for c in range(states - 1, -1, -1):
        known = dot(matrix, c * k + c + 1, value, c + 1, states - c - 1)
        value[c] = (matrix[c * k + states] - known) / matrix[c * k + c]


@compiled(inline=True)
def range_of(rewards, start, size):
    """Smallest and largest of `size` rewards, the offset to subtract, and the largest remainder.

    As in `core.rounding`, the offset is the reward nearest to zero, if it is many times the range.
    """
    low, high = rewards[start], rewards[start]
    t = 0
    if size >= WIDTH:
        lows, highs = load(rewards, start), load(rewards, start)
        while t + WIDTH <= size:
            e = load(rewards, start + t)
            lows, highs = where(e < lows, e, lows), where(highs < e, e, highs)
            t += WIDTH
        low, high = smallest(lows), largest(highs)
    for i in range(start + t, start + size):
        low, high = min(low, rewards[i]), max(high, rewards[i])
    near = high if high < 0.0 else max(low, 0.0)
    if abs(near) > 16.0 * (high - low):
        return low, high, near, high - low
    return low, high, 0.0, max(-low, high)


@compiled(inline=True)
def usual(size, ordinary):
    """Whether rewards of that size need no scaling."""
    return 1.0 / ordinary <= size <= ordinary or size == 0.0


@compiled(inline=True)
def is_distribution(weights, start, size):
    """Whether `checks.check_probabilities` accepts weights unchanged."""
    total_weight, least = 0.0, 0.0
    for i in range(start, start + size):
        total_weight += weights[i]
        least = min(least, weights[i])
    return abs(total_weight - 1.0) < 64 * 2.0**-52 and least == 0.0
