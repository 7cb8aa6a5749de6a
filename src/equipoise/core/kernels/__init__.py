"""Kernels compiled by Numba for the CPU: zero-sum and Markov games, certificates, road networks.

XLA is the wrong tool for calls on a CPU: it compiles every new shape for a second, a call costs
tens of microseconds, and a simplex method whose games end at different times runs as long as the
slowest. Measured (one core, AMD EPYC): one 3 x 3 game by the JAX kernel 280 us, here 1.2 us; a
batch of them 400 ns a game, here 90 ns; and a Markov game of five states 1.6 ms by NumPy with
that kernel, here 7 us. A kernel is compiled once on a machine; `_compile` says where it is kept.

Kernels release Python's lock, and write to arrays that the caller made, for a range of games: so
that threads share a batch, without Numba's own, which cannot be entered from two threads.
A process that never solves anything never imports Numba.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from typing import Any

from equipoise.core.machine import cores

__all__ = ["load", "over_games"]

_KERNELS = {
    "solve_games": "_zerosum",
    "matrix_gains": "_gains",
    "solve_markov": "_markov",
    "markov_gains": "_markov_gains",
    "lemke_howson": "bimatrix",
    "bimatrix_gains": "bimatrix",
    "shortest_trees": "_routes",
    "extend_paths": "_routes",
    "shift_flows": "_routes",
    "driver_replies": "_drivers",
    "move_drivers": "_drivers",
}
#: Seconds of work from which threads are worth their start.
_THREADS_FROM = 1e-3
#: Ranges of games are multiples of what is solved side by side.
_SIDE_BY_SIDE = 8


@cache
def load(name: str) -> Callable[..., int] | None:
    """The kernel of that name; None where Numba is not installed.

    >>> load("solve_games") is not None
    True
    """
    try:
        return getattr(import_module(f"{__name__}.{_KERNELS[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("numba", "llvmlite"):
            return None
        raise


def over_games(kernel: Callable[..., int], games: int, seconds: float, *arrays: Any) -> int:
    """The sum of `kernel(*arrays, first, last)` over all games, on all cores if that takes long.

    `seconds` is about what one game takes. Each core gets several ranges, so that none waits long
    for another.

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
    step = math.ceil(games / (8 * workers * _SIDE_BY_SIDE)) * _SIDE_BY_SIDE
    with ThreadPoolExecutor(workers) as pool:
        ranges = ((first, min(first + step, games)) for first in range(0, games, step))
        parts = [pool.submit(kernel, *arrays, first, last) for first, last in ranges]
        return sum(part.result() for part in parts)
