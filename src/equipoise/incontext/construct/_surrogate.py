"""Lemma A.1: the mirror-descent step as the minimum of a smooth function, as printed and put right.

The paper replaces the constrained step by an unconstrained problem, which a sum of ReLUs can
approximate. As printed (`printed_surrogate_step`) its minimum is not near the step: nothing keeps
probabilities above the floor, since the log-sum-exp pulls the largest of them down; and the
penalty on the sum has slope 1 at most, while the multiplier of that constraint can be as large as
`1 / beta`. The corrected surrogate (`surrogate_step`) has one penalty per constraint, steep
enough, and a bound that is proven in docs/theory/construction.md.
"""

from collections.abc import Callable

import numpy as np

from equipoise.core import checks

Smooth = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


def surrogate_step(
    policy: np.ndarray, gradient: np.ndarray, *, eta: float, floor: float, sharpness: float
) -> np.ndarray:
    """The minimum of the corrected surrogate of one mirror-descent step.

    With `k_mu = max g - min g` and `k_nu = max |g|` it minimises over all x

        <x, g> + |x - policy|^2 / eta + (k_mu / s) sum softplus(s (floor - x_a))
            + (k_nu / s) log 2 cosh(s (sum x - 1))

    and is within `surrogate_bound` of the step itself.

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
        active, slope = _sigmoid(short), np.tanh(excess)
        curve = np.diag(k_mu * sharpness * active * (1.0 - active))
        curve = curve + k_nu * sharpness * (1.0 - slope**2)
        return value / sharpness, k_nu * slope - k_mu * active, curve

    return _minimise(_with_step(surrogate, policy, gradient, eta), policy)


def surrogate_bound(gradient: np.ndarray, *, eta: float, sharpness: float) -> float:
    """How far the corrected surrogate's minimum can be from the step: Lemma A.1, put right.

    `sqrt(eta ln 2 (A k_mu + k_nu) / sharpness)`: proven, for any policy above the floor.

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
    """The minimum of the surrogate as Lemma A.1 prints it; kept to show what it does.

    The lemma puts it within `sqrt(A) eta` of the step. It is not: a counterexample is in
    `tests/theorems/test_in_context.py`.

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

    return _minimise(_with_step(surrogate, policy, gradient, eta), policy)


def _check(
    policy: np.ndarray, gradient: np.ndarray, eta: float, sharpness: float
) -> tuple[np.ndarray, np.ndarray]:
    policy = checks.as_float_array("policy", policy)
    gradient = checks.as_float_array("gradient", gradient)
    checks.check_shape("gradient", gradient, policy.shape, "that of the policy")
    for name, value in (("eta", eta), ("sharpness", sharpness)):
        checks.check_range(name, value, 0.0, float("inf"), low_open=True)
    return policy, gradient


def _steepness(gradient: np.ndarray) -> tuple[float, float]:
    """The largest that multipliers of the floor, and of the sum, can be."""
    return float(gradient.max() - gradient.min()), float(np.abs(gradient).max())


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * z))


def _with_step(penalty: Smooth, policy: np.ndarray, gradient: np.ndarray, eta: float) -> Smooth:
    def whole(x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        value, slope, curve = penalty(x)
        moved = x - policy
        return (
            float(value + x @ gradient + moved @ moved / eta),
            slope + gradient + 2.0 * moved / eta,
            curve + 2.0 / eta * np.eye(len(x)),
        )

    return whole


def _minimise(function: Smooth, start: np.ndarray, steps: int = 500) -> np.ndarray:
    """Newton's method with backtracking: the functions here are strongly convex."""
    x = start.copy()
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
