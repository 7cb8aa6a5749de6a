"""Double precision is scoped; keys come from ints, new keys and old ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equipoise.core.precision import double_precision
from equipoise.core.randomness import as_key


def test_double_precision_ends_with_its_context():
    assert jnp.ones(1).dtype == jnp.float32
    with double_precision():
        assert jnp.ones(1).dtype == jnp.float64
        with double_precision():
            assert jnp.ones(1).dtype == jnp.float64
        assert jnp.ones(1).dtype == jnp.float64
    assert jnp.ones(1).dtype == jnp.float32


def test_double_precision_ends_when_an_error_leaves_it():
    with pytest.raises(RuntimeError, match="inside"), double_precision():
        raise RuntimeError("inside")
    assert jnp.ones(1).dtype == jnp.float32


def test_a_compiled_function_is_compiled_for_each_precision():
    @jax.jit
    def third(x):
        return x / 3

    assert third(jnp.ones(())).dtype == jnp.float32
    with double_precision():
        assert float(third(jnp.ones(()))) == 1 / 3


def test_an_int_and_its_keys_are_the_same_key():
    from_int = as_key(7)
    for other in [np.int64(7), jax.random.key(7), jax.random.PRNGKey(7)]:
        assert jnp.array_equal(jax.random.key_data(as_key(other)), jax.random.key_data(from_int))


def test_a_large_seed_is_not_folded_into_a_small_one():
    small, large = as_key(7), as_key(2**31 + 7)
    assert not jnp.array_equal(jax.random.key_data(small), jax.random.key_data(large))


@pytest.mark.parametrize("bad", [True, 0.5, "seed", None, [1, 2, 3]])
def test_what_is_no_key_is_refused(bad):
    with pytest.raises(ValueError, match="key: expected an int seed or a JAX key, found"):
        as_key(bad)


def test_several_keys_are_refused():
    with pytest.raises(ValueError, match=r"expected one key, found .* shape \(4,\)"):
        as_key(jax.random.split(jax.random.key(0), 4))
