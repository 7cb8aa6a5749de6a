"""Compiled CPU kernels: games, certificates, road networks, linear programs of aggregative games.

XLA is the wrong tool for calls on a CPU: it compiles every new shape for a second, a call costs
tens of microseconds, and a simplex method whose games end at different times runs as long as the
slowest. Measured on one core (AMD EPYC): one 3 x 3 game takes 280 us with the JAX kernel and 1.2 us
with Numba; a batch of them takes 400 ns per game with JAX and 90 ns with Numba; a Markov game of
five states takes 1.6 ms with NumPy and that kernel, and 7 us with Numba.

Numba takes a third of a second to import, and seconds to compile kernels for the first time on a
machine. Therefore a kernel runs as Python while there is little work: `choose` adds up the time
spent that way, and switches to machine code once it would have cost less. The total time is never
more than twice the optimum. `python -m equipoise.core.kernels` compiles all kernels at once, for
instance when a machine image is built.

Compiled kernels release Python's lock, and write to arrays that the caller allocated, for a range
of games. Threads can thus share a batch without Numba's own threading, which cannot be entered from
two threads.
"""

import math
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from equipoise.core.kernels import _compile
from equipoise.core.machine import cores

__all__ = ["choose", "compile_all", "interpret", "is_installed", "load", "over_games"]


class _Kernel(NamedTuple):
    """Location of a kernel, and its cost before it is compiled."""

    module: str
    #: Name of the group of kernels that are loaded together.
    group: str
    #: How many times as long Python takes as machine code.
    slowdown: float


_KERNELS = {
    "solve_games": _Kernel("_zerosum", "matrix", 4000.0),
    "matrix_gains": _Kernel("_gains", "matrix", 1000.0),
    "solve_markov": _Kernel("_markov", "markov", 800.0),
    "markov_gains": _Kernel("_markov_gains", "markov", 400.0),
    "lemke_howson_loop": _Kernel("lemke_howson", "bimatrix", 1000.0),
    "bimatrix_gains": _Kernel("bimatrix", "bimatrix", 400.0),
    "shortest_trees": _Kernel("_routes", "trees", 200.0),
    "bounding_trees": _Kernel("_routes", "trees", 200.0),
    "extend_paths": _Kernel("_routes", "paths", 200.0),
    "shift_flows": _Kernel("_routes", "paths", 200.0),
    "balance_flows": _Kernel("_routes", "steep", 200.0),
    "driver_replies": _Kernel("_drivers", "drivers", 200.0),
    "move_drivers": _Kernel("_drivers", "drivers", 200.0),
    "solve_program": _Kernel("_programs", "programs", 15.0),
}
#: Overhead of a call in Python, in seconds.
_CALL = 1e-4
#: Time to load the first group of kernels, with Numba; another group; and to compile one: seconds.
_LOADING, _ANOTHER, _COMPILING = 0.4, 0.02, 8.0
#: Without Numba: seconds of Python from which compilation by JAX is worthwhile.
_PATIENCE = 0.5
#: Seconds of work from which starting threads is worthwhile.
_THREADS_FROM = 5e-4
#: Ranges of games are multiples of the number of games solved side by side.
_SIDE_BY_SIDE = 8

#: Seconds spent without machine code, by group.
_spent: dict[str, float] = {}
_loaded: dict[str, Callable[..., int]] = {}


@cache
def is_installed() -> bool:
    """Whether Numba can be imported.

    >>> is_installed()
    True
    """
    return find_spec("numba") is not None


@cache
def load(name: str) -> Callable[..., int] | None:
    """Return the kernel of that name as machine code, compiled if needed; None without Numba.

    >>> load("solve_games") is not None
    True
    """
    if not is_installed():
        return None
    from equipoise.core.kernels._numba import machine_code

    _loaded[name] = kernel = machine_code(_source(name))
    return kernel


def _source(name: str) -> Callable[..., int]:
    return getattr(import_module(f"{__name__}.{_KERNELS[name].module}"), name)


def choose(name: str, seconds: float) -> tuple[Callable[..., int] | None, str]:
    """Return the kernel for a call of this compiled duration, and its engine: "Numba" or "Python".

    Both give the same result to the last bit. Returns None and "JAX" if Numba is not installed and
    Python would take too long.

    >>> kernel, engine = choose("solve_games", 1e-6)
    >>> engine in ("Numba", "Python")
    True
    """
    if name in _loaded:
        return _loaded[name], "Numba"
    kernel = _KERNELS[name]
    slow = _CALL + seconds * kernel.slowdown
    if is_installed():
        spent = _spent[kernel.group] = _spent.get(kernel.group, 0.0) + slow
        loading = _ANOTHER if _loaded else _LOADING
        if spent > _COMPILING or (spent > loading and _compile.is_kept(name)):
            for other, row in _KERNELS.items():
                if row.group == kernel.group:
                    load(other)
            return load(name), "Numba"
    elif slow > _PATIENCE:
        return None, "JAX"
    return partial(interpret, _source(name)), "Python"


def interpret(kernel: Callable[..., int], *arrays: Any) -> int:
    """Run a kernel in plain Python; division by zero and overflow give no error and no warning.

    >>> import numpy as np
    >>> interpret(lambda numbers: (1.0 / numbers).max() > 9.0, np.zeros(3))
    1
    """
    import numpy as np

    with np.errstate(all="ignore"):
        return int(kernel(*arrays))


def compile_all() -> None:
    """Compile every kernel now, unless it has been compiled on this machine before."""
    for name in _KERNELS:
        load(name)


def over_games(kernel: Callable[..., int], games: int, seconds: float, *arrays: Any) -> int:
    """Return the sum of `kernel(*arrays, first, last)` over all games, on all cores for long work.

    `seconds` is the approximate time of one game. There are several ranges for each core, and an
    idle thread takes the next one; the calling thread works too.

    >>> import numpy as np
    >>> def square(numbers, first, last):
    ...     numbers[first:last] **= 2
    ...     return last - first
    >>> numbers = np.arange(100)
    >>> over_games(square, 100, 1.0, numbers), int(numbers[-1])
    (100, 9801)
    """
    workers = cores() if games * seconds > _THREADS_FROM else 1
    if workers == 1:
        return kernel(*arrays, 0, games)
    each = 8 if games * seconds > 20 * _THREADS_FROM else 2
    step = math.ceil(games / (each * workers * _SIDE_BY_SIDE)) * _SIDE_BY_SIDE
    starts = deque(range(0, games, step))

    def work() -> int:
        done = 0
        while starts:
            try:
                first = starts.popleft()
            except IndexError:  # another thread took the last one
                break
            done += kernel(*arrays, first, min(first + step, games))
        return done

    pool = _threads(workers - 1, os.getpid())
    parts = [pool.submit(work) for _ in range(workers - 1)]
    try:
        done = work()
    finally:
        starts.clear()
        wait(parts)  # also if one fails: no thread writes to the arrays afterwards
    return done + sum(part.result() for part in parts)


@cache
def _threads(workers: int, process: int) -> ThreadPoolExecutor:
    """Return a pool of waiting threads; a forked process has none of its parent's threads."""
    return ThreadPoolExecutor(workers, thread_name_prefix=f"equipoise-{process}")
