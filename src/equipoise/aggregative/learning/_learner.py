"""The loop of Algorithms 3 and 4: plan, play an episode, count, and plan again when it is time.

Nobody could gain by an action that is known to be worse. Where that is not known, one agent of the
type, a scout, tries the action, which moves the aggregate by its influence at most. The actions
that might bring the largest gain come first; those that cannot pay are left alone.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from equipoise.aggregative._solve import widest_side
from equipoise.aggregative._subroutine import check_choice
from equipoise.aggregative.learning._planner import Bounds, Evaluation, Joint
from equipoise.aggregative.learning._samples import Grid, Samples
from equipoise.aggregative.learning._spec import Spec
from equipoise.core import checks

#: In how many parts a run is cut, at least, and how long they are, at most; at the end of each all
#: is planned anew, and may be kept.
PARTS, LONGEST = 20, 500


@dataclass(frozen=True)
class Settings:
    """What was asked for; with the spec's numbers it is the config of a run."""

    episodes: int
    rewards: str
    objective: str
    spacing: float | None
    noise: float
    pool: bool
    scouts: int | None
    bonus: float
    failure: float
    form: str
    key: int

    def checked(self, spec: Spec) -> "Settings":
        """The same with the default spacing, or an error that names what is wrong."""
        episodes = checks.check_count("episodes", self.episodes)
        check_choice("rewards", self.rewards, "known", "unknown")
        check_choice("form", self.form, "corrected", "printed")
        if self.rewards == "known" and spec.reward is None:
            raise ValueError("rewards: expected 'unknown', since the spec has no reward(h, s, x)")
        checks.check_finite("bounds", np.array(spec.bounds))
        for name in ("noise", "bonus"):
            checks.check_range(name, getattr(self, name), 0.0, np.inf, high_open=True)
        checks.check_range("failure", self.failure, 0.0, 1.0, low_open=True, high_open=True)
        if self.form == "printed" and self.rewards == "unknown":
            raise ValueError(
                "form: expected known rewards with 'printed', since no other is printed"
            )
        if self.scouts is not None:
            checks.check_count("scouts", self.scouts, at_least=0)
        if self.scouts and not self.pool:
            raise ValueError(
                "scouts: expected pool=True with them, since they report to their type"
            )
        checks.check_count("key", self.key, at_least=0)
        spacing = self.spacing
        if spacing is None:
            spacing = 0.05 * widest_side(spec) or 1.0
        checks.check_range("spacing", spacing, 0.0, np.inf, low_open=True, high_open=True)
        return replace(self, episodes=episodes, spacing=float(spacing))


@dataclass
class Best:
    """The policy with the best promise so far."""

    plays: np.ndarray
    aggregate: np.ndarray
    cell: np.ndarray
    width: float = np.inf
    bound: float = np.inf
    #: The smaller the better.
    score: float = np.inf


@dataclass
class Learner:
    """All that changes while learning."""

    env: Any
    spec: Spec
    grids: dict[tuple[int, int], Grid]
    planner: Any
    settings: Settings
    #: (rows,) the row of the game that each row of the spec belongs to, where agents are apart.
    origin: np.ndarray | None = None
    history: list[tuple[int, Joint, Bounds]] | None = None
    episode: int = 0
    plans: int = 0
    consistent: bool = True
    samples: Samples = field(init=False)
    #: By episode: what `Learned.curve` documents.
    curves: dict[str, np.ndarray] = field(init=False)
    best: Best = field(init=False)
    joint: Joint = field(init=False)
    evaluation: Evaluation = field(init=False)
    bounds: Bounds = field(init=False)

    def __post_init__(self) -> None:
        spec, episodes = self.spec, self.settings.episodes
        self.learns_rewards = self.settings.rewards == "unknown"
        # As printed: a plan for every episode, samples credited to the nearest cell.
        self.printed = self.settings.form == "printed"
        #: Whether there is a choice of equilibria, by their welfare.
        self.selects = self.settings.objective != "regret" and not self.printed
        cells = max(len(grid.centres) for grid in self.grids.values())
        self.samples = Samples.empty(spec, cells, rewards=self.learns_rewards)
        self.curves = {n: np.full(episodes, np.nan) for n in ("width", "bound", "regret")}
        self.curves["planned"] = np.zeros(episodes, bool)
        self.best = Best(**vars(Joint.empty(spec)))
        self._rows = np.repeat(np.arange(spec.types), spec.counts)
        self._visits_then = np.zeros_like(self.samples.visits)
        self._seen_then = np.zeros_like(self.samples.seen)
        self._errands: dict[tuple[int, int], tuple[Errands, int]] = {}
        self._due, self._new = True, True

    def replan(self, *, all_menus: bool = False) -> None:
        """Plan from all samples so far, evaluate the plan, and keep it if it is the best."""
        if all_menus:
            self.planner.forget()
            self._seen_then[...] = self.samples.seen
        self.joint, self.evaluation = self.planner.plan(self.samples)
        self.bounds = self.evaluation.bounds(self.joint)
        self.consistent &= self.bounds.consistent
        self._offer(self.joint, self.bounds)
        if self.history is not None:
            self.history.append((self.episode, self.joint, self.bounds))
        self._visits_then[...] = self.samples.visits
        self._errands.clear()
        self._due, self._new = False, True
        self.plans += 1

    def _offer(self, joint: Joint, bounds: Bounds) -> None:
        """Keep a policy if it is better.

        As printed, that whose values are known best. Where rewards are to be learnt the gains are
        what matters, and where there is a choice of equilibria so is the welfare that is certain.
        """
        certain = bounds.certain_welfare if self.selects else 0.0
        score = -certain if self.selects else bounds.width
        if self.learns_rewards:
            score = bounds.largest_gain - certain
        if score <= self.best.score:
            width, gain = bounds.width, bounds.largest_gain
            self.best = Best(**vars(joint), width=width, bound=gain, score=score)

    def conclude(self) -> Bounds:
        """Plan from everything, with guesses instead of hopes too, and judge the best again."""
        self.replan(all_menus=True)
        best = self.best
        if self.learns_rewards or self.selects:
            likely = self.planner.likely(self.evaluation)
            if likely is not None:
                self._offer(likely, self.evaluation.bounds(likely))
                best = self.best
        bounds = self.evaluation.bounds(Joint(best.plays, best.aggregate, best.cell))
        # Of one policy, what was proven before still holds.
        best.width = min(best.width, bounds.width)
        best.bound = min(best.bound, bounds.largest_gain)
        return bounds

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what was kept."""
        self.samples, self.best = Samples(**state["samples"]), Best(**state["best"])
        # JAX sorts the keys of dictionaries; files keep their order.
        self.curves = {name: state["curves"][name] for name in self.curves}
        self.episode = state["episode"]
        self.plans, self.consistent = state["plans"], state["consistent"]

    def state(self) -> dict[str, Any]:
        """All that a plan is made from."""
        names = ("curves", "episode", "plans", "consistent")
        kept = {name: getattr(self, name) for name in names}
        return {"samples": dict(vars(self.samples)), "best": dict(vars(self.best)), **kept}

    def play(self) -> None:
        """One episode, and what it says of whether to plan again."""
        if self._due:
            self.replan()
        k, curves, bounds = self.episode, self.curves, self.bounds
        before = max(k - 1, 0)
        curves["width"][k] = np.fmin(bounds.width, curves["width"][before])
        curves["bound"][k] = np.fmin(bounds.largest_gain, curves["bound"][before])
        curves["regret"][k], curves["planned"][k] = bounds.largest_gain, self._new
        self._new = False
        state = self._as_state(self.env.reset())
        for h in range(self.spec.horizon):
            state = self._step(h, state)
        self.episode += 1
        self._due |= self.printed

    def _as_state(self, found: Any) -> int:
        if not (isinstance(found, int | np.integer) and 0 <= found < self.spec.states):
            last = self.spec.states - 1
            raise ValueError(f"env: expected states from 0 to {last}, found {found!r}")
        return int(found)

    def _step(self, h: int, s: int) -> int:
        """Play a step, take in what is seen, and return the next state."""
        spec, grid = self.spec, self.grids[h, s]
        plan, cell = self.joint.plays[h, s], int(self.joint.cell[h, s])
        plays = self._with_scouts(h, s, plan)
        actions = np.repeat(np.tile(np.arange(spec.actions), spec.types), plays.ravel())
        x = spec.aggregate(h, s, plays)
        found, rewards = self.env.step(actions)
        following = self._as_state(found)
        # The planned cell is credited although rounding and scouts may have left it by a little:
        # otherwise a cell whose plan always ends next door would never seem visited.
        reach = 0.5 * grid.side + spec.delta * (spec.dimensions + np.abs(plays - plan).sum() / 2)
        away = float(np.abs(x - grid.centres[cell]).max())
        if self.printed or away > reach + 1e-12:
            cell = grid.nearest(x)
        where = (h, s, cell)
        self.samples.add(where, x, following)
        if self.learns_rewards:
            rewards = np.asarray(rewards, np.float64)
            if rewards.shape != (spec.agents,) or not np.isfinite(rewards).all():
                found = f"found shape {rewards.shape}"
                raise ValueError(f"env: expected {spec.agents} finite rewards, {found}")
            cells = self._rows * spec.actions + actions
            sums = np.bincount(cells, weights=rewards, minlength=plays.size)
            self.samples.add_rewards(where, x, plays, sums.reshape(plays.shape))
            seen, then = self.samples.seen[where], self._seen_then[where]
            if (seen[plan > 0] >= 2 * then[plan > 0]).any():
                self._due = True
                self.planner.forget((h, s))
                self._seen_then[h, s] = self.samples.seen[h, s]
        visits = self.samples.visits[where]
        self._due |= bool(visits >= max(1, 2 * self._visits_then[where]))
        return following

    def _with_scouts(self, h: int, s: int, plan: np.ndarray) -> np.ndarray:
        if self.settings.scouts == 0 or not self.learns_rewards:
            return plan
        if (h, s) not in self._errands:
            bounds = self.evaluation.reward_bounds(h, s, self.joint.aggregate[h, s])
            shift = 0.25 * self.grids[h, s].side
            errands = find_errands(self.spec, plan, *bounds, most=self.settings.scouts, shift=shift)
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

    def send(self, plays: np.ndarray, visit: int) -> np.ndarray:
        """The plays with the scouts of the given visit, counted from 0, in them.

        Each errand has its turn; agents are taken from what most of their type play.
        """
        plays = plays.copy()
        for index in range(visit * self.at_once, (visit + 1) * self.at_once):
            row, action = self.rows[index % len(self.rows)], self.actions[index % len(self.rows)]
            source = plays[row].argmax()
            if plays[row, source] > 1:
                plays[row, source] -= 1
                plays[row, action] += 1
        return plays


def find_errands(
    spec: Spec,
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
