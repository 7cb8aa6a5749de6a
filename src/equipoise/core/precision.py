"""Contexts for double precision that leave JAX's global setting unchanged."""

import os
import sys
from contextlib import AbstractContextManager

#: Whether this process was forked from one in which JAX was running.
_forked = False


def _note_fork() -> None:
    global _forked
    bridge = sys.modules.get("jax._src.xla_bridge")  # JAX runs only if it has been loaded
    _forked = _forked or (bridge is not None and bridge.backends_are_initialized())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def check_not_forked() -> None:
    """Raise an error instead of waiting forever for JAX's threads, which a fork does not copy."""
    if _forked:
        raise RuntimeError(
            "JAX cannot run after a fork; start processes with the spawn method of multiprocessing"
        )


def double_precision() -> AbstractContextManager[None]:
    """Return a context in which JAX computes in float64; outside it nothing changes.

    >>> import jax.numpy as jnp
    >>> with double_precision():
    ...     str(jnp.ones(2).dtype)
    'float64'
    """
    return _x64(True)


def single_precision() -> AbstractContextManager[None]:
    """Return a context in which JAX computes in float32, even if the user enabled float64.

    >>> import jax.numpy as jnp
    >>> with double_precision(), single_precision():
    ...     str(jnp.ones(2).dtype)
    'float32'
    """
    return _x64(False)


def _x64(on: bool) -> AbstractContextManager[None]:
    check_not_forked()
    import jax

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(on)
    from jax.experimental import (  # before jax 0.8
        enable_x64,  # pyright: ignore[reportAttributeAccessIssue]
    )

    return enable_x64(on)
