"""The weighted projection onto a truncated simplex, against an independent solver."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis.extra.numpy import arrays

from equipoise.core import steps
from equipoise.core.precision import double_precision
from equipoise.core.simplex import project
from equipoise.core.steps import PAIRWISE_LIMIT


def reference(point: np.ndarray, weights: np.ndarray, floor: float) -> np.ndarray:
    """max(floor, point - theta weights) with theta found by bisection on the sum."""
    heavy = weights > 0

    def candidate(theta: float) -> np.ndarray:
        return np.where(heavy, np.maximum(floor, point - theta * weights), floor)

    reach = ((np.abs(point[heavy]) + 2.0) / weights[heavy]).max()
    theta = scipy.optimize.bisect(
        lambda theta: candidate(theta).sum() - 1.0, -reach, reach, xtol=1e-300, rtol=1e-15
    )
    return candidate(theta)


#: Every number of actions is compiled for; these are few, many, and about where the method changes.
ACTIONS = [1, 2, 3, 6, PAIRWISE_LIMIT, PAIRWISE_LIMIT + 1, 24]


@st.composite
def problems(draw):
    """A point, positive weights and a floor that leaves room."""
    actions = draw(st.sampled_from(ACTIONS))
    point = draw(arrays(float, actions, elements=st.floats(-3, 3)))
    weights = draw(arrays(float, actions, elements=st.floats(0.01, 2)))
    share = draw(st.sampled_from([0.0, 0.3, 0.99]))
    return point, weights, share / actions


def run(point, weights=None, floor=0.0):
    with double_precision(), jax.numpy_rank_promotion("raise"):
        weights = None if weights is None else jnp.asarray(weights)
        return np.asarray(project(jnp.asarray(point), weights=weights, floor=floor))


@given(problems())
def test_is_a_distribution_above_the_floor(problem):
    point, weights, floor = problem
    p = run(point, weights, floor)
    assert abs(p.sum() - 1.0) < 1e-12
    assert (p >= floor).all()


@given(problems())
def test_equals_bisection_on_the_threshold(problem):
    point, weights, floor = problem
    np.testing.assert_allclose(
        run(point, weights, floor), reference(point, weights, floor), rtol=0, atol=1e-11
    )


@given(problems())
def test_without_weights_all_weights_are_one(problem):
    point, _, floor = problem
    np.testing.assert_allclose(
        run(point, None, floor), run(point, np.ones_like(point), floor), rtol=0, atol=1e-14
    )


@given(problems())
def test_is_idempotent(problem):
    point, weights, floor = problem
    p = run(point, weights, floor)
    np.testing.assert_allclose(run(p, weights, floor), p, rtol=0, atol=1e-12)


@given(problems(), st.integers(0, 2**32 - 1))
def test_does_not_expand_distances(problem, seed):
    point, weights, floor = problem
    other = point + np.random.default_rng(seed).normal(size=point.shape)
    moved = run(point, weights, floor) - run(other, weights, floor)

    def norm(x):
        return np.sqrt((x**2 / weights).sum())

    assert norm(moved) <= norm(point - other) + 1e-12


def test_known_case_by_hand():
    np.testing.assert_allclose(run([0.9, 0.5, -1.0]), [0.7, 0.3, 0.0], atol=1e-15)
    np.testing.assert_allclose(run([0.9, 0.5, -1.0], floor=0.1), [0.65, 0.25, 0.1], atol=1e-15)


def test_ties_share_the_mass_equally():
    np.testing.assert_allclose(run(np.full(7, 3.5)), np.full(7, 1 / 7), atol=1e-15)


@pytest.mark.parametrize("actions", [2, PAIRWISE_LIMIT, PAIRWISE_LIMIT + 1, 60])
def test_sorted_and_pairwise_thresholds_agree(actions, rng, monkeypatch):
    point = rng.normal(size=(50, actions))
    weights = rng.uniform(0.1, 2.0, size=(50, actions))
    monkeypatch.setattr(steps, "PAIRWISE_LIMIT", 0)
    by_sorting = run(point, weights, 0.5 / actions)
    monkeypatch.setattr(steps, "PAIRWISE_LIMIT", actions)
    by_pairs = run(point, weights, 0.5 / actions)
    np.testing.assert_allclose(by_sorting, by_pairs, rtol=0, atol=1e-13)


@pytest.mark.parametrize("actions", [5, 20])
def test_an_action_of_weight_zero_gets_the_floor(actions, rng):
    point = rng.normal(size=actions)
    point[1] = 10.0
    weights = rng.uniform(0.1, 2.0, size=actions)
    weights[1] = 0.0
    p = run(point, weights, 0.01)
    assert p[1] == 0.01
    np.testing.assert_allclose(p, reference(point, weights, 0.01), rtol=0, atol=1e-12)


def test_a_floor_for_every_row(rng):
    point = rng.normal(size=(4, 3, 6))
    floor = rng.uniform(0.0, 1 / 6, size=(4, 3))
    with double_precision(), jax.numpy_rank_promotion("raise"):
        p = np.asarray(project(jnp.asarray(point), floor=jnp.asarray(floor)))
    for index in np.ndindex(4, 3):
        expected = reference(point[index], np.ones(6), floor[index])
        np.testing.assert_allclose(p[index], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("actions", [4, 20])
def test_gradients_are_finite_and_correct(actions, rng):
    point = rng.normal(size=actions)
    weights = rng.uniform(0.1, 2.0, size=actions)
    weights[0] = 0.0
    direction = rng.normal(size=actions)

    def score(x):
        return project(x, weights=jnp.asarray(weights), floor=0.01) @ jnp.asarray(direction)

    with double_precision(), jax.numpy_rank_promotion("raise"):
        gradient = np.asarray(jax.grad(score)(jnp.asarray(point)))
        numeric = scipy.optimize.approx_fprime(point, lambda x: float(score(jnp.asarray(x))))
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient, numeric, rtol=0, atol=1e-6)


def test_batch_innermost_under_vmap(rng):
    point = rng.normal(size=(100, 5))
    with double_precision(), jax.numpy_rank_promotion("raise"):
        rows = project(jnp.asarray(point), floor=0.02)
        columns = jax.vmap(lambda x: project(x, floor=0.02), in_axes=-1, out_axes=-1)(
            jnp.asarray(point.T)
        )
    np.testing.assert_allclose(np.asarray(columns).T, np.asarray(rows), rtol=0, atol=1e-15)


def test_keeps_single_precision(rng):
    p = project(jnp.asarray(rng.normal(size=(10, 5)), jnp.float32), floor=0.01)
    assert p.dtype == jnp.float32
    np.testing.assert_allclose(np.asarray(p).sum(-1), 1.0, atol=1e-6)
