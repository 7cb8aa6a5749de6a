"""The cascade of methods that solves every game of a batch to its tolerance.

Importing this module imports neither JAX nor SciPy: the methods that use them are imported when a
game needs them.
"""

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from equipoise.core import kernels
from equipoise.core.precision import double_precision
from equipoise.core.reductions import largest
from equipoise.core.shapes import Array, Float, Int

#: Methods that a game may need, in order.
STAGES = ("simplex", "simplex, perturbed and refined", "HiGHS", "exact rationals")

#: Default tolerance of the duality gap, as a fraction of the payoff range of each game.
TOLERANCE = 1e-8
#: The tolerance is never below a few of the smallest floats.
SMALLEST = 4 * float(np.finfo(np.float64).smallest_subnormal)

#: Maximum number of payoffs of a game solved in exact rationals, as the last resort.
RATIONAL_UP_TO = 400

_EPS = float(np.finfo(np.float64).eps)


class ZeroSum(NamedTuple):
    """Equilibria of a batch of games, with the games on the first axis."""

    x: Float[np.ndarray, "games rows"]
    y: Float[np.ndarray, "games columns"]
    value: Float[np.ndarray, " games"]
    gap: Float[np.ndarray, " games"]
    #: Largest minus smallest payoff.
    spread: Float[np.ndarray, " games"]
    #: The gap allowed in each game.
    allowed: Float[np.ndarray, " games"]
    #: Index into `STAGES`: the stage that solved each game.
    stage: Int[np.ndarray, " games"]
    pivots: Int[np.ndarray, " games"]
    #: Engine of the pivots: "Numba"; "Python" before Numba is loaded; or "JAX" without it.
    engine: str


def _limits(tolerance: float | None) -> tuple[float, float]:
    """Gap allowed in units of payoff, and as a fraction of the payoff range; the larger counts."""
    return (SMALLEST, TOLERANCE) if tolerance is None else (float(tolerance), 16 * _EPS)


def solve_batch(
    payoff: Float[np.ndarray, "games rows columns"], tolerance: float | None = None
) -> ZeroSum:
    """Return equilibria of a batch of zero-sum games, each with a duality gap up to `tolerance`.

    The tolerance is in units of payoff. Default: 1e-8 of the payoff range of each game. A tolerance
    below rounding is raised to the size of rounding.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core.zerosum import solve_batch
    >>> result = solve_batch(np.random.default_rng(0).uniform(size=(1000, 3, 3)))
    >>> bool(result.gap.max() < 1e-12), set(result.stage.tolist())
    (True, {0})
    """
    payoff = np.ascontiguousarray(payoff, np.float64)
    absolute, relative = _limits(tolerance)
    games, rows, columns = payoff.shape
    seconds = 5e-8 + 2e-10 * rows * columns * min(rows, columns)
    kernel, engine = kernels.choose("solve_games", games * seconds)
    if kernel is None:
        result, missed = _solve_by_jax(payoff, absolute, relative)
    else:
        x, y = np.empty((games, rows)), np.empty((games, columns))
        measures, counts = np.empty((4, games)), np.empty((2, games), np.int32)
        missed = kernels.over_games(
            kernel, games, seconds, payoff, absolute, relative, x, y, measures, counts
        )
        value, gap, spread, allowed = measures
        pivots, stage = counts
        result = ZeroSum(x, y, value, gap, spread, allowed, stage, pivots, engine)
    if missed:
        _last_resorts(payoff, result)
    return result


def _last_resorts(payoff: np.ndarray, result: ZeroSum) -> None:
    """Solve games that pivoting missed one by one, and keep better strategies in `result`."""
    for game in np.flatnonzero(~(result.gap <= result.allowed)):
        exponent = int(np.frexp(np.abs(payoff[game]).max())[1])
        scaled = np.ldexp(payoff[game], -exponent)
        for number, solve_one in ((2, solve_with_highs), (3, solve_with_rationals)):
            solved = result.gap[game] <= result.allowed[game]
            if number == 3 and (solved or scaled.size > RATIONAL_UP_TO):
                break
            _adopt(scaled, exponent, int(game), number, *solve_one(scaled), result)


def _adopt(
    scaled: np.ndarray,
    exponent: int,
    game: int,
    number: int,
    x: np.ndarray,
    y: np.ndarray,
    result: ZeroSum,
) -> None:
    """Adopt strategies if their gap is smaller."""
    low = scaled.min()
    shifted = scaled - low
    row_values = shifted @ y
    gap = np.ldexp(row_values.max() - (x @ shifted).min(), exponent)
    if not gap >= result.gap[game]:
        result.x[game], result.y[game], result.gap[game] = x, y, gap
        result.value[game] = np.ldexp(low + row_values @ x, exponent)
        result.stage[game] = number


def _solve_by_jax(payoff: np.ndarray, absolute: float, relative: float) -> tuple[ZeroSum, bool]:
    """Run the first two stages without Numba; return also whether a game is left."""
    from equipoise.core.zerosum._pivot import SINGLE_PRECISION_FROM, solve_stage

    exponent = _exponents(payoff)
    with np.errstate(over="ignore", under="ignore"):
        payoff = np.ldexp(payoff, -exponent[:, None, None])
        tolerance = np.ldexp(absolute, -exponent)
        single = payoff[0].size >= SINGLE_PRECISION_FROM
        best = solve_stage(payoff, single, 2 if single else 0, 0.0)
        x, y, value, gap, spread, pivots, _ = map(np.array, best)
        allowed = np.maximum(tolerance, relative * spread)
        stage = np.zeros(len(payoff), np.int32)
        missed = np.flatnonzero(~(gap <= allowed))
        if len(missed):
            again = solve_stage(payoff[missed], False, 3, 1e-7)
            pivots[missed] += again.pivots
            better = ~(np.asarray(again.gap) >= gap[missed])
            some = missed[better]
            for old, new in ((x, again.x), (y, again.y), (value, again.value), (gap, again.gap)):
                old[some] = np.asarray(new)[better]
            stage[some] = 1
        left = not (gap <= allowed).all()
        parts = (value, gap, spread, allowed)
        value, gap, spread, allowed = (np.ldexp(part, exponent) for part in parts)
    spread, allowed = (np.minimum(part, np.finfo(np.float64).max) for part in (spread, allowed))
    return ZeroSum(x, y, value, gap, spread, allowed, stage, pivots, "JAX"), left


def _exponents(payoff: np.ndarray) -> np.ndarray:
    """Return powers of two that scale payoffs of unusual size to ordinary ones."""
    size = largest(np.abs(payoff).reshape(len(payoff), -1))
    unusual = ((size < 1e-140) & (size > 0.0)) | (size > 1e140)
    return np.where(unusual, np.frexp(size)[1], 0)


def solve_with_highs(payoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the strategies of one game from one linear program and its dual.

    The payoffs are scaled to [0, 1] first, since HiGHS has absolute tolerances.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core.zerosum import solve_with_highs
    >>> x, y = solve_with_highs(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    >>> x.tolist(), y.tolist()
    ([0.5, 0.5], [0.5, 0.5])
    """
    low, high = payoff.min(), payoff.max()
    scaled = (payoff - low) / (high - low) if high > low else np.zeros_like(payoff)
    return _row_strategy(scaled), _row_strategy(1.0 - scaled.T)


def _row_strategy(payoff: np.ndarray) -> np.ndarray:
    """Return the strategy that maximises the payoff in the worst column."""
    from scipy.optimize import linprog  # slow to import, and very few games come here

    rows, columns = payoff.shape
    result = linprog(
        c=np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-payoff.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.x is None:
        return np.full(rows, 1.0 / rows)  # HiGHS failed; the game's gap will show it
    x = np.maximum(result.x[:rows], 0.0)
    return x / x.sum()


def solve_with_rationals(payoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the strategies of one game, by the simplex method with Bland's rule on exact numbers.

    Floats are rationals, so the given game is solved exactly; only the final strategies are
    rounded. This method is for the few games whose payoffs range over so many orders of magnitude
    that float64 cannot identify the optimal basis.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core.zerosum import solve_with_rationals
    >>> x, y = solve_with_rationals(np.array([[2.0, -1.0], [-1.0, 1.0]]))
    >>> x.tolist(), y.tolist()
    ([0.4, 0.6], [0.4, 0.6])
    """
    rows, columns = payoff.shape
    shift = 1 - Fraction(float(payoff.min()))
    body = [[Fraction(float(a)) + shift for a in row] for row in payoff]
    right, cost = [Fraction(1)] * rows, [Fraction(-1)] * columns
    row_label, column_label = list(range(columns, columns + rows)), list(range(columns))
    while True:
        improving = [j for j in range(columns) if cost[j] < 0]
        if not improving:
            break
        entering = min(improving, key=column_label.__getitem__)
        eligible = [i for i in range(rows) if body[i][entering] > 0]
        leaving = min(eligible, key=lambda i: (right[i] / body[i][entering], row_label[i]))
        _exchange(body, right, cost, leaving, entering)
        row_label[leaving], column_label[entering] = column_label[entering], row_label[leaving]
    x, y = [Fraction(0)] * rows, [Fraction(0)] * columns
    for i, label in enumerate(row_label):
        if label < columns:
            y[label] = right[i]
    for j, label in enumerate(column_label):
        if label >= columns:
            x[label - columns] = cost[j]
    return _normalised(x), _normalised(y)


def _exchange(
    body: list[list[Fraction]], right: list[Fraction], cost: list[Fraction], r: int, c: int
) -> None:
    """Make the variable of column `c` basic in row `r`, in place."""
    pivot = body[r][c]
    row = [a / pivot for a in body[r]]
    row[c] = 1 / pivot
    step, price = right[r] / pivot, cost[c]
    for i, line in enumerate(body):
        if i != r and line[c]:
            factor = line[c]
            line[c] = Fraction(0)
            body[i] = [a - factor * b for a, b in zip(line, row, strict=True)]
            right[i] -= factor * step
    cost[c] = Fraction(0)
    cost[:] = [a - price * b for a, b in zip(cost, row, strict=True)]
    body[r], right[r] = row, step


def _normalised(weights: list[Fraction]) -> np.ndarray:
    total = sum(weights)
    return np.array([float(w / total) for w in weights])


def solve_on_device(payoff: Array, tolerance: float | None = None) -> ZeroSum:
    """Solve payoffs (games, rows, columns) in float64 like `solve_batch`; return JAX arrays.

    The games pivot where their payoffs are, in pieces that fit into memory. Only the number of
    games that missed their tolerance, and those games, are copied to the host.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.core.precision import double_precision
    >>> from equipoise.core.zerosum import solve_on_device
    >>> with double_precision():
    ...     payoff = jnp.array([[[3.0, -1.0], [-2.0, 1.0]]])
    >>> result = solve_on_device(payoff)
    >>> [round(float(p), 6) for p in result.x[0]], result.engine
    ([0.428571, 0.571429], 'JAX')
    """
    import jax.numpy as jnp

    from equipoise.core.zerosum._pivot import solve_pieces

    with double_precision():
        met, *parts = solve_pieces(payoff, *_limits(tolerance))
        fields: Any = (*parts[:6], jnp.zeros(len(payoff), jnp.int32), parts[6], "JAX")
        result = ZeroSum(*fields)
        if not bool(met.all()):
            result = _finish(payoff, result, np.flatnonzero(~np.asarray(met)), tolerance)
    return result


def _finish(payoff: Array, result: ZeroSum, missed: np.ndarray, tolerance: float | None) -> ZeroSum:
    """Solve the remaining games on the host, and insert the results."""
    there: Any = result[:-1]
    rest: Any = solve_batch(np.asarray(payoff[missed]), tolerance)
    fields: Any = (old.at[missed].set(new) for old, new in zip(there, rest[:-1], strict=True))
    return ZeroSum._make((*fields, result.engine))
