"""Derivatives of equilibria and of gains against finite differences, and transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise import pure
from equipoise.core.precision import double_precision


def central(function, point: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences of a function of batches, whose input axes come last."""
    changes = step * np.eye(point.size).reshape(-1, *point.shape)
    ahead, behind = (np.asarray(function(jnp.asarray(point + c))) for c in (changes, -changes))
    return np.moveaxis((ahead - behind) / (2 * step), 0, -1).reshape(*ahead.shape[1:], *point.shape)


@pytest.mark.parametrize("shape", [(3, 3), (3, 5)])
def test_derivatives_of_an_equilibrium(shape, rng):
    with double_precision():
        payoff = rng.normal(size=shape)
        point = jax.jit(jax.jacobian(lambda a: tuple(pure.zero_sum(a))))(jnp.asarray(payoff))
        solve = jax.jit(pure.zero_sum)
        for part, found in enumerate(point):
            truth = central(lambda a, part=part: solve(a)[part], payoff)
            np.testing.assert_allclose(found, truth, atol=1e-6)


def test_the_value_has_the_outer_product_as_derivative(rng):
    with double_precision():
        payoff = jnp.asarray(rng.normal(size=(7, 3, 4)))
        point = pure.zero_sum(payoff)
        found = jax.grad(lambda a: pure.zero_sum(a).value.sum())(payoff)
        np.testing.assert_allclose(found, point.x[:, :, None] * point.y[:, None], atol=1e-14)


def test_derivatives_of_gains(rng):
    with double_precision():
        payoff, x, y = rng.normal(size=(3, 4)), rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4))
        for place in range(3):
            arguments = [payoff, x, y]

            def of(value, place=place, arguments=arguments):
                changed = [*arguments[:place], value, *arguments[place + 1 :]]
                return pure.gains(*map(jnp.asarray, changed))

            found = jax.jacobian(of)(jnp.asarray(arguments[place]))
            truth = central(of, arguments[place])
            np.testing.assert_allclose(found, truth, atol=1e-6)


def test_gains_are_those_of_the_certificate(rng):
    with double_precision():
        payoffs = rng.normal(size=(3, 2, 3, 4))
        strategies = [rng.dirichlet(np.ones(n)) for n in (2, 3, 4)]
        truth = eq.certify(eq.NormalFormGame(payoffs), strategies).gains
        found = pure.normal_form_gains(jnp.asarray(payoffs), list(map(jnp.asarray, strategies)))
        np.testing.assert_allclose(found, truth, atol=1e-12)
        payoff = rng.normal(size=(9, 3, 3))
        x, y = rng.dirichlet(np.ones(3), size=(2, 9))
        truth = eq.certify(eq.MatrixGame(payoff), (x, y)).gains
        np.testing.assert_allclose(pure.gains(*map(jnp.asarray, (payoff, x, y))), truth, atol=1e-12)


def test_jit_vmap_and_shard_map_agree(rng):
    payoff = jnp.asarray(rng.normal(size=(8, 3, 3)), jnp.float32)
    plain = pure.zero_sum(payoff)
    mesh = jax.make_mesh((1,), ("games",), axis_types=(jax.sharding.AxisType.Auto,))
    games = jax.sharding.PartitionSpec("games")
    shard_map = jax.shard_map if hasattr(jax, "shard_map") else jax.experimental.shard_map.shard_map
    for transformed in (
        jax.jit(pure.zero_sum),
        jax.vmap(pure.zero_sum),
        shard_map(pure.zero_sum, mesh=mesh, in_specs=games, out_specs=games),
    ):
        for one, other in zip(plain, transformed(payoff), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


def test_values_are_those_of_the_exact_solver(rng):
    with double_precision():
        payoff = rng.normal(size=(64, 4, 3)) * 10 + 5
        point = pure.zero_sum(jnp.asarray(payoff))
        np.testing.assert_allclose(point.value, eq.solve(eq.MatrixGame(payoff)).value, atol=1e-12)
        assert float(pure.gains(jnp.asarray(payoff), point.x, point.y).sum(-1).max()) < 1e-12


def test_second_derivatives_of_an_equilibrium(rng):
    with double_precision():
        payoff = np.array([[3.0, -1.2, 0.3], [-2.0, 1.1, 0.4], [0.5, 0.2, -1.3]])
        for part in (lambda a: pure.zero_sum(a).x[..., 0], lambda a: pure.zero_sum(a).value):
            found = jax.hessian(part)(jnp.asarray(payoff))
            slope = jax.vmap(jax.grad(part))
            truth = central(slope, payoff, 1e-5)
            np.testing.assert_allclose(found, truth, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-36, 1e30, 1e38, 3e38])
def test_units_do_not_matter(scale):
    rps = scale * jnp.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    np.testing.assert_allclose(pure.zero_sum(rps).x, 1 / 3, atol=1e-6)


@pytest.mark.parametrize("kind", [jnp.bfloat16, jnp.float16])
def test_narrow_numbers_are_taken_as_wide_ones(kind):
    point = pure.zero_sum(jnp.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], kind))
    assert point.x.dtype == jnp.float32
    np.testing.assert_allclose(point.x, 1 / 3, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: pure.zero_sum(jnp.ones(3)), "payoff: expected shape"),
        (lambda: pure.zero_sum(jnp.ones((3, 0))), "payoff: expected shape"),
        (lambda: pure.gains(jnp.ones((2, 3)), jnp.ones(2), jnp.ones(2)), "x, y: expected"),
        (lambda: pure.normal_form_gains(jnp.ones((2, 2, 2)), [jnp.ones(2)]), "strategies: exp"),
        (lambda: pure.normal_form_gains(jnp.ones((3, 2, 2)), [jnp.ones(2)] * 2), "strategies: e"),
    ],
)
def test_what_is_refused(call, complaint):
    with pytest.raises(ValueError, match=complaint):
        call()
