"""Zero-sum games of many kinds as JAX functions of a key, a shape and the numbers of actions.

The numbers of actions in use may be traced: a batch of games of different sizes is one array of the
largest size, and one program.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def indices(shape: tuple[int, int]) -> tuple[Array, Array]:
    return jnp.arange(shape[0])[:, None], jnp.arange(shape[1])[None, :]


def _near(key: Array, table: Any, shape: tuple[int, int], most: float) -> Array:
    """A table plus uniform noise of random width, clipped to [0, 1]."""
    width_key, noise_key = jax.random.split(key)
    width = jax.random.uniform(width_key, maxval=most)
    return jnp.clip(table + width * jax.random.uniform(noise_key, shape, minval=-1.0), 0.0, 1.0)


def _uniform(key: Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Independent rewards, uniform on [0, 1]."""
    return jax.random.uniform(key, shape)


def _normal(key: Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Independent rewards, Gaussian around a half and truncated to [0, 1]."""
    return jnp.clip(0.5 + 0.2 * jax.random.truncated_normal(key, -2.5, 2.5, shape), 0.0, 1.0)


def _sparse(key: Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Mostly zeros; the other entries are uniform."""
    there, value = jax.random.split(key)
    return jnp.where(jax.random.uniform(there, shape) < 0.4, jax.random.uniform(value, shape), 0.0)


def _binary(key: Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Zeros and ones."""
    share_key, key = jax.random.split(key)
    share = jax.random.uniform(share_key, minval=0.25, maxval=0.75)
    return (jax.random.uniform(key, shape) < share).astype(float)


def _narrow(key: Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Uniform on a short interval."""
    width_key, low_key, key = jax.random.split(key, 3)
    width = jax.random.uniform(width_key, minval=0.1, maxval=0.4)
    low = jax.random.uniform(low_key, maxval=1.0 - width)
    return low + width * jax.random.uniform(key, shape)


def _symmetric(key: Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Symmetric games, in which swapping seats swaps the payoffs: A + A' = 1."""
    square = jax.random.uniform(key, (max(shape),) * 2)
    return (0.5 + (square - square.T) / 2.0)[: shape[0], : shape[1]]


def _cyclic(key: Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Perturbed rock-paper-scissors of any size: i against j pays as i + 1 against j + 1."""
    strict_key, gain_key, near_key = jax.random.split(key, 3)
    i, j = indices(shape)
    around = jnp.maximum(rows, columns)
    ahead = (i - j) % around
    behind = (around - ahead) % around
    gains = jax.random.uniform(gain_key, (max(shape),))
    gains = jnp.where(jax.random.uniform(strict_key) < 0.5, 1.0, gains)
    table = 0.5 + 0.5 * jnp.sign(behind - ahead) * gains[jnp.minimum(ahead, behind)]
    pennies = (i == j).astype(float)  # two actions have no cycle
    return _near(near_key, jnp.where(around == 2, pennies, table), shape, 0.2)


def _dominated(key: Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """One row equals another row minus a small amount in every column."""
    key, first, second, less = jax.random.split(key, 4)
    table = jax.random.uniform(key, shape)
    good = jax.random.randint(first, (), 0, rows)
    bad = (good + 1 + jax.random.randint(second, (), 0, rows - 1)) % rows
    worse = jnp.clip(table[good] - 0.1 * jax.random.uniform(less, shape[1:]), 0.0, 1.0)
    return table.at[bad].set(worse)


def _known(key: Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Hide and seek (plain or with values), pursuit on a line, the larger number; perturbed."""
    which, value_key, near_key = jax.random.split(key, 3)
    i, j = indices(shape)
    values = jax.random.uniform(value_key, shape[:1], minval=0.2)[:, None]
    far = jnp.abs(i - j) / jnp.maximum(jnp.maximum(rows, columns) - 1, 1)
    found = (i == j).astype(float)
    larger = 0.5 + 0.5 * jnp.sign(i - j) * jnp.where(jnp.abs(i - j) == 1, -1.0, 1.0)
    tables = jnp.stack([jnp.broadcast_to(t, shape) for t in (found, found * values, far, larger)])
    return _near(near_key, tables[jax.random.randint(which, (), 0, 4)], shape, 0.3)


def _low_rank(key: Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """The sum of one or two products of a row factor and a column factor."""
    rank_key, left, right = jax.random.split(key, 3)
    second = jnp.array([1.0, jax.random.bernoulli(rank_key)])
    table = (jax.random.normal(left, (shape[0], 2)) * second) @ jax.random.normal(
        right, (2, shape[1])
    )
    i, j = indices(shape)
    largest = jnp.where((i < rows) & (j < columns), jnp.abs(table), 0.0).max()
    return jnp.clip(0.5 + 0.5 * table / largest, 0.0, 1.0)


#: Name of a kind of games -> the function that draws one.
DRAWS: dict[str, Callable[..., Array]] = {
    "uniform": _uniform,
    "normal": _normal,
    "sparse": _sparse,
    "binary": _binary,
    "narrow": _narrow,
    "symmetric": _symmetric,
    "cyclic": _cyclic,
    "dominated": _dominated,
    "known": _known,
    "low-rank": _low_rank,
}
