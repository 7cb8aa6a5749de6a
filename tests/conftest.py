"""Strict numerics and fixed randomness for every test.

Loaded before any test module, so that what is set here holds when JAX is first imported:
one thread and the CPU. The library itself is imported through a hook that checks every
annotation, array shapes included, whenever a function is called.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import hypothesis
import jax
import jaxtyping
import numpy as np
import pytest

jaxtyping.install_import_hook("equipoise", "support.check_types")

hypothesis.settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=30, database=None
)
hypothesis.settings.load_profile("ci")


@pytest.fixture
def key() -> jax.Array:
    """A fixed JAX key."""
    return jax.random.key(0)


@pytest.fixture
def rng() -> np.random.Generator:
    """A fixed NumPy generator."""
    return np.random.default_rng(0)
