"""Lemma A.1 and Proposition A.1: the mirror-descent step replaced by smooth and fitted functions.

The paper replaces the constrained step by an unconstrained problem, which a sum of ReLUs can
approximate. As printed (`printed_surrogate_step`), its minimum is not close to the step, for two
reasons. Nothing keeps probabilities above the floor, since the log-sum-exp pulls the largest of
them down. The penalty on the sum has slope at most 1, while the multiplier of that constraint can
be as large as `1 / beta`. The corrected surrogate (`surrogate_step`) has one sufficiently steep
penalty per constraint, and docs/theory/construction.md proves a bound on its error. `fitted_step`
measures Proposition A.1, the step as a fitted sum of ReLUs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from equipoise.core import checks, simplex
from equipoise.core.errors import named_arguments
from equipoise.core.precision import double_precision

#: Ridge penalty on the coefficients of the fit, per example.
RIDGE = 1e-7

Smooth = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


def surrogate_step(
    policy: np.ndarray, gradient: np.ndarray, *, eta: float, floor: float, sharpness: float
) -> np.ndarray:
    """Return the minimiser of the corrected surrogate of one mirror-descent step.

    With `k_mu = max g - min g` and `k_nu = max |g|` it minimises over all x

        <x, g> + |x - policy|^2 / eta + (k_mu / s) sum softplus(s (floor - x_a))
            + (k_nu / s) log 2 cosh(s (sum x - 1))

    and lies within `surrogate_bound` of the step itself.

    **Example**

    >>> import numpy as np
    >>> from equipoise.incontext import construct
    >>> x, g = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    >>> close = construct.surrogate_step(x, g, eta=0.2, floor=0.0, sharpness=1e4)
    >>> [round(float(p), 3) for p in close]
    [0.45, 0.55]
    """
    policy, gradient = _check(policy, gradient, eta, sharpness)
    k_mu, k_nu = _steepness(gradient)

    def surrogate(x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        short, excess = sharpness * (floor - x), sharpness * (x.sum() - 1.0)
        value = k_mu * np.logaddexp(0.0, short).sum() + k_nu * np.logaddexp(excess, -excess)
        active, slope = expit(short), np.tanh(excess)
        curve = np.diag(k_mu * sharpness * active * (1.0 - active))
        curve = curve + k_nu * sharpness * (1.0 - slope**2)
        return value / sharpness, k_nu * slope - k_mu * active, curve

    return _minimise(surrogate, policy, gradient, eta)


def surrogate_bound(gradient: np.ndarray, *, eta: float, sharpness: float) -> float:
    """Upper bound on the distance of `surrogate_step` from the step: Lemma A.1, corrected.

    The bound `sqrt(eta ln 2 (A k_mu + k_nu) / sharpness)` is proven for any policy above the floor.

    **Example**

    >>> import numpy as np
    >>> from equipoise.incontext import construct
    >>> g = np.array([1.0, 0.0])
    >>> round(construct.surrogate_bound(g, eta=0.2, sharpness=1e4), 5)
    0.00645
    """
    gradient = checks.as_float_array("gradient", gradient)
    k_mu, k_nu = _steepness(gradient)
    return float(np.sqrt(eta * np.log(2.0) * (len(gradient) * k_mu + k_nu) / sharpness))


def printed_surrogate_step(
    policy: np.ndarray, gradient: np.ndarray, *, eta: float, floor: float, sharpness: float
) -> np.ndarray:
    """Return the minimiser of the surrogate as printed in Lemma A.1, kept for comparison.

    The lemma claims that it lies within `sqrt(A) eta` of the step. This is false:
    `tests/theorems/test_in_context.py` has a counterexample.

    **Example**

    >>> import numpy as np
    >>> from equipoise.incontext import construct
    >>> x, g = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    >>> printed = construct.printed_surrogate_step(x, g, eta=0.2, floor=0.0, sharpness=1e3)
    >>> [round(float(p), 3) for p in printed]  # a step to (0.45, 0.55) was wanted
    [0.497, 0.501]
    """
    policy, gradient = _check(policy, gradient, eta, sharpness)

    def surrogate(x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        above, excess = sharpness * (x - floor), sharpness * (x.sum() - 1.0)
        most = above.max()
        weights = np.exp(above - most)
        value = most + np.log(weights.sum()) + np.logaddexp(excess, -excess)
        share, slope = weights / weights.sum(), np.tanh(excess)
        curve = sharpness * (np.diag(share) - np.outer(share, share) + 1.0 - slope**2)
        return value / sharpness, share + slope, curve

    return _minimise(surrogate, policy, gradient, eta)


def _check(
    policy: np.ndarray, gradient: np.ndarray, eta: float, sharpness: float
) -> tuple[np.ndarray, np.ndarray]:
    policy = checks.as_float_array("policy", policy)
    gradient = checks.as_float_array("gradient", gradient)
    checks.check_shape("gradient", gradient, policy.shape, "the shape of the policy")
    for name, value in (("eta", eta), ("sharpness", sharpness)):
        checks.check_range(name, value, 0.0, float("inf"), low_open=True)
    return policy, gradient


def _steepness(gradient: np.ndarray) -> tuple[float, float]:
    """Return upper bounds on the multipliers of the floor and of the sum."""
    return float(gradient.max() - gradient.min()), float(np.abs(gradient).max())


def _minimise(
    penalty: Smooth, policy: np.ndarray, gradient: np.ndarray, eta: float, steps: int = 500
) -> np.ndarray:
    """Minimise the strongly convex step with a penalty by Newton's method with backtracking."""

    def function(x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        value, slope, curve = penalty(x)
        moved = x - policy
        return (
            float(value + x @ gradient + moved @ moved / eta),
            slope + gradient + 2.0 * moved / eta,
            curve + 2.0 / eta * np.eye(len(x)),
        )

    x = policy.copy()
    value, slope, curve = function(x)
    for _ in range(steps):
        direction = np.linalg.solve(curve, slope)
        decrease, length = float(slope @ direction), 1.0
        if decrease <= 1e-26:
            break
        trial = function(x - direction)
        while trial[0] > value - 0.25 * length * decrease + 1e-15 * abs(value) and length > 1e-12:
            length *= 0.5
            trial = function(x - length * direction)
        x = x - length * direction
        value, slope, curve = trial
    return x


@dataclass(frozen=True)
class FittedStep:
    """A sum of M ReLUs that approximates the mirror-descent step, with its errors.

    The approximation is `x' = sum_m c_m relu(<a_m, (x, u, 1)>)` with `|a_m|_1 = 1`, where
    `u = (eta / 2) g` is the gradient step. Errors are Euclidean distances on held-out points.

    **Example**

    >>> from equipoise.incontext import construct
    >>> construct.fitted_step(2, 16, samples=128).units
    16
    """

    #: Number M of ReLUs.
    units: int
    #: Largest error on held-out points.
    largest_error: float
    #: Mean error on held-out points.
    mean_error: float
    #: `sum |c_m|`, the C of Definition A.1, maximised over actions.
    weight: float


@named_arguments
def fitted_step(
    actions: int, units: int, *, key: int = 0, samples: int = 4096, step: float = 0.2
) -> FittedStep:
    """Fit the step by a sum of `units` ReLUs with random directions, by least squares.

    Proposition A.1 claims an error of order `M^-1/2`, up to logarithms and a constant that grows
    with the number of actions; this function measures it. Policies are drawn uniformly. Gradients
    are like those of mirror descent: nonzero at the action played, `|u| <= step / (x_a + 0.1)`.

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
    # Half of the examples are used for the fit, the other half for the error.
    x = rng.dirichlet(np.ones(actions), size=2 * samples)
    played = np.eye(actions)[rng.integers(actions, size=2 * samples)]
    size = step * rng.uniform(-1.0, 1.0, size=2 * samples) / ((x * played).sum(1) + 0.1)
    u = size[:, None] * played
    inputs = np.concatenate([x, u, np.ones((2 * samples, 1))], 1)
    with double_precision():
        outputs = np.asarray(simplex.project(jnp.asarray(x - u)))
    hidden = np.maximum(inputs @ forms.T, 0.0)
    seen = hidden[:samples]
    # Without a small ridge penalty the weights, the C of Definition A.1, grow without bound.
    normal = seen.T @ seen + RIDGE * samples * np.eye(units)
    fit = np.linalg.solve(normal, seen.T @ outputs[:samples])
    errors = np.linalg.norm(hidden[samples:] @ fit - outputs[samples:], axis=1)
    weight = float(np.abs(fit).sum(0).max())
    return FittedStep(units, float(errors.max()), float(errors.mean()), weight)
