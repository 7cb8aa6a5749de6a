"""The compiled simplex method and the gains of matrix games, against exact rationals."""

from fractions import Fraction

import numpy as np
import pytest

from equipoise.core import kernels
from equipoise.core.zerosum import solve_with_rationals

SHAPES = [(1, 1), (1, 4), (4, 1), (2, 2), (3, 3), (3, 7), (9, 4), (8, 8), (17, 30), (40, 40)]


def solved(payoff: np.ndarray, one_by_one: bool = False):
    games, rows, columns = payoff.shape
    x, y = np.full((games, rows), np.nan), np.full((games, columns), np.nan)
    measures, counts = np.full((4, games), np.nan), np.full((2, games), -1, np.int32)
    kernel = kernels.load("solve_games")
    assert kernel is not None
    step = 1 if one_by_one else games
    for first in range(0, games, step):
        left = kernel(payoff, 0.0, 1e-8, x, y, measures, counts, first, first + step)
        assert left == 0
    return x, y, measures, counts


def exact_gains(payoff: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[Fraction]:
    """Gains of both players in rational arithmetic, strategies divided by their sums."""
    a = [[Fraction(float(entry)) for entry in row] for row in payoff]
    x_exact, y_exact = ([Fraction(float(p)) for p in strategy] for strategy in (x, y))
    x_exact = [p / sum(x_exact) for p in x_exact]
    y_exact = [p / sum(y_exact) for p in y_exact]
    rows = [sum(p * e for p, e in zip(y_exact, row, strict=True)) for row in a]
    columns = [sum(p * row[j] for p, row in zip(x_exact, a, strict=True)) for j in range(len(y))]
    value = sum(p * e for p, e in zip(x_exact, rows, strict=True))
    return [max(rows) - value, value - min(columns)]


def relative_gap(payoff: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    spread = Fraction(float(payoff.max())) - Fraction(float(payoff.min()))
    return float(sum(exact_gains(payoff, x, y)) / (spread or 1))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["uniform", "bits", "small integers", "low rank"])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_games_are_solved_to_rounding(shape, kind, one_by_one, rng):
    games = (19, *shape)
    payoff = {
        "uniform": lambda: rng.random(games),
        "bits": lambda: rng.integers(0, 2, games).astype(float),
        "small integers": lambda: rng.integers(-3, 4, games).astype(float),
        "low rank": lambda: rng.random((19, shape[0], 2)) @ rng.random((19, 2, shape[1])),
    }[kind]()
    x, y, measures, counts = solved(payoff, one_by_one)
    assert (x >= 0).all()
    assert (y >= 0).all()
    limit = 2.0**-52 * (6 + 0.25 * sum(shape))
    for game in range(0, 19, 3):
        assert relative_gap(payoff[game], x[game], y[game]) <= limit
    assert (measures[1] <= limit * np.maximum(measures[2], 1e-300)).all()
    np.testing.assert_array_equal(measures[2], payoff.max((1, 2)) - payoff.min((1, 2)))
    assert (counts[0] >= 1).all()


@pytest.mark.parametrize("games", [1, 2, 3, 7, 8, 9, 24])
def test_any_number_of_games_gives_the_same_answers(games, rng):
    payoff = rng.random((games, 5, 4))
    x, y, measures, _ = solved(payoff)
    alone_x, alone_y, alone_measures, _ = solved(payoff, one_by_one=True)
    np.testing.assert_allclose(x, alone_x, atol=1e-12)
    np.testing.assert_allclose(y, alone_y, atol=1e-12)
    np.testing.assert_allclose(measures[0], alone_measures[0], rtol=1e-14)


def test_games_that_miss_their_tolerance_are_counted(rng):
    payoff = rng.random((10, 6, 6))
    x, y, _, _ = solved(payoff)
    measures, counts = np.empty((4, 10)), np.empty((2, 10), np.int32)
    left = kernels.load("solve_games")(payoff, 1e-300, 0.0, x, y, measures, counts, 0, 10)
    assert left == (measures[1] > 1e-300).sum() > 0
    np.testing.assert_array_equal(measures[3], 1e-300)


def test_a_range_of_games_leaves_the_others_alone(rng):
    payoff = rng.random((20, 3, 3))
    x, y = np.full((20, 3), np.nan), np.full((20, 3), np.nan)
    measures, counts = np.full((4, 20), np.nan), np.full((2, 20), -1, np.int32)
    kernels.load("solve_games")(payoff, 0.0, 1e-8, x, y, measures, counts, 4, 15)
    assert np.isnan(x[:4]).all()
    assert np.isnan(measures[:, 15:]).all()
    assert np.isfinite(x[4:15]).all()


@pytest.mark.parametrize("one_by_one", [False, True])
def test_strategies_are_those_of_exact_arithmetic(one_by_one, rng):
    payoff = rng.integers(-99, 100, (12, 4, 4)).astype(float)
    x, y, measures, _ = solved(payoff, one_by_one)
    for game in range(12):
        exact_x, exact_y = solve_with_rationals(payoff[game])
        np.testing.assert_allclose(x[game], exact_x, atol=1e-13)
        np.testing.assert_allclose(y[game], exact_y, atol=1e-13)
        np.testing.assert_allclose(measures[0, game], exact_x @ payoff[game] @ exact_y, rtol=1e-12)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1e-3, 1e200, 1e300, 1.7e308])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_payoffs_of_any_size_are_solved(scale, one_by_one, rng):
    payoff = np.array([[1.0, -1.0], [-0.5, 0.75]]) * scale
    payoff = np.stack([payoff] * 3)
    x, y, measures, _ = solved(payoff, one_by_one)
    assert relative_gap(payoff[0], x[0], y[0]) <= 1e-15
    assert (measures[1] >= 0).all()  # and no NaN


def test_an_offset_costs_no_digits(rng):
    payoff = 2.0**40 + rng.integers(0, 2**10, (9, 5, 5)) / 2.0**10
    x, y, _, _ = solved(payoff)
    assert max(map(relative_gap, payoff, x, y)) <= 2e-15


def test_a_game_that_cycles_is_solved_again():
    """Hoffman's cycling example, made a game: ties in every ratio, whatever the rule."""
    cosine, sine = np.cos(2 * np.pi / 5), np.sin(2 * np.pi / 5)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    blocks = np.hstack([np.linalg.matrix_power(turn, k) for k in range(5)])
    payoff = np.vstack([blocks, -blocks, np.ones((1, 10))])[None].repeat(3, 0)
    for one_by_one in (False, True):
        x, y, _, _ = solved(np.ascontiguousarray(payoff), one_by_one)
        assert relative_gap(payoff[0], x[0], y[0]) <= 1e-14


def gains(payoff: np.ndarray, x: np.ndarray, y: np.ndarray, step: float = 1e-13):
    results = np.empty((4, len(payoff), 2))
    kernel = kernels.load("matrix_gains")
    assert kernel is not None
    left = kernel(payoff, x, y, step, 1e-300, 1e140, results, 0, len(payoff))
    return *results, left


@pytest.mark.parametrize("shape", SHAPES[:8])
@pytest.mark.parametrize("offset", [0.0, -5.0, 1e9])
def test_gains_and_their_slack_are_right_in_exact_arithmetic(shape, offset, rng):
    payoff = offset + rng.normal(size=(11, *shape))
    x = rng.dirichlet(np.ones(shape[0]), 11)
    y = rng.dirichlet(np.full(shape[1], 0.3), 11)
    found, upper, value, slack, left = gains(payoff, x, y)
    assert left == 0
    for game in range(11):
        exact = exact_gains(payoff[game], x[game], y[game])
        for player in range(2):
            error = abs(Fraction(float(found[game, player])) - exact[player])
            assert error <= slack[game, player]
            assert exact[player] <= upper[game, player]
    assert (slack <= 1e-13 * 1.01 * np.abs(payoff - offset).max((1, 2))[:, None] * 16).all()
    np.testing.assert_allclose(value[:, 0], np.einsum("gi,gij,gj->g", x, payoff, y), rtol=1e-13)
    np.testing.assert_array_equal(value[:, 1], -value[:, 0])


def test_slack_is_that_of_payoffs_in_reach():
    """A row that nobody plays against a column that nobody plays may cost what it wants."""
    payoff = np.array([[[1.0, 0.0, 5.0], [0.0, 1.0, 5.0], [-5.0, -5.0, 1e9]]])
    half = np.array([[0.5, 0.5, 0.0]])
    *_, slack, _ = gains(payoff, half, half)
    assert slack.max() <= 5e-13 * 1.01


@pytest.mark.parametrize(
    "strategy", [[0.5, 0.6], [1.5, -0.5], [np.nan, 0.5], [0.5 + 1e-13, 0.5], [0.0, 0.0]]
)
def test_what_are_no_probabilities_is_left_to_the_checks(strategy, rng):
    payoff = rng.random((3, 2, 2))
    x, y = np.full((3, 2), 0.5), np.full((3, 2), 0.5)
    assert gains(payoff, x, y)[-1] == 0
    x[1] = strategy
    assert gains(payoff, x, y)[-1] == 1
    x[1], y[2] = 0.5, strategy
    assert gains(payoff, x, y)[-1] == 1


@pytest.mark.parametrize(("scale", "left"), [(0.0, 0), (1e-150, 1), (1e-100, 0), (1e150, 1)])
def test_payoffs_of_unusual_size_are_left_to_the_general_way(scale, left, rng):
    half = np.full((1, 2), 0.5)
    assert gains(scale * rng.random((1, 2, 2)), half, half)[-1] == left
