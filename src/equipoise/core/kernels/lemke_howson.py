"""Lemke and Howson's algorithm, written so that Numba compiles it and Python runs it as it is.

Two dictionaries, one for each best-reply polytope, exchange one basic variable at a time until
the label that was dropped first is dropped again (Lemke and Howson, 1964). Only the columns of
non-basic variables are kept, half of a full tableau. Ties of the ratio test are broken by the
lexicographic rule on the columns of the first basis, so that degenerate games do not cycle.
"""

import numpy as np

from equipoise.core import kernels
from equipoise.core.kernels._compile import compiled

_TINY = 1e-11
_TIE = 1e-11


@compiled("read4 read_int64s1 index write2 write2 int64s1 write1 index index")
def lemke_howson_loop(payoffs, start, limit, x, y, pivots, spread, first, last):
    """Fill `x`, `y`, `pivots` and `spread` of some games; one beyond `limit` pivots keeps zeros.

    `payoffs` (games, 2, m, n) of the row and the column player are brought to [1, 2]. `start`
    (games,) is the label to drop first. Returns how many games kept zeros.
    """
    _, _, m, n = payoffs.shape
    missed = 0
    # Tables of both dictionaries, right-hand sides last; labels of their rows.
    size = max(m, n)
    width = size + 1
    # One dictionary after the other; flat, since views of rows cost Numba more than their sums.
    table = np.empty(2 * size * width)
    row_label = np.empty((2, size), np.int64)
    pivot = np.empty(width)
    #: Where each label is: its column, or -1 - its row.
    place = np.empty((2, m + n), np.int64)
    for g in range(first, last):
        low_a = high_a = payoffs[g, 0, 0, 0]
        low_b = high_b = payoffs[g, 1, 0, 0]
        for i in range(m):
            for j in range(n):
                first_pays, second_pays = payoffs[g, 0, i, j], payoffs[g, 1, i, j]
                low_a, high_a = min(low_a, first_pays), max(high_a, first_pays)
                low_b, high_b = min(low_b, second_pays), max(high_b, second_pays)
        spread[g] = max(high_a - low_a, high_b - low_b)
        unit_a = 1.0 / (high_a - low_a) if high_a > low_a else 1.0
        unit_b = 1.0 / (high_b - low_b) if high_b > low_b else 1.0
        for i in range(m):
            for j in range(n):
                table[j * width + i] = 1.0 + (payoffs[g, 1, i, j] - low_b) * unit_b
                table[(size + i) * width + j] = 1.0 + (payoffs[g, 0, i, j] - low_a) * unit_a
        for j in range(n):
            table[j * width + m] = 1.0
            row_label[0, j] = m + j
            place[0, m + j] = -1 - j
            place[1, m + j] = j
        for i in range(m):
            table[(size + i) * width + n] = 1.0
            row_label[1, i] = i
            place[1, i] = -1 - i
            place[0, i] = i
        entering = start[g]
        t = 0 if entering < m else 1
        count = 0
        found = False
        while count < limit:
            count += 1
            base = t * size * width
            rows = n if t == 0 else m
            columns = m if t == 0 else n
            first_slack = m if t == 0 else 0
            c = place[t, entering]
            r, smallest = -1, np.inf
            for i in range(rows):
                p = table[base + i * width + c]
                if p <= _TINY:
                    continue
                ratio = table[base + i * width + columns] / p
                if ratio < smallest - _TIE:
                    r, smallest = i, ratio
                elif ratio <= smallest + _TIE:
                    q = table[base + r * width + c]
                    for s in range(rows):
                        at = place[t, first_slack + s]
                        if at >= 0:
                            difference = (
                                table[base + i * width + at] / p - table[base + r * width + at] / q
                            )
                        else:
                            difference = 0.0
                            if -1 - at == i:
                                difference = 1.0 / p
                            elif -1 - at == r:
                                difference = -1.0 / q
                        if difference < -_TIE:
                            r, smallest = i, ratio
                            break
                        if difference > _TIE:
                            break
            if r < 0:
                break
            leaving = row_label[t, r]
            row = base + r * width
            inverse = 1.0 / table[row + c]
            for j in range(columns + 1):
                pivot[j] = table[row + j] * inverse
            pivot[c] = inverse
            for j in range(columns + 1):
                table[row + j] = pivot[j]
            for i in range(rows):
                row = base + i * width
                factor = table[row + c]
                if i != r and factor != 0.0:
                    table[row + c] = 0.0
                    for j in range(columns + 1):
                        table[row + j] -= factor * pivot[j]
            row_label[t, r] = entering
            place[t, entering] = -1 - r
            place[t, leaving] = c
            if leaving == start[g]:
                found = True
                break
            entering = leaving
            t = 1 - t
        pivots[g] = count
        total = 0.0
        for i in range(m):
            x[g, i] = 0.0
            if found and place[0, i] < 0:
                x[g, i] = max(table[(-1 - place[0, i]) * width + m], 0.0)
                total += x[g, i]
        if total > 0.0:
            for i in range(m):
                x[g, i] /= total
        total = 0.0
        for j in range(n):
            y[g, j] = 0.0
            if found and place[1, m + j] < 0:
                y[g, j] = max(table[(size - 1 - place[1, m + j]) * width + n], 0.0)
                total += y[g, j]
        if total > 0.0:
            for j in range(n):
                y[g, j] /= total
        if not found:
            missed += 1
    return missed


def lemke_howson(
    payoffs: np.ndarray, start: int | np.ndarray, *, seconds: float = np.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Strategies (games, m) and (games, n), pivots (games,) and the larger range of payoffs of
    both players (games,), of payoffs (games, 2, m, n).

    `start` (games,) is the label to drop: an action of the row player, or m plus one of the column
    player. A game whose pivots lose their way has strategies of zeros, and so has one that would
    take more pivots than fit into about so many `seconds`.

    >>> x, y, *_ = lemke_howson(np.array([[[[3.0, 1], [0, 2]], [[2, 1], [0, 3]]]]), 0)
    >>> x.tolist(), y.tolist()
    ([[1.0, 0.0]], [[1.0, 0.0]])
    """
    games, _, m, n = payoffs.shape
    x, y, pivots = np.zeros((games, m)), np.zeros((games, n)), np.zeros(games, np.int64)
    spread = np.zeros(games)
    start = np.ascontiguousarray(np.broadcast_to(np.asarray(start, np.int64), (games,)))
    payoffs = np.ascontiguousarray(payoffs, np.float64)
    each = 3e-8 * (m + n) + 1e-9 * (m + n) * m * n
    limit = int(min(100 * (m + n) + 1000, seconds / (2e-9 * m * n) + m + n))
    loop, _ = kernels.choose("lemke_howson_loop", games * each)
    parts = (payoffs, start, limit, x, y, pivots, spread)
    kernels.over_games(loop or lemke_howson_loop, games, each, *parts)
    return x, y, pivots, spread
