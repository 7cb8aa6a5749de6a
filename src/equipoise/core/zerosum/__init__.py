"""Exact equilibria of batches of zero-sum matrix games.

`solve_batch` runs a cascade: the simplex method, compiled by Numba for the CPU (`core.kernels`) or,
where that is not installed, by JAX; the same with a perturbed right-hand side for the games that
missed their tolerance; then, one game at a time, HiGHS, and exact rational arithmetic for small
games whose payoffs float64 cannot handle. What each game needed is reported. `solve_on_device`
does the same on an accelerator, for payoffs that are there.
"""

from equipoise.core.zerosum._cascade import (
    SMALLEST,
    STAGES,
    TOLERANCE,
    ZeroSum,
    solve_batch,
    solve_with_highs,
    solve_with_rationals,
)
from equipoise.core.zerosum._device import solve_on_device
from equipoise.core.zerosum._pivot import Optimum, pivot_to_optimum

__all__ = [
    "SMALLEST",
    "STAGES",
    "TOLERANCE",
    "Optimum",
    "ZeroSum",
    "pivot_to_optimum",
    "solve_batch",
    "solve_on_device",
    "solve_with_highs",
    "solve_with_rationals",
]
