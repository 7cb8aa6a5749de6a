"""Lemke and Howson's algorithm on a batch of bimatrix games: one loop, compiled where it pays.

Two dictionaries, one for each best-reply polytope, exchange one basic variable at a time until
the label that was dropped first is dropped again (Lemke and Howson, 1964). Only the columns of
non-basic variables are kept, half of a full tableau. Ties of the ratio test are broken by the
lexicographic rule on the columns of the first basis, so that degenerate games do not cycle.

The loop is plain Python. Numba compiles it, in parallel over the batch, when the batch is large
and Numba is installed.
"""

import inspect
from collections.abc import Callable
from functools import cache

import numpy as np

#: Numba's where the loop has been compiled.
prange = range

#: Work, in numbers touched, from which on the compiled loop is used.
COMPILE_FROM = 1_000_000
_TINY = 1e-11
_TIE = 1e-11


def lemke_howson_loop(a, b, start, limit, x, y, pivots, chunk):
    """Fill `x`, `y` and `pivots` of every game; a game past `limit` pivots keeps zeros.

    `a` and `b` (games, m, n) are payoffs of the row and the column player, which are brought to
    [1, 2]; `start` (games,) is the label to drop first.
    """
    games, m, n = a.shape
    for part in prange((games + chunk - 1) // chunk):
        # Tables of both dictionaries, right-hand sides last; labels of their rows and columns.
        size = max(m, n)
        table = np.empty((2, size, size + 1))
        row_label = np.empty((2, size), np.int64)
        column_label = np.empty((2, size), np.int64)
        #: Where each label is: its column, or -1 - its row.
        place = np.empty((2, m + n), np.int64)
        for g in range(part * chunk, min(games, (part + 1) * chunk)):
            low_a = high_a = a[g, 0, 0]
            low_b = high_b = b[g, 0, 0]
            for i in range(m):
                for j in range(n):
                    low_a, high_a = min(low_a, a[g, i, j]), max(high_a, a[g, i, j])
                    low_b, high_b = min(low_b, b[g, i, j]), max(high_b, b[g, i, j])
            unit_a = 1.0 / (high_a - low_a) if high_a > low_a else 1.0
            unit_b = 1.0 / (high_b - low_b) if high_b > low_b else 1.0
            for i in range(m):
                for j in range(n):
                    table[0, j, i] = 1.0 + (b[g, i, j] - low_b) * unit_b
                    table[1, i, j] = 1.0 + (a[g, i, j] - low_a) * unit_a
            for j in range(n):
                table[0, j, m] = 1.0
                row_label[0, j] = m + j
                place[0, m + j] = -1 - j
                column_label[1, j] = m + j
                place[1, m + j] = j
            for i in range(m):
                table[1, i, n] = 1.0
                row_label[1, i] = i
                place[1, i] = -1 - i
                column_label[0, i] = i
                place[0, i] = i
            entering = start[g]
            t = 0 if entering < m else 1
            count = 0
            found = False
            while count < limit:
                count += 1
                here = table[t]
                rows = n if t == 0 else m
                columns = m if t == 0 else n
                first_slack = m if t == 0 else 0
                c = place[t, entering]
                r = -1
                for i in range(rows):
                    p = here[i, c]
                    if p <= _TINY:
                        continue
                    if r < 0:
                        r = i
                        continue
                    q = here[r, c]
                    difference = here[i, columns] / p - here[r, columns] / q
                    if difference < -_TIE:
                        r = i
                    elif difference <= _TIE:
                        for s in range(rows):
                            at = place[t, first_slack + s]
                            if at >= 0:
                                difference = here[i, at] / p - here[r, at] / q
                            else:
                                difference = 0.0
                                if -1 - at == i:
                                    difference = 1.0 / p
                                elif -1 - at == r:
                                    difference = -1.0 / q
                            if difference < -_TIE:
                                r = i
                                break
                            if difference > _TIE:
                                break
                if r < 0:
                    break
                leaving = row_label[t, r]
                pivot = here[r]
                inverse = 1.0 / pivot[c]
                for j in range(columns + 1):
                    pivot[j] *= inverse
                pivot[c] = inverse
                for i in range(rows):
                    if i != r:
                        row = here[i]
                        factor = row[c]
                        if factor != 0.0:
                            row[c] = 0.0
                            for j in range(columns + 1):
                                row[j] -= factor * pivot[j]
                row_label[t, r] = entering
                column_label[t, c] = leaving
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
                    x[g, i] = max(table[0, -1 - place[0, i], m], 0.0)
                    total += x[g, i]
            if total > 0.0:
                for i in range(m):
                    x[g, i] /= total
            total = 0.0
            for j in range(n):
                y[g, j] = 0.0
                if found and place[1, m + j] < 0:
                    y[g, j] = max(table[1, -1 - place[1, m + j], n], 0.0)
                    total += y[g, j]
            if total > 0.0:
                for j in range(n):
                    y[g, j] /= total


@cache
def compiled() -> Callable[..., None] | None:
    """The loop, compiled for all cores; None where Numba is not installed."""
    global prange
    try:
        import numba
    except ImportError:
        return None
    prange = numba.prange
    # Tests wrap functions to check their types.
    loop = inspect.unwrap(lemke_howson_loop)
    return numba.njit(parallel=True, cache=True, nogil=True)(loop)


def lemke_howson(
    a: np.ndarray, b: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Strategies (games, m) and (games, n), and pivots (games,), of payoffs (games, m, n).

    `start` (games,) is the label to drop: an action of the
    row player, or m plus one of the column player.

    >>> a = np.array([[[3.0, 1], [0, 2]]]); b = np.array([[[2.0, 1], [0, 3]]])
    >>> x, y, _ = lemke_howson(a, b, np.array([0]))
    >>> x.tolist(), y.tolist()
    ([[1.0, 0.0]], [[1.0, 0.0]])
    """
    games, m, n = a.shape
    x, y, pivots = np.zeros((games, m)), np.zeros((games, n)), np.zeros(games, np.int64)
    work = float(games) * (m + n) * m * n
    loop = compiled() if work > COMPILE_FROM else None
    chunk = max(1, min(256, games // 16))
    start = np.broadcast_to(np.asarray(start, np.int64), (games,)).copy()
    (loop or lemke_howson_loop)(a, b, start, 100 * (m + n) + 1000, x, y, pivots, chunk)
    return x, y, pivots
