"""Games with continuous actions: pure equilibria, concave games, mixed equilibria."""

import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.solvers._continuous import replies, solve_continuous


@pytest.mark.parametrize(
    "name",
    ["pairwise-continuous", "signed-continuous", "triple-continuous", "stamina-continuous"],
)
def test_the_catalogue(name):
    game = eq.games.load(name)
    found = solve_continuous(game)
    assert found.ended == "solved"
    assert float(eq.certify(game, found.policy).max_gain) < 2e-8


def test_best_replies_are_those_of_the_certificate():
    rng = np.random.default_rng(0)
    game = eq.games.load("triple-continuous", agents=4, neighbours=2)
    policy = eq.games.ContinuousPolicy(rng.uniform(-1, 1, (1, 4)))
    gains, reply = replies(game, policy)
    assert gains[0] == pytest.approx(np.asarray(eq.certify(game, policy).gains), abs=1e-9)
    moved = np.array(policy.points)
    moved[0, 2] = reply[0, 2]
    before, after = (game.rewards(p[0])[2] for p in (policy.points, moved))
    assert after - before == pytest.approx(gains[0, 2])


def test_a_duopoly():
    # Price of one less both quantities; quantities are (a + 1) / 2: each sells a third.
    game = eq.ContinuousGame.from_function(
        lambda a: (a + 1) / 2 * (1 - ((a + 1) / 2).sum()), agents=2, curvature=1.0
    )
    found = solve_continuous(game)
    assert found.policy.points[0] == pytest.approx([-1 / 3, -1 / 3], abs=1e-3)


def test_a_game_without_pure_equilibrium():
    game = eq.ContinuousGame.from_function(
        lambda a: jnp.stack([-((a[0] - a[1]) ** 2), (a[0] - a[1]) ** 2]), agents=2, curvature=4.0
    )
    found = solve_continuous(game, tolerance=1e-6)
    assert found.method == "double oracle"
    assert float(eq.certify(game, found.policy).max_gain) < 2e-6
    points, weights = found.policy.support()
    mean = (points * weights).sum(-1)[0]
    assert mean == pytest.approx([0.0, 0.0], abs=1e-2)  # one seeks the middle, the other both ends


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1e12, 1e150])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_units_and_offsets_of_a_function_change_nothing(unit, offset):
    """A tolerance in units of one would call anything solved in small units."""

    def reward(actions):
        return unit * (jnp.sin(3.0 * actions + jnp.flip(actions)) + offset)

    game = eq.ContinuousGame.from_function(reward, 2, curvature=9.001 * unit)
    certificate = eq.certify(game, [0.3, -0.2])
    best = [1.0 - np.sin(3.0 * 0.3 - 0.2), 1.0 - np.sin(-3.0 * 0.2 + 0.3)]
    np.testing.assert_allclose(certificate.gains / unit, best, rtol=1e-7)
    assert ((certificate.upper - certificate.gains) / unit < 1e-8).all()
    solution = eq.solve(game)
    assert solution.status.ok
    assert float(solution.tolerance) / unit == pytest.approx(1e-6, rel=0.1, abs=1e-6 * offset)


@pytest.mark.parametrize("unit", [1e-250, 1.0, 1e9, 1e250])
def test_units_of_polynomial_rewards_change_nothing(unit):
    own, pairs = np.array([[0.0, 0.5, -1.0], [0.0, -0.2, -1.0]]), np.array([[0.0, 0.4], [0.3, 0.0]])
    terms = eq.games.PolynomialTerms(2, unit * own[None, :, None], {(1, 1): unit * pairs[None]})
    solution = eq.solve(eq.ContinuousGame(terms))
    assert solution.status.ok
    assert 1e-6 < float(solution.tolerance) / unit < 1e-5


def test_a_reward_function_of_more_agents_than_numpy_has_axes():
    """Each agent matches a tenth of the mean action: the only equilibrium is zero for all."""
    game = eq.ContinuousGame.from_function(lambda a: -((a - 0.1 * a.mean()) ** 2), 33, curvature=3)
    solution = eq.solve(game)
    assert solution.solved
    np.testing.assert_allclose(solution.policy.points, 0.0, atol=1e-3)
