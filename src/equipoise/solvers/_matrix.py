"""Nash equilibria of batches of zero-sum matrix games."""

import time

import numpy as np

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.results import Solution, Status
from equipoise.core.zerosum import STAGES, solve_batch
from equipoise.games import MatrixGame


def solve_matrix(game: MatrixGame, *, tolerance: float = 1e-8) -> Solution:
    """Solve every game of the batch; the certificate, not the solver, decides the status."""
    checks.check_range("tolerance", tolerance, 0.0, np.inf, low_open=True)
    started = time.perf_counter()
    rows, columns = game.actions
    batch = game.batch_shape
    payoff = np.asarray(game.payoff, np.float64).reshape(-1, rows, columns)
    if not len(payoff):
        raise ValueError(f"game: expected at least one game, found a batch of shape {batch}")
    result = solve_batch(payoff, tolerance)
    x = result.x.reshape(*batch, rows)
    y = result.y.reshape(*batch, columns)
    certificate = certify(game, (x, y))
    # What rounding of large payoffs excuses in the solver, the tolerance does not.
    allowed = np.minimum(result.allowed, tolerance).reshape(batch)
    solved = np.asarray(certificate.nash_conv <= allowed)
    stages = {name: int(np.sum(result.stage == i)) for i, name in enumerate(STAGES)}
    return Solution(
        policy=(x, y),
        value=result.value.reshape(batch),
        certificate=certificate,
        status=matrix_status(solved, np.asarray(certificate.nash_conv), tolerance, stages),
        stats={
            "stages": stages,
            "pivots": result.pivots.reshape(batch),
            "seconds": time.perf_counter() - started,
        },
    )


def matrix_status(
    solved: np.ndarray, gap: np.ndarray, tolerance: float, stages: dict[str, int]
) -> Status:
    """Say how many games met the tolerance, and which needed more than the first stage."""
    games = solved.size
    subject = "the game" if games == 1 else f"{int(solved.sum())} of {games} games"
    message = f"{subject} met nash_conv <= {tolerance:g}"
    helped = [f"{stages[name]} by {name}" for name in STAGES[1:] if stages[name]]
    if helped:
        message += f" ({', '.join(helped)})"
    if solved.all():
        return Status("solved", message, solved)
    worst = float(np.max(gap))
    if games == 1:
        message = f"the game missed nash_conv <= {tolerance:g}"
    message += (
        f"; the largest is {worst:.3g}: raise `tolerance`, or bring the payoffs to a smaller "
        "range, since float64 keeps about 16 digits of the largest payoff"
    )
    return Status("inexact", message, solved)
