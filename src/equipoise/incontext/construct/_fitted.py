"""Proposition A.1, measured: the step as a fitted sum of ReLUs, next to the exact construction."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from equipoise.core import checks, simplex
from equipoise.core.precision import double_precision

#: Weight of the squares of the coefficients in the fit, per example.
RIDGE = 1e-7


@dataclass(frozen=True)
class FittedStep:
    """A sum of M ReLUs that approximates the mirror-descent step, and how well it does.

    `x' = sum_m c_m relu(<a_m, (x, u, 1)>)` with `|a_m|_1 = 1`, where `u = (eta / 2) g` is the
    gradient step; errors are Euclidean distances on points it was not fitted to.

    **Example**

    >>> from equipoise.incontext import construct
    >>> construct.fitted_step(2, 16, samples=128).units
    16
    """

    units: int
    largest_error: float
    mean_error: float
    #: `sum |c_m|`: the C of Definition A.1, largest over actions.
    weight: float


def fitted_step(
    actions: int, units: int, *, key: int = 0, samples: int = 4096, step: float = 0.2
) -> FittedStep:
    """Fit the step by a sum of `units` ReLUs with random directions, by least squares.

    Proposition A.1 promises an error of order `M^-1/2`, up to logarithms and a constant that
    grows with the number of actions; here it is measured. Policies are drawn uniformly, gradients
    as mirror descent meets them: at the action played, with `|u| <= step / (x_a + 0.1)`.

    **Example**

    >>> from equipoise.incontext import construct
    >>> few, many = (construct.fitted_step(2, units, samples=512) for units in (8, 64))
    >>> many.mean_error < few.mean_error
    True
    """
    actions = checks.check_count("actions", actions, at_least=2)
    units = checks.check_count("units", units)
    samples = checks.check_count("samples", samples)
    rng = np.random.default_rng(key)
    forms = rng.normal(size=(units, 2 * actions + 1))
    forms /= np.abs(forms).sum(1, keepdims=True)
    inputs, outputs = _examples(rng, actions, 2 * samples, step)
    hidden = np.maximum(inputs @ forms.T, 0.0)
    seen = hidden[:samples]
    # A little ridge: without it the weights, the C of Definition A.1, grow without bound.
    normal = seen.T @ seen + RIDGE * samples * np.eye(units)
    fit = np.linalg.solve(normal, seen.T @ outputs[:samples])
    errors = np.linalg.norm(hidden[samples:] @ fit - outputs[samples:], axis=1)
    weight = float(np.abs(fit).sum(0).max())
    return FittedStep(units, float(errors.max()), float(errors.mean()), weight)


def _examples(
    rng: np.random.Generator, actions: int, count: int, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (x, u, 1) and the steps from them."""
    x = rng.dirichlet(np.ones(actions), size=count)
    played = np.eye(actions)[rng.integers(actions, size=count)]
    size = step * rng.uniform(-1.0, 1.0, size=count) / ((x * played).sum(1) + 0.1)
    u = size[:, None] * played
    with double_precision():
        after = np.asarray(simplex.project(jnp.asarray(x - u)))
    return np.concatenate([x, u, np.ones((count, 1))], 1), after
