"""The cascade that brings every game of a batch to its tolerance, and says what it took."""

import functools
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linprog

from equipoise.core import kernels
from equipoise.core.devices import in_pieces
from equipoise.core.precision import double_precision
from equipoise.core.reductions import largest
from equipoise.core.zerosum._pivot import Optimum, pivot_to_optimum

#: What a game may need, in order.
STAGES = ("simplex", "simplex, perturbed and refined", "HiGHS", "exact rationals")

#: The largest gap allowed, unless told, as a part of the spread of payoffs of each game.
TOLERANCE = 1e-8
#: Less than a few of the smallest floats cannot be asked for.
SMALLEST = 4 * float(np.finfo(np.float64).smallest_subnormal)

#: With JAX: from this many payoffs on, pivots are first made in single precision, then refined.
SINGLE_PRECISION_FROM = 400

#: Up to this many payoffs a game may be solved in exact rationals, as the last resort.
RATIONAL_UP_TO = 400

#: With JAX: bytes of the tableaux of games in lockstep. On a CPU they should stay in its cache.
_CPU_BYTES = 2**18
ACCELERATOR_BYTES = 2**28

_EPS = float(np.finfo(np.float64).eps)


class ZeroSum(NamedTuple):
    """Equilibria of a batch of games, with the games on the first axis."""

    x: Float[np.ndarray, "games rows"]
    y: Float[np.ndarray, "games columns"]
    value: Float[np.ndarray, " games"]
    gap: Float[np.ndarray, " games"]
    #: Largest minus smallest payoff.
    spread: Float[np.ndarray, " games"]
    #: The gap that each game was held to.
    allowed: Float[np.ndarray, " games"]
    #: Index into `STAGES`: which stage each answer comes from.
    stage: Int[np.ndarray, " games"]
    pivots: Int[np.ndarray, " games"]
    #: What made the pivots: "Numba"; "Python" before that is loaded; or "JAX" without it.
    engine: str


def limits(tolerance: float | None) -> tuple[float, float]:
    """The gap that is allowed: in units of payoff or, if that is more, as a part of the spread."""
    return (SMALLEST, TOLERANCE) if tolerance is None else (float(tolerance), 16 * _EPS)


def solve_batch(
    payoff: Float[np.ndarray, "games rows columns"], tolerance: float | None = None
) -> ZeroSum:
    """Equilibria of a batch of zero-sum games, each to `tolerance` in its duality gap.

    The tolerance is in units of payoff; without it each game is held to 1e-8 of the spread of its
    payoffs. Nothing is asked beyond rounding.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core.zerosum import solve_batch
    >>> result = solve_batch(np.random.default_rng(0).uniform(size=(1000, 3, 3)))
    >>> bool(result.gap.max() < 1e-12), set(result.stage.tolist())
    (True, {0})
    """
    payoff = np.ascontiguousarray(payoff, np.float64)
    absolute, relative = limits(tolerance)
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
    """Solve games that pivots missed one by one, and put what is better into `result`."""
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
    """Take an answer over if its gap is smaller."""
    low = scaled.min()
    shifted = scaled - low
    row_values = shifted @ y
    gap = np.ldexp(row_values.max() - (x @ shifted).min(), exponent)
    if not gap >= result.gap[game]:
        result.x[game], result.y[game], result.gap[game] = x, y, gap
        result.value[game] = np.ldexp(low + row_values @ x, exponent)
        result.stage[game] = number


def _solve_by_jax(payoff: np.ndarray, absolute: float, relative: float) -> tuple[ZeroSum, bool]:
    """The first two stages where Numba is not installed, and whether a game is left."""
    exponent = _exponents(payoff)
    with np.errstate(over="ignore", under="ignore"):
        payoff = np.ldexp(payoff, -exponent[:, None, None])
        tolerance = np.ldexp(absolute, -exponent)
        single = payoff[0].size >= SINGLE_PRECISION_FROM
        best = _solve_stage(payoff, single, 2 if single else 0, 0.0)
        x, y, value, gap, spread, pivots, _ = map(np.array, best)
        allowed = np.maximum(tolerance, relative * spread)
        stage = np.zeros(len(payoff), np.int32)
        missed = np.flatnonzero(~(gap <= allowed))
        if len(missed):
            again = _solve_stage(payoff[missed], False, 3, 1e-7)
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


@functools.partial(jax.jit, static_argnames=("single", "refinements", "perturbation"))
def solve_piece(payoff: jax.Array, single: bool, refinements: int, perturbation: float) -> Optimum:
    """Solve (games, rows, columns) in lockstep."""
    games, rows, columns = payoff.shape
    # Transpose once, rather than inside every operation that reads the payoffs.
    flat = jax.lax.optimization_barrier(payoff.reshape(games, rows * columns).T)
    optimum = pivot_to_optimum(
        flat.reshape(rows, columns, games),
        dtype=jnp.dtype(jnp.float32) if single else None,
        refinements=refinements,
        perturbation=perturbation,
    )
    return optimum._replace(x=optimum.x.T, y=optimum.y.T)


def _solve_stage(
    payoff: np.ndarray, single: bool, refinements: int, perturbation: float
) -> Optimum:
    """Solve a batch on JAX's default device, in pieces that fit."""
    _, rows, columns = payoff.shape
    budget = _CPU_BYTES if jax.default_backend() == "cpu" else ACCELERATOR_BYTES
    most = max(1, budget // (rows * columns * (4 if single else 8)))
    options = {"single": single, "refinements": refinements, "perturbation": perturbation}
    with double_precision():
        return jax.tree.map(np.asarray, in_pieces(solve_piece, most, [payoff], **options))


def _exponents(payoff: np.ndarray) -> np.ndarray:
    """Powers of two that bring payoffs of unusual size to ordinary ones."""
    size = largest(np.abs(payoff).reshape(len(payoff), -1))
    unusual = ((size < 1e-140) & (size > 0.0)) | (size > 1e140)
    return np.where(unusual, np.frexp(size)[1], 0)


def solve_with_highs(payoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Strategies of one game from one linear program and its dual.

    The payoffs are brought to [0, 1] first, since HiGHS has absolute tolerances.

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
    """The strategy that maximises the worst column."""
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
        return np.full(rows, 1.0 / rows)  # HiGHS gave up; the game's gap will say so
    x = np.maximum(result.x[:rows], 0.0)
    return x / x.sum()


def solve_with_rationals(payoff: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Strategies of one game, by the simplex method with Bland's rule on exact numbers.

    Floats are rationals, so the game that was given is solved exactly; only the final strategies
    are rounded. It is for the few games whose payoffs range over so many orders of magnitude that
    float64 cannot even tell the optimal basis.

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
