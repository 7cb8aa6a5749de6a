"""The cascade that brings every game of a batch to its tolerance, and says what it took."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from equipoise.core import kernels
from equipoise.core.precision import double_precision
from equipoise.core.reductions import largest
from equipoise.core.zerosum._highs import solve_with_highs
from equipoise.core.zerosum._pivot import Optimum, pivot_to_optimum
from equipoise.core.zerosum._rational import solve_with_rationals

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
        x, y, value, gap, spread, pivots = map(np.array, best)
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
def _solve_chunk(payoff: jax.Array, single: bool, refinements: int, perturbation: float) -> Optimum:
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
    """Solve a batch by calls of a fixed shape; the last is padded."""
    games, rows, columns = payoff.shape
    budget = _CPU_BYTES if jax.default_backend() == "cpu" else ACCELERATOR_BYTES
    most = max(1, budget // (rows * columns * (4 if single else 8)))
    chunk = 2 ** math.ceil(math.log2(min(games, 2 ** int(math.log2(most)))))

    def solve(start: int) -> Optimum:
        part = payoff[start : start + chunk]
        if len(part) < chunk:
            part = np.concatenate([part, part[-1:].repeat(chunk - len(part), 0)])
        with double_precision():
            return jax.tree.map(np.asarray, _solve_chunk(part, single, refinements, perturbation))

    parts = [solve(start) for start in range(0, games, chunk)]
    return jax.tree.map(lambda *arrays: np.concatenate(arrays)[:games], *parts)


def _exponents(payoff: np.ndarray) -> np.ndarray:
    """Powers of two that bring payoffs of unusual size to ordinary ones."""
    size = largest(np.abs(payoff).reshape(len(payoff), -1))
    unusual = ((size < 1e-140) & (size > 0.0)) | (size > 1e140)
    return np.where(unusual, np.frexp(size)[1], 0)
