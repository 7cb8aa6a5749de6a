"""Random numbers for long batched loops: one stream per game, addressed by round and purpose.

Splitting a JAX key every round costs more than the round itself: threefry takes about a hundred
operations for each pair of words. The generator here is counter-based too, so that a run can
stop at any round and resume, and costs about twenty operations per number:

    word(game, round, purpose) = mix(mix(first ^ a) + second ^ b)

where `(first, second)` are the 64 bits of the game's own JAX key (threefry, once per game),
`(a, b)` are words of the round and the purpose, shared by all games and computed once per round,
and `mix` is an integer hash with nearly ideal avalanche (the `lowbias32` of C. Wellons's
hash-prospector: two multiplications, three xor-shifts). It is meant for simulation, not
cryptography. Uniforms have 24 bits: multiples of 2^-24 in [0, 1).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt32

#: One stream for each purpose that a number is drawn for in a round.
ROW_ACTION, COLUMN_ACTION, REWARD, TRANSITION = range(4)

_PURPOSES = 4
_GOLDEN = 0x9E3779B9


def mix(word: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """A bijection of 32-bit words in which every input bit flips every output bit half the time.

    >>> import jax.numpy as jnp
    >>> hex(int(mix(jnp.uint32(1))))
    '0x688990c0'
    """
    word = (word ^ (word >> 16)) * jnp.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * jnp.uint32(0x846CA68B)
    return word ^ (word >> 16)


def game_words(keys: jax.Array) -> np.ndarray:
    """Return the two words of every key of a flat array of JAX keys, of shape (2, games).

    >>> import jax
    >>> game_words(jax.random.split(jax.random.key(0), 5)).shape
    (2, 5)
    """
    data = np.asarray(jax.random.key_data(keys)).astype(np.uint32)
    # A key of more than two words is folded, so that any JAX generator may have made it.
    data = data.reshape(*data.shape[:-1], -1, 2)
    return np.ascontiguousarray(np.bitwise_xor.reduce(data, axis=-2).T)


def words(keys: UInt32[Array, "2 *batch"], round: Any, purpose: int) -> UInt32[Array, "*batch"]:
    """Return one 32-bit word for every game, for this round and purpose.

    >>> import jax.numpy as jnp
    >>> keys = jnp.array([[1, 2], [3, 4]], jnp.uint32)
    >>> bool((words(keys, 1, ROW_ACTION) != words(keys, 1, COLUMN_ACTION)).all())
    True
    """
    counter = jnp.asarray(round).astype(jnp.uint32) * jnp.uint32(_PURPOSES) + jnp.uint32(purpose)
    first = mix(mix(counter + jnp.uint32(_GOLDEN)) ^ jnp.uint32(0x85EBCA6B))
    second = mix(mix(counter ^ jnp.uint32(0xC2B2AE35)) + jnp.uint32(0x27D4EB2F))
    return mix(mix(keys[0] ^ first) + keys[1] ^ second)


def uniform(keys: UInt32[Array, "2 *batch"], round: Any, purpose: int) -> Float[Array, "*batch"]:
    """Return a number uniform on [0, 1) for every game, for this round and purpose.

    >>> import jax.numpy as jnp
    >>> u = uniform(jnp.zeros((2, 3), jnp.uint32), 7, REWARD)
    >>> bool(((u >= 0) & (u < 1)).all())
    True
    """
    bits = words(keys, round, purpose) >> 8
    return bits.astype(jnp.result_type(float)) * 2.0**-24


def normal(keys: UInt32[Array, "2 *batch"], round: Any, purpose: int) -> Float[Array, "*batch"]:
    """Return a standard normal number for every game: the quantile of `uniform` plus half its step.

    The argument of the inverse error function is an odd multiple of 2^-24, exact in float32, and
    never -1 or 1: the result is always finite, at most 5.4 in absolute value.

    >>> import jax.numpy as jnp
    >>> z = normal(jnp.zeros((2, 3), jnp.uint32), 7, REWARD)
    >>> bool((jnp.abs(z) < 5.5).all())
    True
    """
    odd = (words(keys, round, purpose) >> 8).astype(jnp.int32) * 2 + (1 - 2**24)
    return jnp.sqrt(2.0) * jax.lax.erf_inv(odd.astype(jnp.result_type(float)) * 2.0**-24)
