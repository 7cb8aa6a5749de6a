"""Exact equilibria of batches of zero-sum matrix games.

`solve_batch` runs a cascade of methods. The first is the simplex method, compiled by Numba for the
CPU (`core.kernels`) or, without Numba, by JAX. Games that miss their tolerance are solved again
with a perturbed right-hand side; then, one game at a time, by HiGHS. Exact rational arithmetic
solves small games whose payoffs float64 cannot handle. The result reports the stage that each game
needed. `solve_on_device` does the same on an accelerator, for payoffs that are already there.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use
from equipoise.core.zerosum._cascade import (
    SMALLEST,
    STAGES,
    TOLERANCE,
    ZeroSum,
    solve_batch,
    solve_on_device,
    solve_with_highs,
    solve_with_rationals,
)

if TYPE_CHECKING:
    from equipoise.core.zerosum._pivot import Optimum as Optimum
    from equipoise.core.zerosum._pivot import pivot_to_optimum as pivot_to_optimum

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

_BY_JAX: dict[str, str | None] = dict.fromkeys(
    ("Optimum", "pivot_to_optimum"), "equipoise.core.zerosum._pivot"
)

__getattr__, __dir__ = load_on_first_use(__name__, _BY_JAX)
