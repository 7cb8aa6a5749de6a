"""Step sizes, exploration and regularisation as functions of the round.

A schedule is a pytree that maps a round `t = 1, 2, ...` (traced or not) to a number.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp


class Schedule(eqx.Module):
    """A number for every round `t = 1, 2, ...`."""

    @abstractmethod
    def __call__(self, t: Any) -> jax.Array:
        """The value at round `t`."""


class Constant(Schedule):
    """The same value at every round.

    >>> float(Constant(0.5)(10))
    0.5
    """

    value: float

    def __call__(self, t: Any) -> jax.Array:
        """The value."""
        return jnp.asarray(self.value, jnp.result_type(float))


class Power(Schedule):
    """`coefficient * t ** -exponent`.

    >>> float(Power(2.0, 0.5)(4))
    1.0
    """

    coefficient: float
    exponent: float

    def __call__(self, t: Any) -> jax.Array:
        """The value at round `t`."""
        t = jnp.asarray(t, jnp.result_type(float))
        return self.coefficient * t**-self.exponent
