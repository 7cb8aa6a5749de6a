"""Equilibria of games as labels for training: what the paper's expert plays."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from equipoise.solvers import solve


def solved(games: Any) -> Float[Array, "2 batch *states actions"]:
    """Equilibrium policies of both seats, padded to the larger number of actions; float32.

    >>> from equipoise.games import MatrixGame
    >>> solved(MatrixGame([[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]])).tolist()
    [[[0.5, 0.5, 0.0]], [[0.5, 0.5, 0.0]]]
    """
    most = max(games.actions)
    policies = [np.asarray(policy) for policy in solve(games).policy]
    width = [(0, 0)] * (policies[0].ndim - 1)
    padded = [np.pad(p, [*width, (0, most - p.shape[-1])]) for p in policies]
    return jnp.asarray(np.stack(padded), jnp.float32)


def sampled(equilibria: Array, records: int, key: jax.Array) -> Array:
    """(2, batch, records, ..., actions): an action drawn at every record, one-hot."""
    shape = (*equilibria.shape[:2], records, *equilibria.shape[2:-1])
    drawn = jax.random.categorical(key, jnp.log(equilibria)[:, :, None], shape=shape)
    return jax.nn.one_hot(drawn, equilibria.shape[-1])
