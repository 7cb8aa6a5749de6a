"""The loop of Algorithms 3 (Aggre-VI) and 4: plan, play an episode, count, and replan when due.

An action that is known to be worse cannot bring a gain. If that is not known, one agent of the
type, a scout, tries the action, which moves the aggregate by at most its influence. Scouts try the
actions with the largest possible gain first, and never try actions that cannot pay.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from equipoise.aggregative._solve import widest_side
from equipoise.aggregative._subroutine import check_choice
from equipoise.aggregative.learning._planner import Bounds, Evaluation, Joint
from equipoise.aggregative.learning._printed import FORMS
from equipoise.aggregative.learning._samples import Grid, Samples
from equipoise.aggregative.learning._spec import Spec
from equipoise.core import checks
from equipoise.core.deadline import Deadline
from equipoise.core.errors import InputError
from equipoise.runs.engines import Pool

#: Smallest number of parts of a run, and the largest number of episodes in one. After each part
#: everything is planned anew and the state may be saved.
PARTS, LONGEST = 20, 500


@dataclass(frozen=True)
class Settings:
    """The options of a run; with the numbers of the spec they are its config."""

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
        """Return the settings with the default spacing, or raise an error that names the cause."""
        episodes = checks.check_count("episodes", self.episodes)
        check_choice("rewards", self.rewards, "known", "unknown")
        check_choice("form", self.form, "corrected", *FORMS)
        check_choice("objective", self.objective, "regret", "welfare", "loss")
        if self.rewards == "known" and spec.reward is None:
            hint = "the spec has no reward(h, s, x)"
            raise InputError("rewards", "'unknown'", "'known'", hint)
        checks.check_finite("bounds", np.array(spec.bounds))
        for name in ("noise", "bonus"):
            checks.check_range(name, getattr(self, name), 0.0, np.inf, high_open=True)
        checks.check_range("failure", self.failure, 0.0, 1.0, low_open=True, high_open=True)
        if self.form in FORMS and self.rewards == "unknown":
            raise ValueError(
                f"form: expected known rewards with {self.form!r}, the only case that the paper "
                "prints"
            )
        if self.scouts is not None:
            checks.check_count("scouts", self.scouts, at_least=0)
        if self.scouts and not self.pool:
            raise ValueError(
                "scouts: expected pool=True with scouts, since they report to their type"
            )
        checks.check_count("key", self.key, at_least=0)
        spacing = self.spacing
        if spacing is None:
            spacing = 0.05 * widest_side(spec) or 1.0
        checks.check_range("spacing", spacing, 0.0, np.inf, low_open=True, high_open=True)
        return replace(self, episodes=episodes, spacing=float(spacing))


#: One observed step: the state, numbers of agents by type and action, the next state, and the sums
#: of rewards by type and action (None if rewards are known).
Seen = tuple[int, np.ndarray, int, Any]


def play_episode(
    env: Any, spec: Spec, plays_at: Callable[[int, int], np.ndarray], learns_rewards: bool
) -> list[Seen]:
    """Play an episode with numbers of agents `plays_at(h, s)`; return each observed step."""

    def as_state(found: Any) -> int:
        if not (isinstance(found, int | np.integer) and 0 <= found < spec.states):
            raise ValueError(f"env: expected states from 0 to {spec.states - 1}, found {found!r}")
        return int(found)

    rows = np.repeat(np.arange(spec.types), spec.counts)
    seen, state = [], as_state(env.reset())
    for h in range(spec.horizon):
        plays, sums = plays_at(h, state), None
        actions = np.repeat(np.tile(np.arange(spec.actions), spec.types), plays.ravel())
        found, rewards = env.step(actions)
        following = as_state(found)
        if learns_rewards:
            rewards = np.asarray(rewards, np.float64)
            if rewards.shape != (spec.agents,) or not np.isfinite(rewards).all():
                told = f"found shape {rewards.shape}"
                raise ValueError(f"env: expected {spec.agents} finite rewards, {told}")
            cells = rows * spec.actions + actions
            sums = np.bincount(cells, weights=rewards, minlength=plays.size).reshape(plays.shape)
        seen.append((state, plays, following, sums))
        state = following
    return seen


def play_numbered(state: tuple[Any, Spec, bool], given: tuple[int, np.ndarray]) -> list[Seen]:
    """`play_episode` for a worker: an episode by its number, with a table of numbers of agents."""
    (env, spec, learns_rewards), (number, table) = state, given
    env.seek(number)
    return play_episode(env, spec, lambda h, s: table[h, s], learns_rewards)


@dataclass
class Best:
    """The best policy so far, by its bounds."""

    plays: np.ndarray
    aggregate: np.ndarray
    cell: np.ndarray
    width: float = np.inf
    bound: float = np.inf
    #: Smaller is better.
    score: float = np.inf


@dataclass
class Learner:
    """The state of the learner."""

    env: Any
    spec: Spec
    grids: dict[tuple[int, int], Grid]
    planner: Any
    settings: Settings
    #: (rows,) the row of the game that each row of the spec belongs to, if agents learn separately.
    origin: np.ndarray | None = None
    history: list[tuple[int, Bounds]] | None = None
    #: Workers that play episodes ahead of time, each with its own environment.
    pool: Pool | None = None
    #: Episodes from this one on are not played ahead of time: everything is planned anew there.
    until: int = 0
    episode: int = 0
    plans: int = 0
    consistent: bool = True
    samples: Samples = field(init=False)
    #: Arrays by episode, as documented in `Learned.curve`.
    curves: dict[str, np.ndarray] = field(init=False)
    best: Best = field(init=False)
    joint: Joint = field(init=False)
    evaluation: Evaluation = field(init=False)
    bounds: Bounds = field(init=False)

    def __post_init__(self) -> None:
        spec, episodes = self.spec, self.settings.episodes
        self.learns_rewards = self.settings.rewards == "unknown"
        # As printed: a plan for every episode, and samples credited to the nearest cell.
        self.printed = self.settings.form in FORMS
        #: Whether the learner chooses among equilibria by their welfare.
        self.selects = self.settings.objective != "regret" and not self.printed
        self.samples = Samples(spec, rewards=self.learns_rewards)
        self.curves = {n: np.full(episodes, np.nan) for n in ("width", "bound", "regret")}
        self.curves["planned"] = np.zeros(episodes, bool)
        self.best = Best(**vars(Joint.empty(spec)))
        self._errands: dict[tuple[int, int], Errands] = {}
        self._turns: dict[tuple[int, int], int] = {}
        self._ahead: tuple[int, dict[int, list[Seen]]] = (-1, {})
        self._batch, self._planned = 1, 0
        self._due, self._new = True, True

    def replan(self, *, all_menus: bool = False) -> None:
        """Plan from all samples so far, evaluate the plan, and keep it if it is the best."""
        if all_menus:
            self.planner.forget()
            self.samples.plan_rewards()
        self.joint, self.evaluation = self.planner.plan(self.samples)
        self.bounds = self.evaluation.bounds(self.joint)
        self.consistent &= self.bounds.consistent
        self._offer(self.joint, self.bounds)
        if self.history is not None:
            self.history.append((self.episode, self.bounds))
        self.samples.plan_visits()
        self._errands.clear()
        self._turns.clear()
        self._planned = self.episode
        self._due, self._new = False, True
        self.plans += 1

    def _offer(self, joint: Joint, bounds: Bounds) -> None:
        """Keep a policy if it is better than the best so far.

        As printed, the better policy is the one with the narrower bounds on its values. If rewards
        are unknown its gains matter, and with a choice among equilibria its certain welfare too.
        """
        certain = bounds.certain_welfare if self.selects else 0.0
        score = -certain if self.selects else bounds.width
        if self.learns_rewards:
            score = bounds.largest_gain - certain
        if score <= self.best.score:
            width, gain = bounds.width, bounds.largest_gain
            self.best = Best(**vars(joint), width=width, bound=gain, score=score)

    def conclude(self, deadline: Deadline) -> Bounds:
        """Plan from all samples, also without optimism, and evaluate the best policy again.

        After the deadline plans are taken as far as they are.
        """
        self.planner.deadline = deadline
        self.replan(all_menus=True)
        best = self.best
        if self.learns_rewards or self.selects:
            likely = self.planner.likely(self.evaluation)
            if likely is not None:
                self._offer(likely, self.evaluation.bounds(likely))
                best = self.best
        bounds = self.evaluation.bounds(Joint(best.plays, best.aggregate, best.cell))
        # Earlier bounds on the same policy still hold.
        best.width = min(best.width, bounds.width)
        best.bound = min(best.bound, bounds.largest_gain)
        return bounds

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.samples.restore(state["samples"])
        self.best, self.planner.last = Best(**state["best"]), state["plays"]
        # JAX sorts the keys of dictionaries; files must keep their order.
        self.curves = {name: state["curves"][name] for name in self.curves}
        self.episode = state["episode"]
        self.plans, self.consistent = state["plans"], state["consistent"]

    def state(self) -> dict[str, Any]:
        """The data from which a plan is made: the samples, and the last plan, which starts it."""
        names = ("curves", "episode", "plans", "consistent")
        kept = {name: getattr(self, name) for name in names}
        kept |= {"best": dict(vars(self.best)), "plays": self.planner.last}
        return {"samples": self.samples.to_plain(), **kept}

    def play(self) -> None:
        """Replan if that is due, and play one episode."""
        if self._due:
            self.replan()
        k, curves, bounds = self.episode, self.curves, self.bounds
        before = max(k - 1, 0)
        curves["width"][k] = np.fmin(bounds.width, curves["width"][before])
        curves["bound"][k] = np.fmin(bounds.largest_gain, curves["bound"][before])
        curves["regret"][k], curves["planned"][k] = bounds.largest_gain, self._new
        self._new = False
        for h, seen in enumerate(self._episode()):
            self._take_in(h, *seen)
        self.episode += 1
        self._due |= self.printed

    def _episode(self) -> list[Seen]:
        """Observations of the next episode, played here or ahead of time by the pool."""
        if self.pool is None:
            return play_episode(self.env, self.spec, self._with_scouts, self.learns_rewards)
        k, (plan, found) = self.episode, self._ahead
        if plan == self.plans and k in found:
            return found.pop(k)
        # Twice as many as last time if all of those were used; none after a new plan.
        used = plan == self.plans
        self._batch = min(2 * self._batch, LONGEST) if used else self.pool.workers
        numbers = range(k, min(k + self._batch, self.until))
        inputs = [(number, self._table(number)) for number in numbers]
        played = self.pool.run(play_numbered, inputs)
        self._ahead = (self.plans, dict(zip(numbers, played, strict=True)))
        return self._ahead[1].pop(k)

    def _table(self, number: int) -> np.ndarray:
        """(horizon, states, types, actions): numbers of agents in an episode, scouts included.

        The number of the episode since the plan decides which scouts go, because a worker knows
        this number and does not know the number of visits.
        """
        if self.settings.scouts == 0 or not self.learns_rewards:
            return self.joint.plays
        turn = number - self._planned
        table = self.joint.plays.copy()
        for place in self.spec.places:
            table[place] = self._errands_of(*place).send(table[place], turn)
        return table

    def _take_in(self, h: int, s: int, plays: np.ndarray, following: int, sums: Any) -> None:
        """Count an observed step, and decide whether it is time to replan."""
        spec, grid = self.spec, self.grids[h, s]
        plan, cell = self.joint.plays[h, s], int(self.joint.cell[h, s])
        x = spec.aggregate(h, s, plays)
        # Credit the planned cell although rounding and scouts may have left it by a little.
        # Otherwise a cell whose plan always ends in its neighbour would never seem visited.
        reach = 0.5 * grid.side + spec.delta * (spec.dimensions + np.abs(plays - plan).sum() / 2)
        away = float(np.abs(x - grid.centre(cell)).max())
        if self.printed or away > reach + 1e-12:
            cell = grid.nearest(x)
        samples = self.samples
        row = samples.add((h, s, cell), x, following)
        if self.learns_rewards:
            samples.add_rewards(row, x, plays, sums)
            seen, planned = samples.seen[row], samples.seen_planned[row]
            if (seen[plan > 0] >= 2 * planned[plan > 0]).any():
                self._due = True
                self.planner.forget((h, s))
                samples.plan_rewards((h, s))
        self._due |= bool(samples.visits[row] >= max(1, 2 * samples.visits_planned[row]))

    def _with_scouts(self, h: int, s: int) -> np.ndarray:
        """Numbers of agents: the plan, with the scouts whose turn it is."""
        plan = self.joint.plays[h, s]
        if self.settings.scouts == 0 or not self.learns_rewards:
            return plan
        visit = self._turns.get((h, s), 0)
        self._turns[h, s] = visit + 1
        return self._errands_of(h, s).send(plan, visit)

    def _errands_of(self, h: int, s: int) -> "Errands":
        """The actions worth trying in a step and state under the present plan."""
        if (h, s) not in self._errands:
            bounds = self.evaluation.reward_bounds(h, s, self.joint.aggregate[h, s])
            options: Any = {"most": self.settings.scouts, "shift": 0.25 * self.grids[h, s].side}
            plan = self.joint.plays[h, s]
            self._errands[h, s] = find_errands(self.spec, plan, *bounds, **options)
        return self._errands[h, s]


@dataclass(frozen=True)
class Errands:
    """The actions worth trying in one step and state, the most promising first."""

    #: (errands,) rows and actions to try.
    rows: np.ndarray
    actions: np.ndarray
    #: Number of errands in one visit.
    at_once: int

    def send(self, plays: np.ndarray, visit: int) -> np.ndarray:
        """Add the scouts of the given visit, counted from 0, to the plays.

        Errands take turns. A scout is taken from the action that most of its type play.
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
    """Find untried actions that might pay, given bounds on the rewards at the planned aggregate.

    `most` is the largest number of scouts at once. Default: as many as move the aggregate by at
    most `shift`, and at least one.
    """
    played = plays > 0
    worst = np.where(played, low, np.inf).min(1, keepdims=True)
    hope = np.where(played, -np.inf, high - worst)
    hope[spec.counts < 2] = -np.inf  # the only agent of a type must follow the plan
    # One agent's own influence accounts for this much; less is not worth a scout.
    rows, actions = np.nonzero(hope > 2.0 * spec.lipschitz * spec.delta)
    order = np.argsort(-hope[rows, actions], kind="stable")
    if most is None:
        most = max(1, int(shift / spec.delta)) if spec.delta > 0 else len(order)
    return Errands(rows[order], actions[order], min(most, len(order)))
