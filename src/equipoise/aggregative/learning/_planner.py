"""Optimistic planning from samples: Algorithms 3 and 4 of the paper, corrected.

Each step and state has a menu of near-equilibria of its rewards (or of their upper envelopes).
Backward over the steps, the entry is taken that is worth the most with the most that the samples
allow to lie ahead. The policy is then evaluated: upper and lower values of every class of agents,
and a bound on what any agent could gain. What differs from print is listed in
docs/theory/aggregative-learning.md.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.aggregative._classes import Roster, alone
from equipoise.aggregative._subroutine import Options
from equipoise.aggregative.learning._continuation import Continuation
from equipoise.aggregative.learning._grid import Grid
from equipoise.aggregative.learning._menu import Menu, make_menu, stage_of
from equipoise.aggregative.learning._radii import Radii
from equipoise.aggregative.learning._rewards import KnownRewards, RewardBounds, Rewards
from equipoise.aggregative.learning._samples import Samples
from equipoise.aggregative.learning._spec import Spec
from equipoise.games import AggregativePolicy


@dataclass(frozen=True)
class Joint:
    """What everybody does everywhere, planned."""

    #: (horizon, states, types, actions) whole numbers of agents.
    plays: np.ndarray
    #: (horizon, states, d)
    aggregate: np.ndarray
    #: (horizon, states) the cell that each stage was planned for.
    cell: np.ndarray


@dataclass(frozen=True)
class Bounds:
    """What samples say of a policy, by class of agents."""

    policy: AggregativePolicy
    #: (classes, states): values of the first step.
    lower: np.ndarray
    upper: np.ndarray
    #: (classes, states): what nobody can gain more than.
    gain: np.ndarray
    #: (2, states): what the mean welfare lies between.
    welfare: np.ndarray
    #: Whether no envelope crossed another, as they would if a constant were wrong.
    consistent: bool

    def width(self, starts: tuple[int, ...]) -> float:
        """The largest upper minus lower value of any agent, over states that begin episodes."""
        return float((self.upper - self.lower)[:, list(starts)].max())

    def largest_gain(self, starts: tuple[int, ...]) -> float:
        """The largest bound on a gain."""
        return float(self.gain[:, list(starts)].max())

    def mean_welfare(self, starts: tuple[int, ...]) -> tuple[float, float]:
        """What the mean welfare lies between, over states that begin episodes."""
        low, high = self.welfare[:, list(starts)].mean(1)
        return float(low), float(high)


class Planner:
    """Plans from samples, keeping the menus of stages whose rewards did not change."""

    def __init__(
        self,
        spec: Spec,
        grids: dict[tuple[int, int], Grid],
        options: Options,
        radii: Radii,
        worth: np.ndarray | None,
        *,
        known: bool,
    ):
        self.spec, self.grids, self.options, self.radii = spec, grids, options, radii
        self.worth, self.known = worth, known
        self._menus: dict[tuple[int, int], Menu] = {}

    def forget(self, place: tuple[int, int] | None = None) -> None:
        """Make the menu of one step and state, or all of them, anew in the next plan."""
        if self.known:  # what is known does not change
            return
        if place is None:
            self._menus.clear()
        else:
            self._menus.pop(place, None)

    def plan(self, samples: Samples) -> tuple[Joint, "Evaluation"]:
        """The optimistic joint policy, and how to evaluate policies with the same samples."""
        evaluation = Evaluation(self, samples)
        for place in self.grids:
            if place not in self._menus:
                self._menus[place] = self._menu(evaluation.rewards[place].upper, *place)
        return self._backward(self._menus, evaluation, 1.0), evaluation

    def likely(self, evaluation: "Evaluation") -> Joint:
        """The joint policy that is best by the best guesses: for the end, when nothing is left
        to explore."""
        menus = self._menus
        if not self.known:
            menus = {
                place: self._menu(rewards.estimate, *place)
                for place, rewards in evaluation.rewards.items()
            }
        return self._backward(menus, evaluation, 0.5)

    def _backward(
        self, menus: dict[tuple[int, int], Menu], evaluation: "Evaluation", hope: float
    ) -> Joint:
        """The entries that promise the most, with what lies ahead so far between its bounds."""
        spec = self.spec
        shape = (spec.horizon, spec.states)
        plays = np.zeros((*shape, spec.types, spec.actions), np.int64)
        aggregate = np.zeros((*shape, spec.dimensions))
        cell = np.zeros(shape, np.int64)
        ahead = np.zeros(spec.states)
        for h in reversed(range(spec.horizon)):
            now = np.zeros(spec.states)
            for s in range(spec.states):
                menu, following = menus[h, s], evaluation.following[h, s]
                entry = 0
                if len(menu.worth) > 1:
                    where = (menu.aggregate, menu.cell, self.grids[h, s])
                    later = hope * following.upper_at(ahead, *where)
                    if hope < 1.0:
                        later -= (1.0 - hope) * following.upper_at(-ahead, *where)
                    promise = menu.worth + later
                    entry = int(promise.argmax())
                    now[s] = promise[entry]
                plays[h, s], aggregate[h, s] = menu.plays[entry], menu.aggregate[entry]
                cell[h, s] = menu.cell[entry]
            ahead = now
        return Joint(plays, aggregate, cell)

    @property
    def relaxed(self) -> float:
        """How much slacks had to grow; 1 under lemma A."""
        return max(menu.relaxed for menu in self._menus.values())

    @property
    def stage_bound(self) -> float:
        """Sum over steps of what nobody gains more than in a step, for the rewards planned with."""
        steps = range(self.spec.horizon)
        states = range(self.spec.states)
        return sum(max(self._menus[h, s].bound for s in states) for h in steps)

    def _menu(self, rewards: Rewards, h: int, s: int) -> Menu:
        stage = stage_of(self.spec, h, s, rewards, self.worth)
        return make_menu(stage, self.options, self.grids[h, s])


class Evaluation:
    """Bounds on the values and gains of policies, from the samples of one moment."""

    def __init__(self, planner: Planner, samples: Samples):
        self.spec = spec = planner.spec
        self.worth = planner.worth
        places = [(h, s) for h in range(spec.horizon) for s in range(spec.states)]
        self.rewards: dict[tuple[int, int], KnownRewards | RewardBounds] = {
            (h, s): KnownRewards(spec, h, s)
            if planner.known
            else RewardBounds.of(spec, samples, h, s, planner.radii)
            for h, s in places
        }
        slope = spec.transition_lipschitz
        self.following = {
            (h, s): Continuation.of(samples, h, s, planner.radii, slope) for h, s in places
        }

    def reward_bounds(self, h: int, s: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(types, actions) each: what the rewards at an aggregate lie between."""
        rewards = self.rewards[h, s]
        upper = rewards.upper(x[None])[0]
        return (upper if isinstance(rewards, KnownRewards) else rewards.lower(x[None])[0]), upper

    def bounds(self, joint: Joint) -> Bounds:
        """Backward over the steps, for every class of agents at once."""
        spec = self.spec
        policy = policy_of(spec, joint.plays)
        k = policy.classes
        #: (states, functions): upper values, minus lower values, gains, welfare as values.
        later = np.zeros((spec.states, 3 * k + 2))
        consistent = True
        for h in reversed(range(spec.horizon)):
            now = np.empty_like(later)
            for s in range(spec.states):
                x, played = joint.aggregate[h, s], policy.actions[:, h, s].astype(np.int64)
                low, high = self.reward_bounds(h, s, x)
                consistent &= bool((low <= high + 1e-9).all())
                step = np.empty(3 * k + 2)
                step[:k], step[k : 2 * k] = high[policy.rows, played], -low[policy.rows, played]
                step[2 * k : 3 * k] = self._gains(h, s, low, high)[policy.rows, played]
                step[3 * k], step[3 * k + 1] = self._welfare(joint, h, s, low, high)
                now[s] = step + self.following[h, s].upper(later, x)
            most = spec.spread * (spec.horizon - h)
            now[:, 2 * k : 3 * k] = np.minimum(now[:, 2 * k : 3 * k], most)
            later = now
        upper, lower, gain = later[:, :k].T, -later[:, k : 2 * k].T, later[:, 2 * k : 3 * k].T
        welfare = np.stack([-later[:, 3 * k + 1], later[:, 3 * k]])
        consistent &= bool((lower <= upper + 1e-9).all())
        return Bounds(policy, lower, upper, gain, welfare, consistent)

    def _gains(self, h: int, s: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Gains of one step, and what moving the transitions may bring later (lemma B)."""
        spec = self.spec
        moving = spec.delta * spec.transition_lipschitz * spec.spread * (spec.horizon - 1 - h)
        return deviation_gains(spec, h, s, low, high) + moving

    def _welfare(
        self, joint: Joint, h: int, s: int, low: np.ndarray, high: np.ndarray
    ) -> tuple[float, float]:
        """The most that the mean welfare of a step may be, and minus the least."""
        plays = joint.plays[h, s] / self.spec.agents
        if self.worth is None:
            return float((plays * high).sum()), -float((plays * low).sum())
        worth = self.worth if self.worth.ndim == 2 else self.worth[h, s]
        earned = float((plays * worth).sum())
        return earned, -earned


def deviation_gains(spec: Spec, h: int, s: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(types, actions): the most that who plays an action could gain in one step.

    Deviating moves the aggregate by one agent's influence, and rewards with it.
    """
    influence = spec.influences(h, s)
    scale = spec.scale
    moved = scale * np.abs(influence[:, :, None] - influence[:, None]).max(-1)
    better = high[:, None] + spec.lipschitz * moved - low[:, :, None]
    same = np.arange(spec.actions)
    better[:, same, same] = 0.0
    return better.max(2)


def policy_of(spec: Spec, plays: np.ndarray) -> AggregativePolicy:
    """The policy of (horizon, states, types, actions) numbers of agents, by classes."""
    roster = Roster(alone(spec.counts), spec.horizon, spec.states, spec.actions)
    for h in range(spec.horizon):
        for s in range(spec.states):
            roster.assign(h, s, plays[h, s])
    return roster.policy()
