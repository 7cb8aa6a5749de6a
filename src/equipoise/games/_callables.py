"""User-written functions: rewards of an aggregate at one point or at very many, costs of links.

A function written with `x[..., k]` works elementwise: given one aggregate for each agent and
action, it returns each reward at its own aggregate. Exact gains need this, because every agent
who deviates sees a different aggregate. To find out whether a function works elementwise, its
results are compared with those at single points; otherwise it is called point by point.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.values import is_jax

#: Exceptions raised by functions that work at one point and do not accept arrays of points: any,
#: such as the AssertionError of a function that checks its argument.
_NOT_ELEMENTWISE = (Exception,)

#: Largest number of points for a function that must be called point by point.
MOST_CALLS = 200_000
#: Relative step of finite differences: balances truncation and rounding.
_STEP = 6e-6
_GAUSS = 32


@dataclass(frozen=True)
class Field:
    """A user's function from an aggregate of `dimensions` numbers to an array of `shape`."""

    function: Callable[[Any], Any]
    #: Name of the function, for errors.
    name: str
    dimensions: int
    shape: tuple[int, ...]
    meaning: str
    elementwise: bool = False

    def at(self, x: np.ndarray) -> np.ndarray:
        """Return the checked values at one point."""
        values = checks.as_float_array(self.name, call(self.function, x))
        if self.shape[0] == 1 and (1, *values.shape) == self.shape:
            values = values[None]  # the axis of a single type may be left out
        checks.check_shape(self.name, values, self.shape, self.meaning)
        checks.check_finite(self.name, values)
        return np.asarray(values, np.float64)

    def over(self, points: np.ndarray) -> np.ndarray:
        """(points, dimensions) -> (points, *shape): all values at each point."""
        if not self.elementwise or len(points) == 1:
            return np.stack([self.at(x) for x in points])
        shaped = points.reshape(len(points), *(1,) * len(self.shape), self.dimensions)
        return self.batch(shaped, (len(points), *self.shape))

    def own(self, points: np.ndarray) -> np.ndarray:
        """(..., *shape, dimensions) -> (..., *shape): each entry at a point of its own."""
        if self.elementwise:
            return self.batch(points, points.shape[:-1])
        flat = points.reshape(-1, self.dimensions)
        distinct, where = np.unique(flat, axis=0, return_inverse=True)
        if len(distinct) > MOST_CALLS:
            raise InputError(
                self.name,
                "a function written with x[..., k], which takes one aggregate for each agent and "
                f"action, because exact gains need its values at {len(distinct):,} points",
                "one that takes a single aggregate",
            )
        size = int(np.prod(self.shape))
        cells = np.arange(len(flat)) % size
        order = np.argsort(where.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(where.ravel(), minlength=len(distinct)))
        result = np.empty(len(flat))
        for x, start, end in zip(distinct, [0, *ends[:-1]], ends, strict=True):
            here = order[start:end]
            result[here] = self.at(x).ravel()[cells[here]]
        return result.reshape(points.shape[:-1])

    def batch(self, points: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Evaluate an elementwise function at many points in one call."""
        values = np.asarray(call(self.function, points), np.float64)
        if values.shape != shape:
            values = np.broadcast_to(values, shape)
        if not np.isfinite(values).all():
            checks.check_finite(self.name, values)
        return values


def call(function: Callable[[Any], Any], x: np.ndarray) -> Any:
    """Call a function written in NumPy or JAX; JAX computes in double precision."""
    result = function(x)
    if is_jax(result):
        from equipoise.core.precision import double_precision

        with double_precision():
            return np.asarray(function(x), np.float64)
    return result


def reward_field(
    function: Callable[[Any], Any],
    shape: tuple[int, int],
    low: np.ndarray,
    high: np.ndarray,
    elementwise: bool | None,
) -> Field:
    """Wrap a reward (types, actions), and find out whether it works elementwise."""
    meaning = "(agents or types, actions)"
    field = Field(function, "reward", len(low), shape, meaning, bool(elementwise))
    if elementwise is not None:
        return field
    # At the ends of the box, a threshold for any of the points is crossed by one of them.
    pairs = probe_points(low, high, 2), np.stack([low, high])
    return replace(field, elementwise=all(_is_elementwise(field, pair) for pair in pairs))


def _is_elementwise(field: Field, points: np.ndarray) -> bool:
    """Whether calls with both points at once agree with calls at each."""
    values = [field.at(x) for x in points]
    chosen = np.random.default_rng(0).integers(0, 2, field.shape)
    expected = np.where(chosen, values[1], values[0])
    try:
        both = np.asarray(call(field.function, points[:, None, None, :]), np.float64)
        own = np.asarray(call(field.function, points[chosen]), np.float64)
        works = np.allclose(np.broadcast_to(both, (2, *field.shape)), values, 1e-9, 1e-12)
        return works and np.allclose(np.broadcast_to(own, field.shape), expected, 1e-9, 1e-12)
    except _NOT_ELEMENTWISE:
        return False


def transition_elementwise(field: Field, low: np.ndarray, high: np.ndarray) -> bool:
    """Return whether a transition accepts many aggregates, (..., d) -> (..., states)."""
    points = probe_points(low, high, 3)
    values = np.stack([field.at(x) for x in points])
    try:
        batch = np.asarray(call(field.function, points), np.float64)
        nested = np.asarray(call(field.function, points[None]), np.float64)
        return (
            np.broadcast_shapes(batch.shape, values.shape) == values.shape
            and np.allclose(np.broadcast_to(batch, values.shape), values, 1e-9, 1e-12)
            and np.allclose(np.broadcast_to(nested, (1, *values.shape)), values[None], 1e-9, 1e-12)
        )
    except _NOT_ELEMENTWISE:
        return False


def probe_points(low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """(count, d): fixed pseudo-random points of the box."""
    return low + (high - low) * np.random.default_rng(8).random((count, len(low)))


def estimate_slope(
    evaluate: Callable[[np.ndarray], np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    bases: int,
    *,
    variation: bool = False,
) -> float:
    """Return the largest slope in the sup norm found at sampled points of the box, plus 10%.

    With `variation`, the slope is that of the total variation instead of single values.
    """
    steps = (high - low) / 64
    live = np.flatnonzero(steps > 0)
    rng = np.random.default_rng(5)
    found = 0.0
    for k in range(bases if len(live) else 0):
        share = np.full(len(low), (k + 0.5) / bases) if len(low) == 1 else rng.random(len(low))
        base = low + share * (high - low - steps)
        start = evaluate(base)
        slope = np.zeros(() if variation else start.shape)
        for axis in live:
            rise = np.abs(evaluate(base + np.eye(len(low))[axis] * steps) - start) / steps[axis]
            slope = slope + (0.5 * rise.sum() if variation else rise)
        found = max(found, float(np.max(slope)))
    return 1.1 * found


#: Maps a region (low, high) to Lipschitz constants that broadcast to (types, actions).
Slopes = Callable[[np.ndarray, np.ndarray], np.ndarray]


def as_lipschitz(
    value: Any, shape: tuple[int, int], low: np.ndarray, high: np.ndarray
) -> tuple[float, Slopes | None]:
    """Return the largest constant over the box, and constants by action and region if given.

    `value` is a number, an array that broadcasts to (types, actions), or a function of the edges
    (low, high) of a region that returns either.
    """
    meaning = "(agents or types, actions)"

    def checked(found: Any) -> np.ndarray:
        array = np.asarray(checks.as_float_array("lipschitz", found), np.float64)
        alike = zip(array.shape[::-1], shape[::-1], strict=False)
        if array.ndim > 2 or any(own not in (1, full) for own, full in alike):
            expected = f"a number, or an array that broadcasts to {shape}, {meaning}"
            raise InputError("lipschitz", expected, f"shape {array.shape}")
        checks.check_finite("lipschitz", array)
        checks.check_range("lipschitz", float(array.min()), 0.0, np.inf, high_open=True)
        return array

    if callable(value):
        return float(checked(value(low, high)).max()), lambda low, high: checked(value(low, high))
    if np.ndim(value) == 0:
        checks.check_range("lipschitz", value, 0.0, np.inf, high_open=True)
        return float(value), None
    array = checked(value)
    return float(array.max()), lambda low, high: array


def check_within(name: str, values: np.ndarray, bounds: Sequence[float]) -> None:
    """Refuse values outside closed bounds, and name the first."""
    low, high = bounds
    if values.size and not (values.min() >= low - 1e-9 and values.max() <= high + 1e-9):
        where = checks.first_index((values < low - 1e-9) | (values > high + 1e-9))
        raise InputError(
            name,
            f"numbers in [{low:g}, {high:g}]",
            f"{values[where]:.6g} at {list(where)}",
            "rescale the rewards, or pass bounds=(low, high)",
        )


def values_of(
    cost: Callable[[Any], Any],
    flows: np.ndarray,
    derivative: Any = None,
    order: int = 0,
    unit: float = 1.0,
) -> np.ndarray:
    """(links,): costs, or derivatives for `order` 1: given, by JAX, or by central differences.

    The step of the differences is relative to the flow, or to `unit` if that is larger.

    >>> values_of(lambda v: v**2, np.array([1.0, 3.0]))
    array([1., 9.])
    >>> import jax.numpy as jnp
    >>> values_of(lambda v: jnp.asarray(v) ** 2, np.array([1.0, 3.0]), order=1)
    array([2., 6.])
    """
    if order == 0:
        return _checked("cost", call(cost, flows), flows.shape)
    if derivative is not None:
        return _checked("derivative", call(derivative, flows), flows.shape)
    if is_jax(cost(flows)):
        import jax
        import jax.numpy as jnp

        from equipoise.core.precision import double_precision

        with double_precision():
            v = jnp.asarray(flows)
            return np.asarray(jax.jvp(cost, (v,), (jnp.ones_like(v),))[1], np.float64)
    step = _STEP * np.maximum(flows, unit)
    below = np.maximum(flows - step, 0.0)
    rise = np.asarray(cost(flows + step), np.float64) - np.asarray(cost(below), np.float64)
    return rise / (flows + step - below)


def _checked(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(checks.as_float_array(name, values))
    checks.check_shape(name, array, shape, "one for each link")
    checks.check_finite(name, array)
    return array


def integral(cost: Callable[[Any], Any], flows: np.ndarray) -> np.ndarray:
    """(links,): the integral of each cost from zero to the flow, by Gauss-Legendre quadrature.

    >>> integral(lambda v: 3.0 * v**2, np.array([1.0, 2.0])).round(9).tolist()
    [1.0, 8.0]
    """
    points, weights = np.polynomial.legendre.leggauss(_GAUSS)
    values = [values_of(cost, 0.5 * (x + 1.0) * flows) for x in points]
    return 0.5 * flows * np.tensordot(weights, values, 1)


def check_function(cost: Any, derivative: Any, links: int, most: float) -> None:
    """Refuse costs that decrease, or that depend on the flows of other links.

    >>> check_function(lambda v: 5.0 - v, None, 2, 10.0)
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: cost: expected costs that do not decrease as flows increase,
    found 5 and then 4.9 on link 0
    """
    for name, function in (("cost", cost), ("derivative", derivative)):
        if function is not None and not callable(function):
            raise InputError(name, "a function of flows", type(function).__name__)
    levels = np.linspace(0.0, 1.0, 11)[:, None] * most * np.ones(links)
    levels[1:-1] *= np.random.default_rng(2).uniform(0.9, 1.1, levels[1:-1].shape)
    levels[1] = np.minimum(levels[1], 0.01 * most)
    levels.sort(axis=0)
    values = np.stack([values_of(cost, v) for v in levels])
    if values.min() < 0.0:
        where = checks.first_index(values < 0.0)
        if where[0] == 0 or not (np.diff(values, axis=0) < 0.0).any():
            found = f"{values[where]:g} on link {where[1]} at a flow of {levels[where]:g}"
            raise InputError("cost", "costs >= 0", found)
    falls = np.diff(values, axis=0) < -1e-12 * np.abs(values).max()
    if falls.any():
        row, link = checks.first_index(falls)
        found = f"{values[row, link]:g} and then {values[row + 1, link]:g} on link {link}"
        raise InputError("cost", "costs that do not decrease as flows increase", found)
    mixed = np.where(np.arange(links) % 2, levels[3], levels[5])
    expected = np.where(np.arange(links) % 2, values[3], values[5])
    apart = ~np.isclose(values_of(cost, mixed), expected, 1e-9, 1e-12)
    if apart.any():
        found = f"a cost of link {int(np.argmax(apart))} that depends on other flows"
        hint = "use `games.OracleGame` for such costs"
        raise InputError("cost", "costs that depend only on the link's own flow", found, hint)
