"""Zero-sum matrix games, compiled: equilibria of one game or of many.

Payoffs are scaled to [1, 2] and pivoted (`_pivot`). Every game is then evaluated in the scaled
payoffs. A gap above rounding is refined: at the optimum the tableau holds the inverse of the
kernel, the square sub-game on the two supports, so that a few steps of iterative refinement bring
the strategies to full precision. If that is not enough, for instance because a game cycled, the
game is solved again with a perturbed right-hand side, which has no ties and hence no cycles.
"""

import numpy as np

from equipoise.core.kernels._compile import compiled
from equipoise.core.kernels._lanes import (
    WIDTH,
    full,
    gather,
    load,
    put,
    smallest,
    store,
    total,
    where,
)
from equipoise.core.kernels._pivot import padded, pivot_columns, pivot_games, power_of_two

_EPS = 2.0**-52
_LARGEST = float(np.finfo(np.float64).max)
#: Up to this many payoffs, games are solved in lanes, if there are enough of them.
_LANES_UP_TO = 1024
#: A gap of more than this many rounding errors of the payoff range triggers a second attempt.
_RETRY = 64.0
_PERTURBATION = 1e-7
_GOLDEN = 0.6180339887498949


@compiled()
def _in_lanes(games, size):
    """Whether this many games of this many payoffs are solved faster in lanes than one by one.

    Eight games in lanes take as long as one by itself at 5 x 5, as two at 10 x 10, as four at
    20 x 20 and as seven at 30 x 30, however many lanes are used.
    """
    return size <= _LANES_UP_TO and games > 1 and 20 * games * games > size


@compiled()
def _rounding(m, n):
    """Return the largest gap, in scaled payoffs, that is indistinguishable from zero."""
    return _EPS * (4.0 + 0.125 * (m + n))


@compiled()
def _evaluate(s, z, x, y, v, m, n):
    """Normalise the strategies; return their value and duality gap in scaled payoffs `s`."""
    k = padded(n)
    sums = 0.0
    for j in range(n):
        y[j] = max(z[j], 0.0)
        sums += y[j]
    for j in range(k):
        y[j] = y[j] / sums if j < n else 0.0
        v[j] = 0.0
    sums = 0.0
    for i in range(m):
        x[i] = max(z[n + i], 0.0)
        sums += x[i]
    value, best = 0.0, -np.inf
    for i in range(m):
        x[i] /= sums
        row, weight = full(0.0), full(x[i])
        for j in range(0, k, WIDTH):
            e = load(s, i * k + j)
            row = row + e * load(y, j)
            store(v, j, load(v, j) + weight * e)
        earned = total(row)
        value += x[i] * earned
        best = max(best, earned)
    worst = full(np.inf)
    for j in range(0, k, WIDTH):
        e = load(v, j)
        worst = where(e < worst, e, worst)
    return value, best - smallest(worst)


@compiled()
def _refine(s, t, z, row_label, column_label, residual, m, n):
    """One step of iterative refinement of both strategies."""
    k = padded(n)
    for j in range(n):
        label = int(column_label[j]) - n
        error = 0.0
        if label >= 0:
            error = 1.0
            for c in range(n):
                error -= s[label * k + c] * z[c]
        residual[j] = error
    for i in range(m):
        label = int(row_label[i])
        error = 0.0
        if label < n:
            error = 1.0
            for r in range(m):
                error -= s[r * k + label] * z[n + r]
        residual[n + i] = error
    for i in range(m):
        label = int(row_label[i])
        if label < n:
            for j in range(n):
                z[label] += t[i * k + j] * residual[j]
                other = int(column_label[j])
                if other >= n:
                    z[other] += t[i * k + j] * residual[n + i]


@compiled()
def _solve_one(payoff, x_out, y_out, tables, vectors):
    """Solve one game, columns in lanes; return value, gap, spread, pivots and the attempt used."""
    m, n = payoff.shape
    k, rows = padded(n), padded(m)
    s, t = tables[0], tables[1]
    # The first two vectors keep the results of games in lanes.
    cost, norms, v, y = vectors[2], vectors[3], vectors[4], vectors[5]
    right, u, x, z = vectors[6], vectors[7], vectors[8], vectors[9]
    residual, row_label, column_label = vectors[10], vectors[11], vectors[12]
    low, high = payoff[0, 0], payoff[0, 0]
    for i in range(m):
        for j in range(n):
            low, high = min(low, payoff[i, j]), max(high, payoff[i, j])
    factor = power_of_two(low, high)
    low *= factor
    spread = high * factor - low
    scale = 1.0 / spread if spread > 0.0 else 1.0
    for i in range(m):
        for j in range(k):  # the padding of a row is never the worst column
            s[i * k + j] = 1.0 + (payoff[i, j] * factor - low) * scale if j < n else 2.0
    best, value, pivots, attempt_of_best = np.inf, 0.0, 0, 0
    for attempt in range(2):
        for j in range(k):
            cost[j] = -1.0 if j < n else 0.0
            norms[j] = 1.0
            column_label[j] = j
        for i in range(rows):
            right[i] = 1.0 + attempt * _PERTURBATION * ((i + 1) * _GOLDEN % 1.0)
            u[i] = 0.0
            row_label[i] = n + i
        for i in range(m):
            for j in range(k):
                e = s[i * k + j] if j < n else 0.0
                t[i * k + j] = e
                norms[j] += e * e
        pivots += pivot_columns(t, right, cost, norms, u, v, row_label, column_label, m, n)
        for i in range(m):
            label = int(row_label[i])
            z[label] = right[i] if label < n else 0.0
        for j in range(n):
            label = int(column_label[j])
            z[label] = cost[j] if label >= n else 0.0
        for step in range(4):
            found, gap = _evaluate(s, z, x, y, v, m, n)
            if gap < best:
                best, value, attempt_of_best = gap, found, attempt
                for i in range(m):
                    x_out[i] = x[i]
                for j in range(n):
                    y_out[j] = y[j]
            elif step > attempt:
                break
            if best <= _rounding(m, n):
                break
            _refine(s, t, z, row_label, column_label, residual, m, n)
        if best <= _RETRY * _EPS:
            break
    value = (low + (value - 1.0) * spread) / factor
    return value, best * spread / factor, min(spread / factor, _LARGEST), pivots, attempt_of_best


@compiled()
def _solve_eight(flat, start, games, m, n, tables, vectors):
    """Solve up to eight games in lanes; return the largest number of pivots.

    Leaves strategies in `vectors[0]`, columns first; and in `vectors[1]` values, gaps in scaled
    payoffs, gaps and spreads.
    """
    k, size = n + 1, m * n
    s, t, z, results = tables[0], tables[1], vectors[0], vectors[1]
    norms, u, v, row_label, column_label = (
        vectors[2],
        vectors[3],
        vectors[4],
        vectors[5],
        vectors[6],
    )
    zero, one, infinite = full(0.0), full(1.0), full(np.inf)
    low, high = infinite, full(-np.inf)
    for p in range(size):
        e = gather(flat, start + p, size, games)
        low, high = where(e < low, e, low), where(high < e, e, high)
        store(s, p * WIDTH, e)
    factor = where(high - low < full(1e-290), full(2.0**500), one)
    factor = where(full(1e300) < high, full(0.25), factor)
    factor = where(low < full(-1e300), full(0.25), factor)
    low = low * factor
    spread = high * factor - low
    scale = where(zero < spread, one / spread, one)
    for j in range(n):
        norm = one
        for i in range(m):
            e = one + (load(s, (i * n + j) * WIDTH) * factor - low) * scale
            store(s, (i * n + j) * WIDTH, e)
            store(t, (i * k + j) * WIDTH, e)
            norm = norm + e * e
        store(norms, j * WIDTH, norm)
        store(t, (m * k + j) * WIDTH, full(-1.0))
        store(column_label, j * WIDTH, full(float(j * WIDTH)))
    for i in range(m):
        store(t, (i * k + n) * WIDTH, one)
        store(row_label, i * WIDTH, full(float((n + i) * WIDTH)))
    store(t, (m * k + n) * WIDTH, zero)
    pivots = pivot_games(t, norms, u, v, row_label, column_label, m, n)
    border, sums = full(float(n * WIDTH)), zero
    for i in range(m):
        label, e = load(row_label, i * WIDTH), load(t, (i * k + n) * WIDTH)
        e = where((zero < e) & (label < border), e, zero)
        sums = sums + e
        put(z, 0, label, e)
    y_scale, sums = one / sums, zero
    for j in range(n):
        label, e = load(column_label, j * WIDTH), load(t, (m * k + j) * WIDTH)
        e = where(label < border, zero, where(zero < e, e, zero))
        sums = sums + e
        put(z, 0, label, e)
    x_scale = one / sums
    for j in range(n):
        store(z, j * WIDTH, load(z, j * WIDTH) * y_scale)
        store(v, j * WIDTH, zero)
    value, best, worst = zero, full(-np.inf), infinite
    for i in range(m):
        x, row = load(z, (n + i) * WIDTH) * x_scale, zero
        store(z, (n + i) * WIDTH, x)
        for j in range(n):
            e = load(s, (i * n + j) * WIDTH)
            row = row + e * load(z, j * WIDTH)
            store(v, j * WIDTH, load(v, j * WIDTH) + x * e)
        value = value + x * row
        best = where(best < row, row, best)
    for j in range(n):
        e = load(v, j * WIDTH)
        worst = where(e < worst, e, worst)
    store(results, 0, (low + (value - one) * spread) / factor)
    store(results, WIDTH, best - worst)
    store(results, 2 * WIDTH, (best - worst) * spread / factor)
    spread = spread / factor
    store(results, 3 * WIDTH, where(spread < infinite, spread, full(_LARGEST)))
    return pivots


@compiled()
def workspace(m, n, games):
    """Allocate arrays for games of that shape: tables, and vectors with one number per row."""
    table, vector = m * padded(n), padded(m + n)
    if _in_lanes(min(games, WIDTH), m * n):
        table, vector = max(table, (m + 1) * (n + 1) * WIDTH), (m + n + 2) * WIDTH
    return np.empty((2, table)), np.empty((13, vector))


@compiled()
def solve_range(payoff, absolute, relative, x, y, measures, counts, first, last, tables, vectors):
    """Run `solve_games` in a given workspace."""
    _, m, n = payoff.shape
    flat, size, missed = payoff.reshape(payoff.size), m * n, 0
    z, results = vectors[0], vectors[1]
    for game in range(first, last, WIDTH):
        games, pivots = min(WIDTH, last - game), 0
        side_by_side = _in_lanes(games, size)
        if side_by_side:
            pivots = _solve_eight(flat, game * size, games, m, n, tables, vectors)
        for lane in range(games):
            g = game + lane
            if side_by_side and results[WIDTH + lane] <= _rounding(m, n):
                for i in range(m):
                    x[g, i] = z[(n + i) * WIDTH + lane]
                for j in range(n):
                    y[g, j] = z[j * WIDTH + lane]
                measures[0, g], measures[1, g] = results[lane], results[2 * WIDTH + lane]
                measures[2, g] = results[3 * WIDTH + lane]
                counts[0, g], counts[1, g] = pivots, 0
            else:
                value, gap, spread, own, attempt = _solve_one(
                    payoff[g], x[g], y[g], tables, vectors
                )
                measures[0, g], measures[1, g], measures[2, g] = value, gap, spread
                counts[0, g], counts[1, g] = pivots + own, attempt
            allowed = max(absolute, relative * measures[2, g])
            measures[3, g] = allowed if measures[2, g] > 0.0 else 0.0
            missed += not measures[1, g] <= measures[3, g]
    return missed


@compiled("read3 float float write2 write2 write2 int32s2 index index")
def solve_games(payoff, absolute, relative, x, y, measures, counts, first, last):
    """Solve the games `first` to `last`; return how many missed their tolerance.

    The tolerance of the gap is `absolute`, or `relative` times the spread if that is larger. The
    kernel writes strategies; `measures` (4, games): value, gap, spread, tolerance; and `counts`
    (2, games): pivots and the attempt used, 0 or 1.
    """
    tables, vectors = workspace(payoff.shape[1], payoff.shape[2], last - first)
    return solve_range(
        payoff, absolute, relative, x, y, measures, counts, first, last, tables, vectors
    )
