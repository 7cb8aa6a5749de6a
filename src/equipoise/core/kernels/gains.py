"""Gains in zero-sum matrix games, compiled: eight games at a time, one in each lane.

The arithmetic is that of `certificates`: payoffs without a large offset, expected payoffs of all
pure replies, the same again with absolute payoffs, and a bound on rounding from those. A kernel
reads the game and the policy, never what a solver knows.
"""

import numpy as np
from numba import types

from equipoise.core.kernels._compile import READ, WRITE, compiled
from equipoise.core.kernels._lanes import WIDTH, full, gather, load, store, where


@compiled(
    types.void(
        READ[3], READ[2], READ[2], types.float64, types.float64,
        WRITE[2], WRITE[2], WRITE[1], WRITE[1], types.intp, types.intp,
    )
)  # fmt: skip
def matrix_gains(payoff, x, y, step, tiny, gains, value, slack, size, first, last):
    """Gains and value of the policies, and how far rounding can put them off.

    `slack` is `step` times the largest expected absolute payoff of a deviation, plus `tiny` times
    one plus the largest payoff, which is `size`.
    """
    _, m, n = payoff.shape
    payoffs, xs, ys = payoff.reshape(payoff.size), x.reshape(x.size), y.reshape(y.size)
    s, columns, sizes = np.empty(m * n * WIDTH), np.empty(n * WIDTH), np.empty(n * WIDTH)
    weights, results = np.empty(n * WIDTH), np.empty(5 * WIDTH)
    zero, infinite = full(0.0), full(np.inf)
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
        near = where(full(16.0) * spread < where(near < zero, zero - near, near), near, zero)
        most = where(high < zero - low, zero - low, high)
        most = where(near == zero, most, spread)
        for j in range(n):
            store(weights, j * WIDTH, gather(ys, game * n + j, n, games))
            store(columns, j * WIDTH, zero)
            store(sizes, j * WIDTH, zero)
        best, worst, earned, reach = full(-np.inf), infinite, zero, zero
        for i in range(m):
            weight, row, row_size = gather(xs, game * m + i, m, games), zero, zero
            for j in range(n):
                e, at = load(s, (i * n + j) * WIDTH) - near, j * WIDTH
                absolute, other = where(e < zero, zero - e, e), load(weights, at)
                row, row_size = row + e * other, row_size + absolute * other
                store(columns, at, load(columns, at) + e * weight)
                store(sizes, at, load(sizes, at) + absolute * weight)
            earned = earned + row * weight
            best = where(best < row, row, best)
            reach = where(reach < row_size, row_size, reach)
        for j in range(n):
            column, column_size = load(columns, j * WIDTH), load(sizes, j * WIDTH)
            worst = where(column < worst, column, worst)
            reach = where(reach < column_size, column_size, reach)
        store(results, 0, best - earned)
        store(results, WIDTH, earned - worst)
        store(results, 2 * WIDTH, earned + near)
        store(results, 3 * WIDTH, full(step) * reach + full(tiny) * (full(1.0) + most))
        store(results, 4 * WIDTH, most)
        for lane in range(games):
            g = game + lane
            gains[g, 0], gains[g, 1] = results[lane], results[WIDTH + lane]
            value[g, 0], value[g, 1] = results[2 * WIDTH + lane], -results[2 * WIDTH + lane]
            slack[g], size[g] = results[3 * WIDTH + lane], results[4 * WIDTH + lane]
