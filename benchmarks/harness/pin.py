"""One core per contender: affinity, and the thread counts of everything that reads one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

#: Variables by which the libraries in these tables choose how many threads to start.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
SINGLE_THREAD_XLA = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def available_cores() -> list[int]:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def environment(cores: int | None) -> dict[str, str]:
    """The environment of a process that is to use `cores` cores; None for all of them."""
    count = len(available_cores()) if cores is None else cores
    env = dict(os.environ)
    env.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    # Several processes share an accelerator; none may take its memory for itself.
    env["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if count == 1:
        env["XLA_FLAGS"] = f"{env.get('XLA_FLAGS', '')} {SINGLE_THREAD_XLA}".strip()
    return env


@contextmanager
def pinned(cores: int | None) -> Iterator[None]:
    """A context in which new processes are bound to the last `cores` cores; None for all.

    A process inherits affinity at its start, before any library has made threads, and it
    holds whatever the library thinks of the variables above. The last cores are taken since
    the first serves interrupts. Where the system has no affinity, the variables must do.
    """
    if cores is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-cores:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
