"""The gaps that training minimises: values as certified, gradients as finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.core.mdp import best_response
from equipoise.core.precision import double_precision
from equipoise.games import families
from equipoise.incontext._contexts import markov_gap, matrix_gap
from equipoise.incontext._static import certified_gap


def policies(rng, *shape):
    p = rng.dirichlet(np.ones(shape[-1]), shape[:-1])
    return p


def test_the_matrix_gap_is_the_certified_one(rng):
    games = families.uniform((2, 4)).sample(20, key=0)
    x, y = policies(rng, 20, 2), policies(rng, 20, 4)
    certified = eq.certify(games, (x, y)).nash_conv
    with double_precision():
        found = jax.jit(jax.vmap(matrix_gap))(*(jnp.asarray(a) for a in (games.payoff, x, y)))
    np.testing.assert_allclose(found, certified, atol=1e-12)


@pytest.mark.parametrize(("states", "concentration"), [(1, 1.0), (4, 0.1)])
def test_markov_gaps_are_the_certified_ones(states, concentration, rng):
    family = families.uniform((2, 3), states=states, concentration=concentration)
    games = family.sample(10, key=0)
    x, y = policies(rng, 10, states, 2), policies(rng, 10, states, 3)
    certificate = eq.certify(games, (x, y))
    with double_precision():
        arrays = [jnp.asarray(a) for a in (games.reward, games.transition)]
        pair = [jnp.asarray(a) for a in (x, y)]
        mean, worst = (
            jax.jit(jax.vmap(lambda r, p, x, y, gap=gap: gap(r, p, 0.9, x, y)))(*arrays, *pair)
            for gap in (markov_gap, certified_gap)
        )
    # The loss is the mean over states, in units of 1 / (1 - discount).
    expected = 0.1 * certificate.state_gains.sum(-1).mean(-1)
    np.testing.assert_allclose(mean, expected, atol=1e-10)
    np.testing.assert_allclose(worst, certificate.nash_conv, atol=1e-9)


@pytest.mark.parametrize("kind", ["matrix", "markov"])
def test_gradients_are_finite_differences(kind, rng):
    states = None if kind == "matrix" else 3
    game = families.uniform((2, 3), states=states).sample(key=1)
    shape = () if states is None else (3,)

    with double_precision():
        if kind == "matrix":
            payoff = jnp.asarray(game.payoff)

            def loss(logits):
                x, y = (jax.nn.softmax(part, -1) for part in logits)
                return matrix_gap(payoff, x, y)

        else:
            reward, transition = jnp.asarray(game.reward), jnp.asarray(game.transition)

            def loss(logits):
                x, y = (jax.nn.softmax(part, -1) for part in logits)
                return markov_gap(reward, transition, 0.9, x, y)

        at = [jnp.asarray(rng.normal(size=(*shape, n))) for n in (2, 3)]
        way = [jnp.asarray(rng.normal(size=(*shape, n))) for n in (2, 3)]
        loss = jax.jit(loss)
        gradient = jax.jit(jax.grad(loss))(at)
        slope = sum(float((g * w).sum()) for g, w in zip(gradient, way, strict=True))
        step = 1e-6
        ends = [
            loss([a + sign * step * w for a, w in zip(at, way, strict=True)]) for sign in (1, -1)
        ]
        assert slope == pytest.approx(float(ends[0] - ends[1]) / (2 * step), rel=1e-5)
    assert abs(slope) > 1e-3


def test_policy_iteration_ends_at_a_fixed_point(rng):
    """No action improves on the values of the policy found, in hard decision processes too."""
    with double_precision():
        reward = jnp.asarray(rng.uniform(size=(50, 4, 3)))
        transition = jnp.asarray(rng.dirichlet(np.full(4, 0.05), (50, 4, 3)))
        value, policy = jax.jit(best_response, static_argnums=2)(reward, transition, 0.95)
        better = (reward + 0.95 * jnp.einsum("gsaz,gz->gsa", transition, value)).max(-1)
    np.testing.assert_allclose(better, value, atol=1e-9)
    assert (np.asarray(policy).sum(-1) == 1.0).all()
