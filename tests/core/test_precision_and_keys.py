"""Double precision is scoped; keys come from ints, new keys and old ones."""

import os
import subprocess
import sys

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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_after_a_fork_jax_is_refused_rather_than_waited_for():
    """A child that computes with JAX would wait forever for threads it has not inherited."""
    script = """
import os, warnings
import jax.numpy as jnp, numpy as np
import equipoise as eq
from equipoise import pure
warnings.simplefilter("ignore")
payoff = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
family, game = eq.games.families.uniform(actions=3), eq.MatrixGame(payoff)
many = eq.MatrixGame(np.stack([payoff] * 3))
jnp.ones(2).block_until_ready()
if os.fork():
    os.wait()
else:
    calls = {
        "solve": lambda: eq.solve(game),
        "batch": lambda: eq.solve(many),
        "sample": lambda: family.sample(key=0),
        "pure": lambda: pure.zero_sum(payoff),
        "gains": lambda: pure.gains(payoff, payoff[0], payoff[0]),
    }
    for name, call in calls.items():
        try:
            call()
            print(name, "done", flush=True)
        except RuntimeError as error:
            print(name, error, flush=True)
    os._exit(0)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["solve", "batch", "sample", "pure", "gains"]
    for line in lines[2:]:
        assert "JAX cannot run after a fork; start processes with the spawn method" in line
