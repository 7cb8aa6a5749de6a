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
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import (  # before jax 0.8
        enable_x64,  # pyright: ignore[reportAttributeAccessIssue]
    )

    return enable_x64(True)
