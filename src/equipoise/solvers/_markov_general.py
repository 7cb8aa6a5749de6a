"""Equilibria of general-sum Markov games of n players, one stage game at a time.

Finite horizon: backward induction. Given the values of the next step, each state is a normal-form
game. An equilibrium of each (Nash, correlated or coarse correlated, with an objective) gives an
equilibrium of the whole game, since no deviation gains in any stage.

Discounted: two methods; the certificate decides between them.

- *Stationary*: stage equilibria against the exact values of the policy that they form. A fixed
  point is a stationary equilibrium; nothing guarantees that the iteration finds one.
- *Truncated*: backward induction over H steps, with the last stage repeated indefinitely. Play
  beyond step H is worth at most discount^H (max - min reward) / (1 - discount) to a deviation, and
  H makes that half the tolerance.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from equipoise.core.deviations import joint_markov_values
from equipoise.solvers import _bimatrix
from equipoise.solvers._normal_form import solve_table

#: Number of sweeps after which the search for a stationary equilibrium ends.
_STATIONARY_SWEEPS = 60
#: Maximum number of steps of a truncated horizon.
_LONGEST = 20_000


@dataclass(frozen=True)
class MarkovAnswer:
    """A policy of a Markov game for every step and state."""

    #: (steps, states, A_1, ..., A_n): joint distributions; products of strategies for "nash".
    joint: np.ndarray
    #: One array (steps, states, A_i) per player for "nash", otherwise None.
    profile: tuple[np.ndarray, ...] | None
    #: (states, players): value of the policy from the first step on.
    value: np.ndarray
    #: Largest gain of a deviation from any state.
    gain: float
    #: "backward induction", "stationary" or "truncated".
    method: str
    #: Proven bound on what truncation adds to a gain; zero without truncation.
    truncation: float
    #: "solved", "out of time", "interrupted" or "stuck".
    ended: str


def solve_finite(
    reward: np.ndarray,
    transition: np.ndarray,
    horizon: int,
    *,
    discount: float = 1.0,
    concept: str = "nash",
    objective: Any = None,
    tolerance: float = 1e-10,
    time_limit: float = np.inf,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> MarkovAnswer:
    """Return an equilibrium of a game of `horizon` steps.

    `reward` is (players, states, A_1, ..., A_n), `transition` (states, A_1, ..., A_n, states).
    """
    stages = _Stages(reward, transition, discount, concept, objective, tolerance)
    joint, profile, ended = stages.backward(horizon, time_limit, progress)
    return stages.answer(joint, profile, "backward induction", 0.0, ended, finite=True)


def solve_discounted(
    reward: np.ndarray,
    transition: np.ndarray,
    discount: float,
    *,
    concept: str = "nash",
    objective: Any = None,
    tolerance: float = 1e-8,
    time_limit: float = np.inf,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> MarkovAnswer:
    """Return an equilibrium of a discounted game, stationary if one is found.

    `tolerance` is in units of reward, for the largest gain from any state.
    """
    started = time.monotonic()
    spread = float(max(np.ptp(own) for own in reward))
    stages = _Stages(reward, transition, discount, concept, objective, 1e-11)
    best = stages.stationary(tolerance, time_limit, progress)
    if best.gain <= tolerance or best.ended != "stuck":
        return best
    steps = 1
    if discount > 0 and spread > 0:
        needed = np.log(0.5 * tolerance * (1 - discount) / spread) / np.log(discount)
        steps = int(min(max(np.ceil(needed), 1), _LONGEST))
    left = time_limit - (time.monotonic() - started)
    joint, profile, ended = stages.backward(steps, left, progress)
    cut = discount ** len(joint) * spread / (1 - discount)
    found = stages.answer(joint, profile, "truncated", cut, ended, finite=False)
    return found if found.gain < best.gain else best


class _Stages:
    """The stage games of a Markov game, given the values of the next step."""

    def __init__(
        self,
        reward: np.ndarray,
        transition: np.ndarray,
        discount: float,
        concept: str,
        objective: Any,
        tolerance: float,
    ):
        self.reward, self.transition = reward, transition
        self.discount, self.concept = discount, concept
        self.objective, self.tolerance = objective, tolerance
        self.players, self.states = reward.shape[:2]
        self.shape = reward.shape[2:]
        #: Whether some stage game ran out of time.
        self.late = False

    def solve(self, ahead: np.ndarray, deadline: float, stages: int = 1) -> tuple[np.ndarray, Any]:
        """Joint distributions (states, A_1, ..., A_n), and strategies (states, A_i) for "nash".

        `ahead` (states, players) holds the values of the next step. This many `stages` have to be
        solved before `deadline`: no state takes more than four times its share.
        """
        tables = self.reward + self.discount * np.moveaxis(self.transition @ ahead, -1, 0)
        if self.players == 2 and self.objective is None:
            # A Nash equilibrium is also a correlated one, and by far the fastest to find.
            x, y, _ = _bimatrix.nash(np.swapaxes(tables, 0, 1))
            return x[:, :, None] * y[:, None], (x, y) if self.concept == "nash" else None
        joint = np.empty((self.states, *self.shape))
        profile = [np.empty((self.states, a)) for a in self.shape]
        for s in range(self.states):
            left = deadline - time.monotonic()
            share = 4.0 * left / (self.states * stages - s)
            answer = solve_table(
                tables[:, s],
                self.concept,
                self.objective,
                tolerance=self.tolerance,
                time_limit=max(min(left, share), 0.0),
                bound=False,
            )
            if answer.ended == "interrupted":
                raise KeyboardInterrupt
            self.late |= answer.ended == "out of time"
            if answer.profile is not None:
                for own, found in zip(profile, answer.profile, strict=True):
                    own[s] = found
                joint[s] = reduce(np.multiply.outer, answer.profile)
            else:
                joint[s] = answer.joint
        return joint, tuple(profile) if self.concept == "nash" else None

    def backward(
        self,
        horizon: int,
        time_limit: float,
        progress: Callable[[dict[str, Any]], None] | None,
    ) -> tuple[np.ndarray, Any, str]:
        """Compute stage equilibria from the last step to the first.

        If time runs out, the steps solved so far are the last ones; the first of them is repeated
        for all earlier steps.
        """
        deadline = time.monotonic() + time_limit
        ahead = np.zeros((self.states, self.players))
        joints, profiles, ended = [], [], "solved"
        try:
            for step in range(horizon):
                if joints and time.monotonic() > deadline:
                    ended = "out of time"
                    break
                joint, profile = self.solve(ahead, deadline, horizon - step)
                ahead = self.value_of(joint, ahead)
                joints.append(joint)
                profiles.append(profile)
                if progress is not None:
                    progress({"step": step + 1, "of": horizon})
        except KeyboardInterrupt:
            if not joints:
                raise
            ended = "interrupted"
        ended = "out of time" if self.late and ended == "solved" else ended
        missing = horizon - len(joints)
        joints, profiles = joints[::-1], profiles[::-1]
        joints, profiles = joints[:1] * missing + joints, profiles[:1] * missing + profiles
        profile = None
        if self.concept == "nash":
            profile = tuple(np.stack([p[i] for p in profiles]) for i in range(self.players))
        return np.stack(joints), profile, ended

    def value_of(self, joint: np.ndarray, ahead: np.ndarray) -> np.ndarray:
        """(states, players): value of one step of the policy followed by `ahead`."""
        flat = joint.reshape(self.states, -1)
        now = np.einsum("sk,isk->si", flat, self.reward.reshape(self.players, self.states, -1))
        chain = np.einsum("sk,skt->st", flat, self.transition.reshape(*flat.shape, -1))
        return now + self.discount * chain @ ahead

    def stationary(
        self,
        tolerance: float,
        time_limit: float,
        progress: Callable[[dict[str, Any]], None] | None,
    ) -> MarkovAnswer:
        """Iterate stage equilibria against exact values; return the best policy found."""
        deadline = time.monotonic() + time_limit
        value = np.zeros((self.states, self.players))
        best = found = self._stage(value, deadline)
        try:
            for sweep in range(_STATIONARY_SWEEPS):
                if sweep:
                    found = self._stage(value, deadline)
                best = found if found.gain < best.gain else best
                if progress is not None:
                    progress({"sweep": sweep + 1, "gain": best.gain})
                if best.gain <= tolerance:
                    return replace(best, ended="solved")
                if self.late or time.monotonic() > deadline:
                    return replace(best, ended="out of time")
                # A Newton step at first; half of it once the iteration cycles.
                share = 1.0 if sweep < _STATIONARY_SWEEPS // 3 else 0.5
                value = value + share * (found.value - value)
        except KeyboardInterrupt:
            return replace(best, ended="interrupted")
        return best

    def _stage(self, value: np.ndarray, deadline: float) -> MarkovAnswer:
        """Return the stationary policy of stage equilibria when states have these values."""
        joint, profile = self.solve(value, deadline)
        lifted = None if profile is None else tuple(p[None] for p in profile)
        return self.answer(joint[None], lifted, "stationary", 0.0, "stuck", finite=False)

    def answer(
        self, joint: np.ndarray, profile: Any, method: str, cut: float, ended: str, *, finite: bool
    ) -> MarkovAnswer:
        """Return the policy with its exact value and its largest gain."""
        value, gain, *_ = joint_markov_values(
            self.reward,
            self.transition,
            joint,
            discount=self.discount,
            finite=finite,
            concept=self.concept,
        )
        return MarkovAnswer(joint, profile, value, float(gain.max()), method, cut, ended)
