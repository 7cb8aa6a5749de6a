"""User-written link cost functions: values, derivatives and integrals."""

from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.values import is_jax
from equipoise.games._callables import call

#: Relative step of finite differences: balances truncation and rounding.
_STEP = 6e-6
_GAUSS = 32


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
