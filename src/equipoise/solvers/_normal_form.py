"""One normal form, any concept: chooses among the solvers of this package.

- Nash, two players: games that are zero-sum in disguise go to the exact zero-sum solver, others to
  Lemke and Howson's algorithm.
- Nash, more players: a pure equilibrium if there is one, otherwise the end of the logit path.
- Nash with an objective: the best of all extreme equilibria of two players, or of the pure ones
  and the end of the logit path, beside the optimum of the correlated equilibria, which bounds it.
- Correlated and coarse correlated equilibria: linear programs.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from equipoise.core.zerosum import solve_batch
from equipoise.solvers import _bimatrix, _nplayer
from equipoise.solvers._correlated import correlated, linear_objective

CONCEPTS = ("nash", "ce", "cce", "logit")


@dataclass(frozen=True)
class Answer:
    """A policy of one normal form, with what the solver knows of it."""

    #: One strategy a player; None where `joint` is the policy.
    profile: tuple[np.ndarray, ...] | None
    #: (A_1, ..., A_N); None where `profile` is the policy.
    joint: np.ndarray | None
    #: How it was found, in words.
    method: str
    #: "solved", "time", "interrupted" or "stuck".
    ended: str = "solved"
    stats: dict[str, Any] = field(default_factory=dict)


def solve_table(
    payoffs: np.ndarray,
    concept: str = "nash",
    objective: Any = None,
    *,
    method: str = "auto",
    start: int = 0,
    rationality: float = np.inf,
    tolerance: float = 1e-10,
    time_limit: float = np.inf,
    bound: bool = True,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Answer:
    """An equilibrium of payoffs (N, A_1, ..., A_N); `tolerance` is a share of the payoff range.

    With `bound`, a Nash equilibrium that is best for an objective comes with an upper bound.

    >>> answer = solve_table(np.array([[[3.0, 0], [5, 1]], [[3, 5], [0, 1]]]))
    >>> [s.tolist() for s in answer.profile], answer.method
    ([[0.0, 1.0], [0.0, 1.0]], 'Lemke-Howson')
    """
    if concept in ("ce", "cce"):
        found = correlated(
            payoffs,
            concept,
            objective,
            tolerance=tolerance,
            time_limit=time_limit,
            progress=progress,
        )
        stats = {"rounds": found.rounds, "columns": found.columns, "rows": found.rows}
        if objective is not None:
            stats |= {"objective": found.objective, "bound": found.bound}
        ended = "solved" if found.ended == "optimal" else found.ended
        return Answer(None, found.joint, "linear program", ended, stats)
    if concept == "logit" or method == "logit":
        target = rationality if concept == "logit" else np.inf
        limits: dict[str, Any] = {"time_limit": time_limit, "progress": progress}
        if np.isfinite(target):
            path = _nplayer.logit_path(payoffs, rationality=target, **limits)
        else:
            path = _nplayer.nash(payoffs, tolerance=tolerance, **limits)
        return _from_path(path)
    if objective is not None:
        return _best_nash(payoffs, objective, tolerance, time_limit, bound, progress)
    if len(payoffs) == 2:
        return _two_players(payoffs, start, tolerance)
    pure = _nplayer.pure_equilibria(payoffs)
    if len(pure):
        return _from_pure(payoffs, pure[0], {"pure_equilibria": len(pure)})
    path = _nplayer.nash(payoffs, tolerance=tolerance, time_limit=time_limit, progress=progress)
    return _from_path(path)


def _from_path(path: _nplayer.Path) -> Answer:
    stats = {
        "points": len(path.points),
        "path_rationality": path.rationality,
        "path": path.points,
    }
    return Answer(path.profile, None, "logit path", path.ended, stats)


def _from_pure(payoffs: np.ndarray, pure: np.ndarray, stats: dict[str, Any]) -> Answer:
    profile = tuple(np.eye(a)[k] for a, k in zip(payoffs.shape[1:], pure, strict=True))
    return Answer(profile, None, "best replies", stats=stats)


def _two_players(payoffs: np.ndarray, start: int, tolerance: float) -> Answer:
    a, b = payoffs
    zero_sum = _bimatrix.as_zero_sum(a, b)
    if zero_sum is not None:
        found = solve_batch(zero_sum[None], tolerance * max(np.ptp(zero_sum), 1e-300))
        return Answer((found.x[0], found.y[0]), None, "zero-sum program")
    x, y, pivots = _bimatrix.nash(payoffs[None], start)
    return Answer((x[0], y[0]), None, "Lemke-Howson", stats={"pivots": int(pivots[0])})


def _best_nash(
    payoffs: np.ndarray,
    objective: Any,
    tolerance: float,
    time_limit: float,
    bound: bool,
    progress: Callable[[dict[str, Any]], None] | None,
) -> Answer:
    """The best equilibrium found, beside the optimum of the correlated equilibria."""
    deadline = time.monotonic() + time_limit
    pure = [_from_pure(payoffs, p, {}).profile for p in _nplayer.pure_equilibria(payoffs)]
    profiles, complete = [p for p in pure if p is not None], False
    if len(payoffs) == 2:
        extreme = _bimatrix.extreme_equilibria(*payoffs, time_limit=time_limit)
        profiles += list(zip(extreme.x, extreme.y, strict=True))
        # In a degenerate game the best mixture may lie between extreme equilibria.
        complete = extreme.complete and all(len(s) == 1 for s in extreme.subsets)
    if not profiles or len(payoffs) > 2:
        left = deadline - time.monotonic()
        path = _nplayer.nash(payoffs, tolerance=tolerance, time_limit=left, progress=progress)
        profiles.append(path.profile)
    value = [_objective(payoffs, objective, p) for p in profiles]
    best = int(np.argmax(value))
    stats: dict[str, Any] = {"equilibria": len(profiles), "objective": value[best]}
    if complete:
        stats["bound"] = value[best]
    elif bound:
        left = max(deadline - time.monotonic(), 1.0)
        stats["bound"] = correlated(
            payoffs, "ce", objective, tolerance=tolerance, time_limit=left
        ).bound
    return Answer(tuple(profiles[best]), None, "best equilibrium found", stats=stats)


def _objective(payoffs: np.ndarray, objective: Any, profile: tuple[np.ndarray, ...]) -> float:
    """What a product policy attains."""
    joint = reduce(np.multiply.outer, profile)
    if isinstance(objective, str) and objective == "egalitarian":
        return float((payoffs * joint).reshape(len(payoffs), -1).sum(1).min())
    if isinstance(objective, str) and objective == "entropy":
        used = joint[joint > 0]
        return float(-(used * np.log(used)).sum())
    return float((linear_objective(payoffs, objective) * joint).sum())
