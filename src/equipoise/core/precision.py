"""Double precision where exactness is the point, without touching JAX's global switch."""

from contextlib import AbstractContextManager

import jax


def double_precision() -> AbstractContextManager[None]:
    """A context in which JAX computes in float64; outside it nothing changes.

    >>> import jax.numpy as jnp
    >>> with double_precision():
    ...     str(jnp.ones(2).dtype)
    'float64'
    """
    return _x64(True)


def single_precision() -> AbstractContextManager[None]:
    """A context in which JAX computes in float32, even where the user turned float64 on.

    >>> import jax.numpy as jnp
    >>> with double_precision(), single_precision():
    ...     str(jnp.ones(2).dtype)
    'float32'
    """
    return _x64(False)


def _x64(on: bool) -> AbstractContextManager[None]:
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(on)
    from jax.experimental import (  # before jax 0.8
        enable_x64,  # pyright: ignore[reportAttributeAccessIssue]
    )

    return enable_x64(on)
