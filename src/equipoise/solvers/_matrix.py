"""Nash equilibria of batches of zero-sum matrix games."""

import time

import numpy as np

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.reductions import extremes
from equipoise.core.results import Outcome, Solution, Status
from equipoise.core.zerosum import STAGES, solve_batch
from equipoise.games import MatrixGame, Profile

#: The largest gain allowed, unless told, as a part of the range of payoffs of each game.
TOLERANCE = 1e-8
_SMALLEST = float(np.finfo(np.float64).smallest_subnormal)


def solve_matrix(game: MatrixGame, *, tolerance: float | None = None) -> Solution:
    """Solve every game of the batch; the certificate, not the solver, decides the status."""
    started = time.perf_counter()
    rows, columns = game.actions
    batch = game.batch_shape
    payoff = np.asarray(game.payoff, np.float64).reshape(-1, rows, columns)
    if not len(payoff):
        raise InputError("game", "at least one game", f"a batch of shape {batch}")
    allowed = as_tolerance(tolerance, payoff.reshape(len(payoff), -1), batch)
    result = solve_batch(payoff, allowed.reshape(-1))
    policy = Profile((result.x.reshape(*batch, rows), result.y.reshape(*batch, columns)))
    certificate = certify(game, policy)
    stages = {name: int(np.sum(result.stage == i)) for i, name in enumerate(STAGES)}
    helped = [f"{stages[name]} by {name}" for name in STAGES[1:] if stages[name]]
    return Solution(
        policy=policy,
        value=result.value.reshape(batch),
        certificate=certificate,
        status=make_status(
            np.asarray(certificate.max_upper),
            allowed,
            f" ({', '.join(helped)})" if helped else "",
            "raise `tolerance`, or bring the payoffs to a smaller range, since float64 keeps about "
            "16 digits of the largest payoff",
        ),
        tolerance=allowed,
        stats={
            "stages": stages,
            "pivots": result.pivots.reshape(batch),
            "seconds": time.perf_counter() - started,
        },
    )


def as_tolerance(
    tolerance: float | None, payoff: np.ndarray, batch: tuple[int, ...], horizon: float = 1.0
) -> np.ndarray:
    """The largest gain allowed in each game of payoffs (games, ...); or the one given, checked."""
    if tolerance is not None:
        checks.check_range("tolerance", tolerance, 0.0, np.inf, low_open=True)
        return np.full(batch, float(tolerance))
    low, high = extremes(payoff)
    allowed = 2.0 * TOLERANCE * horizon * (0.5 * high - 0.5 * low)  # the range may be infinite
    # Less than a few of the smallest floats cannot be asked for.
    allowed = np.where(high > low, np.maximum(allowed, 4 * _SMALLEST), 0.0)
    return np.minimum(allowed, np.finfo(np.float64).max).reshape(batch)


def make_status(upper: np.ndarray, allowed: np.ndarray, how: str, advice: str) -> Status:
    """Say how many games met the tolerance: no player can gain more, as proven."""
    solved = upper <= allowed
    games, low, high = solved.size, float(allowed.min()), float(allowed.max())
    limit = f"max_upper <= {low:g}" if low == high else f"max_upper <= {low:g} to {high:g}"
    if solved.all():
        subject = "the game" if games == 1 else f"{games} of {games} games"
        return Status(Outcome.SOLVED, f"{subject} met {limit}{how}", solved)
    missed = int((~solved).sum())
    subject = "the game" if games == 1 else f"{missed} of {games} games"
    worst = float(np.max(upper))
    message = f"{subject} missed {limit}{how}; the largest is {worst:.3g}: {advice}"
    return Status(Outcome.INEXACT, message, solved)
