"""Solve one normal-form game for any concept, by choosing among the solvers of this package.

- Nash, two players: strategically zero-sum games go to the exact zero-sum solver, others to the
  Lemke-Howson algorithm.
- Nash, more players: a pure equilibrium if there is one, otherwise the end of the logit path.
- Nash with an objective: the best of all extreme equilibria of two players; for more players, the
  best of the pure equilibria and the end of the logit path. The optimum over correlated equilibria
  bounds both.
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
    """A policy of one normal-form game, with the solver's statistics."""

    #: One strategy per player; None where `joint` is the policy.
    profile: tuple[np.ndarray, ...] | None
    #: (A_1, ..., A_N); None where `profile` is the policy.
    joint: np.ndarray | None
    #: How it was found, as a short phrase.
    method: str
    #: "solved", "out of time", "interrupted" or "stuck".
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
    """Return an equilibrium of payoffs (N, A_1, ..., A_N).

    `tolerance` is a fraction of the payoff range. With `bound`, a Nash equilibrium that is best for
    an objective comes with an upper bound on that objective.

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
        return _two_players(payoffs, start, tolerance, time_limit)
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
    return Answer(_nplayer.pure_profile(payoffs, pure), None, "best replies", stats=stats)


def _two_players(
    payoffs: np.ndarray, start: int, tolerance: float, time_limit: float = np.inf
) -> Answer:
    deadline = time.monotonic() + time_limit
    a, b = payoffs
    zero_sum = _bimatrix.as_zero_sum(a, b)
    if zero_sum is not None:
        found = solve_batch(zero_sum[None], tolerance * max(np.ptp(zero_sum), 1e-300))
        return Answer((found.x[0], found.y[0]), None, "zero-sum program")
    x, y, pivots = _bimatrix.nash(payoffs[None], start, time_limit=time_limit)
    if x.sum() > 0 and y.sum() > 0:
        return Answer((x[0], y[0]), None, "Lemke-Howson", stats={"pivots": int(pivots[0])})
    pure = _nplayer.pure_equilibria(payoffs)  # the pivots failed, or time ran out
    if len(pure):
        return _from_pure(payoffs, pure[0], {"pure_equilibria": len(pure)})
    left = max(deadline - time.monotonic(), 0.0)
    return _from_path(_nplayer.nash(payoffs, tolerance=tolerance, time_limit=left))


def _best_nash(
    payoffs: np.ndarray,
    objective: Any,
    tolerance: float,
    time_limit: float,
    bound: bool,
    progress: Callable[[dict[str, Any]], None] | None,
) -> Answer:
    """Return the best equilibrium found, with the optimum of the correlated equilibria as bound."""
    deadline = time.monotonic() + time_limit
    pure = _nplayer.pure_equilibria(payoffs)
    count, profiles, complete, stopped = len(pure), [], False, False
    if len(pure):
        worth = _cells(payoffs, objective)[tuple(pure.T)]
        profiles.append(_nplayer.pure_profile(payoffs, pure[worth.argmax()]))
    if len(payoffs) == 2:
        one = _two_players(payoffs, 0, tolerance, time_limit / 4)
        extreme = _bimatrix.extreme_equilibria(*payoffs, time_limit=time_limit / 4)
        profiles += list(zip(extreme.x, extreme.y, strict=True))
        count = max(count, len(extreme.x))
        # In a degenerate game the best mixture may lie between extreme equilibria.
        single = extreme.subsets is not None and all(len(s) == 1 for s in extreme.subsets)
        complete, stopped = extreme.complete and single, extreme.ended == "interrupted"
    else:
        limits: dict[str, Any] = {"time_limit": time_limit / 2, "progress": progress}
        one = _from_path(_nplayer.nash(payoffs, tolerance=tolerance, **limits))
    ended = one.ended if one.ended == "interrupted" or not profiles else "solved"
    ended = "interrupted" if stopped else ended
    if one.ended == "solved" or not profiles:  # a path cut short by time is no equilibrium
        profiles.append(one.profile)
    value = [_objective(payoffs, objective, p) for p in profiles]
    best = int(np.argmax(value))
    stats: dict[str, Any] = {"equilibria": max(count, 1), "objective": value[best]}
    if complete:
        stats["bound"] = value[best]
    elif bound and ended != "interrupted":
        left = max(deadline - time.monotonic(), 1.0)
        stats["bound"] = correlated(
            payoffs, "ce", objective, tolerance=tolerance, time_limit=left
        ).bound
    return Answer(tuple(profiles[best]), None, "best equilibrium found", ended, stats)


def _cells(payoffs: np.ndarray, objective: Any) -> np.ndarray:
    """(A_1, ..., A_N): the objective at each cell alone."""
    if isinstance(objective, str) and objective == "egalitarian":
        return payoffs.min(0)
    if isinstance(objective, str) and objective == "entropy":
        return np.zeros(payoffs.shape[1:])
    return linear_objective(payoffs, objective)


def _objective(payoffs: np.ndarray, objective: Any, profile: tuple[np.ndarray, ...]) -> float:
    """Return the objective of a product policy."""
    joint = reduce(np.multiply.outer, profile)
    if isinstance(objective, str) and objective == "egalitarian":
        return float((payoffs * joint).reshape(len(payoffs), -1).sum(1).min())
    if isinstance(objective, str) and objective == "entropy":
        used = joint[joint > 0]
        return float(-(used * np.log(used)).sum())
    return float((linear_objective(payoffs, objective) * joint).sum())
