"""Optimistic planning from samples: Algorithms 3 (Aggre-VI) and 4 of the paper, corrected.

Each step and state has a menu of near-equilibria of its rewards (or of their upper envelopes).
Backward over the steps, the planner takes the entry with the largest welfare, counting for the
later steps the largest welfare that the samples allow. The policy is then evaluated: upper and
lower values of every class of agents, and a bound on any agent's gain. The differences from the
paper are listed in docs/theory/aggregative-learning.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from equipoise.aggregative._cells import MOST_CELLS, Stage, feasible_cells, solve_cell, stage_of
from equipoise.aggregative._classes import alone, policy_of
from equipoise.aggregative._replies import Replies
from equipoise.aggregative._subroutine import (
    Options,
    Plan,
    cell_weights,
    descend,
    make_plan,
    relax,
    stage_slack,
)
from equipoise.aggregative.learning._samples import (
    Continuation,
    Grid,
    KnownRewards,
    Radii,
    RewardBounds,
    Samples,
)
from equipoise.aggregative.learning._spec import Spec
from equipoise.core.deadline import Deadline
from equipoise.games import AggregativePolicy

#: Influences times actions up to which plans are polished, evaluations of gains for each plan, and
#: evaluations to make it exact.
_POLISHED, _REPLIES, _MORE = 20_000, 300, 60
#: Up to this number of cells, which take no longer than replies, they are halved, unless the last
#: plan leaves gains of no more than this part of Lemma A's bound.
_FEW, _STAY = 1000, 0.25


@dataclass(frozen=True)
class Joint:
    """A planned joint policy: the plays in every step and state."""

    #: (horizon, states, types, actions) whole numbers of agents.
    plays: np.ndarray
    #: (horizon, states, d)
    aggregate: np.ndarray
    #: (horizon, states) the cell for which each stage was planned.
    cell: np.ndarray

    @classmethod
    def empty(cls, spec: Spec) -> "Joint":
        """A policy in which nobody plays yet."""
        stages = (spec.horizon, spec.states)
        plays = np.zeros((*stages, spec.types, spec.actions), np.int64)
        return cls(plays, np.zeros((*stages, spec.dimensions)), np.zeros(stages, np.int64))


@dataclass(frozen=True)
class Bounds:
    """Bounds on a policy from samples, by class of agents."""

    policy: AggregativePolicy
    #: (classes, states): bounds on the values from the first step on.
    lower: np.ndarray
    upper: np.ndarray
    #: (classes, states): upper bound on any gain.
    gain: np.ndarray
    #: (2, states): lower and upper bound on the mean welfare.
    welfare: np.ndarray
    #: States that begin episodes.
    starts: list[int]
    #: Whether no envelopes crossed; a wrong constant would make them cross.
    consistent: bool = True

    @property
    def width(self) -> float:
        """Largest difference between an agent's upper and lower value, over starting states."""
        return float((self.upper - self.lower)[:, self.starts].max())

    @property
    def largest_gain(self) -> float:
        """Largest bound on a gain, over starting states."""
        return float(self.gain[:, self.starts].max())

    @property
    def certain_welfare(self) -> float:
        """Smallest lower bound on the mean welfare, over starting states."""
        return float(self.welfare[0, self.starts].mean())


@dataclass(frozen=True)
class Menu:
    """Pure profiles of one step and state that are distinct on the grid, to choose from.

    The welfare still to come is a constant of each cell and does not change what is best within it.
    The programs of a stage are therefore solved once for given rewards, and replanning compares
    only the sum of a solution's present welfare and the welfare still to come.
    """

    #: (entries, types, actions)
    plays: np.ndarray
    #: (entries, d)
    aggregate: np.ndarray
    #: (entries,) the cell for which each entry was planned.
    cell: np.ndarray
    #: (entries,) mean welfare of the step.
    worth: np.ndarray
    #: Upper bound on any agent's gain in this step (Lemma A), if the rewards are right.
    bound: float
    #: How much the slack had to grow before a cell was feasible; 1 under Lemma A.
    relaxed: float


def make_menu(
    stage: Stage, options: Options, grid: Grid, *, polish: bool, last: np.ndarray | None = None
) -> Menu:
    """Plan every feasible cell or, if any equilibrium is accepted, find one, from the last plan.

    With `polish`, best-reply dynamics start from each plan, so that the menu holds equilibria as
    exact as the number of agents allows, whatever the side of the cells.
    """
    if options.objective == "regret":
        plans = equilibria_near(stage, options, grid, last, every=polish)
        found = [(plan, -1) for plan in plans]
    else:
        found = relax(lambda relaxed: _programs(stage, options, grid, relaxed))
    if polish and stage.influence.size * stage.influence.shape[1] <= _POLISHED:
        found = polished(stage, found)
    if options.objective == "regret":
        found = [min(found, key=lambda one: one[0].gain if polish else 0.0)]
    plans = [plan for plan, _ in found]
    plays = np.stack([plan.plays for plan in plans])
    aggregate = np.stack([plan.aggregate for plan in plans])
    cells = [cell if cell >= 0 else grid.nearest(plan.aggregate) for plan, cell in found]
    worth = np.zeros(len(plans))
    if options.objective != "regret":
        rewards = stage.rewards(aggregate) if stage.welfare is None else stage.welfare
        worth = (plays * rewards).sum((1, 2)) / stage.agents
    bound, relaxed = max(plan.bound for plan in plans), max(plan.relaxed for plan in plans)
    return Menu(plays, aggregate, np.array(cells), worth, bound, relaxed)


def equilibria_near(
    stage: Stage, options: Options, grid: Grid, last: np.ndarray | None, *, every: bool
) -> list[Plan]:
    """Find a profile as exact as Lemma A guarantees: the last plan if it is one, best replies from
    there, or else by halving cells; with `every`, also by halving cells where there are few.

    Where there are too many cells, the best profile that replies reach is returned, with its gain
    as its bound.
    """
    enough, few, plans = _lemma_a(stage), grid.cells <= _FEW, []
    replies = Replies(stage, options.deadline)
    start = replies.middle() if last is None or not last.any() else last
    if few:
        profile = replies.profile(start)
        reached = profile.gain <= _STAY * enough
    else:
        replies.allow(_REPLIES)
        profile = replies.improve(start, enough)
        reached = profile.gain <= enough
    late = options.deadline.over()
    searched = not late and grid.cells <= MOST_CELLS and (not reached or (every and few))
    if reached or not searched:
        plan = Plan(
            plays=profile.plays,
            aggregate=stage.aggregate(profile.plays),
            shares=profile.plays / stage.counts[:, None],
            bound=max(profile.gain, enough),
            spacing=grid.side,
            slack=0.0,
            relaxed=1.0,
            gain=profile.gain,
            method="replies",
        )
        plans.append(plan)
    if searched:
        cells = grid.reachable(stage)[1], grid.half
        plan = relax(lambda relaxed: descend(stage, options, cells, relaxed))
        plans.append(replace(plan, gain=replies.profile(plan.plays).gain))
    return plans


def _lemma_a(stage: Stage) -> float:
    """The largest gain that Lemma A leaves in cells much smaller than an agent's influence."""
    return stage.lipschitz * (stage.dimensions + 1) * stage.delta


def _programs(
    stage: Stage, options: Options, grid: Grid, relaxed: float
) -> list[tuple[Plan, int]] | None:
    """Plans and their cells, -1 for the cell of the aggregate; None if no cell is feasible."""
    slack = stage_slack(stage, options, grid.side, relaxed)
    found = []
    cells, centres = grid.reachable(stage)
    for index, rewards, allowed in feasible_cells(stage, centres, grid.half, slack):
        weights = cell_weights(stage, options, rewards)
        vertex = solve_cell(stage, weights, allowed, centres[index], grid.half)
        if vertex is not None:
            plan = make_plan(stage, options, vertex, grid.half, slack, relaxed=relaxed)
            found.append((plan, int(cells[index])))
    if not found:
        return None
    # The most exact equilibrium may have more welfare than any program's solution.
    exact = descend(stage, options, (grid.centre([cell for _, cell in found]), grid.half))
    return found if exact is None else [*found, (replace(exact, bound=found[0][0].bound), -1)]


def polished(stage: Stage, found: list[tuple[Plan, int]]) -> list[tuple[Plan, int]]:
    """The distinct equilibria that best-reply dynamics reach from some plans.

    Agents move until gains are as small as Lemma A guarantees. Each profile that is new is then
    refined for some more evaluations. Profiles less exact than Lemma A are dropped.
    """
    enough = _lemma_a(stage)
    replies, known, seen = Replies(stage), {}, set()
    for plan, cell in found:
        replies.allow(_REPLIES)
        profile = replies.improve(plan.plays, enough)
        if (key := profile.plays.tobytes()) in seen:
            continue
        seen.add(key)
        replies.allow(_MORE)
        profile = min(profile, replies.improve(profile.plays), key=lambda one: one.gain)
        cell = cell if np.array_equal(profile.plays, plan.plays) else -1
        where = {"plays": profile.plays, "aggregate": stage.aggregate(profile.plays)}
        after = replace(plan, **where, gain=profile.gain, bound=min(profile.gain, plan.bound))
        known.setdefault((profile.plays.tobytes(), cell), (after, cell))
    least = min(plan.gain for plan, _ in known.values())
    return [one for one in known.values() if one[0].gain <= max(enough, least)]


class Planner:
    """Plans from samples, and keeps the menus of stages whose rewards did not change."""

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
        #: (horizon, states, types, actions): the last plan; nobody plays before the first.
        self.last = Joint.empty(spec).plays
        #: When to stop planning and take the best so far.
        self.deadline = Deadline()

    def forget(self, place: tuple[int, int] | None = None) -> None:
        """Rebuild the menu of one step and state, or all menus, in the next plan."""
        for known in list(self._menus):
            if not self.known and place in (None, known):  # known rewards do not change
                del self._menus[known]

    def plan(self, samples: Samples) -> tuple[Joint, "Evaluation"]:
        """Return the optimistic joint policy, and an evaluation of policies by the same samples."""
        evaluation = Evaluation(self, samples)
        for place in self.grids:
            if place not in self._menus:
                bounds = evaluation.rewards[place]
                own = None if isinstance(bounds, KnownRewards) else bounds.own_upper
                self._menus[place] = self._menu(bounds.upper, place, own, polish=self.known)
        joint = self._backward(self._menus, evaluation, 1.0)
        self.last = joint.plays
        return joint, evaluation

    def likely(self, evaluation: "Evaluation") -> Joint:
        """Return the joint policy that is best by the estimates: for the end, when nothing is left
        to explore."""
        menus = self._menus
        if not self.known:
            menus = {
                place: self._menu(rewards.estimate, place, None, polish=True)
                for place, rewards in evaluation.rewards.items()
            }
        return self._backward(menus, evaluation, 0.5)

    def _backward(
        self, menus: dict[tuple[int, int], Menu], evaluation: "Evaluation", hope: float
    ) -> Joint:
        """Entries with the most welfare, where later welfare is `hope` of the way up its bounds."""
        spec, joint = self.spec, Joint.empty(self.spec)
        ahead = np.zeros(spec.states)
        for h in reversed(range(spec.horizon)):
            now = np.zeros(spec.states)
            for s in range(spec.states):
                menu, following = menus[h, s], evaluation.following[h, s]
                entry = 0
                if len(menu.worth) > 1:
                    later = hope * following.upper_at(ahead, menu.aggregate)
                    if hope < 1.0:
                        later -= (1.0 - hope) * following.upper_at(-ahead, menu.aggregate)
                    promise = menu.worth + later
                    entry = int(promise.argmax())
                    now[s] = promise[entry]
                for name in ("plays", "aggregate", "cell"):
                    getattr(joint, name)[h, s] = getattr(menu, name)[entry]
            ahead = now
        return joint

    @property
    def relaxed(self) -> float:
        """Factor by which slacks had to grow; 1 under Lemma A."""
        return max(menu.relaxed for menu in self._menus.values())

    @property
    def stage_bound(self) -> float:
        """Sum over steps of the bound on any gain in the step, for the rewards planned with."""
        bounds = [self._menus[place].bound for place in self.spec.places]
        return float(np.reshape(bounds, (-1, self.spec.states)).max(1).sum())

    def _menu(
        self,
        rewards: Callable[[np.ndarray], np.ndarray],
        place: tuple[int, int],
        own: Callable[[np.ndarray], np.ndarray] | None,
        *,
        polish: bool,
    ) -> Menu:
        stage = stage_of(self.spec, place, worth=self.worth, rewards=rewards, own=own)
        options = replace(self.options, deadline=self.deadline)
        return make_menu(stage, options, self.grids[place], polish=polish, last=self.last[place])


class Evaluation:
    """Bounds on the values and gains of policies, from the samples of one moment."""

    def __init__(self, planner: Planner, samples: Samples):
        self.spec = spec = planner.spec
        self.worth = planner.worth
        self.rewards: dict[tuple[int, int], KnownRewards | RewardBounds] = {
            (h, s): KnownRewards(spec, h, s)
            if planner.known
            else RewardBounds.of(spec, samples, h, s, planner.radii)
            for h, s in spec.places
        }
        slope = spec.transition_lipschitz
        self.following = {
            (h, s): Continuation.of(samples, h, s, planner.radii, slope) for h, s in spec.places
        }

    def reward_bounds(self, h: int, s: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(types, actions) each: lower and upper bounds on the rewards at an aggregate."""
        rewards = self.rewards[h, s]
        upper = rewards.upper(x[None])[0]
        return (upper if isinstance(rewards, KnownRewards) else rewards.lower(x[None])[0]), upper

    def bounds(self, joint: Joint) -> Bounds:
        """Backward over the steps, for every class of agents at once."""
        spec = self.spec
        policy = policy_of(alone(spec.counts), joint.plays)
        k = policy.classes
        #: (states, functions): upper values, minus lower values, gains, and welfare likewise.
        later = np.zeros((spec.states, 3 * k + 2))
        consistent = True
        for h in reversed(range(spec.horizon)):
            now = np.empty_like(later)
            for s in range(spec.states):
                x, played = joint.aggregate[h, s], policy.actions[:, h, s].astype(np.int64)
                low, high = self.reward_bounds(h, s, x)
                consistent &= bool((low <= high + 1e-9).all())
                own = (high, -low, self._gains(h, s, low, high))
                step = [values[policy.rows, played] for values in own]
                step.append(self._welfare(joint, h, s, low, high))
                now[s] = np.concatenate(step) + self.following[h, s].upper(later, x)
            most = spec.spread * (spec.horizon - h)
            now[:, 2 * k : 3 * k] = np.minimum(now[:, 2 * k : 3 * k], most)
            later = now
        upper, lower, gain = later[:, :k].T, -later[:, k : 2 * k].T, later[:, 2 * k : 3 * k].T
        welfare = np.stack([-later[:, 3 * k + 1], later[:, 3 * k]])
        consistent &= bool((lower <= upper + 1e-9).all())
        return Bounds(policy, lower, upper, gain, welfare, list(spec.starts), consistent)

    def _gains(self, h: int, s: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """(types, actions): upper bound on the gain from another action, by the action played.

        A deviation moves the aggregate by one agent's influence, and the rewards with it. It also
        moves the transitions, which may bring a gain later (Lemma B).
        """
        spec = self.spec
        influence = spec.influences(h, s)
        moved = spec.scale * np.abs(influence[:, :, None] - influence[:, None]).max(-1)
        better = high[:, None] + spec.lipschitz * moved - low[:, :, None]
        same = np.arange(spec.actions)
        better[:, same, same] = 0.0
        later = spec.delta * spec.transition_lipschitz * spec.spread * (spec.horizon - 1 - h)
        return better.max(2) + later

    def _welfare(
        self, joint: Joint, h: int, s: int, low: np.ndarray, high: np.ndarray
    ) -> np.ndarray:
        """(2,): upper bound on the mean welfare of a step, and minus the lower bound."""
        if self.worth is not None:
            low = high = self.worth if self.worth.ndim == 2 else self.worth[h, s]
        plays = joint.plays[h, s] / self.spec.agents
        return np.array([(plays * high).sum(), -(plays * low).sum()])
