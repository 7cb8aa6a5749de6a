"""Stationary equilibria of zero-sum Markov games.

Shapley's operator maps a value function v to the values of the stage games with payoffs
`reward + discount * transition @ v`; its fixed point is the value of the game. One sweep solves
the stage games of all states. Between sweeps, values move by

1. a *Newton* step (Pollatschek and Avi-Itzhak, 1969): the exact value of the pair of stage-game
   policies. It converges in a few sweeps, but not always; it is used while each sweep shrinks the
   residual;
2. after a failure, *Hoffman and Karp's* steps (1966): the row player's best response to the
   column player's stage policy. They are monotone from the second on, and converge no slower
   than Shapley's own iteration. Newton is tried again after 1, 2, 4, ... of them, so that a game
   on which it keeps failing is left to the method that cannot fail.

`core.kernels` contains a compiled version of this method. The version here is used without Numba,
for rewards of unusual size, and for games with a stage that needs the whole cascade of
`core.zerosum`.
"""

import time
from typing import Any

import numpy as np

from equipoise.core import checks, kernels
from equipoise.core.errors import InputError
from equipoise.core.mdp import best_response_value, policy_value
from equipoise.core.results import Solution, finish
from equipoise.core.rounding import EPS, ORDINARY, normalise
from equipoise.core.zerosum import TOLERANCE, solve_batch
from equipoise.games import MarkovGame, Profile
from equipoise.games.kinds import part_of
from equipoise.solvers._matrix import as_tolerance


def solve_stationary(
    game: MarkovGame, *, tolerance: float | None = None, max_sweeps: int = 1000
) -> Solution:
    """Solve every game of the batch; the certificate, not the solver, decides the status."""
    started = time.perf_counter()
    max_sweeps = checks.check_count("max_sweeps", max_sweeps)
    if tolerance is not None:
        checks.check_range("tolerance", tolerance, 0.0, np.inf, low_open=True)
    reward, transition, discount = game.reward, game.transition, game.discount
    batch, (states, rows, columns) = reward.shape[:-3], reward.shape[-3:]
    if 0 in batch:
        raise InputError("game", "at least one game", f"a batch of shape {batch}")
    reward = np.ascontiguousarray(reward, np.float64).reshape(-1, states, rows, columns)
    transition = np.ascontiguousarray(transition, np.float64).reshape(*reward.shape, states)
    x, y, value, allowed, counts, engine = _solve(
        reward, transition, discount, float(tolerance or 0.0), max_sweeps
    )
    policy = Profile.computed(x.reshape(*batch, states, rows), y.reshape(*batch, states, columns))
    certificate = part_of("markov", "certify")(game, policy, "nash")
    sweeps, (newton, hoffman_karp) = int(counts[:, 0].max()), counts[:, 1:3].sum(0).tolist()
    advice = "raise `max_sweeps`" if sweeps == max_sweeps else "raise `tolerance`"
    return finish(
        policy,
        certificate,
        allowed.reshape(batch),
        how=f"after {sweeps} sweeps",
        advice=advice,
        bound=advice,
        value=value.reshape(*batch, states),
        stats={
            "sweeps": sweeps,
            "steps": {"newton": newton, "hoffman_karp": hoffman_karp},
            "engine": engine,
            "seconds": time.perf_counter() - started,
        },
        game=game,
    )


def _solve(
    reward: np.ndarray, transition: np.ndarray, discount: float, tolerance: float, max_sweeps: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    """Return policies, values, tolerances, counts of sweeps and steps, and the engine used.

    A tolerance of zero stands for the default.
    """
    games, states, rows, columns = reward.shape
    x, y = np.empty((games, states, rows)), np.empty((games, states, columns))
    value, allowed = np.empty((games, states)), np.empty(games)
    counts = np.full((games, 4), -1)
    seconds = 2e-9 * transition[0].size + 1e-6 * states
    (kernel, engine), left = kernels.choose("solve_markov", games * seconds), games
    if kernel is not None:
        left = kernels.over_games(
            kernel, games, seconds,
            reward, transition, discount, tolerance, TOLERANCE, ORDINARY[1], max_sweeps,
            x, y, value, allowed, counts,
        )  # fmt: skip
    horizon = 1.0 / (1.0 - discount)
    for g in np.flatnonzero(counts[:, 3]) if left else ():
        allowed[g] = as_tolerance(tolerance or None, reward[g].reshape(-1), (), horizon)
        table = normalise(reward[g], 3)
        goal = 0.25 * float(np.ldexp(allowed[g], -table.exponent)) / horizon
        # Stage policies at a residual r can be exploited by at most 2 r / (1 - discount).
        target = max(goal, 16 * EPS * float(table.size) * horizon)
        x[g], y[g], found, counts[g] = _iterate(
            table.scaled, transition[g], discount, target, max_sweeps
        )
        value[g] = table.restore(found + table.offset * horizon)
    return x, y, value, allowed, counts, engine


def _iterate(
    reward: np.ndarray, transition: np.ndarray, discount: float, target: float, max_sweeps: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Sweep until the residual of every game meets its target."""
    value, last_residual = np.zeros(len(reward)), np.inf
    waiting = patience = sweeps = newton = hoffman_karp = 0
    while True:
        sweeps += 1
        stage: Any = solve_batch(reward + discount * transition @ value, 0.1 * target)
        x, y = stage.x, stage.y
        residual = np.abs(stage.value - value).max()
        if residual <= target or sweeps == max_sweeps:
            return x, y, stage.value, [sweeps, newton, hoffman_karp, 0]
        if waiting == 0 and residual > max(discount, 0.5) * last_residual:
            waiting = patience = max(1, 2 * patience)
        last_residual = residual
        own_reward = np.matmul(reward, y[..., None])[..., 0]
        own_next = np.matmul(y[:, None, None, :], transition)[:, :, 0]
        if waiting == 0:
            newton += 1
            chain = np.matmul(x[:, None, :], own_next)[:, 0]
            value = policy_value((own_reward * x).sum(-1), chain, discount)
            continue
        hoffman_karp += 1
        waiting -= 1
        if waiting == 0:  # the first residual after monotone steps is not informative
            last_residual = np.inf
        value = best_response_value(own_reward, own_next, discount)
