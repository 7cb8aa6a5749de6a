"""Zero-sum games of many kinds in one family, of one size or of several sizes on one canvas.

A kind is a function of a key, a shape and the numbers of actions in use. These numbers may be
traced: a batch of games of different sizes is one array of the largest size, and one program.
"""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from equipoise.core import InputError

#: Share of `COMMON` x `COMMON` games in a family with varying sizes.
COMMON_SHARE, COMMON = 0.3, 3
#: Smallest number of states in Markov games of varying sizes, and concentrations of transitions.
FEWEST_STATES, CONCENTRATIONS = 2, (0.1, 1.0)


def _indices(shape: tuple[int, int]) -> tuple[Array, Array]:
    return jnp.arange(shape[0])[:, None], jnp.arange(shape[1])[None, :]


def _near(key: jax.Array, table: Any, shape: tuple[int, int], most: float) -> Array:
    """A table plus uniform noise of random width, clipped to [0, 1]."""
    width_key, noise_key = jax.random.split(key)
    width = jax.random.uniform(width_key, maxval=most)
    return jnp.clip(table + width * jax.random.uniform(noise_key, shape, minval=-1.0), 0.0, 1.0)


def _uniform(key: jax.Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Independent rewards, uniform on [0, 1]."""
    return jax.random.uniform(key, shape)


def _normal(key: jax.Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Independent rewards, Gaussian around a half and truncated to [0, 1]."""
    return jnp.clip(0.5 + 0.2 * jax.random.truncated_normal(key, -2.5, 2.5, shape), 0.0, 1.0)


def _sparse(key: jax.Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Mostly zeros; the other entries are uniform."""
    there, value = jax.random.split(key)
    return jnp.where(jax.random.uniform(there, shape) < 0.4, jax.random.uniform(value, shape), 0.0)


def _binary(key: jax.Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Zeros and ones."""
    share_key, key = jax.random.split(key)
    share = jax.random.uniform(share_key, minval=0.25, maxval=0.75)
    return (jax.random.uniform(key, shape) < share).astype(float)


def _narrow(key: jax.Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Uniform on a short interval."""
    width_key, low_key, key = jax.random.split(key, 3)
    width = jax.random.uniform(width_key, minval=0.1, maxval=0.4)
    low = jax.random.uniform(low_key, maxval=1.0 - width)
    return low + width * jax.random.uniform(key, shape)


def _symmetric(key: jax.Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Symmetric games, in which swapping seats swaps the payoffs: A + A' = 1."""
    square = jax.random.uniform(key, (max(shape),) * 2)
    return (0.5 + (square - square.T) / 2.0)[: shape[0], : shape[1]]


def _cyclic(key: jax.Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Perturbed rock-paper-scissors of any size: i against j pays as i + 1 against j + 1."""
    strict_key, gain_key, near_key = jax.random.split(key, 3)
    i, j = _indices(shape)
    around = jnp.maximum(rows, columns)
    ahead = (i - j) % around
    behind = (around - ahead) % around
    gains = jax.random.uniform(gain_key, (max(shape),))
    gains = jnp.where(jax.random.uniform(strict_key) < 0.5, 1.0, gains)
    table = 0.5 + 0.5 * jnp.sign(behind - ahead) * gains[jnp.minimum(ahead, behind)]
    pennies = (i == j).astype(float)  # two actions have no cycle
    return _near(near_key, jnp.where(around == 2, pennies, table), shape, 0.2)


def _dominated(key: jax.Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """One row equals another row minus a small amount in every column."""
    key, first, second, less = jax.random.split(key, 4)
    table = jax.random.uniform(key, shape)
    good = jax.random.randint(first, (), 0, rows)
    bad = (good + 1 + jax.random.randint(second, (), 0, rows - 1)) % rows
    worse = jnp.clip(table[good] - 0.1 * jax.random.uniform(less, shape[1:]), 0.0, 1.0)
    return table.at[bad].set(worse)


def _known(key: jax.Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """Hide and seek (plain or with values), pursuit on a line, the larger number; perturbed."""
    which, value_key, near_key = jax.random.split(key, 3)
    i, j = _indices(shape)
    values = jax.random.uniform(value_key, shape[:1], minval=0.2)[:, None]
    far = jnp.abs(i - j) / jnp.maximum(jnp.maximum(rows, columns) - 1, 1)
    found = (i == j).astype(float)
    larger = 0.5 + 0.5 * jnp.sign(i - j) * jnp.where(jnp.abs(i - j) == 1, -1.0, 1.0)
    tables = jnp.stack([jnp.broadcast_to(t, shape) for t in (found, found * values, far, larger)])
    return _near(near_key, tables[jax.random.randint(which, (), 0, 4)], shape, 0.3)


def _low_rank(key: jax.Array, shape: tuple[int, int], rows: Any, columns: Any) -> Array:
    """The sum of one or two products of a row factor and a column factor."""
    rank_key, left, right = jax.random.split(key, 3)
    second = jnp.array([1.0, jax.random.bernoulli(rank_key)])
    table = (jax.random.normal(left, (shape[0], 2)) * second) @ jax.random.normal(
        right, (2, shape[1])
    )
    i, j = _indices(shape)
    largest = jnp.where((i < rows) & (j < columns), jnp.abs(table), 0.0).max()
    return jnp.clip(0.5 + 0.5 * table / largest, 0.0, 1.0)


#: Name of a kind of games -> its function and its share in a mixture.
KINDS: dict[str, tuple[Callable[..., Array], float]] = {
    "uniform": (_uniform, 0.40),
    "normal": (_normal, 0.08),
    "sparse": (_sparse, 0.06),
    "binary": (_binary, 0.10),
    "narrow": (_narrow, 0.04),
    "symmetric": (_symmetric, 0.06),
    "cyclic": (_cyclic, 0.08),
    "dominated": (_dominated, 0.04),
    "known": (_known, 0.06),
    "low-rank": (_low_rank, 0.08),
}


def check_kinds(kinds: Any) -> dict[str, float]:
    """Return shares by name that sum to one, from shares, names or None (all kinds)."""
    if kinds is None:
        return {name: share for name, (_, share) in KINDS.items()}
    names = [kinds] if isinstance(kinds, str) else list(kinds)
    unknown = [name for name in names if name not in KINDS]
    if unknown or not names:
        raise InputError("kinds", f"some of {', '.join(KINDS)}", unknown[0] if unknown else "none")
    shares = dict(kinds) if isinstance(kinds, Mapping) else dict.fromkeys(names, 1.0)
    values = np.array([float(share) for share in shares.values()])
    if not (np.isfinite(values).all() and (values >= 0.0).all() and values.sum() > 0.0):
        raise InputError("kinds", "shares that are not negative, and not all zero", shares)
    return {name: float(v) for name, v in zip(shares, values / values.sum(), strict=True)}


class MixedRewards(eqx.Module):
    """Rewards of games of several kinds, each with its share.

    Swapping the players leaves the distribution unchanged: half of the games are drawn for the
    other seat. With `fewest`, each player has from `fewest` actions up to the size of the canvas. A
    player with fewer actions is padded with dominated ones: rows of zeros, columns of ones.
    """

    #: Pairs (name, share).
    kinds: tuple[tuple[str, float], ...] = eqx.field(static=True)
    fewest: int | None = eqx.field(static=True, default=None)
    #: Largest number of actions if sizes vary; None for the size of the canvas.
    largest: int | None = eqx.field(static=True, default=None)

    def sizes(self, key: jax.Array, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """Return the numbers of actions in use in the game drawn with this key."""
        if self.fewest is None:
            return shape[0], shape[1]
        common_key, key = jax.random.split(jax.random.fold_in(key, 1))
        most = np.minimum(np.array(shape), self.largest or max(shape))
        # Explicit dtypes keep sizes the same in either precision.
        drawn = jax.random.randint(key, (2,), self.fewest, most + 1, jnp.int32)
        common = jax.random.uniform(common_key, (), jnp.float32) < COMMON_SHARE
        usual = np.clip(COMMON, self.fewest, most).astype(np.int32)
        rows, columns = jnp.where(common, usual, drawn)
        return rows, columns

    def places(self, key: jax.Array, states: int) -> Any:
        """Return the number of states in use in the Markov game drawn with this key."""
        if self.fewest is None or states == 1:
            return states
        common_key, _ = jax.random.split(jax.random.fold_in(key, 1))
        common = jax.random.uniform(common_key, (), jnp.float32) < COMMON_SHARE
        drawn = jax.random.randint(
            jax.random.fold_in(key, 3), (), FEWEST_STATES, states + 1, jnp.int32
        )
        return jnp.where(common, min(COMMON, states), drawn)

    def __call__(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Draw the rewards of one game."""
        rows, columns = self.sizes(key, shape)
        i, j = _indices((shape[0], shape[1]))
        table = self._tables(key, (1, *shape), rows, columns)[0]
        return jnp.where(i >= rows, 0.0, jnp.where(j >= columns, 1.0, table))

    def markov(self, key: jax.Array, shape: tuple[int, int, int]) -> tuple[Array, Array]:
        """Draw rewards and transitions of one Markov game; `shape` is (states, rows, columns)."""
        sizes, places = self.sizes(key, shape[1:]), self.places(key, shape[0])
        here = jnp.arange(shape[0]) < places
        alpha_key, key_ = jax.random.split(jax.random.fold_in(key, 4))
        low, high = np.log(CONCENTRATIONS)
        alpha = jnp.exp(jax.random.uniform(alpha_key, minval=low, maxval=high))
        gammas = jax.random.loggamma(key_, alpha, (*shape, shape[0]))
        moves = jax.nn.softmax(jnp.where(here, gammas, -jnp.inf), -1)
        stay = jnp.broadcast_to(jnp.eye(shape[0])[:, None, None], moves.shape)
        moves = jnp.where(here[:, None, None, None], moves, stay)
        rewards = jnp.where(here[:, None, None], self._tables(key, shape, *sizes), 0.5)
        for axis, count in enumerate(sizes, 1):
            index = jnp.arange(shape[axis])
            index = jnp.where(index < count, index, 0)
            rewards, moves = (jnp.take(array, index, axis) for array in (rewards, moves))
        return rewards, moves

    def _tables(self, key: jax.Array, shape: Any, rows: Any, columns: Any) -> Array:
        """(states, rows, columns): tables of one kind, for one seat or the other."""
        which, swap, own, other = jax.random.split(key, 4)
        names, shares = zip(*self.kinds, strict=True)
        made = [KINDS[name][0] for name in names]
        kind = jax.random.choice(which, len(names), p=jnp.array(shares))
        size, turned, swapped = shape[1:], shape[:0:-1], jax.random.bernoulli(swap)

        def table(own: jax.Array, other: jax.Array) -> Array:
            mine = jnp.stack([make(own, size, rows, columns) for make in made])[kind]
            theirs = jnp.stack([make(other, turned, columns, rows) for make in made])[kind]
            return jnp.where(swapped, 1.0 - theirs.T, mine)

        if shape[0] == 1:
            return table(own, other)[None]
        return jax.vmap(table)(*(jax.random.split(k, shape[0]) for k in (own, other)))
