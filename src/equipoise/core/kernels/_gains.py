"""Gains in zero-sum matrix games, compiled.

The arithmetic is that of `certificates`: payoffs without a large offset, expected payoffs of all
pure deviations, the same again with absolute payoffs, and a bound on rounding from those. A kernel
reads the game and the policy, never the solver's state. It reads each payoff twice: once for the
range, and once for all four sums, eight columns at a time.
"""

import numpy as np

from equipoise.core.kernels._chains import is_distribution, range_of, usual
from equipoise.core.kernels._compile import compiled
from equipoise.core.kernels._lanes import WIDTH, full, load, store, total, where


@compiled("read3 read2 read2 float float float write3 index index")
def matrix_gains(payoff, x, y, step, tiny, ordinary, results, first, last):
    """Write gains, bounds on them, values and rounding errors to `results` (4, games, 2).

    A single game, or a single strategy, may be shared by all. The rounding error is `step` times
    the largest expected absolute payoff of the player's deviations, plus `tiny` times one plus the
    largest payoff. Returns the number of games that the kernel does not support: those whose
    largest payoff is not between 1 / `ordinary` and `ordinary`, and those whose policies are not
    probabilities.
    """
    _, m, n = payoff.shape
    payoffs, xs, ys = payoff.reshape(payoff.size), x.reshape(x.size), y.reshape(y.size)
    columns, sizes, left = np.empty(n), np.empty(n), 0
    each_game, each_row, each_column = int(len(payoff) > 1), int(len(x) > 1), int(len(y) > 1)
    offset, size, vectors = 0.0, 0.0, n // WIDTH * WIDTH
    for g in range(first, last):
        p, r, c = g * each_game * m * n, g * each_row * m, g * each_column * n
        if each_game or g == first:
            _, _, offset, size = range_of(payoffs, p, m * n)
        for j in range(n):
            columns[j] = 0.0
            sizes[j] = 0.0
        best, worst, earned = -np.inf, np.inf, 0.0
        row_reach, column_reach = 0.0, 0.0
        for i in range(m):
            row, row_size, weight = 0.0, 0.0, xs[r + i]
            if vectors > 0:
                sums, size_sums, weights = full(0.0), full(0.0), full(weight)
                for j in range(0, vectors, WIDTH):
                    e = load(payoffs, p + j) - full(offset)
                    a = where(e < full(0.0), full(0.0) - e, e)
                    own = load(ys, c + j)
                    sums, size_sums = sums + e * own, size_sums + a * own
                    store(columns, j, load(columns, j) + e * weights)
                    store(sizes, j, load(sizes, j) + a * weights)
                row, row_size = total(sums), total(size_sums)
            for j in range(vectors, n):
                d = payoffs[p + j] - offset
                row += d * ys[c + j]
                row_size += abs(d) * ys[c + j]
                columns[j] += d * weight
                sizes[j] += abs(d) * weight
            p += n
            earned += row * weight
            best = max(best, row)
            row_reach = max(row_reach, row_size)
        for j in range(n):
            worst = min(worst, columns[j])
            column_reach = max(column_reach, sizes[j])
        least = tiny * (1.0 + size) if size > 0.0 else 0.0
        results[0, g, 0], results[3, g, 0] = best - earned, step * row_reach + least
        results[0, g, 1], results[3, g, 1] = earned - worst, step * column_reach + least
        for i in range(2):
            results[1, g, i] = results[0, g, i] + results[3, g, i]
            results[2, g, i] = (earned + offset) * (1.0 - 2.0 * i)
        fine = is_distribution(xs, r, m) and is_distribution(ys, c, n)
        left += not (fine and usual(size, ordinary))
    return left
