"""The loop of Algorithms 3 and 4: plan, play an episode, count, and plan again when it is time.

Nobody could gain by an action that is known to be worse. Where that is not known, one agent of the
type, a scout, tries the action, which moves the aggregate by its influence at most. The actions
that might bring the largest gain come first; those that cannot pay are left alone.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.aggregative.learning._grid import Grid
from equipoise.aggregative.learning._planner import Bounds, Evaluation, Joint
from equipoise.aggregative.learning._samples import Samples
from equipoise.aggregative.learning._spec import Spec

#: In how many parts a run is cut, at least, and how long they are, at most; at the end of each all
#: is planned anew, and may be kept.
PARTS, LONGEST = 20, 500


@dataclass
class Curves:
    """What is recorded of every episode."""

    #: (episodes,) smallest upper minus lower value of a policy played so far.
    width: np.ndarray
    #: (episodes,) smallest bound on the gains of a policy played so far.
    bound: np.ndarray
    #: (episodes,) bound on the gains of the policy of the episode: its regret is at most that.
    regret: np.ndarray
    #: (episodes,) whether a new plan was made for the episode.
    planned: np.ndarray

    @classmethod
    def empty(cls, episodes: int) -> "Curves":
        """Nothing yet."""
        nothing = np.full(episodes, np.nan)
        planned = np.zeros(episodes, bool)
        return cls(nothing.copy(), nothing.copy(), nothing.copy(), planned)


@dataclass(frozen=True)
class Goal:
    """Which of the policies played is to be returned.

    As printed, that whose values are known best. Where rewards are to be learnt the gains are
    what matters, and where there is a choice of equilibria so is the welfare that is certain.
    """

    learns_rewards: bool
    selects: bool

    def score(self, bounds: Bounds, starts: tuple[int, ...]) -> float:
        """The smaller the better."""
        certain = bounds.mean_welfare(starts)[0] if self.selects else 0.0
        if self.learns_rewards:
            return bounds.largest_gain(starts) - certain
        return -certain if self.selects else bounds.width(starts)


@dataclass
class Best:
    """The policy with the best promise so far."""

    plays: np.ndarray
    aggregate: np.ndarray
    cell: np.ndarray
    width: float = np.inf
    bound: float = np.inf
    score: float = np.inf

    def offer(self, joint: Joint, bounds: Bounds, starts: tuple[int, ...], goal: "Goal") -> None:
        """Take a policy if it is better by the goal."""
        score = goal.score(bounds, starts)
        if score <= self.score:
            self.plays, self.aggregate, self.cell = joint.plays, joint.aggregate, joint.cell
            self.width, self.bound = bounds.width(starts), bounds.largest_gain(starts)
            self.score = score

    @property
    def joint(self) -> Joint:
        """The policy."""
        return Joint(self.plays, self.aggregate, self.cell)


@dataclass
class Learner:
    """All that changes while learning."""

    env: Any
    spec: Spec
    grids: dict[tuple[int, int], Grid]
    planner: Any
    samples: Samples
    curves: Curves
    best: Best
    #: Scouts at once; None for as many as move the aggregate little, 0 for none.
    scouts: int | None
    goal: Goal
    eager: bool = False
    #: Whether samples count for the cell that was planned, or for the nearest, as printed.
    planned_credit: bool = True
    #: (rows,) the row of the game that each row of the spec belongs to, where agents are apart.
    origin: np.ndarray | None = None
    history: list[tuple[int, Joint, Bounds]] | None = None
    episode: int = 0
    plans: int = 0
    consistent: bool = True
    joint: Joint = field(init=False)
    evaluation: Evaluation = field(init=False)
    bounds: Bounds = field(init=False)

    def __post_init__(self) -> None:
        self._rows = np.repeat(np.arange(self.spec.types), self.spec.counts)
        self._visits_then = np.zeros_like(self.samples.visits)
        self._seen_then = np.zeros_like(self.samples.seen)
        self._errands: dict[tuple[int, int], tuple[Errands, int]] = {}
        self._due, self._new = True, True

    @property
    def learns_rewards(self) -> bool:
        """Whether rewards are unknown."""
        return self.samples.seen.shape[3] > 0

    def replan(self, *, all_menus: bool = False) -> None:
        """Plan from all samples so far, evaluate the plan, and keep it if it is the best."""
        if all_menus:
            self.planner.forget()
            self._seen_then[...] = self.samples.seen
        self.joint, self.evaluation = self.planner.plan(self.samples)
        self.bounds = self.evaluation.bounds(self.joint)
        self.consistent &= self.bounds.consistent
        self.best.offer(self.joint, self.bounds, self._starts, self.goal)
        if self.history is not None:
            self.history.append((self.episode, self.joint, self.bounds))
        self._visits_then[...] = self.samples.visits
        self._errands.clear()
        self._due, self._new = False, True
        self.plans += 1

    def conclude(self) -> Bounds:
        """Plan from everything, with guesses instead of hopes too, and judge the best again."""
        self.replan(all_menus=True)
        if self.goal.learns_rewards or self.goal.selects:
            likely = self.planner.likely(self.evaluation)
            if likely is not None:
                self.best.offer(likely, self.evaluation.bounds(likely), self._starts, self.goal)
        bounds = self.evaluation.bounds(self.best.joint)
        # Of one policy, what was proven before still holds.
        self.best.width = min(self.best.width, bounds.width(self._starts))
        self.best.bound = min(self.best.bound, bounds.largest_gain(self._starts))
        return bounds

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what was kept."""
        self.samples = Samples(**state["samples"])
        self.curves = Curves(**state["curves"])
        self.best = Best(**state["best"])
        self.episode, self.plans = state["episode"], state["plans"]
        self.consistent = state["consistent"]
        self._visits_then = np.zeros_like(self.samples.visits)
        self._seen_then = np.zeros_like(self.samples.seen)

    def state(self) -> dict[str, Any]:
        """All that a plan is made from."""
        return {
            "samples": dict(vars(self.samples)),
            "curves": dict(vars(self.curves)),
            "best": dict(vars(self.best)),
            "episode": self.episode,
            "plans": self.plans,
            "consistent": self.consistent,
        }

    def play(self) -> None:
        """One episode, and what it says of whether to plan again."""
        if self._due:
            self.replan()
        self._note()
        state = self.env.reset()
        for h in range(self.spec.horizon):
            state = self._step(h, state)
        self.episode += 1
        self._due |= self.eager

    @property
    def _starts(self) -> tuple[int, ...]:
        return tuple(self.spec.starts)

    def _note(self) -> None:
        k, curves = self.episode, self.curves
        before = k - 1 if k else k
        width = self.bounds.width(self._starts)
        gain = self.bounds.largest_gain(self._starts)
        curves.width[k] = np.fmin(width, curves.width[before])
        curves.bound[k] = np.fmin(gain, curves.bound[before])
        curves.regret[k], curves.planned[k] = gain, self._new
        self._new = False

    def _step(self, h: int, s: int) -> int:
        spec = self.spec
        if not (isinstance(s, int | np.integer) and 0 <= s < spec.states):
            raise ValueError(f"env: expected states from 0 to {spec.states - 1}, found {s!r}")
        plan, cell = self.joint.plays[h, s], int(self.joint.cell[h, s])
        plays = self._with_scouts(h, s, plan)
        actions = np.repeat(np.tile(np.arange(spec.actions), spec.types), plays.ravel())
        flat = spec.influences(h, s).reshape(-1, spec.dimensions)
        x = spec.scale * (plays.ravel().astype(np.float64) @ flat)
        following, rewards = self.env.step(actions)
        grid = self.grids[h, s]
        # The planned cell is credited although rounding and scouts may have left it by a little:
        # otherwise a cell whose plan always ends next door would never seem visited.
        reach = 0.5 * grid.side + spec.delta * (spec.dimensions + np.abs(plays - plan).sum() / 2)
        away = float(np.abs(x - grid.centres[cell]).max())
        if not self.planned_credit or away > reach + 1e-12:
            cell = grid.nearest(x)
        where = (h, int(s), cell)
        if not 0 <= following < spec.states:
            raise ValueError(
                f"env: expected states from 0 to {spec.states - 1}, found {following!r}"
            )
        self.samples.add(where, x, int(following))
        if self.learns_rewards:
            self._see(where, x, plan, plays, actions, rewards)
        visits = self.samples.visits[where]
        self._due |= bool(visits >= max(1, 2 * self._visits_then[where]))
        return following

    def _see(
        self,
        where: tuple[int, int, int],
        x: np.ndarray,
        plan: np.ndarray,
        plays: np.ndarray,
        actions: np.ndarray,
        rewards: Any,
    ) -> None:
        """Take in the rewards of a step."""
        spec = self.spec
        rewards = np.asarray(rewards, np.float64)
        if rewards.shape != (spec.agents,) or not np.isfinite(rewards).all():
            raise ValueError(
                f"env: expected {spec.agents} finite rewards, found shape {rewards.shape}"
            )
        sums = np.bincount(
            self._rows * spec.actions + actions, weights=rewards, minlength=plays.size
        )
        self.samples.add_rewards(where, x, plays, sums.reshape(plays.shape))
        seen, then = self.samples.seen[where], self._seen_then[where]
        if (seen[plan > 0] >= 2 * then[plan > 0]).any():
            self._due = True
            self.planner.forget(where[:2])
            self._seen_then[where[:2]] = self.samples.seen[where[:2]]

    def _with_scouts(self, h: int, s: int, plan: np.ndarray) -> np.ndarray:
        if self.scouts == 0 or not self.learns_rewards:
            return plan
        if (h, s) not in self._errands:
            low, high = self.evaluation.reward_bounds(h, s, self.joint.aggregate[h, s])
            errands = find_errands(
                self.spec, (h, s), plan, low, high,
                most=self.scouts, shift=0.25 * self.grids[h, s].side,
            )  # fmt: skip
            self._errands[h, s] = (errands, 0)
        errands, visit = self._errands[h, s]
        self._errands[h, s] = (errands, visit + 1)
        return errands.send(plan, visit)


@dataclass(frozen=True)
class Errands:
    """What is worth trying in one step and state, the most promising first."""

    #: (errands,) rows and actions.
    rows: np.ndarray
    actions: np.ndarray
    #: How many of them are run in one visit.
    at_once: int

    def turn(self, visit: int) -> np.ndarray:
        """Indices of the errands of the given visit, counted from 0: each has its turn."""
        if not len(self.rows):
            return np.zeros(0, np.int64)
        return (visit * self.at_once + np.arange(self.at_once)) % len(self.rows)

    def send(self, plays: np.ndarray, visit: int) -> np.ndarray:
        """The plays with scouts in them; agents are taken from what most of their type play."""
        plays = plays.copy()
        for index in self.turn(visit):
            row = self.rows[index]
            source = plays[row].argmax()
            if plays[row, source] > 1:
                plays[row, source] -= 1
                plays[row, self.actions[index]] += 1
        return plays


def find_errands(
    spec: Spec,
    place: tuple[int, int],
    plays: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    most: int | None,
    shift: float,
) -> Errands:
    """Untried actions that might pay, given bounds on the rewards at the planned aggregate.

    `most` is how many scouts there may be at once; without it as many as move the aggregate by no
    more than `shift`, and one at least.
    """
    played = plays > 0
    worst = np.where(played, low, np.inf).min(1, keepdims=True)
    hope = np.where(played, -np.inf, high - worst)
    hope[spec.counts < 2] = -np.inf  # who is alone is needed where it is
    # One agent's own influence makes this much; less is not worth a scout.
    rows, actions = np.nonzero(hope > 2.0 * spec.lipschitz * spec.delta)
    order = np.argsort(-hope[rows, actions], kind="stable")
    if most is None:
        most = max(1, int(shift / spec.delta)) if spec.delta > 0 else len(order)
    return Errands(rows[order], actions[order], min(most, len(order)))
