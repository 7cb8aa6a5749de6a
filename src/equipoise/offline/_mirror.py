"""One step of regularised no-regret learning, for every policy of a batch (Eq. 2 and 4).

All maximise `<p, q> - strength R(p, behaviour) - D(p, policy) / step` over the simplex, in closed
form: with chi-squared divergences as in the paper, or with relative entropies or Euclidean
distances (Remark 2).
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from equipoise.core.simplex import chi_squared_step, project


def entropy_step(policy: Array, q: Array, behaviour: Array, *, step: Any, strength: Any) -> Array:
    """Relative entropies: `p ~ exp((strength log nu + log pi / step + q) / (strength + 1/step))`.

    Actions that the behaviour never plays are never played.

    >>> nu = jnp.array([0.5, 0.5])
    >>> p = entropy_step(nu, jnp.array([1.0, 0.0]), nu, step=1.0, strength=1.0)
    >>> [round(float(x), 4) for x in p]
    [0.6225, 0.3775]
    """
    played = (behaviour > 0) & (policy > 0)
    logs = strength * jnp.log(jnp.where(played, behaviour, 1.0))
    logs = logs + jnp.log(jnp.where(played, policy, 1.0)) / step
    exponent = jnp.where(played, (logs + q) / (strength + 1 / step), -jnp.inf)
    weights = jnp.exp(exponent - exponent.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def euclidean_step(
    policy: Array,
    q: Array,
    behaviour: Array,
    *,
    step: Any,
    strength: Any,
    available: Array | None = None,
) -> Array:
    """Squared Euclidean distances; off the behaviour's support too, where actions are available.

    >>> nu = jnp.array([0.5, 0.5])
    >>> p = euclidean_step(nu, jnp.array([1.0, 0.0]), nu, step=1.0, strength=1.0)
    >>> [round(float(x), 4) for x in p]
    [0.625, 0.375]
    """
    point = (strength * behaviour + policy / step + q / 2) / (strength + 1 / step)
    if available is not None:
        available = jnp.broadcast_to(available, point.shape)
    return project(point, weights=available)


#: Name of a regulariser -> its step.
STEPS: dict[str, Callable[..., Array]] = {
    "chi-squared": chi_squared_step,
    "kl": entropy_step,
    "l2": euclidean_step,
}
