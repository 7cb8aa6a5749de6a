"""Nash equilibria of batches of zero-sum matrix games."""

import time
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.devices import doubles, on_accelerator
from equipoise.core.errors import InputError
from equipoise.core.reductions import extremes
from equipoise.core.results import Solution, finish
from equipoise.core.zerosum import SMALLEST, STAGES, TOLERANCE, solve_batch, solve_on_device
from equipoise.games import MatrixGame, Profile
from equipoise.games.kinds import part_of


def solve_zero_sum(game: MatrixGame, *, tolerance: float | None = None) -> Solution:
    """Solve every game of the batch; the certificate, not the solver, decides the status."""
    started = time.perf_counter()
    there = on_accelerator(game.payoff)
    payoff: Any = game.payoff if there else np.asarray(game.payoff, np.float64)
    batch, (rows, columns) = payoff.shape[:-2], payoff.shape[-2:]
    if 0 in batch:
        raise InputError("game", "at least one game", f"a batch of shape {batch}")
    if tolerance is not None:
        checks.check_range("tolerance", tolerance, 0.0, np.inf, low_open=True)
        tolerance = float(tolerance)
    solve = solve_on_device if there else solve_batch
    result = solve(payoff.reshape(-1, rows, columns), tolerance)
    allowed = result.allowed.reshape(batch)
    if tolerance is not None:
        with doubles(allowed):
            allowed = allowed * 0.0 + tolerance if there else np.full(batch, tolerance)
    policy = Profile.computed(result.x.reshape(*batch, rows), result.y.reshape(*batch, columns))
    certificate = part_of("matrix", "certify")(game, policy, "nash")
    stages = _count(result.stage)
    helped = [f"{stages[name]} by {name}" for name in STAGES[1:] if stages[name]]
    return finish(
        policy,
        certificate,
        allowed,
        how=", ".join(helped),
        advice="float64 has too few digits for this tolerance: raise `tolerance`",
        value=result.value.reshape(batch),
        stats={
            "stages": stages,
            "pivots": result.pivots.reshape(batch),
            "engine": result.engine,
            **({"device": next(iter(payoff.devices())).device_kind} if there else {}),
            "seconds": time.perf_counter() - started,
        },
        game=game,
    )


def _count(stage: Any) -> dict[str, int]:
    """Return how many games needed each stage."""
    if len(stage) == 1:
        only = stage.item()
        return {name: int(i == only) for i, name in enumerate(STAGES)}
    if type(stage) is not np.ndarray:
        return {name: int((stage == i).sum()) for i, name in enumerate(STAGES)}  # on its device
    later = stage[np.flatnonzero(stage)]  # few or none: counting all would take far longer
    counts = np.bincount(later, minlength=len(STAGES)).tolist()
    counts[0] = len(stage) - len(later)
    return dict(zip(STAGES, counts, strict=True))


def as_tolerance(
    tolerance: float | None, payoff: np.ndarray, batch: tuple[int, ...], horizon: float = 1.0
) -> np.ndarray:
    """Return the largest gain allowed in each game (games, ...), or the given one, checked."""
    if tolerance is not None:
        checks.check_range("tolerance", tolerance, 0.0, np.inf, low_open=True)
        return np.full(batch, float(tolerance))
    low, high = extremes(payoff)
    allowed = 2.0 * TOLERANCE * horizon * (0.5 * high - 0.5 * low)  # the range may be infinite
    allowed = np.where(high > low, np.maximum(allowed, SMALLEST), 0.0)
    return np.minimum(allowed, np.finfo(np.float64).max).reshape(batch)
