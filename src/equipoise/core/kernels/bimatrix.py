"""Gains in bimatrix games, compiled."""

import numpy as np

from equipoise.core.kernels._compile import compiled


@compiled("read4 read2 read2 float float float write3 index index")
def bimatrix_gains(payoffs, x, y, step, tiny, ordinary, results, first, last):
    """Write gains, bounds on them, values and rounding errors to `results` (4, games, 2).

    `payoffs` is (games, 2, rows, columns). The arithmetic is that of `certificates`. Returns the
    number of games that the kernel does not support: payoffs that are very large or small, or far
    from zero.
    """
    _, _, m, n = payoffs.shape
    own, size = np.empty(max(m, n)), np.empty(max(m, n))
    left = 0
    for g in range(first, last):
        for player in range(2):
            low = high = payoffs[g, player, 0, 0]
            count = m if player == 0 else n
            for k in range(count):
                own[k] = size[k] = 0.0
            for i in range(m):
                row, row_size, weight = 0.0, 0.0, x[g, i]
                for j in range(n):
                    e = payoffs[g, player, i, j]
                    low, high = min(low, e), max(high, e)
                    if player == 0:
                        row += e * y[g, j]
                        row_size += abs(e) * y[g, j]
                    else:
                        own[j] += e * weight
                        size[j] += abs(e) * weight
                if player == 0:
                    own[i], size[i] = row, row_size
            most = max(-low, high)
            near = max(min(high, 0.0), low)
            if most > ordinary or most * ordinary < 1.0 or abs(near) > 16.0 * (high - low):
                left += 1
            value = expected = reach = 0.0
            best = above = -np.inf
            for k in range(count):
                weight = x[g, k] if player == 0 else y[g, k]
                value += own[k] * weight
                expected += size[k] * weight
                best = max(best, own[k])
                above = max(above, own[k] + step * size[k])
                reach = max(reach, size[k])
            slack = step * expected + tiny * (1.0 + most)
            results[0, g, player] = best - value
            results[1, g, player] = max(above - value + slack, best - value)
            results[2, g, player] = value
            results[3, g, player] = step * reach + slack
    return left
