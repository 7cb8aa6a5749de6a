"""Stationary equilibria of zero-sum Markov games.

Shapley's operator maps a value function v to the values of the stage games with payoffs
`reward + discount * transition @ v`; its fixed point is the value of the game. One sweep solves
all stage games of all states and games of a batch at once. Between sweeps, values move by

1. a *Newton* step (Pollatschek and Avi-Itzhak, 1969): the exact value of the pair of policies
   that the stage games gave. It converges in a few sweeps, but not always: it is trusted while
   each sweep shrinks the residual;
2. after a failure, *Hoffman and Karp's* steps (1966): the row player's best response to the
   column player's stage policy. They are monotone from the second on, and converge no slower
   than Shapley's own iteration. Newton is tried again after 1, 2, 4, ... of them, so that a game
   on which it keeps failing is left to the method that cannot fail.
"""

import time

import numpy as np

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.mdp import best_response_value, policy_value
from equipoise.core.results import Solution
from equipoise.core.rounding import normalise
from equipoise.core.zerosum import solve_batch
from equipoise.games import MarkovGame, Profile
from equipoise.solvers._matrix import as_tolerance, make_status


def solve_markov(
    game: MarkovGame, *, tolerance: float | None = None, max_sweeps: int = 1000
) -> Solution:
    """Solve every game of the batch; the certificate, not the solver, decides the status."""
    max_sweeps = checks.check_count("max_sweeps", max_sweeps)
    started = time.perf_counter()
    states, (rows, columns), batch = game.states, game.actions, game.batch_shape
    reward = np.asarray(game.reward, np.float64).reshape(-1, states, rows, columns)
    transition = np.asarray(game.transition, np.float64).reshape(*reward.shape, states)
    if not len(reward):
        raise InputError("game", "at least one game", f"a batch of shape {batch}")
    horizon = 1.0 / (1.0 - game.discount)
    allowed = as_tolerance(tolerance, reward.reshape(len(reward), -1), batch, horizon)
    table = normalise(reward, 3)
    goal = allowed.reshape(-1)
    if not isinstance(table.exponent, int):
        goal = np.ldexp(goal, -table.exponent)
    x, y, value, sweeps, steps = _iterate(table.scaled, transition, game.discount, goal, max_sweeps)
    policy = Profile((x.reshape(*batch, states, rows), y.reshape(*batch, states, columns)))
    certificate = certify(game, policy)
    advice = "raise `max_sweeps`" if sweeps == max_sweeps else "raise `tolerance`"
    value = table.restore(value + table.offset[:, None] * horizon, 1)
    return Solution(
        policy=policy,
        value=value.reshape(*batch, states),
        certificate=certificate,
        status=make_status(
            np.asarray(certificate.max_upper), allowed, f" after {sweeps} sweeps", advice
        ),
        tolerance=allowed,
        stats={"sweeps": sweeps, "steps": steps, "seconds": time.perf_counter() - started},
    )


def _stage_payoffs(reward: np.ndarray, transition: np.ndarray, value: np.ndarray, discount: float):
    """Payoffs of all stage games when the future is worth `value`."""
    games, states = value.shape
    ahead = np.matmul(transition.reshape(games, -1, states), value[:, :, None])
    return reward + discount * ahead.reshape(reward.shape)


def _newton_value(reward, transition, x: np.ndarray, y: np.ndarray, discount: float) -> np.ndarray:
    """Exact values of the stage policies."""
    games, states, rows, columns = reward.shape
    joint = (x[..., :, None] * y[..., None, :]).reshape(games, states, 1, rows * columns)
    chain = np.matmul(joint, transition.reshape(games, states, rows * columns, states))
    expected = np.matmul(joint, reward.reshape(games, states, rows * columns, 1))
    return policy_value(expected[..., 0, 0], chain[..., 0, :], discount)


def _hoffman_karp_value(reward, transition, y: np.ndarray, discount: float) -> np.ndarray:
    """Values of the row player's best responses to the column player's stage policies."""
    own_reward = np.matmul(reward, y[..., None])[..., 0]
    own_next = np.matmul(y[..., None, None, :], transition)[..., 0, :]
    return best_response_value(own_reward, own_next, discount)


def _iterate(
    reward: np.ndarray,
    transition: np.ndarray,
    discount: float,
    tolerance: np.ndarray,
    max_sweeps: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, dict[str, int]]:
    """Sweep until every game's residual guarantees its tolerance, or rounding stops it."""
    games, states, rows, columns = reward.shape
    rounding = np.finfo(np.float64).eps * np.abs(reward).max((1, 2, 3)) / (1 - discount)
    # Stage policies at a residual r can be exploited by at most 2 r / (1 - discount).
    target = np.maximum(0.25 * tolerance * (1 - discount), 16 * rounding)
    value = np.zeros((games, states))
    x, y = np.zeros((games, states, rows)), np.zeros((games, states, columns))
    residual = np.full(games, np.inf)
    guard = _Guard(games, max(discount, 0.5))
    going, sweep = np.arange(games), 0
    while len(going) and sweep < max_sweeps:
        sweep += 1
        r, p = _some(reward, going), _some(transition, going)
        stage = _stage_payoffs(r, p, value[going], discount).reshape(-1, rows, columns)
        solved = solve_batch(stage, np.repeat(0.1 * target[going], states))
        x[going] = solved.x.reshape(-1, states, rows)
        y[going] = solved.y.reshape(-1, states, columns)
        new = solved.value.reshape(-1, states)
        residual[going] = np.abs(new - value[going]).max(1)
        value[going] = new
        going = going[residual[going] > target[going]]
        newton, monotone = guard.split(going, residual)
        if len(newton):
            r, p = _some(reward, newton), _some(transition, newton)
            value[newton] = _newton_value(r, p, x[newton], y[newton], discount)
        if len(monotone):
            r, p = _some(reward, monotone), _some(transition, monotone)
            value[monotone] = _hoffman_karp_value(r, p, y[monotone], discount)
    return x, y, value, sweep, guard.steps


class _Guard:
    """Decides, game by game, between Newton's step and Hoffman and Karp's."""

    def __init__(self, games: int, contraction: float):
        self.contraction = contraction
        self.last = np.full(games, np.inf)
        #: Monotone steps still to make before Newton is tried again, and how many last time.
        self.waiting = np.zeros(games, int)
        self.patience = np.zeros(games, int)
        self.steps = {"newton": 0, "hoffman_karp": 0}

    def split(self, going: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The games to move by Newton's step, and those to move by the monotone one."""
        trusted = self.waiting[going] == 0
        failed = going[trusted & (residual[going] > self.contraction * self.last[going])]
        self.patience[failed] = np.maximum(1, 2 * self.patience[failed])
        self.waiting[failed] = self.patience[failed]
        self.last[going] = residual[going]
        monotone = going[self.waiting[going] > 0]
        self.waiting[monotone] -= 1
        # The first residual after monotone steps judges nothing: Newton starts afresh from it.
        self.last[monotone[self.waiting[monotone] == 0]] = np.inf
        newton = np.setdiff1d(going, monotone, assume_unique=True)
        self.steps["newton"] += len(newton)
        self.steps["hoffman_karp"] += len(monotone)
        return newton, monotone


def _some(array: np.ndarray, which: np.ndarray) -> np.ndarray:
    """The games that are still going; no copy while that is all of them."""
    return array if len(which) == len(array) else array[which]
