"""Bounds on the effect of float64 rounding on a certificate.

A sum of n products carries an error of at most n u / (1 - n u) times the sum of the absolute
values of the products, where u = eps / 2 (Higham, Accuracy and Stability of Numerical Algorithms,
2002, section 3.1). Certificates add `eps` times a count of operations, which is at least twice
that bound, times the same sum computed with absolute values. The bound thus scales with the payoffs
that a policy or a deviation can reach, not with the largest payoff of the game.

Probabilities must sum to one: a row of weights is interpreted as the weights divided by their
sum. Rows are accepted unchanged when their computed sum is within `64 eps` of one, so that each
table of probabilities adds `WEIGHTS` operations to the count.
"""

from typing import NamedTuple

import numpy as np

from equipoise.core.reductions import extremes

EPS = float(np.finfo(np.float64).eps)
#: Operations charged for reading weights w as w / sum(w); see `checks.check_probabilities`.
WEIGHTS = 66
#: Added to every bound of payoffs of ordinary size: loss from products below 1e-308.
TINY = 1e-300
#: Payoffs are not scaled if the largest absolute payoff lies in this range.
ORDINARY = (1e-140, 1e140)


class Normalised(NamedTuple):
    """Payoffs of ordinary size, `payoff = offset + 2**exponent * scaled`, up to rounding.

    The rounding error is at most `eps / 2` times each scaled entry, plus `TINY`.
    """

    scaled: np.ndarray
    #: The offset subtracted, in the units of `scaled`.
    offset: np.ndarray
    exponent: np.ndarray | int
    #: Largest absolute entry of `scaled`.
    size: np.ndarray | float
    #: Loss from products below 1e-308, in the units of `scaled`.
    tiny: np.ndarray | float

    def restore(self, values: np.ndarray, axes: int = 0, *, up: bool = False) -> np.ndarray:
        """Return differences of scaled payoffs in the game's units; `axes` follow the batch axes.

        With `up`, rounding is upward.
        """
        if isinstance(self.exponent, int):
            return values
        with np.errstate(over="ignore", under="ignore"):
            result = np.ldexp(values, _widen(self.exponent, axes))
        if up:
            return np.where(values == 0.0, 0.0, np.nextafter(result, np.inf))
        return np.clip(result, -_LARGEST, _LARGEST)

    def restore_value(self, values: np.ndarray, axes: int = 0) -> np.ndarray:
        """Return scaled payoffs in the game's units, including the offset."""
        return self.restore(values + _widen(self.offset, axes), axes)


def _widen(array: np.ndarray, axes: int) -> np.ndarray:
    return np.reshape(array, (*np.shape(array), *[1] * axes))


_LARGEST = float(np.finfo(np.float64).max)


def nearest_to_zero(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the number of an interval nearest to zero, or zero if that is not far from it."""
    nearest = np.maximum(np.minimum(high, 0.0), low)
    return np.where(np.abs(nearest) > 16.0 * (high - low), nearest, 0.0)


def normalise(payoff: np.ndarray, axes: int) -> Normalised:
    """Subtract a large offset, and scale payoffs that are very large or very small.

    The last `axes` axes are those of one game, the leading ones are batch axes. The offset is the
    payoff nearest to zero, if that is many times the range of the payoffs; the scale is a power of
    two.

    >>> normalise(np.array([[1e15, 1e15 + 0.25]]), 2).scaled.tolist()
    [[0.0, 0.25]]
    """
    if payoff.ndim == axes:  # plain floats are faster for a single game
        low, high = float(payoff.min()), float(payoff.max())
        size = max(-low, high)
        far = max(min(high, 0.0), low)
        if ORDINARY[0] <= size <= ORDINARY[1] and abs(far) <= 16.0 * (high - low):
            return Normalised(payoff, np.zeros(()), 0, size, TINY * (1.0 + size))
    low, high = extremes(payoff.reshape(*payoff.shape[: payoff.ndim - axes], -1))
    size = np.maximum(-low, high)
    ordinary = (size >= ORDINARY[0]) & (size <= ORDINARY[1]) | (size == 0.0)
    exponent: np.ndarray | int = 0
    if not np.all(ordinary):
        exponent = np.where(ordinary, 0, np.frexp(size)[1])
        low, high, size = (np.ldexp(part, -exponent) for part in (low, high, size))
        with np.errstate(under="ignore"):
            payoff = np.ldexp(payoff, -_widen(exponent, axes))
    offset = nearest_to_zero(low, high)
    if np.any(offset):
        payoff = payoff - _widen(offset, axes)
        size = np.where(offset == 0.0, size, high - low)
    tiny = TINY * (1.0 + size) * (size > 0.0)
    return Normalised(payoff, offset, exponent, size, tiny)
