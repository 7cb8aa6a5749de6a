"""The weighted projection onto a truncated simplex, with the actions last.

All methods of the library that project use this projection: the Euclidean step of online mirror
descent (weights one, a floor on every probability), the chi-squared step of offline policy gradient
(weights are the behaviour policy), and plain projections. It is implemented once, in
`equipoise.core.steps`, for arrays with the actions first, the layout of loops over large batches.

Functions here work over the last axis, for any leading axes; they may be compiled, `vmap`ped and
differentiated, and keep the dtype of their input.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from equipoise.core import steps


def project(
    point: Float[Array, "*batch actions"],
    *,
    weights: Float[Array, "*batch actions"] | None = None,
    floor: Float[Array, "*batch"] | float = 0.0,
) -> Float[Array, "*batch actions"]:
    """Project onto {p : sum p = 1, p >= floor}: the p that minimises sum (p - point)^2 / weights.

    An action of weight zero gets the floor. At least one weight must be positive, and
    `actions * floor <= 1`. See `equipoise.core.steps.project` for the closed form.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.core.simplex import project
    >>> [round(float(p), 6) for p in project(jnp.array([0.9, 0.5, -1.0]))]
    [0.7, 0.3, 0.0]
    """
    floor = jnp.broadcast_to(jnp.asarray(floor, point.dtype), point.shape[:-1])[None]
    if weights is not None:
        weights = jnp.broadcast_to(jnp.asarray(weights, point.dtype), point.shape)
        weights = jnp.moveaxis(weights, -1, 0)
    return jnp.moveaxis(steps.project(jnp.moveaxis(point, -1, 0), floor, weights), 0, -1)


def chi_squared_step(
    policy: Float[Array, "*batch actions"],
    reward: Float[Array, "*batch actions"],
    behaviour: Float[Array, "*batch actions"],
    *,
    step: float | jax.Array,
    strength: float | jax.Array,
) -> Float[Array, "*batch actions"]:
    """One chi-squared-regularised mirror ascent step (interaction-rank paper, Eq. (2) and (4)).

    Maximises `<p, reward> - strength chi2(p, behaviour) - chi2-distance(p, policy) / step` in
    closed form: the weighted projection of
    `(strength behaviour + policy / step + behaviour reward / 2) / (strength + 1 / step)`.
    The paper leaves this step as "a quadratic problem".

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.core.simplex import chi_squared_step
    >>> nu = jnp.array([0.5, 0.3, 0.2])
    >>> p = chi_squared_step(nu, jnp.zeros(3), nu, step=5.0, strength=0.01)
    >>> [round(float(a), 6) for a in p]
    [0.5, 0.3, 0.2]
    """
    point = (strength * behaviour + policy / step + behaviour * reward / 2) / (strength + 1 / step)
    return project(point, weights=behaviour)
