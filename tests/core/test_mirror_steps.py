"""Mirror steps with actions first: each solves its own problem, with any batch axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from equipoise.core import simplex, steps
from equipoise.core.precision import double_precision

STEPS = {
    "euclidean": (steps.euclidean_step, lambda p, q: 0.5 * np.sum((p - q) ** 2)),
    "entropic": (steps.entropic_step, lambda p, q: np.sum(p * np.log(p / q) - p + q)),
    "log_barrier": (steps.log_barrier_step, lambda p, q: np.sum(p / q - np.log(p / q) - 1)),
}


def problem(rng, actions, floor):
    policy = rng.dirichlet(np.ones(actions))
    policy = floor + (1 - actions * floor) * policy
    return policy, rng.normal(size=actions) * 3


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("actions", [2, 3, 7])
@pytest.mark.parametrize("floor", [0.0, 0.01, 0.1])
def test_a_step_minimises_its_objective(name, actions, floor, rng):
    step, distance = STEPS[name]
    for _ in range(3):
        policy, gradient = problem(rng, actions, floor)
        with double_precision():
            found = np.asarray(step(jnp.asarray(policy), jnp.asarray(gradient), 0.7, floor))
        assert found.sum() == pytest.approx(1.0, abs=1e-12)
        assert found.min() >= floor - 1e-15

        def objective(p, policy=policy, gradient=gradient):
            return p @ gradient + distance(np.maximum(p, 1e-12), policy) / 0.7

        best = minimize(
            objective,
            np.full(actions, 1 / actions),
            bounds=[(max(floor, 1e-9), 1)] * actions,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
            method="SLSQP",
        )
        assert objective(found) <= best.fun + 1e-9


@pytest.mark.parametrize("actions", [2, 3, 10])
def test_the_projection_is_the_one_of_simplex(actions, rng):
    points = rng.normal(size=(50, actions))
    with double_precision(), jax.numpy_rank_promotion("allow"):
        here = steps.project(jnp.asarray(points.T), 0.02)
        there = simplex.project(jnp.asarray(points), floor=0.02)
        np.testing.assert_allclose(here.T, there, atol=1e-14)


def test_the_projection_does_not_expand(rng):
    points = rng.normal(size=(2, 5, 100))
    with double_precision(), jax.numpy_rank_promotion("allow"):
        a, b = (np.asarray(steps.project(jnp.asarray(p), 0.01)) for p in points)
    moved = np.linalg.norm(points[0] - points[1], axis=0)
    assert (np.linalg.norm(a - b, axis=0) <= moved + 1e-12).all()


@pytest.mark.parametrize("name", STEPS)
def test_batch_axes_pass_through(name, rng):
    step, _ = STEPS[name]
    policies = rng.dirichlet(np.ones(4), size=6).T
    gradients = rng.normal(size=(4, 6))
    with double_precision(), jax.numpy_rank_promotion("allow"):
        batched = np.asarray(step(jnp.asarray(policies), jnp.asarray(gradients), 0.3, 0.01))
        for i in range(6):
            one = step(jnp.asarray(policies[:, i]), jnp.asarray(gradients[:, i]), 0.3, 0.01)
            np.testing.assert_allclose(batched[:, i], one, atol=1e-14)


@pytest.mark.parametrize("name", STEPS)
def test_float32_keeps_to_the_simplex_far_from_it(name, rng):
    """Steps of any length, from policies near the boundary."""
    step, _ = STEPS[name]
    policies = rng.dirichlet(np.full(5, 0.1), size=200).T.clip(1e-6, 1)
    policies /= policies.sum(0)
    gradients = rng.normal(size=(5, 200)) * rng.choice([0.1, 10.0, 300.0], size=200)
    with jax.numpy_rank_promotion("allow"):
        found = np.asarray(
            step(jnp.asarray(policies, jnp.float32), jnp.asarray(gradients, jnp.float32), 1.0, 1e-6)
        )
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.sum(0), 1.0, atol=2e-5)
    assert (found >= np.float32(1e-6) * 0.999).all()


def test_sampling_inverts_the_distribution():
    policy = jnp.array([0.2, 0.5, 0.3])
    uniforms = jnp.array([0.0, 0.19, 0.21, 0.69, 0.71, 0.999])
    with jax.numpy_rank_promotion("allow"):
        actions = steps.sample(jnp.broadcast_to(policy[:, None], (3, 6)), uniforms)
    assert actions.tolist() == [0, 0, 1, 1, 2, 2]


def test_reductions_and_picks():
    values = jnp.array([[1.0, 5.0], [3.0, 4.0], [2.0, 6.0]])
    assert steps.total(values).tolist() == [6.0, 15.0]
    assert steps.largest(values).tolist() == [3.0, 6.0]
    assert steps.smallest(values).tolist() == [1.0, 4.0]
    assert steps.pick(values, jnp.array([1, 2])).tolist() == [3.0, 6.0]


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(
    ("actions", "batch"), [(2, (1,)), (3, ()), (3, (1,)), (3, (2,)), (3, (16,)), (5, (1,))]
)
def test_a_compiled_loop_computes_what_single_steps_do(name, actions, batch, rng):
    """A chain of everything a round does. XLA has got this wrong for batches of one game."""
    step, _ = STEPS[name]

    def play(policy, draws):
        action = steps.sample(policy, draws[0])
        loss = draws[1] / (steps.pick(policy, action) + 0.1)
        gradient = jnp.where(steps.one_hot(action, actions), loss, 0.0) + 0.3 * policy
        policy = step(policy, gradient, 0.2, 0.01)
        return policy, policy

    draws = jnp.asarray(rng.random((40, 2, *batch)))
    start = jnp.full((actions, *batch), 1.0 / actions)
    with jax.numpy_rank_promotion("allow"):
        _, compiled = jax.jit(lambda p, d: jax.lax.scan(play, p, d))(start, draws)
        policy = start
        for t in range(40):
            policy, _ = play(policy, draws[t])
            np.testing.assert_allclose(compiled[t], policy, atol=1e-4)
            policy = compiled[t]
