"""The chi-squared step in closed form, against the quadratic program it solves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from equipoise.core.precision import double_precision
from equipoise.core.simplex import chi_squared_step


def run(policy, reward, behaviour, step, strength):
    with double_precision(), jax.numpy_rank_promotion("raise"):
        return np.asarray(
            chi_squared_step(
                jnp.asarray(policy),
                jnp.asarray(reward),
                jnp.asarray(behaviour),
                step=step,
                strength=strength,
            )
        )


def objective_gradient(p, policy, reward, behaviour, step, strength):
    """Gradient of <p, r> - strength chi2(p, nu) - chi2-distance(p, policy) / step."""
    return reward - 2 * strength * (p - behaviour) / behaviour - 2 / step * (p - policy) / behaviour


def draw_problem(rng, actions):
    policy = rng.dirichlet(np.ones(actions))
    behaviour = 0.9 * rng.dirichlet(np.ones(actions)) + 0.1 / actions
    return policy, rng.uniform(size=actions), behaviour


@pytest.mark.parametrize("actions", [2, 5, 24])
@pytest.mark.parametrize(("step", "strength"), [(5.0, 0.01), (0.5, 1.0), (100.0, 0.1)])
def test_satisfies_the_optimality_conditions(actions, step, strength, rng):
    for _ in range(20):
        policy, reward, behaviour = draw_problem(rng, actions)
        p = run(policy, reward, behaviour, step, strength)
        assert abs(p.sum() - 1.0) < 1e-12
        assert (p >= 0).all()
        slope = objective_gradient(p, policy, reward, behaviour, step, strength)
        price = slope[p > 0].max()
        # Actions in use have the same slope; unused ones have no larger one.
        assert np.abs(slope[p > 0] - price).max() < 1e-9
        assert (slope <= price + 1e-9).all()


def test_equals_a_general_quadratic_solver(rng):
    step, strength = 5.0, 0.02
    for _ in range(10):
        policy, reward, behaviour = draw_problem(rng, 5)

        def cost(p, policy=policy, reward=reward, behaviour=behaviour):
            chi2 = ((p - behaviour) ** 2 / behaviour).sum()
            distance = ((p - policy) ** 2 / behaviour).sum()
            return -(p @ reward) + strength * chi2 + distance / step

        def slope(p, policy=policy, reward=reward, behaviour=behaviour):
            return -objective_gradient(p, policy, reward, behaviour, step, strength)

        found = scipy.optimize.minimize(
            cost,
            behaviour,
            jac=slope,
            method="SLSQP",
            bounds=[(0, 1)] * 5,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
            options={"ftol": 1e-15, "maxiter": 500},
        )
        p = run(policy, reward, behaviour, step, strength)
        np.testing.assert_allclose(p, found.x, rtol=0, atol=1e-6)
        assert cost(p) <= cost(found.x / found.x.sum()) + 1e-12


def test_an_action_never_seen_is_never_played(rng):
    behaviour = np.array([0.5, 0.0, 0.3, 0.2])
    policy = np.array([0.4, 0.0, 0.3, 0.3])
    p = run(policy, np.array([0.0, 100.0, 0.1, 0.2]), behaviour, 5.0, 0.01)
    assert p[1] == 0.0
    kept = [0, 2, 3]
    without = run(policy[kept], np.array([0.0, 0.1, 0.2]), behaviour[kept], 5.0, 0.01)
    np.testing.assert_allclose(p[kept], without, rtol=0, atol=1e-13)


@pytest.mark.parametrize("level", [0.0, 3.0])
def test_a_constant_reward_at_the_behaviour_policy_stays_there(level, rng):
    behaviour = rng.dirichlet(np.ones(6))
    p = run(behaviour, np.full(6, level), behaviour, 5.0, 0.01)
    np.testing.assert_allclose(p, behaviour, rtol=0, atol=1e-13)


def test_its_fixed_point_is_the_regularised_optimum(rng):
    """Without clipping, p / nu = 1 + (r - E_nu r) / (2 strength)."""
    behaviour = 0.5 * rng.dirichlet(np.ones(5)) + 0.1
    reward = rng.uniform(size=5)
    strength = 1.0
    expected = behaviour * (1 + (reward - behaviour @ reward) / (2 * strength))
    assert (expected > 0).all()
    policy = behaviour
    for _ in range(60):
        policy = run(policy, reward, behaviour, 2.0, strength)
    np.testing.assert_allclose(policy, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        run(expected, reward, behaviour, 2.0, strength), expected, rtol=0, atol=1e-13
    )
