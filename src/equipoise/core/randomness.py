"""Convert an int seed or a JAX key to a JAX key."""

from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.precision import check_not_forked
from equipoise.core.shapes import Array


def as_key(key: Any) -> Array:
    """Return a typed JAX key from an int seed, a typed key or an old-style uint32 pair.

    >>> as_key(0).shape
    ()
    """
    check_not_forked()
    import jax

    if isinstance(key, jax.Array) and jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key):
        if key.shape != ():
            raise InputError("key", "one key", f"an array of keys of shape {key.shape}")
        return key
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return jax.random.key(int(key))
    array = np.asarray(key)
    if array.shape == (2,) and array.dtype == np.uint32:
        return jax.random.wrap_key_data(jax.numpy.asarray(array))
    raise InputError("key", "an int seed or a JAX key", repr(key))
