"""`solve` on Markov games: known values, hard ones, and independent best responses."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.core.zerosum import solve_batch


def shapley_by_hand(game: eq.MarkovGame, sweeps: int) -> np.ndarray:
    """Plain value iteration with exact stage games."""
    value = np.zeros(game.states)
    for _ in range(sweeps):
        value = solve_batch(game.reward + game.discount * game.transition @ value).value
    return value


@pytest.mark.parametrize("concentration", [0.1, 1.0])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 0.99])
def test_gains_vanish(discount: float, concentration: float) -> None:
    family = eq.games.families.uniform(
        actions=3, states=4, discount=discount, concentration=concentration
    )
    solution = eq.solve(family.sample(100, key=1))
    assert solution.status.ok
    assert (solution.certificate.max_upper <= solution.tolerance).all()
    np.testing.assert_allclose(
        solution.tolerance,
        1e-8 * np.ptp(family.sample(100, key=1).reward, (1, 2, 3)) / (1 - discount),
    )
    assert solution.certificate.gains.min() > -1e-10


def test_value_is_the_fixed_point_of_shapleys_operator() -> None:
    game = eq.games.families.uniform(actions=(2, 3), states=5, discount=0.7).sample(key=2)
    solution = eq.solve(game)
    np.testing.assert_allclose(solution.value, shapley_by_hand(game, 80), atol=1e-8)
    np.testing.assert_allclose(solution.certificate.value[:, 0], solution.value, atol=1e-8)


def test_one_state_is_a_repeated_matrix_game() -> None:
    payoff = np.array([[3.0, -1.0], [-2.0, 1.0]])
    game = eq.MarkovGame(payoff[None], np.ones((1, 2, 2, 1)), 0.9)
    np.testing.assert_allclose(eq.solve(game).value, [1 / 7 / 0.1], atol=1e-8)


def test_newton_alone_can_cycle_and_is_caught() -> None:
    """Of many nearly deterministic games some defeat Newton's steps; all must be solved."""
    family = eq.games.families.uniform(actions=2, states=3, discount=0.99, concentration=0.05)
    solution = eq.solve(family.sample(2000, key=3))
    assert solution.stats["steps"]["hoffman_karp"] > 0
    assert solution.status.ok
    assert (solution.certificate.max_upper <= solution.tolerance).all()


def test_large_rewards_and_offsets() -> None:
    small = eq.games.families.uniform(actions=3, states=3, discount=0.9).sample(20, key=4)
    large = eq.MarkovGame(1e3 * small.reward + 50.0, small.transition, 0.9)
    ours, theirs = eq.solve(small, tolerance=1e-9), eq.solve(large, tolerance=1e-6)
    assert theirs.status.ok
    np.testing.assert_allclose(theirs.value, 1e3 * ours.value + 500.0, rtol=1e-9)


def test_a_game_is_solved_alike_alone_and_in_a_batch() -> None:
    games = eq.games.families.uniform(actions=3, states=3, discount=0.9).sample(30, key=5)
    batch = eq.solve(games, tolerance=1e-9)
    alone = eq.solve(games[7], tolerance=1e-9)
    np.testing.assert_allclose(alone.value, batch.value[7], atol=1e-9)


def test_too_few_sweeps_are_admitted() -> None:
    games = eq.games.families.uniform(actions=3, states=3, discount=0.99).sample(30, key=6)
    solution = eq.solve(games, max_sweeps=1)
    assert not solution.status.ok
    assert "raise `max_sweeps`" in solution.status.message
    assert (solution.certificate.max_upper > solution.tolerance).any()


@pytest.mark.parametrize("scale", [1e-310, 1e-150, 1e150, 1e300])
def test_units_of_reward_change_nothing(scale: float) -> None:
    games = eq.games.families.uniform(actions=3, states=3, discount=0.99).sample(5, key=7)
    plain = eq.solve(games)
    scaled = eq.solve(eq.MarkovGame(games.reward * scale, games.transition, 0.99))
    assert scaled.status.ok
    np.testing.assert_allclose(scaled.value / scale, plain.value, rtol=1e-7)
    np.testing.assert_allclose(scaled.tolerance / scale, plain.tolerance, rtol=1e-4)
