"""Algorithm 3 (Aggre-VI) as printed, and with rewards moved into [0, 1]; known rewards.

It uses the joint Lipschitz envelope of `r + P V` with `L_h = gamma_r + gamma_P (H-h)`, Q in
[0, H], the bonus `c sqrt(S H^2 log(SAKH/p) / N) + gamma_P H alpha`, the printed tolerance and grid,
a pure profile drawn from a vertex of the program of all agents, samples credited to the nearest
cell, welfare ahead without a bonus, and a plan for every episode. The paper does not define Q
without samples: here it stays as it was initialised, H above and 0 below. Q of the drawn profile is
taken at its own aggregate, by the same formula as on the grid (Appendix D).

The paper's games have rewards in [-1, 1], for which 0 is no lower bound. The form
"printed-rescaled" changes this alone: rewards become `(r + 1) / 2`, values of the steps that remain
lie between 0 and their number, as Lemma D.2 requires, and all results are scaled back.

Agents of a type whose later actions are the same have the same Q and form a class: programs and
values are computed by class, and the result is that of agents one by one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.aggregative import theory
from equipoise.aggregative._cells import Stage, printed_grid, stage_of
from equipoise.aggregative._subroutine import Options, select
from equipoise.aggregative.learning._planner import Bounds, Joint
from equipoise.aggregative.learning._samples import Grid, Samples
from equipoise.aggregative.learning._spec import Spec
from equipoise.core.deadline import Deadline
from equipoise.games import AggregativePolicy

#: Values of `form` for which Algorithm 3 runs as printed, with and without the repair.
FORMS = ("printed", "printed-rescaled")


def printed_grids(spec: Spec, spacing: float) -> dict[tuple[int, int], Grid]:
    """Multiples of the spacing, for every step and state."""
    grids = {}
    for place in spec.places:
        points, _ = printed_grid(*spec.box(*place), spacing)
        shape = tuple(len(np.unique(points[:, k])) for k in range(spec.dimensions))
        grids[place] = Grid(points[0], spacing, shape)
    return grids


def draw_profile(mass: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(classes, actions): draw the agents between actions, of whom a vertex leaves at most d.

    >>> draw_profile(np.array([[2.0, 1.0], [1.5, 0.5]]), np.random.default_rng(0)).sum(1).tolist()
    [3, 2]
    """
    whole = np.floor(mass + 1e-9)
    plays = whole.astype(np.int64)
    missing = np.rint(mass.sum(1)).astype(np.int64) - plays.sum(1)
    for kind in np.flatnonzero(missing):
        share = np.maximum(mass[kind] - whole[kind], 0.0)
        plays[kind] += rng.multinomial(missing[kind], share / share.sum())
    return plays


@dataclass(frozen=True)
class Classes:
    """Agents of a type whose actions from some step on are the same, and their values there."""

    #: (agents,) the class of each agent.
    of: np.ndarray
    #: (classes,) one agent of each class.
    first: np.ndarray
    #: (classes,) the row of the game, in ascending order.
    kinds: np.ndarray
    #: (2, classes, states): upper and lower values.
    values: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """(classes,): numbers of agents."""
        return np.bincount(self.of, minlength=len(self.kinds))

    def actions(self, plays: np.ndarray) -> np.ndarray:
        """(agents,): the actions of agents, for (classes, actions) numbers of them."""
        found = np.empty(len(self.of), np.int64)
        order = np.argsort(self.of, kind="stable")
        found[order] = np.repeat(np.tile(np.arange(plays.shape[1]), len(plays)), plays.ravel())
        return found


class PrintedPlanner:
    """Planner of Algorithm 3 as printed, like `Planner`. Rows of its plans are agents."""

    relaxed = 1.0

    def __init__(
        self,
        spec: Spec,
        grids: dict[tuple[int, int], Grid],
        options: Options,
        worth: np.ndarray | None,
        settings: Any,
    ):
        #: Rewards are `low + scale * r'`, with the rewards r' that the algorithm sees.
        self.low, self.scale = 0.0, 1.0
        self.rescaled = settings.form == "printed-rescaled"
        if self.rescaled:
            (self.low, _), self.scale = spec.bounds, spec.spread
            spec = spec.rescaled()
        self.spec, self.grids, self.options, self.worth = spec, grids, options, worth
        self.origin = np.repeat(np.arange(spec.types), spec.counts)
        self.last, self.deadline = Joint.empty(spec).plays, Deadline()  # for `Planner` alone
        self.bonus, self.key = settings.bonus, settings.key
        size = spec.states * spec.actions * settings.episodes * spec.horizon
        self.log = float(np.log(size / settings.failure))
        self._rewards: dict[tuple[int, int], np.ndarray] = {}

    @property
    def stage_bound(self) -> float:
        """Theorem 4.1 as printed, without the term for transitions."""
        spec = self.spec
        names = ("lipschitz", "transition_lipschitz", "delta", "agents", "actions", "horizon")
        given = {name: getattr(spec, name) for name in names}
        return self.scale * theory.printed_gap(spacing=self.options.side, **given)

    def forget(self, place: tuple[int, int] | None = None) -> None:
        """Do nothing: no menus are kept from plan to plan."""

    def likely(self, evaluation: "PrintedEvaluation") -> None:
        """Return None: the paper returns only policies that it plays."""

    def plan(self, samples: Samples) -> tuple[Joint, "PrintedEvaluation"]:
        """One backward pass: values, programs and draws together."""
        spec = self.spec
        plays = np.zeros((spec.horizon, spec.states, spec.agents, spec.actions), np.int64)
        joint = replace(Joint.empty(spec), plays=plays)
        # A function of the samples alone, so that the plan can be reproduced.
        rng = np.random.default_rng((self.key, int(samples.visits.sum())))
        options = replace(self.options, rng=rng)

        def choose(sheet: "_Sheet", classes: Classes) -> float:
            place = sheet.place
            stage = self._stage(sheet, classes)
            plan = select(stage, options)
            drawn = draw_profile(plan.shares * stage.counts[:, None], rng)
            joint.aggregate[place] = stage.aggregate(drawn)
            joint.cell[place] = self.grids[place].nearest(joint.aggregate[place])
            plays[place][np.arange(spec.agents), classes.actions(drawn)] = 1
            return plan.objective

        found = self.classes(samples, joint, choose)
        return joint, PrintedEvaluation(self, samples, (joint, found))

    def classes(
        self,
        samples: Samples,
        joint: Joint,
        choose: Callable[["_Sheet", Classes], float] = lambda *_: 0.0,
    ) -> Classes:
        """Classes of agents with their values under a joint policy, backward.

        `choose` may set the plays in a step and state, and returns the welfare ahead.
        """
        spec, ahead = self.spec, np.zeros(self.spec.states)
        kinds = np.arange(spec.types)
        first = np.concatenate([[0], np.cumsum(spec.counts)[:-1]])
        later = Classes(self.origin, first, kinds, np.zeros((2, len(kinds), spec.states)))
        for h in reversed(range(spec.horizon)):
            welfare, codes, sheets = np.empty_like(ahead), later.of, []
            actions = np.empty((spec.states, spec.agents), np.int64)
            for s in range(spec.states):
                sheet = self.sheet(samples, (h, s), later, ahead)
                welfare[s] = choose(sheet, later)
                sheets.append(sheet)
                actions[s] = joint.plays[h, s].argmax(1)
                codes = codes * spec.actions + actions[s]
            _, first, of = np.unique(codes, return_index=True, return_inverse=True)
            values = np.empty((2, len(first), spec.states))
            for s, sheet in enumerate(sheets):
                parents = later.of[first]
                values[:, :, s] = sheet.values(joint.aggregate[h, s], parents, actions[s, first])
            if self.rescaled:
                values = np.clip(values, 0.0, spec.horizon - h)
            later, ahead = Classes(of, first, self.origin[first], values), welfare
        return later

    def sheet(
        self, samples: Samples, place: tuple[int, int], later: Classes, ahead: np.ndarray
    ) -> "_Sheet":
        """Bounds on Q of all classes in one step and state."""
        spec, grid, steps = self.spec, self.grids[place], self.spec.horizon
        rows = samples.rows(*place)
        count = samples.visits[rows]
        shares = samples.following[rows] / count[:, None]
        bonus = self.bonus * np.sqrt(spec.states * steps**2 * self.log / count)
        if place not in self._rewards:
            self._rewards[place] = spec.rewards(*place, grid.centres)
        return _Sheet(
            place=place,
            grid=grid,
            seen=samples.where[rows, 2],
            rewards=self._rewards[place],
            kinds=later.kinds,
            means=later.values @ shares.T,
            bonus=bonus + spec.transition_lipschitz * steps * grid.side,
            slope=spec.lipschitz + spec.transition_lipschitz * (steps - 1 - place[0]),
            steps=steps,
            welfare=shares @ ahead,
        )

    def _stage(self, sheet: "_Sheet", classes: Classes) -> Stage:
        """The stage of a program: Q as rewards, scaled by its own Lipschitz constant."""
        table, kinds = sheet.upper(), classes.kinds
        changes: dict[str, Any] = {
            "influence": self.spec.influences(*sheet.place)[kinds],
            "counts": classes.counts,
            "lipschitz": sheet.slope,
            "rewards": lambda points: table[sheet.nearest(points)],
        }
        # Without other weights the objective is the sum of Q, which includes what is ahead.
        if self.worth is not None:
            worth = self.worth if self.worth.ndim == 2 else self.worth[sheet.place]
            ahead = np.zeros(sheet.grid.cells)
            ahead[sheet.seen] = sheet.welfare
            changes["welfare"] = worth[kinds]
            changes["ahead"] = lambda points: ahead[sheet.nearest(points)]
        return replace(stage_of(self.spec, sheet.place), **changes)


@dataclass(frozen=True)
class _Sheet:
    """Bounds on Q of all classes in one step and state, from the cells visited."""

    place: tuple[int, int]
    grid: Grid
    #: (visited,) cells.
    seen: np.ndarray
    #: (cells, types, actions)
    rewards: np.ndarray
    #: (classes,) the row of the game.
    kinds: np.ndarray
    #: (2, classes, visited): means of the upper and lower values of the next state.
    means: np.ndarray
    #: (visited,)
    bonus: np.ndarray
    slope: float
    steps: int
    #: (visited,): mean of the welfare ahead.
    welfare: np.ndarray

    def upper(self) -> np.ndarray:
        """(cells, classes, actions): upper bounds on Q on the grid."""
        actions = self.rewards.shape[2]
        found = np.full((self.grid.cells, len(self.kinds), actions), float(self.steps))
        for k, cell in enumerate(self.seen):
            far = self.slope * np.abs(self.grid.centres - self.grid.centres[cell]).max(-1)
            here = self.rewards[cell, self.kinds] + (self.means[0, :, k] + self.bonus[k])[:, None]
            np.minimum(found, here + far[:, None, None], out=found)
        return np.clip(found, 0.0, self.steps)

    def values(self, x: np.ndarray, classes: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """(2, agents): upper and lower Q at x, for agents by class and action."""
        centres = self.grid.centres[self.seen]
        far = self.bonus + self.slope * np.abs(centres - x).max(-1)
        rewards = self.rewards[self.seen][:, self.kinds[classes], actions].T
        high = (rewards + self.means[0, classes] + far).min(1, initial=float(self.steps))
        low = (rewards + self.means[1, classes] - far).max(1, initial=0.0)
        return np.clip(np.stack([high, low]), 0.0, self.steps)

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """(points,): the nearest cell of each point."""
        return np.abs(points[:, None] - self.grid.centres).max(-1).argmin(1)


@dataclass(frozen=True)
class PrintedEvaluation:
    """Values of policies between the printed bounds, from the samples of one moment."""

    planner: PrintedPlanner
    samples: Samples
    #: The joint policy just planned, and its classes.
    planned: tuple[Joint, Classes]

    def bounds(self, joint: Joint) -> Bounds:
        """Evaluate backward over the steps; the gain is the sum in Theorem 5.1."""
        planner, spec = self.planner, self.planner.spec
        planned, found = self.planned
        if joint is not planned:
            found = planner.classes(self.samples, joint)
        upper, lower = planner.low * spec.horizon + planner.scale * found.values
        gain = upper - lower + planner.stage_bound
        share = found.counts / spec.agents
        actions = joint.plays[:, :, found.first].argmax(-1)
        policy = AggregativePolicy(found.kinds, found.counts, np.moveaxis(actions, 2, 0))
        welfare = np.stack([share @ lower, share @ upper])
        return Bounds(policy, lower, upper, gain, welfare, list(spec.starts))
