"""Exact arithmetic for the checks of certificates, and random and awkward numbers to try.

Rows of probabilities stand for themselves divided by their exact sum, as everywhere in the library.
"""

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

DISCOUNTS = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1 - 1e-5, 1 - 1e-6)
EXPONENTS = (-150, -100, -30, -8, 0, 0, 0, 8, 30, 100, 150)
#: Halvings of an interval around a zero of a derivative: a maximum is then known to 1e-29.
_HALVINGS = 50


class Case(NamedTuple):
    """What a certificate says, and the exact gains."""

    gains: Any
    upper: Any
    truth: Any
    #: Whether the certificate says that its two sides agree.
    exact: bool
    #: The bracket may be at most this wide; None where nothing is promised.
    widest: Fraction | None = None


def case(certificate: Any, truth: Any, table: Any, discount: float = 0.0) -> Case:
    """A case of a game given by tables: brackets within 1e-9 of their range / (1 - discount)."""
    widest = None
    if discount <= 0.999:
        spread = Fraction(float(np.max(table))) - Fraction(float(np.min(table)))
        widest = spread / 10**9 / (1 - Fraction(discount)) + Fraction(1, 10**300)
    return Case(certificate.gains, certificate.upper, truth, certificate.exact, widest)


def exact(array: Any) -> np.ndarray:
    """The same numbers as fractions."""
    return np.vectorize(Fraction, otypes=[object])(np.asarray(array, float))


def chances(array: Any) -> np.ndarray:
    """Weights divided by their exact sums over the last axis."""
    values = exact(array)
    return values / values.sum(-1, keepdims=True)


# Random tables, and awkward ones.


def scale(rng: np.random.Generator) -> float:
    """A unit of measurement."""
    return float(10.0 ** rng.choice(EXPONENTS))


def payoffs(rng: np.random.Generator, shape: tuple[int, ...], awkward: bool) -> np.ndarray:
    """A table of payoffs."""
    unit = scale(rng)
    if not awkward:
        return unit * rng.normal(size=shape)
    kind = rng.integers(5)
    if kind == 0:  # a large offset
        return unit * (10.0 ** rng.integers(3, 15) + rng.normal(size=shape))
    if kind == 1:  # all scales in one game
        return unit * rng.normal(size=shape) * 10.0 ** rng.integers(-9, 9, size=shape)
    if kind == 2:  # ties, but for rounding
        return unit * (rng.integers(-1, 2, size=shape) + 1e-16 * rng.normal(size=shape))
    if kind == 3:  # nearly constant
        return unit * (1.0 + 1e-12 * rng.normal(size=shape))
    return unit * rng.integers(-2, 3, size=shape).astype(float)


def strategies(rng: np.random.Generator, shape: tuple[int, ...], awkward: bool) -> np.ndarray:
    """Rows of probabilities."""
    if not awkward or rng.random() < 0.3:
        return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
    kind = rng.integers(3)
    if kind == 0:
        return np.eye(shape[-1])[rng.integers(shape[-1], size=shape[:-1])]
    if kind == 1:  # sums that are off by rounding
        return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]) * (1 + rng.uniform(-1, 1) * 1e-14)
    weights = 10.0 ** rng.uniform(-12, 0, size=shape)
    return weights / weights.sum(-1, keepdims=True)


# Markov chains, and polynomials on [-1, 1].


def solve_exactly(reward: np.ndarray, chain: np.ndarray, gamma: Fraction) -> np.ndarray:
    """(I - gamma P)^-1 r by elimination; diagonals never vanish."""
    size = len(reward)
    rows = np.array([[Fraction(int(i == j)) for j in range(size)] for i in range(size)])
    rows = np.concatenate([rows - gamma * chain, reward[:, None]], 1)
    for i in range(size):
        rows[i] = rows[i] / rows[i, i]
        for j in range(size):
            if j != i:
                rows[j] = rows[j] - rows[j, i] * rows[i]
    return rows[:, -1]


def interpolate(function: Callable[[Fraction], Fraction], degree: int) -> list[Fraction]:
    """Coefficients, lowest first, of a polynomial of that degree at most."""
    points = [Fraction(2 * k - degree, max(degree, 1)) for k in range(degree + 1)]
    powers = np.array([[z**p for p in range(degree + 1)] for z in points])
    return list(_solve(powers, np.array([function(z) for z in points])))


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a system whose matrix has no vanishing minors on its way (Vandermonde's, sorted)."""
    rows = np.concatenate([matrix, right[:, None]], 1)
    for i in range(len(rows)):
        pivot = next(j for j in range(i, len(rows)) if rows[j, i])
        rows[[i, pivot]] = rows[[pivot, i]]
        rows[i] = rows[i] / rows[i, i]
        for j in range(len(rows)):
            if j != i:
                rows[j] = rows[j] - rows[j, i] * rows[i]
    return rows[:, -1]


def value_at(coefficients: list[Fraction], z: Fraction) -> Fraction:
    """Horner's rule."""
    value = Fraction(0)
    for coefficient in reversed(coefficients):
        value = value * z + coefficient
    return value


def maximum(coefficients: list[Fraction]) -> Fraction:
    """A value of a polynomial on [-1, 1] that is less than the largest by 1e-29 of it at most."""
    ends = [Fraction(-1), Fraction(1)]
    points = [*ends, *_zeros(_derivative(coefficients))]
    return max(value_at(coefficients, z) for z in points)


def _derivative(coefficients: list[Fraction]) -> list[Fraction]:
    return [p * c for p, c in enumerate(coefficients)][1:]


def _zeros(coefficients: list[Fraction]) -> list[Fraction]:
    """Where a polynomial changes sign in [-1, 1], nearly."""
    if len(coefficients) < 2:
        return []
    edges = [Fraction(-1), *sorted(_zeros(_derivative(coefficients))), Fraction(1)]
    found = []
    for left, right in itertools.pairwise(edges):
        rising = value_at(coefficients, left) < 0
        if rising == (value_at(coefficients, right) < 0):
            continue
        for _ in range(_HALVINGS):
            middle = (left + right) / 2
            if (value_at(coefficients, middle) < 0) == rising:
                left = middle
            else:
                right = middle
        found.append(right)
    return found
