"""The accuracy in the tables, against values known by hand."""

import numpy as np
import pytest

from benchmarks.harness.measures import (
    NotAPolicy,
    as_policy,
    best_response_value,
    markov_duality_gap,
    matrix_gains,
    matrix_nash_conv,
)

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def test_matrix_nash_conv_of_known_pairs():
    rock, uniform = np.array([1.0, 0.0, 0.0]), np.full(3, 1 / 3)
    x, y = np.array([uniform, rock, rock]), np.array([uniform, uniform, rock])
    expected = [0.0, 1.0, 2.0]
    shared = matrix_nash_conv(ROCK_PAPER_SCISSORS, x, y)
    each = matrix_nash_conv(np.stack([ROCK_PAPER_SCISSORS] * 3), x, y)
    np.testing.assert_allclose(shared, expected, atol=1e-15)
    np.testing.assert_allclose(each, expected, atol=1e-15)


def test_matrix_gains_sum_to_nash_conv():
    rng = np.random.default_rng(0)
    payoff = rng.normal(size=(7, 4, 5))
    x, y = rng.dirichlet(np.ones(4), 7), rng.dirichlet(np.ones(5), 7)
    gains = matrix_gains(payoff, x, y)
    assert gains.shape == (7, 2)
    assert (gains >= 0).all()
    np.testing.assert_allclose(gains.sum(-1), matrix_nash_conv(payoff, x, y), rtol=1e-12)
    np.testing.assert_allclose(matrix_gains(payoff[0], x[:1], y[:1]), gains[:1], rtol=1e-12)


def test_markov_gap_of_one_state_is_the_matrix_gap_over_one_minus_discount():
    rng = np.random.default_rng(1)
    payoff = rng.random((3, 3))
    x, y = rng.dirichlet(np.ones(3), 2)
    gap = markov_duality_gap(payoff[None], np.ones((1, 3, 3, 1)), 0.75, x[None], y[None])
    assert gap == pytest.approx(4 * matrix_nash_conv(payoff, x[None], y[None])[0], rel=1e-12)


def test_best_response_value_is_a_fixed_point():
    rng = np.random.default_rng(2)
    reward, transition = rng.random((6, 4)), rng.dirichlet(np.full(6, 0.3), (6, 4))
    value = best_response_value(reward, transition, 0.9)
    np.testing.assert_allclose((reward + 0.9 * transition @ value).max(-1), value, rtol=1e-12)


def test_best_response_value_survives_ties():
    transition = np.tile(np.eye(2)[:, None], (1, 3, 1))
    value = best_response_value(np.ones((2, 3)), transition, 0.5)
    np.testing.assert_allclose(value, 2.0)


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (np.array([[0.5, 0.4]]), "off the simplex by 1.0e-01"),
        (np.array([[1.1, -0.1]]), "off the simplex by 1.0e-01"),
        (np.array([[np.nan, 1.0]]), "not finite"),
        (np.array([0.5, 0.5]), "expected shape"),
    ],
)
def test_what_is_no_policy_is_refused(policy, reason):
    with pytest.raises(NotAPolicy, match=reason):
        as_policy("x", policy, (1, 2))


def test_rounding_is_projected_not_rewarded():
    policy = as_policy("x", np.array([[1.0 + 1e-9, -1e-9]]), (1, 2))
    np.testing.assert_array_equal(policy, [[1.0, 0.0]])
