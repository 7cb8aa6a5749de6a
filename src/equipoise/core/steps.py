"""Mirror-descent steps on a truncated simplex, with actions on the first axis.

Every function takes arrays of shape (actions, ...); the axes after the first, if any, are batch
axes. Loops that play millions of games use this layout, in which the batch is innermost in memory.
Sums and maxima over the actions are written out, since a compiler fuses these with the surrounding
operations, but does not fuse a reduction. `equipoise.core.simplex` has the projection for arrays
with the actions last.

Each step solves, over {p : sum p = 1, p >= floor}, the problem
`min <p, gradient> + distance(p, policy) / step` for its own Bregman distance.

`once` marks values that a compiled loop should compute once. XLA on a CPU fuses cheap operations
into every consumer and recomputes them in each. In a loop body of a hundred small operations that
multiplies the work by two or three. A value that also leaves the loop is not duplicated. Therefore
the loop collects the marked values and returns them. The marks change no result, only the time it
takes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

#: Up to this many actions partial sums compare all pairs; beyond that they sort.
PAIRWISE_LIMIT = 16

#: Newton iterations of the log-barrier step; convergence is quadratic and from one side.
NEWTON_ITERATIONS = 8

T = TypeVar("T")

_MARKED: ContextVar[list[Any] | None] = ContextVar("marked", default=None)


def once(value: T) -> T:
    """Return `value`; inside `collecting`, also request that the loop computes it only once.

    >>> with collecting() as marked:
    ...     y = once(jnp.ones(2)) + 1.0
    >>> len(marked), once(3.0)
    (1, 3.0)
    """
    marked = _MARKED.get()
    if marked is not None:
        marked.append(value)
    return value


@contextmanager
def collecting(active: bool = True) -> Iterator[list[Any]]:
    """Collect values marked with `once` in the block; with `active` false, collect nothing."""
    marked: list[Any] = []
    token = _MARKED.set(marked if active else None)
    try:
        yield marked
    finally:
        _MARKED.reset(token)


def _alone(values: Any) -> bool:
    """Whether there is a single game, so that an entry of the first axis is a scalar.

    XLA on a CPU (0.10.2) then returned wrong numbers from a chain of scalar slices: a fusion
    seems to overwrite the array that it still reads. Reductions are safe; a test compares both.
    """
    return values[0].size == 1


def _fold(operation: Callable[[Any, Any], Any], values: Any) -> Any:
    return reduce(operation, [values[i] for i in range(values.shape[0])])


def total(values: Float[Array, "actions ..."]) -> Float[Array, "..."]:
    """Sum over the first axis.

    >>> float(total(jnp.array([1.0, 2.0])))
    3.0
    """
    return jnp.sum(values, 0) if _alone(values) else _fold(jnp.add, values)


def largest(values: Float[Array, "actions ..."]) -> Float[Array, "..."]:
    """Maximum over the first axis.

    >>> float(largest(jnp.array([1.0, 2.0])))
    2.0
    """
    return jnp.max(values, 0) if _alone(values) else _fold(jnp.maximum, values)


def smallest(values: Float[Array, "actions ..."]) -> Float[Array, "..."]:
    """Minimum over the first axis.

    >>> float(smallest(jnp.array([1.0, 2.0])))
    1.0
    """
    return jnp.min(values, 0) if _alone(values) else _fold(jnp.minimum, values)


def upper_sums(
    scores: Float[Array, "actions *batch"], *terms: Float[Array, "actions *batch"]
) -> list[Float[Array, "actions *batch"]]:
    """Return, for every action, the sums of the terms over actions with at least its score.

    >>> values = jnp.array([0.5, 0.2, 0.3])
    >>> sums, counts = upper_sums(values, values, jnp.ones(3))
    >>> counts.tolist()
    [1.0, 3.0, 2.0]
    """
    if scores.shape[0] > PAIRWISE_LIMIT:
        order = jnp.argsort(-scores, axis=0)
        place = jnp.argsort(order, axis=0)
        # Equal scores get different sums here; the last of them is the one defined above. A
        # maximum or minimum over all actions, which projections take, is the same.
        sorted_sums = [jnp.cumsum(jnp.take_along_axis(term, order, 0), 0) for term in terms]
        return [jnp.take_along_axis(sums, place, 0) for sums in sorted_sums]
    if _alone(scores):
        above = scores[None] >= scores[:, None]
        return [jnp.where(above, term[None], 0.0).sum(1) for term in terms]
    sums = [jnp.zeros_like(term) for term in terms]
    for i in range(scores.shape[0]):
        above = scores[i][None] >= scores
        sums = [
            sum_ + jnp.where(above, term[i][None], 0.0)
            for sum_, term in zip(sums, terms, strict=True)
        ]
    return sums


def one_hot(index: Int[Array, "*batch"], size: int) -> Float[Array, "size *batch"]:
    """Return the policy that plays `index`: one there on the first axis, and zero elsewhere.

    >>> one_hot(jnp.array([2, 0]), 3).tolist()
    [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """
    return is_at(index, size).astype(float)


def is_at(index: Int[Array, "*batch"], size: int) -> Bool[Array, "size *batch"]:
    """Return an array that is True at `index` on the first axis.

    >>> is_at(jnp.array([2, 0]), 3).astype(int).tolist()
    [[0, 1], [0, 0], [1, 0]]
    """
    return jnp.arange(size).reshape((size,) + (1,) * index.ndim) == index


def pick(values: Array, index: Int[Array, "*batch"]) -> Array:
    """Return `values[index]` on the first axis, for each game of the batch, without a gather.

    >>> pick(jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([1, 0])).tolist()
    [3.0, 2.0]
    """
    if _alone(values):
        hit = is_at(index, values.shape[0])
        return jnp.sum(values * hit.reshape(hit.shape[:1] + (1,) * (values.ndim - 1)), 0)
    chosen = values[values.shape[0] - 1]
    for i in range(values.shape[0] - 1):
        chosen = jnp.where(index == i, values[i], chosen)
    return chosen


def sample(
    policy: Float[Array, "actions *batch"], uniform: Float[Array, "*batch"]
) -> Int[Array, "*batch"]:
    """Return the action whose interval of the cumulative distribution contains `uniform`.

    >>> int(sample(jnp.array([0.2, 0.5, 0.3]), jnp.array(0.6)))
    1
    """
    if _alone(policy):
        cumulative = jnp.cumsum(policy, 0)[:-1]
        return (uniform[None] >= cumulative).sum(0).astype(jnp.int32)
    cumulative = jnp.zeros_like(uniform)
    action = jnp.zeros(uniform.shape, jnp.int32)
    for i in range(policy.shape[0] - 1):
        cumulative = cumulative + policy[i]
        action = action + (uniform >= cumulative)
    return action


def project(
    point: Float[Array, "actions *batch"],
    floor: Any = 0.0,
    weights: Float[Array, "actions *batch"] | None = None,
) -> Float[Array, "actions *batch"]:
    """Project onto {p : sum p = 1, p >= floor}: the p that minimises sum (p - point)^2 / weights.

    The solution is `p = max(floor, point - theta * weights)`. The threshold is a maximum of
    ratios of partial sums, `theta = max_K (sum_K (point - floor) - mass) / sum_K weights`, over
    the sets K of the largest `(point - floor) / weights`. This is exact and needs no search. The
    default weights are one; an action of weight zero gets the floor. At least one weight must be
    positive, and `actions * floor <= 1`.

    >>> [round(float(p), 6) for p in project(jnp.array([0.9, 0.5, -1.0]))]
    [0.7, 0.3, 0.0]
    """
    shifted = once(point - floor)
    mass = 1.0 - point.shape[0] * floor
    if weights is None:
        sums, counts = upper_sums(shifted, shifted, jnp.ones_like(shifted))
        threshold = once(largest((sums - mass) / counts))
        return floor + jnp.maximum(shifted - threshold[None], 0.0)
    positive = weights > 0
    shifted = jnp.where(positive, shifted, 0.0)
    scores = jnp.where(positive, shifted / jnp.where(positive, weights, 1.0), -jnp.inf)
    sums, total_weights = upper_sums(scores, shifted, weights)
    threshold = once(largest((sums - mass) / total_weights))
    return floor + jnp.maximum(shifted - threshold[None] * weights, 0.0)


def euclidean_step(
    policy: Float[Array, "actions *batch"],
    gradient: Float[Array, "actions *batch"],
    step: Any,
    floor: Any,
) -> Float[Array, "actions *batch"]:
    """Mirror step for the distance |p - policy|^2 / 2.

    >>> half = jnp.array([0.5, 0.5])
    >>> [round(float(p), 6) for p in euclidean_step(half, jnp.array([1.0, 0.0]), 0.2, 0.0)]
    [0.4, 0.6]
    """
    return project(policy - step * gradient, floor)


def entropic_step(
    policy: Float[Array, "actions *batch"],
    gradient: Float[Array, "actions *batch"],
    step: Any,
    floor: Any,
) -> Float[Array, "actions *batch"]:
    """Mirror step for the relative entropy KL(p, policy): multiplicative weights above a floor.

    The solution is `max(floor, scale * policy * exp(-step * gradient))`. The scale is the
    smallest of `(1 - floor * |not K|) / sum_K` over the sets K of the largest weights: the sum
    of the solution is convex and increasing in the scale, and each set bounds it from below.

    >>> half = jnp.array([0.5, 0.5])
    >>> [round(float(p), 6) for p in entropic_step(half, jnp.array([1.0, 0.0]), 0.2, 0.0)]
    [0.450166, 0.549834]
    """
    exponent = step * gradient
    # Shifted so that no weight overflows; the shift cancels in the scale.
    weights = once(policy * jnp.exp(smallest(exponent) - exponent))
    sums, counts = upper_sums(weights, weights, jnp.ones_like(weights))
    free = 1.0 - floor * (policy.shape[0] - counts)
    scale = once(smallest(free / sums))
    return jnp.maximum(floor, scale * weights)


def log_barrier_step(
    policy: Float[Array, "actions *batch"],
    gradient: Float[Array, "actions *batch"],
    step: Any,
    floor: Any,
) -> Float[Array, "actions *batch"]:
    """Mirror step for the Bregman distance of the log barrier, -sum log p.

    The solution is `max(floor, 1 / (1 / policy + step * gradient + shift))`. Its sum is convex and
    decreasing in the shift, and at least one where the largest entry is one: Newton's method from
    there approaches the root from one side and needs no safeguard.

    >>> half = jnp.array([0.5, 0.5])
    >>> [round(float(p), 6) for p in log_barrier_step(half, jnp.array([1.0, 0.0]), 0.2, 0.0)]
    [0.475062, 0.524938]
    """
    inverse = 1.0 / policy + step * gradient
    # Relative to its smallest entry, so that a common shift costs float32 no digits.
    inverse = once(inverse - smallest(inverse))
    shift = jnp.ones_like(inverse[0])
    for _ in range(NEWTON_ITERATIONS):
        entries = 1.0 / (inverse + shift)
        inside = entries > floor
        excess = total(jnp.where(inside, entries, floor)) - 1.0
        slope = total(jnp.where(inside, entries * entries, 0.0))
        shift = once(shift + jnp.maximum(excess, 0.0) / slope)
    return jnp.maximum(floor, 1.0 / (inverse + shift))
