"""The weighted projection onto a truncated simplex.

One projection serves every method of the library that projects: the Euclidean step of online
mirror descent (weights one, a floor on every probability), the chi-squared step of offline
policy gradient (weights are the behaviour policy), and plain projections.

Functions here are pure cores over the last axis, for any leading axes; they are plain
`jax.numpy`, may be compiled, `vmap`ped and differentiated, and keep the dtype of their input.
A loop that keeps the batch innermost in memory calls them through
`jax.vmap(..., in_axes=-1, out_axes=-1)`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

#: Up to this many actions the threshold is found by comparing all pairs, without a sort.
PAIRWISE_LIMIT = 16


def project(
    point: Float[Array, "*batch actions"],
    *,
    weights: Float[Array, "*batch actions"] | None = None,
    floor: Float[Array, "*batch"] | float = 0.0,
) -> Float[Array, "*batch actions"]:
    """Project onto {p : sum p = 1, p >= floor}: the p that minimises sum (p - point)^2 / weights.

    The solution is `p = max(floor, point - theta * weights)`. The threshold is a maximum of
    ratios of partial sums, `theta = max_K (sum_K (point - floor) - mass) / sum_K weights`, over
    the sets K of the largest `(point - floor) / weights`: exact, and without a loop.

    An action of weight zero gets the floor. At least one weight must be positive, and
    `actions * floor <= 1`.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.core.simplex import project
    >>> [round(float(p), 6) for p in project(jnp.array([0.9, 0.5, -1.0]))]
    [0.7, 0.3, 0.0]
    """
    actions = point.shape[-1]
    floor = jnp.broadcast_to(jnp.asarray(floor, point.dtype), point.shape[:-1])[..., None]
    shifted = point - floor
    mass = 1.0 - actions * floor[..., 0]
    if weights is None:
        theta = _threshold(shifted, jnp.ones_like(shifted), shifted, mass)
        return floor + jnp.maximum(shifted - theta[..., None], 0.0)
    weights = jnp.broadcast_to(jnp.asarray(weights, point.dtype), point.shape)
    positive = weights > 0
    shifted = jnp.where(positive, shifted, 0.0)
    scores = jnp.where(positive, shifted / jnp.where(positive, weights, 1.0), -jnp.inf)
    theta = _threshold(shifted, weights, scores, mass)
    return floor + jnp.maximum(shifted - theta[..., None] * weights, 0.0)


def _threshold(shifted: Array, weights: Array, scores: Array, mass: Array) -> Array:
    """The largest of (partial sum - mass) / (partial weight) over sets of largest scores."""
    if shifted.shape[-1] <= PAIRWISE_LIMIT:
        above = scores[..., None, :] >= scores[..., :, None]
        sums = jnp.where(above, shifted[..., None, :], 0.0).sum(-1)
        total = jnp.where(above, weights[..., None, :], 0.0).sum(-1)
    else:
        order = jnp.argsort(-scores, axis=-1)
        sums = jnp.cumsum(jnp.take_along_axis(shifted, order, -1), -1)
        total = jnp.cumsum(jnp.take_along_axis(weights, order, -1), -1)
    return jnp.max((sums - mass[..., None]) / total, -1)


def chi_squared_step(
    policy: Float[Array, "*batch actions"],
    reward: Float[Array, "*batch actions"],
    behaviour: Float[Array, "*batch actions"],
    *,
    step: float | jax.Array,
    strength: float | jax.Array,
) -> Float[Array, "*batch actions"]:
    """One chi-squared-regularised mirror ascent step (interaction-rank paper, Eq. 2 and 4).

    Maximises `<p, reward> - strength chi2(p, behaviour) - chi2-distance(p, policy) / step` in
    closed form: the weighted projection of
    `(strength behaviour + policy / step + behaviour reward / 2) / (strength + 1 / step)`.
    The paper leaves it as "a quadratic problem".

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
