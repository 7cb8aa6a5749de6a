"""Gains in zero-sum matrix games, compiled: eight games at a time, one in each lane.

The arithmetic is that of `certificates`: payoffs without a large offset, expected payoffs of all
pure replies, the same again with absolute payoffs, and a bound on rounding from those. A kernel
reads the game and the policy, never what a solver knows.
"""

import numpy as np
from numba import types

from equipoise.core.kernels._compile import READ, WRITE, compiled
from equipoise.core.kernels._lanes import WIDTH, full, gather, load, store, where

#: As `checks.check_probabilities` takes them without a change.
_SUMS = 64 * 2.0**-52


@compiled()
def distance(a, b):
    """The absolute difference, lane by lane."""
    return where(a < b, b - a, a - b)


@compiled(
    types.intp(
        READ[3], READ[2], READ[2], types.float64, types.float64, types.float64,
        WRITE[3], types.intp, types.intp,
    )
)  # fmt: skip
def matrix_gains(payoff, x, y, step, tiny, ordinary, results, first, last):
    """Gains, bounds on them, values and the size of rounding, as `results` (4, games, 2).

    Rounding is `step` times the largest expected absolute payoff of the player's deviations, plus
    `tiny` times one plus the largest payoff. Returns how many games this is not made for: those
    whose largest payoff is not between 1 / `ordinary` and `ordinary`, and those whose policies are
    not probabilities.
    """
    _, m, n = payoff.shape
    payoffs, xs, ys = payoff.reshape(payoff.size), x.reshape(x.size), y.reshape(y.size)
    s, columns, sizes = np.empty(m * n * WIDTH), np.empty(n * WIDTH), np.empty(n * WIDTH)
    weights, found = np.empty(n * WIDTH), np.empty(6 * WIDTH)
    zero, infinite = full(0.0), full(np.inf)
    left = 0
    for game in range(first, last, WIDTH):
        games = min(WIDTH, last - game)
        low, high = infinite, full(-np.inf)
        for p in range(m * n):
            e = gather(payoffs, game * m * n + p, m * n, games)
            low, high = where(e < low, e, low), where(high < e, e, high)
            store(s, p * WIDTH, e)
        # The payoff that is nearest to zero is an offset if it is many times the spread.
        near = where(high < zero, high, where(zero < low, low, zero))
        spread = high - low
        near = where(full(16.0) * spread < distance(near, zero), near, zero)
        most = where(high < zero - low, zero - low, high)
        most = where(near == zero, most, spread)
        x_sum, y_sum, least = zero, zero, zero
        for j in range(n):
            e = gather(ys, game * n + j, n, games)
            y_sum, least = y_sum + e, where(e < least, e, least)
            store(weights, j * WIDTH, e)
            store(columns, j * WIDTH, zero)
            store(sizes, j * WIDTH, zero)
        best, worst, earned = full(-np.inf), infinite, zero
        row_reach, column_reach = zero, zero
        for i in range(m):
            weight, row, row_size = gather(xs, game * m + i, m, games), zero, zero
            x_sum, least = x_sum + weight, where(weight < least, weight, least)
            for j in range(n):
                e, at = load(s, (i * n + j) * WIDTH) - near, j * WIDTH
                absolute, other = distance(e, zero), load(weights, at)
                row, row_size = row + e * other, row_size + absolute * other
                store(columns, at, load(columns, at) + e * weight)
                store(sizes, at, load(sizes, at) + absolute * weight)
            earned = earned + row * weight
            best = where(best < row, row, best)
            row_reach = where(row_reach < row_size, row_size, row_reach)
        for j in range(n):
            column, column_size = load(columns, j * WIDTH), load(sizes, j * WIDTH)
            worst = where(column < worst, column, worst)
            column_reach = where(column_reach < column_size, column_size, column_reach)
        store(found, 0, best - earned)
        store(found, WIDTH, earned - worst)
        store(found, 2 * WIDTH, earned + near)
        least_slack = where(most == zero, zero, full(tiny) * (full(1.0) + most))
        store(found, 3 * WIDTH, full(step) * row_reach + least_slack)
        store(found, 4 * WIDTH, full(step) * column_reach + least_slack)
        sums = distance(x_sum, full(1.0)) < full(_SUMS)
        sums = sums & (distance(y_sum, full(1.0)) < full(_SUMS)) & (least == zero)
        store(found, 5 * WIDTH, where(sums, most, infinite))
        for lane in range(games):
            g, size = game + lane, found[5 * WIDTH + lane]
            for i in range(2):
                gain, slack = found[i * WIDTH + lane], found[(3 + i) * WIDTH + lane]
                results[0, g, i], results[1, g, i], results[3, g, i] = gain, gain + slack, slack
            results[2, g, 0] = found[2 * WIDTH + lane]
            results[2, g, 1] = -found[2 * WIDTH + lane]
            left += not (1.0 / ordinary <= size <= ordinary or size == 0.0)
    return left
