"""Mirror maps: the geometry of a step, and the regulariser that goes with it."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import steps


class MirrorMap(eqx.Module):
    """The geometry of a step, and the regulariser that goes with it."""

    @abstractmethod
    def step(self, policy: Any, gradient: Any, step: Any, floor: Any) -> jax.Array:
        """The mirror-descent step, on {p : sum p = 1, p >= floor}."""

    @abstractmethod
    def regulariser_gradient(self, policy: Any) -> jax.Array:
        """The gradient of the regulariser that pulls towards uniform."""


class Euclidean(MirrorMap):
    """Squared Euclidean distance; regulariser `|x|^2 / 2`. The in-context paper's choice.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import Euclidean
    >>> x, g = jnp.array([0.5, 0.5]), jnp.array([1.0, 0.0])
    >>> [round(float(p), 3) for p in Euclidean().step(x, g, 0.4, 0.0)]
    [0.3, 0.7]
    """

    def step(self, policy: Any, gradient: Any, step: Any, floor: Any) -> jax.Array:
        """A projected gradient step."""
        return steps.euclidean_step(policy, gradient, step, floor)

    def regulariser_gradient(self, policy: Any) -> jax.Array:
        """The policy itself."""
        return policy


class Entropic(MirrorMap):
    """Relative entropy; regulariser `sum x log x`. The choice of Cai et al. (2023).

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import Entropic
    >>> x, g = jnp.array([0.5, 0.5]), jnp.array([1.0, 0.0])
    >>> [round(float(p), 3) for p in Entropic().step(x, g, 0.4, 0.0)]
    [0.401, 0.599]
    """

    def step(self, policy: Any, gradient: Any, step: Any, floor: Any) -> jax.Array:
        """A multiplicative-weights step."""
        return steps.entropic_step(policy, gradient, step, floor)

    def regulariser_gradient(self, policy: Any) -> jax.Array:
        """The logarithm, up to a constant that no step sees."""
        return jnp.log(policy)


class LogBarrier(MirrorMap):
    """Distance and regulariser of `-sum log x`, whose steps shrink near the boundary.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import LogBarrier
    >>> x, g = jnp.array([0.5, 0.5]), jnp.array([1.0, 0.0])
    >>> [round(float(p), 3) for p in LogBarrier().step(x, g, 0.4, 0.0)]
    [0.45, 0.55]
    """

    def step(self, policy: Any, gradient: Any, step: Any, floor: Any) -> jax.Array:
        """A step in 1 / x."""
        return steps.log_barrier_step(policy, gradient, step, floor)

    def regulariser_gradient(self, policy: Any) -> jax.Array:
        """Minus one over the policy."""
        return -1.0 / policy
