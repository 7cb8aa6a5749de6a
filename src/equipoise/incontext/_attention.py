"""Causal softmax attention that never stores the full matrix of weights, on GPU and CPU."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

#: The fused kernel requires lengths that are a multiple of this; sequences are padded to it.
MULTIPLE = 64
#: Smallest number of rows and columns of a matrix product in our own kernel.
TILE = 16
#: Number of cached tokens that our kernel reads at a time.
BLOCK = 32
#: Score of tokens that do not exist yet.
LOWEST = -1e30


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
    """Causal attention by the fused kernel; padding at the end does not change earlier tokens."""
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


def usable_next(q: Array, values: Array) -> bool:
    """Whether `attend_next` can take queries and values of this kind on the current device.

    >>> import jax.numpy as jnp
    >>> usable_next(jnp.zeros((1, 4, 1, 32)), jnp.zeros((1, 16, 32)))
    False
    """
    size = q.shape[-1]
    return usable(q) and size >= TILE and size & (size - 1) == 0 and values.shape[-1] == size


def attend_next(
    q: Float[Array, "groups members 1 size"],
    keys: Float[Array, "groups length size"],
    values: Float[Array, "groups length size"],
    count: Any,
    scale: float,
    *,
    interpret: bool = False,
) -> Float[Array, "groups members 1 size"]:
    """Attention of one token to the first `count` tokens of a cache; the rest is not read.

    One kernel program reads the keys and values of a group once, for all heads that share them, so
    that a round of play costs little more than reading the cache. With `interpret` it runs on any
    device, slowly.
    """
    # Some builds of JAX do not include Pallas.
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    groups, members, _, size = q.shape
    rows = max(TILE, 1 << (members - 1).bit_length())

    def kernel(count_ref: Any, q_ref: Any, key_ref: Any, value_ref: Any, out_ref: Any) -> None:
        last = count_ref[0]
        own = (jnp.arange(rows) < members)[:, None]
        query = triton.load(q_ref.at[pl.ds(0, rows), :], mask=own, other=0.0)

        def read(i: Any, carry: Any) -> Any:
            mixed, highest, total = carry
            place, first = pl.ds(i * BLOCK, BLOCK), i * BLOCK
            seen = first + jnp.arange(BLOCK) < last
            key = triton.load(key_ref.at[place, :], mask=seen[:, None], other=0.0)
            value = triton.load(value_ref.at[place, :], mask=seen[:, None], other=0.0)
            score = scale * triton.dot(query, key, trans_b=True).astype(jnp.float32)
            score = jnp.where(seen[None], score, LOWEST)
            higher = jnp.maximum(highest, score.max(1))
            weight, faded = jnp.exp(score - higher[:, None]), jnp.exp(highest - higher)
            more = triton.dot(weight.astype(value.dtype), value).astype(jnp.float32)
            return mixed * faded[:, None] + more, higher, total * faded + weight.sum(1)

        nothing = jnp.zeros((rows, size), jnp.float32), jnp.full(rows, LOWEST, jnp.float32)
        blocks = (last + BLOCK - 1) // BLOCK
        start = (*nothing, jnp.zeros(rows, jnp.float32))
        mixed, _, total = jax.lax.fori_loop(0, blocks, read, start)
        out = (mixed / total[:, None]).astype(out_ref.dtype)
        triton.store(out_ref.at[pl.ds(0, rows), :], out, mask=own)

    def each(length: int) -> Any:
        """Return the block of one group."""
        return pl.BlockSpec((None, length, size), lambda group: (group, 0, 0))

    mixed = pl.pallas_call(
        kernel,
        grid=(groups,),
        out_shape=jax.ShapeDtypeStruct((groups, members, size), q.dtype),
        in_specs=[
            pl.BlockSpec((1,), lambda group: (0,)),
            each(members),
            each(keys.shape[1]),
            each(keys.shape[1]),
        ],
        out_specs=each(members),
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=2),
        interpret=interpret,
    )(jnp.asarray(count, jnp.int32).reshape(1), q.reshape(groups, members, size), keys, values)
    return mixed.reshape(groups, members, 1, size)


#: Approximate number of queries per chunk, and largest number of chunks.
QUERIES, PIECES = 64, 4


def attend_in_chunks(
    q: Float[Array, "groups members length size"],
    k: Float[Array, "groups length size"],
    v: Float[Array, "groups length value_size"],
    scale: float,
) -> Float[Array, "groups members length value_size"]:
    """Causal attention in chunks of the sequence that fit a CPU's cache.

    The matrix of weights is computed for one chunk of queries at a time, and only for the tokens
    that they may attend to: with four chunks, three eighths of the matrix are never computed. The
    code uses plain matrix products, which are fast on XLA:CPU, as are their derivatives; a product
    that also sums over another axis is several times slower. The heads of a group are stacked as
    rows of one matrix.

    >>> import jax.numpy as jnp
    >>> k = v = jnp.arange(3.0)[None, :, None]
    >>> attend_in_chunks(jnp.zeros((1, 1, 3, 1)), k, v, 1.0).ravel().tolist()
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
