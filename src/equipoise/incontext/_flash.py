"""Causal softmax attention without the table of weights in memory, where the hardware has it."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

#: What the fused kernel takes: lengths are padded to a multiple of this.
MULTIPLE = 64


def usable(q: Array) -> bool:
    """Whether queries of this kind can go through cuDNN's fused kernel on the current device.

    >>> import jax.numpy as jnp
    >>> usable(jnp.zeros((1, 4, 8, 16)))
    False
    """
    half = q.dtype in (jnp.bfloat16, jnp.float16)
    return half and q.shape[-1] % 8 == 0 and jax.default_backend() == "gpu"


def attend(
    q: Float[Array, "groups members length size"],
    k: Float[Array, "groups length size"],
    v: Float[Array, "groups length size"],
    scale: float,
) -> Float[Array, "groups members length size"]:
    """Causal attention by the fused kernel; tokens added at the end change none before them."""
    groups, members, length, size = q.shape
    missing = -length % MULTIPLE

    def layout(array: Array) -> Array:
        """(1, length, heads, size)."""
        flat = array.reshape(-1, length, size).transpose(1, 0, 2)
        return jnp.pad(flat, ((0, missing), (0, 0), (0, 0)))[None]

    mixed = jax.nn.dot_product_attention(
        layout(q), layout(k), layout(v), scale=scale, is_causal=True, implementation="cudnn"
    )
    return mixed[0, :length].transpose(1, 0, 2).reshape(groups, members, length, size)


def attend_next(
    q: Float[Array, "groups members 1 size"],
    keys: Float[Array, "groups length size"],
    values: Float[Array, "groups length size"],
    count: Any,
    scale: float,
) -> Float[Array, "groups members 1 size"]:
    """Attention of one token to the first `count` tokens of a cache, by the fused kernel."""
    groups, members, _, size = q.shape
    # Tied to q, so that under `vmap` there is a length for every sequence.
    none = (0 * q[0, 0, 0, :1]).astype(jnp.int32)
    mixed = jax.nn.dot_product_attention(
        q.reshape(1, 1, groups * members, size),
        keys.transpose(1, 0, 2)[None],
        values.transpose(1, 0, 2)[None],
        scale=scale,
        query_seq_lengths=none + 1,
        key_value_seq_lengths=none + count,
        implementation="cudnn",
    )
    return mixed.reshape(groups, members, 1, size)
