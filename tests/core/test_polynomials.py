"""Maxima of polynomials on [-1, 1], against brute force."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from soak import exact

from equipoise.core.polynomials import evaluate, maximum, upper_bound

GRID = np.linspace(-1.0, 1.0, 20_001)


def by_eigenvalues(coefficients: np.ndarray) -> float:
    """The maximum through the companion matrix of the derivative."""
    polynomial = np.polynomial.Polynomial(coefficients)
    roots = polynomial.deriv().roots() if len(coefficients) > 2 else np.array([])
    real = np.clip(roots[np.abs(roots.imag) < 1e-6].real, -1.0, 1.0)
    return float(max(polynomial(np.array([-1.0, 1.0, *real]))))


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 7])
def test_maxima_are_those_of_brute_force(rng, degree):
    coefficients = rng.normal(size=(40, degree + 1))
    value, point = maximum(coefficients)
    np.testing.assert_allclose(evaluate(coefficients, point), value, atol=1e-15)
    np.testing.assert_allclose(value, [by_eigenvalues(row) for row in coefficients], atol=1e-10)
    assert (evaluate(coefficients[:, None], GRID).max(1) <= value + 1e-13).all()


@pytest.mark.parametrize(
    ("coefficients", "value"),
    [
        ([0.0, 0.0, -1.0, 0.0, 0.0], 0.0),  # leading zeros
        ([0.0, 1.0, -1.0, 1e-300], 0.25),  # a leading coefficient next to nothing
        ([2.0, 0.0, 0.0, 0.0, -1.0], 2.0),  # a zero of the derivative of order three
        ([0.0, 0.0, 0.0], 0.0),
        ([1.0, 1e-320, 0.0], 1.0),
        ([-0.0625, 0.0, 0.5, 0.0, -1.0], 0.0),  # two equal maxima, at -1/2 and 1/2
    ],
)
def test_degenerate_polynomials(coefficients, value):
    assert float(maximum(np.array(coefficients))[0]) == pytest.approx(value, abs=1e-15)


@settings(max_examples=100)
@given(st.lists(st.floats(-10, 10), min_size=1, max_size=6))
def test_no_point_of_a_grid_is_higher(coefficients):
    array = np.array(coefficients)
    value, point = maximum(array)
    assert -1.0 <= point <= 1.0
    assert evaluate(array, GRID).max() <= value + 1e-12 * (1 + np.abs(array).sum())


def test_batch_axes_are_kept(rng):
    coefficients = rng.normal(size=(2, 3, 4))
    value, point = maximum(coefficients)
    assert value.shape == point.shape == (2, 3)
    assert value[1, 2] == maximum(coefficients[1, 2])[0]


def test_bounds_hold_where_the_maximum_was_not_found(rng):
    """A bound that starts from a value at an end, against the exact maximum."""
    for _ in range(20):
        coefficients = rng.normal(size=(1, 5))
        ends = evaluate(coefficients[:, None], np.array([[-1.0, 1.0]])).max(1)
        bound = Fraction(float(upper_bound(coefficients, ends)[0]))
        slack = Fraction(float(np.abs(coefficients).sum())) / 2**50
        assert exact.maximum([Fraction(float(c)) for c in coefficients[0]]) <= bound + slack
