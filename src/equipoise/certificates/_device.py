"""Gains in zero-sum matrix games whose payoffs and policies are on an accelerator.

The arithmetic is that of `_tables`, in float64: payoffs without a large offset, expected payoffs of
all pure replies, the same again with absolute payoffs, and a bound on rounding from those. Only
games that this is not made for travel to the host.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.devices import in_pieces, on_accelerator
from equipoise.core.precision import double_precision
from equipoise.core.rounding import EPS, ORDINARY, TINY, WEIGHTS

#: Payoffs that are worked on at once: a quarter of a gigabyte, of which there are a few copies.
_MOST = 2**25


def device_gains(payoff: Any, policy: Any) -> tuple[Any, np.ndarray] | None:
    """(4, ..., 2): gains, bounds, values and rounding; and games that they do not hold for.

    Those are games with payoffs of unusual size, or policies that are not probabilities. None where
    payoffs and strategies are not on an accelerator, with one shape of batch.
    """
    strategies = getattr(policy, "strategies", policy)
    if type(strategies) not in (list, tuple) or len(strategies) != 2:
        return None
    (x, y), batch, (rows, columns) = strategies, payoff.shape[:-2], payoff.shape[-2:]
    if not all(map(on_accelerator, (payoff, x, y))):
        return None
    if x.shape != (*batch, rows) or y.shape != (*batch, columns):
        return None
    if not all(jnp.issubdtype(part.dtype, jnp.floating) for part in (x, y)):
        return None
    with double_precision():
        x, y = (part.astype(jnp.float64) for part in (x, y))
        fine, *found = in_pieces(
            _gains,
            max(1, _MOST // (rows * columns)),
            [payoff.reshape(-1, rows, columns), x.reshape(-1, rows), y.reshape(-1, columns)],
            2.0 * EPS * (rows + columns + 2 * WEIGHTS + 8),
        )
        left = np.zeros(0, int) if bool(fine.all()) else np.flatnonzero(~np.asarray(fine))
        return [part.reshape(*batch, 2) for part in found], left


@jax.jit
def _gains(payoff: jax.Array, x: jax.Array, y: jax.Array, step: Any) -> tuple[jax.Array, ...]:
    """Whether each game is one that this is made for; gains, bounds, values and rounding."""
    games = jnp.moveaxis(payoff, 0, -1)
    x, y = x.T, y.T
    low, high = games.min((0, 1)), games.max((0, 1))
    near = jnp.maximum(jnp.minimum(high, 0.0), low)
    far = jnp.abs(near) > 16.0 * (high - low)
    offset = jnp.where(far, near, 0.0)
    size = jnp.where(far, high - low, jnp.maximum(-low, high))
    games = games - offset
    rows, columns = (games * y).sum(1), (games * x[:, None]).sum(0)
    earned = (rows * x).sum(0)
    sizes = jnp.abs(games)
    reach = jnp.stack([(sizes * y).sum(1).max(0), (sizes * x[:, None]).sum(0).max(0)], -1)
    gains = jnp.stack([rows.max(0) - earned, earned - columns.min(0)], -1)
    rounding = step * reach + jnp.where(size > 0.0, TINY * (1.0 + size), 0.0)[:, None]
    value = (earned + offset)[:, None] * jnp.array([1.0, -1.0])
    fine = (size >= ORDINARY[0]) & (size <= ORDINARY[1]) | (size == 0.0)
    for strategy in (x, y):
        exact = jnp.abs(strategy.sum(0) - 1.0) < 64 * EPS
        fine &= exact & (strategy.min(0) >= 0.0)
    return fine, gains, gains + rounding, value, rounding
