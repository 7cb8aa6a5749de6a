"""Polynomials on [-1, 1], in batches: their values and exact maxima.

Coefficients come lowest power first on the last axis; all other axes are batch axes.
"""

import numpy as np

from equipoise.core.shapes import Float

#: Number of halvings that make an interval of length at most 2 as narrow as rounding.
_HALVINGS = 56
#: Accuracy of `upper_bound`, as a fraction of the sum of absolute coefficients.
PRECISION = 2.0**-46
#: Intervals of the first subdivision of `upper_bound`, and maximum number of divided intervals.
_FIRST, _MOST = 16, 256


def evaluate(
    coefficients: Float[np.ndarray, "*batch powers"], points: Float[np.ndarray, "*points"]
) -> Float[np.ndarray, "*values"]:
    """Return values at points that broadcast against the batch axes, by Horner's rule.

    >>> import numpy as np
    >>> evaluate(np.array([1.0, 0.0, 2.0]), np.array([0.0, 0.5])).tolist()
    [1.0, 1.5]
    """
    shape = np.broadcast_shapes(coefficients.shape[:-1], points.shape)
    values = np.broadcast_to(coefficients[..., -1], shape)
    for power in reversed(range(coefficients.shape[-1] - 1)):
        values = values * points + coefficients[..., power]
    return np.asarray(values)


def maximum(
    coefficients: Float[np.ndarray, "*batch powers"],
) -> tuple[Float[np.ndarray, "*batch"], Float[np.ndarray, "*batch"]]:
    """Return the largest value on [-1, 1], and a point where it is attained.

    Candidates are the endpoints and the points where the derivative changes sign. These are found
    from the highest derivative down: between two neighbouring sign changes of one derivative, the
    next lower derivative is monotonic, so that it changes sign at most once, and bisection finds
    that point. Leading coefficients may be zero or tiny: the method divides by them only in the
    linear case, whose zero is clipped to the interval.

    >>> import numpy as np
    >>> value, point = maximum(np.array([0.0, 1.0, -1.0]))
    >>> float(value), float(point)
    (0.25, 0.5)
    """
    batch = coefficients.shape[:-1]
    flat = coefficients.reshape(-1, coefficients.shape[-1])
    ends = np.broadcast_to(np.array([-1.0, 1.0]), (len(flat), 2))
    points = np.concatenate([ends, _critical(flat)], 1)
    values = evaluate(flat[:, None, :], points)
    best = values.argmax(1)[:, None]
    chosen = (np.take_along_axis(array, best, 1)[:, 0] for array in (values, points))
    value, point = (array.reshape(batch) for array in chosen)
    return value, point


def upper_bound(
    coefficients: Float[np.ndarray, "*batch powers"], found: Float[np.ndarray, "*batch"]
) -> Float[np.ndarray, "*batch"]:
    """Return a proven bound on the values on [-1, 1], near `found`, a value attained there.

    Between two points a polynomial exceeds its chord by at most an eighth of its largest second
    derivative times the squared distance. Intervals whose bound exceeds `found` are halved until
    the excess is negligible. The caller must account for rounding.

    >>> import numpy as np
    >>> bound = upper_bound(np.array([0.0, 1.0, -1.0]), np.array(0.25))
    >>> bool(0.25 <= bound < 0.25 + 1e-11)
    True
    """
    flat = coefficients.reshape(-1, coefficients.shape[-1])
    powers = np.arange(flat.shape[1])
    size = np.abs(flat).sum(1)
    bend = (np.abs(flat) * (powers * (powers - 1))).sum(1) / 8.0
    bound = np.array(found, np.float64).reshape(-1)
    allowed = bound + PRECISION * size
    grid = np.linspace(-1.0, 1.0, _FIRST + 1)
    values = evaluate(flat[:, None, :], grid)
    which = np.repeat(np.arange(len(flat)), _FIRST)
    left, right = np.tile(grid[:-1], len(flat)), np.tile(grid[1:], len(flat))
    low, high = values[:, :-1].ravel(), values[:, 1:].ravel()
    while len(which):
        top = np.maximum(low, high) + bend[which] * (right - left) ** 2
        going = top > allowed[which]
        if going.sum() > _MOST * len(flat):
            going[:] = False
        np.maximum.at(bound, which[~going], top[~going])
        which = which[going]
        left, right, low, high = (a[going] for a in (left, right, low, high))
        middle = 0.5 * (left + right)
        value = evaluate(flat[which], middle)
        which = np.tile(which, 2)
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        low, high = np.concatenate([low, value]), np.concatenate([value, high])
    return bound.reshape(np.shape(found))


def _critical(flat: np.ndarray) -> np.ndarray:
    """(batch, points): where the derivative changes sign in [-1, 1], among other points."""
    derivatives = [flat]
    while derivatives[-1].shape[1] > 2:
        last = derivatives[-1]
        derivatives.append(last[:, 1:] * np.arange(1.0, last.shape[1]))
    if len(derivatives) == 1:
        return np.empty((len(flat), 0))
    linear = derivatives[-1]
    slope = linear[:, 1]
    with np.errstate(over="ignore"):
        zero = np.divide(-linear[:, 0], slope, out=np.zeros(len(flat)), where=slope != 0.0)
    found = np.clip(zero, -1.0, 1.0)[:, None]
    for derivative in reversed(derivatives[1:-1]):
        ends = np.ones((len(flat), 1))
        edges = np.sort(np.concatenate([-ends, found, ends], 1), 1)
        found = _halve(derivative[:, None, :], edges[:, :-1], edges[:, 1:])
    return found


def _halve(derivative: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return where a function, monotonic from `left` to `right`, changes sign, or an endpoint."""
    rising = evaluate(derivative, left) < 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (left + right)
        before = (evaluate(derivative, middle) < 0.0) == rising
        left, right = np.where(before, middle, left), np.where(before, right, middle)
    return 0.5 * (left + right)
