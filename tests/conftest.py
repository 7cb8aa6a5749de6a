"""Strict numerics and fixed randomness for every test.

Loaded before any test module, so that what is set here holds when JAX is first imported:
one thread and the CPU. The library itself is imported through a hook that checks every
annotation, array shapes included, whenever a function is called.

Most of the time goes into compiling. What one process has compiled, the other workers and the
commands that tests start read from a folder that lives as long as the tests do: the same machine
code, so the same numbers. Set JAX_COMPILATION_CACHE_DIR to keep the folder for the next run.
"""

import ctypes
import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# A shell that starts the tests in the background (nohup make test &) makes them ignore Ctrl-C, and
# everything they start inherits that. Python puts its own handler in place only if it is not so.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Processes that tests start import this checkout too, whatever is installed.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1] / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
)

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")
# Most of the time goes into compiling. Less optimisation, XLA's older emitters of fused loops and
# one piece of code per program compile in a third of the time; the programs are small enough not
# to run noticeably slower.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
import hypothesis
import jax
import jaxtyping
import numpy as np
import pytest
import support
from architecture import durations

# Read when JAX first computes.
os.environ.setdefault(
    "XLA_FLAGS",
    support.known_flags(
        xla_cpu_multi_thread_eigen="false",
        xla_cpu_use_fusion_emitters="false",
        xla_cpu_parallel_codegen_split_count="1",
    ),
)

support.check_lightly()
jaxtyping.install_import_hook(["equipoise", "reproduction"], "support.check_types")

hypothesis.settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=30, database=None
)
hypothesis.settings.load_profile("ci")


COMPILED = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin an empty folder of compiled programs, unless this is a worker and has one."""
    config.pluginmanager.register(durations)
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        config.stash[COMPILED] = tempfile.mkdtemp(prefix="equipoise-compiled-")
        os.environ["JAX_COMPILATION_CACHE_DIR"] = config.stash[COMPILED]
        jax.config.update("jax_compilation_cache_dir", config.stash[COMPILED])
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    # What another process is just writing, or was killed while it wrote, is compiled again.
    config.addinivalue_line(
        "filterwarnings", "ignore:Error (reading|writing) persistent compilation cache:UserWarning"
    )


def pytest_collection_finish() -> None:
    """Spare the garbage collector all that lives as long as the tests: tracing allocates a lot."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what was compiled."""
    if COMPILED in config.stash:
        shutil.rmtree(config.stash[COMPILED], ignore_errors=True)
        del os.environ["JAX_COMPILATION_CACHE_DIR"]


#: Tests in which arrays of different ranks may be broadcast in JAX. Learners broadcast over games
#: on purpose (dynamics/_engine.py says so, and allows it while they play), and the joint network
#: adds its biases to batches of any rank. Others have not been checked: remove what passes without.
BROADCASTING = (
    *("cli/", "demo/", "docs/", "dynamics/", "incontext/", "reproduction/"),
    "offline/test_learning.py",
)


@pytest.fixture(autouse=True)
def _write_axes_down(request: pytest.FixtureRequest) -> Iterator[None]:
    """Refuse to broadcast arrays of different ranks: every new axis is written down."""
    place = request.path.relative_to(request.config.rootpath / "tests").as_posix()
    with jax.numpy_rank_promotion("allow" if place.startswith(BROADCASTING) else "raise"):
        yield


@pytest.fixture(scope="session", autouse=True)
def _small_tiles() -> None:
    """Frozen players play tiles of one size, padded: few games should not cost as much as 32."""
    from equipoise.dynamics import _engine

    _engine.CONTEXT_TILES["cpu"] = 8


#: Memory of a worker, in bytes, beyond which it forgets what it has compiled.
ENOUGH = 1.8e9


@pytest.fixture(autouse=True)
def _forget_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Forget compiled programs once there are very many: they would pile up to gigabytes."""
    yield
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        memory = pages * resource.getpagesize()
        request.node.user_properties.append((durations.MEMORY, memory))
        if memory > ENOUGH:
            jax.clear_caches()
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture
def key() -> jax.Array:
    """A fixed JAX key."""
    return jax.random.key(0)


@pytest.fixture
def rng() -> np.random.Generator:
    """A fixed NumPy generator."""
    return np.random.default_rng(0)
