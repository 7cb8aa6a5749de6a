"""Games with continuous actions: best-reply dynamics, gradients, and a double oracle.

Three methods are tried; the policy with the smallest gain is kept:

1. *Best-reply dynamics*: some of the agents who gain move to their best response, the maximum of a
   polynomial or of a function on [-1, 1]. In potential games this ends in a pure equilibrium.
2. *Extragradient* steps (Korpelevich, 1976) on every agent's own reward, which converge if rewards
   are concave in the own action and the game is monotone.
3. *Double oracle*, for two and three agents: solve the finite game on a few actions of each agent,
   add best responses to its equilibrium as new actions, and repeat until they gain nothing (Adam,
   Horcik, Kasl and Kroupa, 2021). This finds mixed equilibria.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import polynomials
from equipoise.games import ContinuousGame, ContinuousPolicy, PolynomialTerms
from equipoise.solvers import _bimatrix, _nplayer

#: Number of points of the first grid on which the maximum of a reward function is searched.
_GRID = 129
_REPLIES = 200
_GRADIENTS = 2000
_ORACLES = 200
#: Number of joint actions at which the range of a reward function is estimated.
_DRAWS = 512


@dataclass(frozen=True)
class Continuous:
    """A policy of a game with continuous actions, and its largest gain by the solver's estimate."""

    policy: ContinuousPolicy
    gain: float
    #: "best replies", "extragradient" or "double oracle".
    method: str
    #: "solved", "out of time", "interrupted" or "stuck".
    ended: str


def solve_continuous(
    game: ContinuousGame,
    *,
    tolerance: float = 1e-8,
    time_limit: float = np.inf,
    seed: int = 0,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Continuous:
    """Return a Nash equilibrium, pure if one is found; `tolerance` is in units of reward."""
    search = _Search(game, tolerance, time.monotonic() + time_limit, progress)
    ended = "stuck"
    try:
        search.best_replies(np.random.default_rng(seed))
        if search.going and game.transitions is None:
            search.extragradient()
        if search.going and game.transitions is None and 2 <= game.agents <= 3:
            search.double_oracle()
    except KeyboardInterrupt:
        if not np.isfinite(search.gain):
            raise
        ended = "interrupted"
    if search.gain <= tolerance:
        ended = "solved"
    elif time.monotonic() > search.deadline:
        ended = "out of time"
    return Continuous(search.policy, search.gain, search.method, ended)


class _Search:
    """The best policy so far, and the methods that search for a better one."""

    def __init__(self, game: ContinuousGame, tolerance: float, deadline: float, progress: Any):
        self.game, self.tolerance, self.deadline = game, tolerance, deadline
        self.progress = progress
        self.policy = ContinuousPolicy(np.zeros(game.policy_shape))
        self.gain, self.method = np.inf, ""

    @property
    def going(self) -> bool:
        """Whether the tolerance is still missed and time is left."""
        return self.gain > self.tolerance and time.monotonic() <= self.deadline

    def keep(self, policy: ContinuousPolicy, gains: np.ndarray, method: str) -> None:
        """Keep a policy (gains by context and agent) if it is better than the best so far."""
        gain = float((self.game.context_probabilities @ gains).max())
        if gain < self.gain:
            self.policy, self.gain, self.method = policy, max(gain, 0.0), method
        if self.progress is not None:
            self.progress({"method": method, "gain": self.gain})

    def best_replies(self, chooser: np.random.Generator) -> None:
        """Move some of the agents who gain; fewer of them the longer it takes."""
        points = np.zeros(self.game.policy_shape)
        for step in range(_REPLIES):
            gains, reply = replies(self.game, ContinuousPolicy(points))
            self.keep(ContinuousPolicy(points), gains, "best replies")
            if not self.going:
                return
            share = max(0.9 * 0.97**step, 1.0 / gains.shape[1])
            movers = (gains > 0.1 * self.tolerance) & (chooser.random(gains.shape) < share)
            if not movers.any():
                movers = gains == gains.max()
            if reply.ndim == 4:
                movers = movers[:, None, :, None]
            points = np.where(movers, reply, points)

    def extragradient(self) -> None:
        """Projected extragradient steps along own slopes."""
        points = np.array(self.policy.points) if self.policy.weights is None else None
        points = np.zeros(self.game.policy_shape) if points is None else points
        step, last = 0.5 / max(float(np.abs(slopes(self.game, points)).max()), 1e-300), np.inf
        lowest, since = self.gain, 0
        for turn in range(_GRADIENTS):
            middle = np.clip(points + step * slopes(self.game, points), -1.0, 1.0)
            points = np.clip(points + step * slopes(self.game, middle), -1.0, 1.0)
            if turn % 20 == 19:
                gains, _ = replies(self.game, ContinuousPolicy(points))
                self.keep(ContinuousPolicy(points), gains, "extragradient")
                step = 0.7 * step if gains.max() > 0.95 * last else step
                last = float(gains.max())
                # Give up if the best gain does not fall by a tenth in ten checks.
                lowest, since = (self.gain, 0) if self.gain < 0.9 * lowest else (lowest, since + 1)
                if not self.going or since == 10:
                    return

    def double_oracle(self) -> None:
        """Solve finite games on growing sets of actions, context by context."""
        game = self.game
        supports = [
            [np.array([-1.0, 0.0, 1.0]) for _ in range(game.agents)] for _ in range(game.contexts)
        ]
        for _ in range(_ORACLES):
            found = [self._finite(c, own) for c, own in enumerate(supports)]
            width = max(len(p) for own in supports for p in own)
            points, weights = np.zeros((2, game.contexts, game.agents, width))
            for c, own in enumerate(supports):
                for i, mine in enumerate(own):
                    points[c, i, : len(mine)] = mine
                    weights[c, i, : len(mine)] = found[c][i]
            policy = ContinuousPolicy(points, weights)
            gains, reply = replies(game, policy)
            self.keep(policy, gains, "double oracle")
            if not self.going:
                return
            for c, i in np.argwhere(gains > 0.1 * self.tolerance):
                own = np.unique(np.append(supports[c][i], reply[c, i]))
                if len(own) > 60:
                    return
                supports[c][i] = own

    def _finite(self, context: int, own: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        grid = np.stack(np.meshgrid(*own, indexing="ij"), -1)
        rewards = self.game.rewards(grid, np.full(grid.shape[:-1], context))
        payoffs = np.moveaxis(np.asarray(rewards, np.float64), -1, 0)
        if len(payoffs) == 2:
            x, y, _ = _bimatrix.nash(payoffs[None])
            return x[0], y[0]
        left = self.deadline - time.monotonic()
        return _nplayer.nash(payoffs, time_limit=left).profile


def replies(game: ContinuousGame, policy: ContinuousPolicy) -> tuple[np.ndarray, np.ndarray]:
    """(contexts, agents) gains, and best responses in the shape of a policy of points."""
    if not isinstance(game.terms, PolynomialTerms):
        return _function_replies(game, policy)
    terms = game.terms
    points, chances = policy.support()
    if game.transitions is None:
        points, chances = points[:, :, None], chances[:, :, None]
        own = terms.own_polynomials(terms.moments(points, chances))
        value = (polynomials.evaluate(own[..., None, :], points) * chances).sum(-1)
        best, reply = polynomials.maximum(own)
        return (best - value)[..., 0], reply[..., 0]
    return _replies_with_states(game, terms, points, chances)


def _replies_with_states(
    game: ContinuousGame, terms: PolynomialTerms, points: np.ndarray, chances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the same by dynamic programming over states, (contexts, horizon, agents, states)."""
    transitions = np.asarray(game.transitions)
    powers = points[..., None] ** np.arange(transitions.shape[-1])
    here = np.array(game.initial)
    own = []
    for h in range(game.horizon):
        own.append(
            terms.own_polynomials(terms.moments(points[:, h], here[..., None] * chances[:, h]))
        )
        mean = np.einsum("cns,cnsk,cnskp->cnsp", here, chances[:, h], powers[:, h])
        here = np.einsum("cnsp,cnstp->cnt", mean, transitions)
    value, ahead = np.zeros(here.shape), np.zeros(here.shape)
    reply = np.zeros(game.policy_shape)
    for h in reversed(range(game.horizon)):
        mine = _add(own[h], np.einsum("cnstp,cnt->cnsp", transitions, value))
        value = (polynomials.evaluate(mine[..., None, :], points[:, h]) * chances[:, h]).sum(-1)
        best = _add(own[h], np.einsum("cnstp,cnt->cnsp", transitions, ahead))
        ahead, reply[:, h] = polynomials.maximum(best)
    return (np.array(game.initial) * (ahead - value)).sum(-1), reply


def _add(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the sum of polynomials of different lengths."""
    width = max(first.shape[-1], second.shape[-1])
    pad = [np.pad(p, [(0, 0)] * (p.ndim - 1) + [(0, width - p.shape[-1])]) for p in (first, second)]
    return pad[0] + pad[1]


def _function_replies(
    game: ContinuousGame, policy: ContinuousPolicy
) -> tuple[np.ndarray, np.ndarray]:
    """Best responses on a grid, refined around its best point; others' supports are enumerated."""
    points, weights = policy.support()
    gains, reply = np.zeros(game.policy_shape), np.zeros(game.policy_shape)
    for c in range(game.contexts):
        profiles, chances = np.zeros((1, game.agents)), np.ones(1)
        for i, w in enumerate(weights[c]):
            used = np.flatnonzero(w > 0)
            profiles = np.repeat(profiles, len(used), 0)
            profiles[:, i] = np.tile(points[c, i, used], len(chances))
            chances = np.multiply.outer(chances, w[used]).reshape(-1)
        value = chances @ np.asarray(game.rewards(profiles, np.full(len(profiles), c)))
        for i in range(game.agents):
            tried = np.linspace(-1.0, 1.0, _GRID)
            width = 2.0 / (_GRID - 1)
            while True:
                joint = np.repeat(profiles[None], len(tried), 0)
                joint[:, :, i] = tried[:, None]
                rewards = np.asarray(game.rewards(joint, np.full(joint.shape[:2], c)))[..., i]
                best = int((rewards @ chances).argmax())
                found = float(rewards[best] @ chances)
                if width < 1e-9:
                    break
                tried = np.clip(np.linspace(tried[best] - width, tried[best] + width, 33), -1, 1)
                width /= 16
            gains[c, i], reply[c, i] = found - value[i], tried[best]
    return gains, reply


def slopes(game: ContinuousGame, points: np.ndarray) -> np.ndarray:
    """(contexts, agents): derivatives of own rewards in own actions."""
    if isinstance(game.terms, PolynomialTerms):
        terms = game.terms
        at = points[:, :, None, None]
        own = terms.own_polynomials(terms.moments(at, np.ones(at.shape)))[:, :, 0]
        powers = np.arange(1, own.shape[-1])
        return polynomials.evaluate(own[..., 1:] * powers, points)
    width = 1e-6
    found = np.zeros(points.shape)
    for i in range(game.agents):
        near = np.repeat(points[None], 2, 0)
        near[0, :, i] = np.minimum(points[:, i] + width, 1.0)
        near[1, :, i] = np.maximum(points[:, i] - width, -1.0)
        contexts = np.broadcast_to(np.arange(game.contexts), near.shape[:-1])
        rewards = np.asarray(game.rewards(near, contexts))[..., i]
        found[:, i] = (rewards[0] - rewards[1]) / (near[0, :, i] - near[1, :, i])
    return found


def largest_reward(game: ContinuousGame) -> float:
    """Return a bound on the rewards of polynomial terms, or half the range of other rewards."""
    if not isinstance(game.terms, PolynomialTerms):
        points = np.random.default_rng(0).uniform(-1.0, 1.0, (_DRAWS, game.agents))
        drawn = [
            game.terms.rewards(points, np.full(_DRAWS, context)) for context in range(game.contexts)
        ]
        # If rewards hardly differ, rounding leaves six digits of them.
        least = 1e-6 * max(float(np.abs(part).max()) for part in drawn)
        return max(least, *(0.5 * float(np.ptp(part, axis=0).max()) for part in drawn))
    terms = game.terms.changed(np.abs, np.abs(game.terms.effects))
    states, ones = np.arange(terms.states), np.ones((terms.states, terms.agents))
    each = [
        terms.rewards(ones, np.full(terms.states, context), states[:, None])
        for context in range(terms.contexts)
    ]
    return float(np.max(each))
