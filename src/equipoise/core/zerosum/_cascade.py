"""The cascade that brings every game of a batch to its tolerance, and says what it took."""

import functools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from equipoise.core.machine import cores
from equipoise.core.precision import check_not_forked, double_precision
from equipoise.core.reductions import largest
from equipoise.core.zerosum._highs import solve_with_highs
from equipoise.core.zerosum._pivot import pivot_to_optimum
from equipoise.core.zerosum._rational import solve_with_rationals

#: What a game may need, in order.
STAGES = ("simplex", "simplex, perturbed and refined", "HiGHS", "exact rationals")

#: From this many payoffs on, pivots are first made in single precision, then refined.
SINGLE_PRECISION_FROM = 400

#: Up to this many payoffs a game may be solved in exact rationals, as the last resort.
RATIONAL_UP_TO = 400

#: On a CPU: games in lockstep at most, and bytes of their tableaux, which should stay in cache
#: and below the size from which XLA splits a single operation between threads. Measured.
_CPU_DOUBLE = (1024, 256 * 1024)
_CPU_SINGLE = (64, 640 * 1024)
#: Chunks that one compiled call may work off, and what a call costs, in chunks.
_CPU_CALL_CHUNKS = (1, 2, 4, 8, 12, 16, 20, 24)
_CPU_CALL_COST = 2.0
#: On an accelerator more is better, until memory ends.
_ACCELERATOR_BYTES = 2**28


#: Programs that JAX has compiled already, which threads may share from the start.
_COMPILED: set[tuple[Any, ...]] = set()


@dataclass(frozen=True)
class ZeroSum:
    """Equilibria of a batch of games, with the games on the first axis."""

    x: Float[np.ndarray, "games rows"]
    y: Float[np.ndarray, "games columns"]
    value: Float[np.ndarray, " games"]
    gap: Float[np.ndarray, " games"]
    #: The gap each game was held to.
    allowed: Float[np.ndarray, " games"]
    #: Index into `STAGES`: which stage each answer comes from.
    stage: Int[np.ndarray, " games"]
    pivots: Int[np.ndarray, " games"]


@functools.partial(jax.jit, static_argnames=("single", "refinements", "perturbation"))
def _solve_chunks(payoff: jax.Array, single: bool, refinements: int, perturbation: float):
    """Solve (chunks, games, rows, columns), one chunk after the other, each in lockstep."""

    def solve(chunk: jax.Array):
        games, rows, columns = chunk.shape
        # Transpose once, rather than inside every operation that reads the payoffs.
        flat = jax.lax.optimization_barrier(chunk.reshape(games, rows * columns).T)
        optimum = pivot_to_optimum(
            flat.reshape(rows, columns, games),
            dtype=jnp.dtype(jnp.float32) if single else None,
            refinements=refinements,
            perturbation=perturbation,
        )
        return optimum._replace(x=optimum.x.T, y=optimum.y.T)

    return jax.lax.map(solve, payoff)


def _chunk_games(rows: int, columns: int, single: bool) -> int:
    """How many games to pivot in lockstep on this machine."""
    game_bytes = rows * columns * (4 if single else 8)
    if jax.default_backend() == "cpu":
        most, budget = _CPU_SINGLE if single else _CPU_DOUBLE
        games = min(most, budget // game_bytes)
    else:
        games = _ACCELERATOR_BYTES // game_bytes
    return 2 ** max(0, int(np.log2(max(1, games))))


def _call_shape(games: int, rows: int, columns: int, single: bool, workers: int):
    """Chunks per call and games per chunk, from few sizes, so that few programs are compiled."""
    chunk = _chunk_games(rows, columns, single)
    if games <= chunk:
        return 1, 2 ** math.ceil(math.log2(games))
    if jax.default_backend() != "cpu":
        return 1, chunk
    total = math.ceil(games / chunk)

    def makespan(chunks: int) -> float:
        return math.ceil(math.ceil(total / chunks) / workers) * (chunks + _CPU_CALL_COST)

    return min(_CPU_CALL_CHUNKS, key=makespan), chunk


def _solve_stage(payoff: np.ndarray, single: bool, refinements: int, perturbation: float):
    """Solve a batch by calls of a fixed shape, on all cores; the last call is padded."""
    check_not_forked()
    games, rows, columns = payoff.shape
    workers = cores() if jax.default_backend() == "cpu" else 1
    chunks, chunk = _call_shape(games, rows, columns, single, workers)
    call = chunks * chunk

    def solve(start: int):
        part = payoff[start : start + call]
        if len(part) < call:
            part = np.concatenate([part, part[-1:].repeat(call - len(part), 0)])
        with double_precision():
            part = part.reshape(chunks, chunk, rows, columns)
            result = jax.tree.map(
                np.asarray, _solve_chunks(part, single, refinements, perturbation)
            )
        return jax.tree.map(lambda array: array.reshape(call, *array.shape[2:]), result)

    starts = range(0, games, call)
    program = (chunks, chunk, rows, columns, single, refinements, perturbation)
    if workers == 1 or len(starts) == 1 or program not in _COMPILED:
        parts = [solve(0)]  # compiles once, before the threads start
        _COMPILED.add(program)
    else:
        parts = []
    if workers == 1:
        parts += [solve(start) for start in starts[len(parts) :]]
    elif len(starts) > len(parts):
        with ThreadPoolExecutor(workers) as pool:
            parts += pool.map(solve, starts[len(parts) :])
    return jax.tree.map(lambda *arrays: np.concatenate(arrays)[:games], *parts)


def solve_batch(
    payoff: Float[np.ndarray, "games rows columns"],
    tolerance: float | Float[np.ndarray, " games"] | None = None,
) -> ZeroSum:
    """Equilibria of a batch of zero-sum games, each to `tolerance` in its duality gap.

    The tolerance, one for all games or one for each, is in units of payoff; without it each game
    is held to 1e-8 of the spread of its payoffs. Nothing is asked beyond rounding.

    **Example**

    >>> import numpy as np
    >>> from equipoise.core.zerosum import solve_batch
    >>> result = solve_batch(np.random.default_rng(0).uniform(size=(1000, 3, 3)))
    >>> bool(result.gap.max() < 1e-12), set(result.stage.tolist())
    (True, {0})
    """
    payoff = np.ascontiguousarray(payoff, np.float64)
    games, rows, columns = payoff.shape
    exponent = _exponents(payoff)
    if exponent is not None:
        with np.errstate(under="ignore"):
            payoff = np.ldexp(payoff, -exponent[:, None, None])
    single = rows * columns >= SINGLE_PRECISION_FROM
    best = _solve_stage(payoff, single, 2 if single else 0, 0.0)
    x, y, value, gap, spread, pivots = best
    allowed = 1e-8 * spread
    if tolerance is not None:
        allowed = tolerance if exponent is None else np.ldexp(tolerance, -exponent)
    allowed = np.maximum(allowed, 16 * np.finfo(np.float64).eps * spread)
    stage = np.zeros(games, np.int8)

    def adopt(which: np.ndarray, number: int, new_x: np.ndarray, new_y: np.ndarray) -> None:
        low = payoff[which].min((1, 2))
        shifted = payoff[which] - low[:, None, None]
        row_values = np.einsum("gij,gj->gi", shifted, new_y)
        new_gap = row_values.max(1) - np.einsum("gij,gi->gj", shifted, new_x).min(1)
        better = ~(new_gap >= gap[which])
        which, row_values = which[better], row_values[better]
        x[which], y[which], gap[which] = new_x[better], new_y[better], new_gap[better]
        value[which] = low[better] + (row_values * new_x[better]).sum(1)
        stage[which] = number

    missed = np.flatnonzero(~(gap <= allowed))
    if len(missed):
        again = _solve_stage(payoff[missed], False, 3, 1e-7)
        pivots[missed] += again.pivots
        adopt(missed, 1, again.x, again.y)
        missed = missed[~(gap[missed] <= allowed[missed])]
    for number, solve_one in ((2, solve_with_highs), (3, solve_with_rationals)):
        if number == 3 and rows * columns > RATIONAL_UP_TO:
            break
        for game in missed:
            found_x, found_y = solve_one(payoff[game])
            adopt(np.array([game]), number, found_x[None], found_y[None])
        missed = missed[~(gap[missed] <= allowed[missed])]
    if exponent is not None:
        with np.errstate(over="ignore", under="ignore"):
            value, gap, allowed = (np.ldexp(a, exponent) for a in (value, gap, allowed))
    return ZeroSum(x=x, y=y, value=value, gap=gap, allowed=allowed, stage=stage, pivots=pivots)


def _exponents(payoff: np.ndarray) -> np.ndarray | None:
    """Powers of two that bring payoffs to ordinary sizes; None where all are."""
    sizes = np.abs(payoff)
    if sizes.max() <= 1e140 and not ((sizes < 1e-140) & (sizes > 0.0)).any():
        return None
    size = largest(sizes.reshape(len(payoff), -1))
    unusual = ((size < 1e-140) & (size > 0.0)) | (size > 1e140)
    return np.where(unusual, np.frexp(size)[1], 0) if unusual.any() else None
