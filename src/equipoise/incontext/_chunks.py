"""Causal softmax attention in pieces of the sequence: what a CPU's cache can hold.

The table of weights is made for some queries at a time, and only for the tokens these may see:
over half of it never exists. Written as plain products of matrices, which is what XLA:CPU and its
derivatives are fast at; a product with an axis to sum over beside them is several times slower.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

#: Queries of a piece, about, and pieces at most.
QUERIES, PIECES = 64, 4


def usable(q: Array) -> bool:
    """Whether attention should go in pieces on the current device.

    >>> import jax.numpy as jnp
    >>> usable(jnp.zeros((1, 4, 8, 16)))
    True
    """
    return jax.default_backend() == "cpu"


def attend(
    q: Float[Array, "groups members length size"],
    k: Float[Array, "groups length size"],
    v: Float[Array, "groups length value_size"],
    scale: float,
) -> Float[Array, "groups members length value_size"]:
    """Causal attention; heads of a group are more rows of its table.

    >>> import jax.numpy as jnp
    >>> k = v = jnp.arange(3.0)[None, :, None]
    >>> attend(jnp.zeros((1, 1, 3, 1)), k, v, 1.0).ravel().tolist()
    [0.0, 0.5, 1.0]
    """
    groups, members, length, size = q.shape
    pieces = max(1, min(PIECES, length // QUERIES))
    ends = [length * (i + 1) // pieces for i in range(pieces)]
    mixed = []
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        rows = q[:, :, first:last].reshape(groups, -1, size)
        score = scale * (rows @ k[:, :last].swapaxes(-1, -2))
        seen = jnp.arange(last)[None] <= jnp.arange(first, last)[:, None]
        seen = jnp.broadcast_to(seen, (members, *seen.shape)).reshape(-1, last)
        wide = score.astype(jnp.promote_types(score.dtype, jnp.float32))
        weight = jax.nn.softmax(jnp.where(seen, wide, -jnp.inf), -1).astype(score.dtype)
        mixed.append((weight @ v[:, :last]).reshape(groups, members, last - first, -1))
    return jnp.concatenate(mixed, 2)
