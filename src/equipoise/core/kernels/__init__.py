"""Kernels for the CPU: zero-sum games, Markov games, bimatrix games, certificates, road networks.

XLA is the wrong tool for calls on a CPU: it compiles every new shape for a second, a call costs
tens of microseconds, and a simplex method whose games end at different times runs as long as the
slowest. Measured (one core, AMD EPYC): one 3 x 3 game by the JAX kernel 280 us, by Numba 1.2 us; a
batch of them 400 ns a game, by Numba 90 ns; and a Markov game of five states 1.6 ms by NumPy with
that kernel, by Numba 7 us.

Numba takes a third of a second to import, and seconds to compile on a machine where that was never
done. So a kernel is run as Python while little is asked of it: `choose` adds up what that costs,
and turns to machine code once it would have cost less. Nobody waits for it longer than twice the
time that would have been best. `python -m equipoise.core.kernels` compiles all kernels at once, as
when an image of a machine is built.

Compiled kernels release Python's lock, and write to arrays that the caller made, for a range of
games: so that threads share a batch, without Numba's own, which cannot be entered from two threads.
"""

import math
import os
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
    """Where a kernel is, and what happens until it is compiled."""

    module: str
    #: Kernels that are loaded together.
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
    "extend_paths": _Kernel("_routes", "paths", 200.0),
    "shift_flows": _Kernel("_routes", "paths", 200.0),
    "driver_replies": _Kernel("_drivers", "drivers", 200.0),
    "move_drivers": _Kernel("_drivers", "drivers", 200.0),
}
#: Seconds that a call takes in Python besides.
_CALL = 1e-4
#: Seconds that loading a group of kernels takes, and compiling it.
_LOADING, _COMPILING = 0.4, 8.0
#: Where there is no Numba: seconds of Python from which other ways are worth a compilation by JAX.
_PATIENCE = 0.5
#: Seconds of work from which threads are worth what it takes to tell them.
_THREADS_FROM = 5e-4
#: Ranges of games are multiples of what is solved side by side.
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
    """The kernel of that name as machine code, compiled if need be; None without Numba.

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
    """The kernel for a call that takes so long compiled, and what runs it: "Numba" or "Python".

    Their answers are the same to the last bit. None, and "JAX", where there is no Numba and Python
    would take too long.

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
        if spent > _COMPILING or (spent > _LOADING and _compile.is_kept(name)):
            for other, row in _KERNELS.items():
                if row.group == kernel.group:
                    load(other)
            return load(name), "Numba"
    elif slow > _PATIENCE:
        return None, "JAX"
    return partial(interpret, _source(name)), "Python"


def interpret(kernel: Callable[..., int], *arrays: Any) -> int:
    """Run a kernel as Python, with the arithmetic of machine code: no error and no warning.

    >>> import numpy as np
    >>> interpret(lambda numbers: (1.0 / numbers).max() > 9.0, np.zeros(3))
    1
    """
    import numpy as np

    with np.errstate(all="ignore"):
        return int(kernel(*arrays))


def compile_all() -> None:
    """Compile every kernel now, unless that was done before on this machine."""
    for name in _KERNELS:
        load(name)


def over_games(kernel: Callable[..., int], games: int, seconds: float, *arrays: Any) -> int:
    """The sum of `kernel(*arrays, first, last)` over all games, on all cores if that takes long.

    `seconds` is about what one game takes. Each core gets several ranges, so that none waits long
    for another; to tell a thread of one takes some 10 us.

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
    ranges = ((first, min(first + step, games)) for first in range(0, games, step))
    pool = _threads(workers, os.getpid())
    parts = [pool.submit(kernel, *arrays, first, last) for first, last in ranges]
    wait(parts)  # also if one fails: nobody writes to the arrays afterwards
    return sum(part.result() for part in parts)


@cache
def _threads(workers: int, process: int) -> ThreadPoolExecutor:
    """Threads that wait for work; a process that was forked has none of its parent's."""
    return ThreadPoolExecutor(workers, thread_name_prefix=f"equipoise-{process}")
