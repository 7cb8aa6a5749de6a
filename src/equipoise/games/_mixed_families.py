"""Zero-sum games of many kinds in one family, of one size or of several sizes on one canvas.

`_mixed_draws` has the functions that draw the games of each kind.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equipoise.core import InputError
from equipoise.core.values import Value, static

if TYPE_CHECKING:
    from jax import Array

#: Share of `COMMON` x `COMMON` games in a family with varying sizes.
COMMON_SHARE, COMMON = 0.3, 3
#: Smallest number of states in Markov games of varying sizes, and concentrations of transitions.
FEWEST_STATES, CONCENTRATIONS = 2, (0.1, 1.0)

#: Name of a kind of games -> its share in a mixture.
KINDS = {
    "uniform": 0.40,
    "normal": 0.08,
    "sparse": 0.06,
    "binary": 0.10,
    "narrow": 0.04,
    "symmetric": 0.06,
    "cyclic": 0.08,
    "dominated": 0.04,
    "known": 0.06,
    "low-rank": 0.08,
}


def check_kinds(kinds: Any) -> dict[str, float]:
    """Return shares by name that sum to one, from shares, names or None (all kinds)."""
    if kinds is None:
        return dict(KINDS)
    names = [kinds] if isinstance(kinds, str) else list(kinds)
    unknown = [name for name in names if name not in KINDS]
    if unknown or not names:
        raise InputError("kinds", f"some of {', '.join(KINDS)}", unknown[0] if unknown else "none")
    shares = dict(kinds) if isinstance(kinds, Mapping) else dict.fromkeys(names, 1.0)
    values = np.array([float(share) for share in shares.values()])
    if not (np.isfinite(values).all() and (values >= 0.0).all() and values.sum() > 0.0):
        raise InputError("kinds", "shares that are not negative, and not all zero", shares)
    return {name: float(v) for name, v in zip(shares, values / values.sum(), strict=True)}


class MixedRewards(Value):
    """Rewards of games of several kinds, each with its share.

    Swapping the players leaves the distribution unchanged: half of the games are drawn for the
    other seat. With `fewest`, each player has from `fewest` actions up to the size of the canvas. A
    player with fewer actions is padded with dominated ones: rows of zeros, columns of ones.
    """

    kind: ClassVar[str] = "MixedRewards"
    #: Pairs (name, share).
    kinds: tuple[tuple[str, float], ...] = static()
    fewest: int | None = static(default=None)
    #: Largest number of actions if sizes vary; None for the size of the canvas.
    largest: int | None = static(default=None)

    def sizes(self, key: "Array", shape: tuple[int, ...]) -> tuple[Any, Any]:
        """Return the numbers of actions in use in the game drawn with this key."""
        import jax
        import jax.numpy as jnp

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

    def places(self, key: "Array", states: int) -> Any:
        """Return the number of states in use in the Markov game drawn with this key."""
        import jax
        import jax.numpy as jnp

        if self.fewest is None or states == 1:
            return states
        common_key, _ = jax.random.split(jax.random.fold_in(key, 1))
        common = jax.random.uniform(common_key, (), jnp.float32) < COMMON_SHARE
        drawn = jax.random.randint(
            jax.random.fold_in(key, 3), (), FEWEST_STATES, states + 1, jnp.int32
        )
        return jnp.where(common, min(COMMON, states), drawn)

    def __call__(self, key: "Array", shape: tuple[int, ...]) -> "Array":
        """Draw the rewards of one game."""
        import jax.numpy as jnp

        from equipoise.games._mixed_draws import indices

        rows, columns = self.sizes(key, shape)
        i, j = indices((shape[0], shape[1]))
        table = self._tables(key, (1, *shape), rows, columns)[0]
        return jnp.where(i >= rows, 0.0, jnp.where(j >= columns, 1.0, table))

    def markov(self, key: "Array", shape: tuple[int, int, int]) -> "tuple[Array, Array]":
        """Draw rewards and transitions of one Markov game; `shape` is (states, rows, columns)."""
        import jax
        import jax.numpy as jnp

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

    def _tables(self, key: "Array", shape: Any, rows: Any, columns: Any) -> "Array":
        """(states, rows, columns): tables of one kind, for one seat or the other."""
        import jax
        import jax.numpy as jnp

        from equipoise.games._mixed_draws import DRAWS

        which, swap, own, other = jax.random.split(key, 4)
        names, shares = zip(*self.kinds, strict=True)
        made = [DRAWS[name] for name in names]
        kind = jax.random.choice(which, len(names), p=jnp.array(shares))
        size, turned, swapped = shape[1:], shape[:0:-1], jax.random.bernoulli(swap)

        def table(own: Any, other: Any) -> Any:
            mine = jnp.stack([make(own, size, rows, columns) for make in made])[kind]
            theirs = jnp.stack([make(other, turned, columns, rows) for make in made])[kind]
            return jnp.where(swapped, 1.0 - theirs.T, mine)

        if shape[0] == 1:
            return table(own, other)[None]
        return jax.vmap(table)(*(jax.random.split(k, shape[0]) for k in (own, other)))
