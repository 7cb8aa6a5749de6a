"""Zero-sum games whose payoffs are on an accelerator, solved there.

Pivots are those of `_pivot`, in pieces that fit. The host learns one number, how many games missed
their tolerance; those alone travel to it, for the rest of the cascade.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.devices import in_pieces
from equipoise.core.precision import double_precision
from equipoise.core.rounding import ORDINARY
from equipoise.core.zerosum._cascade import (
    ACCELERATOR_BYTES,
    SINGLE_PRECISION_FROM,
    ZeroSum,
    limits,
    solve_batch,
    solve_piece,
)

#: Games that pivot in lockstep: with more, more wait for the last one, and with fewer the device is
#: not busy. Of 3 x 3 games an H200 solves 190 million a second with 2**18, 242 with 2**19 and 217
#: with 2**20; of 10 x 10 games about 26 million with each.
_LOCKSTEP = 2**19


def solve_on_device(payoff: jax.Array, tolerance: float | None = None) -> ZeroSum:
    """`solve_batch` for payoffs (games, rows, columns) in float64; all results are JAX arrays.

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
    _, rows, columns = payoff.shape
    single = rows * columns >= SINGLE_PRECISION_FROM
    most = max(1, ACCELERATOR_BYTES // (rows * columns * (4 if single else 8)))
    with double_precision():
        met, *parts = in_pieces(
            _solve_piece, min(most, _LOCKSTEP), [payoff], *limits(tolerance), single=single
        )
        fields: Any = (*parts[:6], jnp.zeros(len(payoff), jnp.int32), parts[6], "JAX")
        result = ZeroSum(*fields)
        if not bool(met.all()):
            result = _finish(payoff, result, np.flatnonzero(~np.asarray(met)), tolerance)
    return result


@functools.partial(jax.jit, static_argnames="single")
def _solve_piece(payoff: jax.Array, absolute: Any, relative: Any, single: bool) -> tuple[Any, ...]:
    """Whether each game met its tolerance, and the fields of `ZeroSum` but the stage."""
    best = solve_piece(payoff, single, 2 if single else 0, 0.0)
    ordinary = (best.size >= ORDINARY[0]) & (best.size <= ORDINARY[1]) | (best.size == 0.0)
    allowed = jnp.where(best.spread > 0.0, jnp.maximum(absolute, relative * best.spread), 0.0)
    met = (best.gap <= allowed) & ordinary
    return met, best.x, best.y, best.value, best.gap, best.spread, allowed, best.pivots


def _finish(
    payoff: jax.Array, result: ZeroSum, missed: np.ndarray, tolerance: float | None
) -> ZeroSum:
    """Solve what is left on the host, and put it in its place."""
    there: Any = result[:-1]
    rest: Any = solve_batch(np.asarray(payoff[missed]), tolerance)
    fields: Any = (old.at[missed].set(new) for old, new in zip(there, rest[:-1], strict=True))
    return ZeroSum._make((*fields, result.engine))
