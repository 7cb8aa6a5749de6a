"""Nash equilibria of batches of zero-sum matrix games."""

import time
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from equipoise.certificates import KINDS
from equipoise.core import checks
from equipoise.core.devices import doubles, on_accelerator
from equipoise.core.errors import InputError
from equipoise.core.reductions import extremes, smallest
from equipoise.core.results import Certificate, Outcome, Solution, Status, describe_gains
from equipoise.core.zerosum import SMALLEST, STAGES, TOLERANCE, solve_batch, solve_on_device
from equipoise.games import MatrixGame, Profile


def solve_matrix(game: MatrixGame, *, tolerance: float | None = None) -> Solution:
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
    certificate = KINDS["matrix"](game, policy, "nash")
    stages = _count(result.stage)
    helped = [f"{stages[name]} by {name}" for name in STAGES[1:] if stages[name]]
    return Solution(
        policy=policy,
        value=result.value.reshape(batch),
        certificate=certificate,
        status=make_status(
            certificate,
            allowed,
            ", ".join(helped),
            "float64 has too few digits for this tolerance: raise `tolerance`",
        ),
        tolerance=allowed,
        stats={
            "stages": stages,
            "pivots": result.pivots.reshape(batch),
            "engine": result.engine,
            **({"device": next(iter(payoff.devices())).device_kind} if there else {}),
            "seconds": time.perf_counter() - started,
        },
    )


def _count(stage: Any) -> dict[str, int]:
    """Return how many games needed each stage."""
    if len(stage) == 1:
        only = stage.item()
        return {name: int(i == only) for i, name in enumerate(STAGES)}
    if type(stage) is not np.ndarray:
        stage = jnp.bincount(stage, length=len(STAGES))  # on its device
        return dict(zip(STAGES, stage.tolist(), strict=True))
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


#: What helps if a policy's gains meet the tolerance and only their bounds do not.
ROUNDING = "only the bound, which includes rounding, exceeds the tolerance: raise `tolerance`"


def make_status(
    certificate: Certificate,
    allowed: Any,
    how: str,
    advice: str,
    who: str = "player",
    bound: str = ROUNDING,
) -> Status:
    """Compare the proven bounds on all gains with the tolerance of every game, or every player.

    `how` says how the policy was computed, `advice` what helps if some gain exceeds its tolerance,
    and `bound` what helps if only a bound does.
    """
    if allowed.ndim == 0:  # plain floats are faster for a single game
        ok = float(certificate.max_upper) <= float(allowed)
        solved = np.asarray(ok)
    else:
        with doubles(allowed):
            if allowed.ndim < certificate.upper.ndim:
                solved = certificate.max_upper <= allowed
            else:
                solved = smallest(certificate.upper <= allowed)
            ok = bool(solved.all())
    words = partial(_describe, certificate, allowed, solved, how, (advice, bound), who)
    return Status.computed(Outcome.SOLVED if ok else Outcome.NOT_SOLVED, words, solved)


def _describe(
    certificate: Certificate, allowed: Any, solved: Any, how: str, advice: tuple[str, str], who: str
) -> str:
    with doubles(allowed):
        numbers = certificate.gains.max(), certificate.upper.max(), allowed.min(), allowed.max()
        gain, upper, low, high = (float(x) for x in numbers)
        games, met = solved.size, int(solved.sum())
        each = allowed.ndim == certificate.gains.ndim
        narrow = bool(((certificate.gains if each else certificate.max_gain) <= allowed).all())
    said = [f"tolerance {low:g}" if low == high else f"tolerances {low:g} to {high:g}"]
    message = f"{describe_gains(gain, upper, who)} ({', '.join(said + [how] * bool(how))})"
    if games > 1:
        message = f"{met:,} of {games:,} games met their tolerance; {message}"
    return message if met == games else f"{message}: {advice[narrow]}"
