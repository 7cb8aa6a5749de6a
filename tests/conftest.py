"""Strict numerics and fixed randomness for every test.

Loaded before any test module, so that what is set here holds when JAX is first imported:
one thread and the CPU. The library itself is imported through a hook that checks every
annotation, array shapes included, whenever a function is called.
"""

import importlib
import os
from types import ModuleType

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import beartype
import hypothesis
import jax
import jaxtyping
import numpy as np
import pytest

#: As a type checker reads annotations: an int is a float, and so is a scalar of NumPy an array,
#: which is what its functions return where an array has no axes left.
check_types = beartype.beartype(
    conf=beartype.BeartypeConf(
        is_pep484_tower=True,
        hint_overrides=beartype.FrozenDict({np.ndarray: np.ndarray | np.generic}),
    )
)
jaxtyping.install_import_hook("equipoise", "conftest.check_types")

hypothesis.settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=50, database=None
)
hypothesis.settings.load_profile("ci")


def peer(name: str) -> ModuleType:
    """Import another library to compare with; without it the test is skipped.

    With EQUIPOISE_REQUIRE_PEERS set, as `make test` does, its absence is an error instead: a
    comparison that never runs is not a comparison.
    """
    if os.environ.get("EQUIPOISE_REQUIRE_PEERS"):
        return importlib.import_module(name)
    return pytest.importorskip(name)


@pytest.fixture
def key() -> jax.Array:
    """A fixed JAX key."""
    return jax.random.key(0)


@pytest.fixture
def rng() -> np.random.Generator:
    """A fixed NumPy generator."""
    return np.random.default_rng(0)
