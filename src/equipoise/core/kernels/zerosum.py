"""Zero-sum matrix games, compiled: equilibria of one game or of many."""

import numpy as np
from numba import types

from equipoise.core.kernels._compile import READ, WRITE, compiled
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
from equipoise.core.kernels._pivot import pivot_columns, pivot_games, power_of_two

EPS = 2.0**-52
#: Up to this many payoffs, games are solved in lanes, if there are at least so many.
LANES_UP_TO = 900
LANES_FROM = 3
#: A gap of so many roundings of the spread, and more in larger games, asks for refinement.
REFINE = 4.0
#: And one of so many for a second attempt.
RETRY = 256.0
PERTURBATION = 1e-7


@compiled()
def _padded(count):
    return (count + WIDTH - 1) // WIDTH * WIDTH


@compiled()
def _strategies(z, row_label, column_label, right, cost, m, n):
    """The unscaled optimum: w of the columns first, then u of the rows."""
    z[:] = 0.0
    for i in range(m):
        label = int(row_label[i])
        if label < n:
            z[label] = right[i]
    for j in range(n):
        label = int(column_label[j])
        if label >= n:
            z[label] = cost[j]


@compiled()
def _evaluate(s, z, x, y, v, m, n):
    """Normalise the strategies; their value and duality gap in the scaled payoffs `s`."""
    k = len(y)
    sums = 0.0
    for j in range(n):
        y[j] = max(z[j], 0.0)
        sums += y[j]
    for j in range(n):
        y[j] /= sums
    sums = 0.0
    for i in range(m):
        x[i] = max(z[n + i], 0.0)
        sums += x[i]
    for i in range(m):
        x[i] /= sums
    for j in range(k):
        v[j] = 0.0
    value, best = 0.0, -np.inf
    for i in range(m):
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
def _refine(s, t, z, row_label, column_label, residual, m, n, k):
    """One step of iterative refinement of both strategies.

    At the optimum the tableau holds the inverse of the kernel, the square sub-game on the two
    supports.
    """
    for j in range(n):
        label = int(column_label[j]) - n
        residual[j] = 0.0
        if label >= 0:
            error = 1.0
            for c in range(n):
                error -= s[label * k + c] * z[c]
            residual[j] = error
    for i in range(m):
        label = int(row_label[i])
        residual[n + i] = 0.0
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
def _solve_one(payoff, x_out, y_out, space):
    """One game, with its columns in lanes: value, gap, spread, pivots and the stage it took."""
    m, n = payoff.shape
    low, high = payoff[0, 0], payoff[0, 0]
    for i in range(m):
        for j in range(n):
            low, high = min(low, payoff[i, j]), max(high, payoff[i, j])
    k, rows = _padded(n), _padded(m)
    s, t, rest = space[: m * k], space[m * k : 2 * m * k], space[2 * m * k :]
    cost, norms, v, y = rest[:k], rest[k : 2 * k], rest[2 * k : 3 * k], rest[3 * k : 4 * k]
    right, u, x = rest[4 * k :][:rows], rest[4 * k + rows :][:rows], rest[4 * k + 2 * rows :][:rows]
    rest = rest[4 * k + 3 * rows :]
    z, residual, row_label = rest[: m + n], rest[m + n : 2 * (m + n)], rest[2 * (m + n) :][:m]
    column_label = rest[2 * (m + n) + m :][:n]
    u[:], y[:] = 0.0, 0.0
    factor = power_of_two(low, high)
    low, spread = low * factor, high * factor - low * factor
    scale = 1.0 / spread if spread > 0.0 else 1.0
    for i in range(m):
        for j in range(n):
            s[i * k + j] = 1.0 + (payoff[i, j] * factor - low) * scale
        for j in range(n, k):
            s[i * k + j] = 2.0
    rounding = EPS * (REFINE + 0.125 * (m + n))
    best, value, pivots, stage = np.inf, 0.0, 0, 0
    for attempt in range(2):
        for j in range(k):
            cost[j] = -1.0 if j < n else 0.0
            norms[j] = 1.0
        for i in range(m):
            for j in range(k):
                e = s[i * k + j] if j < n else 0.0
                t[i * k + j] = e
                norms[j] += e * e
        for i in range(rows):
            right[i] = 1.0
            if attempt:  # a generic right-hand side has no ties, hence no cycles
                right[i] += PERTURBATION * ((i + 1) * 0.6180339887498949 % 1.0)
        for i in range(m):
            row_label[i] = n + i
        for j in range(n):
            column_label[j] = j
        count = pivot_columns(t, right, cost, norms, u, v, row_label, column_label, m, n)
        pivots += count if count >= 0 else -1 - count
        _strategies(z, row_label, column_label, right, cost, m, n)
        for step in range(4):
            found, gap = _evaluate(s, z, x, y, v, m, n)
            if gap < best:
                best, value, stage = gap, found, attempt
                for i in range(m):
                    x_out[i] = x[i]
                for j in range(n):
                    y_out[j] = y[j]
            elif step > attempt:
                break
            if best <= rounding:
                break
            _refine(s, t, z, row_label, column_label, residual, m, n, k)
        if best <= RETRY * EPS:
            break
    return (low + (value - 1.0) * spread) / factor, best * spread / factor, spread / factor, pivots, stage


@compiled()
def _solve_eight(flat, start, games, m, n, space):
    """Up to eight games in lanes; leaves their strategies and measures in `space`."""
    k, size = n + 1, m * n
    rows, columns = m * WIDTH, k * WIDTH
    results, z, space = space[: 3 * WIDTH], space[3 * WIDTH :][: rows + columns], space[3 * WIDTH + rows + columns :]
    s, t, space = space[: size * WIDTH], space[size * WIDTH :][: (m + 1) * columns], space[size * WIDTH + (m + 1) * columns :]
    norms, v, column_label = space[:columns], space[columns : 2 * columns], space[2 * columns : 3 * columns]
    u, row_label = space[3 * columns :][: rows + WIDTH], space[3 * columns + rows + WIDTH :][:rows]
    zero, one, infinite = full(0.0), full(1.0), full(np.inf)
    low, high = infinite, full(-np.inf)
    for p in range(size):
        e = gather(flat, start + p, size, games)
        low, high = where(e < low, e, low), where(high < e, e, high)
        store(s, p * WIDTH, e)
    tiny, huge = high - low < full(1e-290), (full(1e300) < high) 
    factor = where(tiny, full(2.0**500), one)
    factor = where(huge, full(0.25), where(low < full(-1e300), full(0.25), factor))
    low, high = low * factor, high * factor
    spread = high - low
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
    border = full(float(n * WIDTH))
    sums = zero
    for i in range(m):
        label, e = load(row_label, i * WIDTH), load(t, (i * k + n) * WIDTH)
        e = where((zero < e) & (label < border), e, zero)
        sums = sums + e
        put(z, 0, label, e)
    y_scale = one / sums
    sums = zero
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
    store(results, 2 * WIDTH, spread / factor)
    return pivots


@compiled(
    types.void(
        READ[3], types.intp, types.intp, WRITE[2], WRITE[2], WRITE[2],
        types.Array(types.int32, 2, "C"),
    )
)  # fmt: skip
def solve_games(payoff, first, last, x, y, measures, counts):
    """Solve the games `first` to `last`.

    Written are strategies; value, gap and spread; pivots and the stage it took.
    """
    _, m, n = payoff.shape
    flat = payoff.reshape(payoff.size)
    size = m * n
    lanes = size <= LANES_UP_TO and last - first >= LANES_FROM
    column_space = np.empty(2 * m * _padded(n) + 4 * _padded(n) + 3 * _padded(m) + 3 * (m + n))
    space = np.empty(WIDTH * ((m + 1) * (n + 1) + size + 3 * m + 5 * n + 10) if lanes else 0)
    results, z = space[: 3 * WIDTH], space[3 * WIDTH :]
    rounding = EPS * (REFINE + 0.125 * (m + n))
    for game in range(first, last, WIDTH):
        games = min(WIDTH, last - game)
        side_by_side = lanes and games >= LANES_FROM
        pivots = 0
        if side_by_side:
            pivots = _solve_eight(flat, game * size, games, m, n, space)
        for lane in range(games):
            g = game + lane
            if side_by_side and results[WIDTH + lane] <= rounding:
                for i in range(m):
                    x[g, i] = z[(n + i) * WIDTH + lane]
                for j in range(n):
                    y[g, j] = z[j * WIDTH + lane]
                measures[g, 0], measures[g, 2] = results[lane], results[2 * WIDTH + lane]
                measures[g, 1] = results[WIDTH + lane] * results[2 * WIDTH + lane]
                counts[g, 0], counts[g, 1] = pivots, 0
            else:
                value, gap, spread, own, stage = _solve_one(payoff[g], x[g], y[g], column_space)
                measures[g, 0], measures[g, 1], measures[g, 2] = value, gap, spread
                counts[g, 0], counts[g, 1] = pivots + own, stage
