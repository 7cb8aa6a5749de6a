"""Algorithm 3 as printed, for comparison: known rewards, agents one by one.

It uses the joint Lipschitz envelope of `r + P V` with `L_h = gamma_r + gamma_P (H-h)`, values in
[0, H], the bonus `c sqrt(S H^2 log(SAKH/p) / N) + gamma_P H alpha`, the printed tolerance and grid,
a pure profile drawn from the program's mix, samples credited to the nearest cell, welfare ahead
without a bonus, and a plan for every episode. The paper does not define Q without samples: here it
stays as it was initialised, H above and 0 below.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.aggregative import theory
from equipoise.aggregative._cells import Stage, printed_grid, stage_of
from equipoise.aggregative._classes import alone, policy_of
from equipoise.aggregative._structure import Deadline
from equipoise.aggregative._subroutine import Options, select
from equipoise.aggregative.learning._planner import Bounds, Joint
from equipoise.aggregative.learning._samples import Grid, Samples
from equipoise.aggregative.learning._spec import Spec


def printed_grids(spec: Spec, spacing: float) -> dict[tuple[int, int], Grid]:
    """Multiples of the spacing, for every step and state."""
    grids = {}
    for place in spec.places:
        points, _ = printed_grid(*spec.box(*place), spacing)
        shape = tuple(len(np.unique(points[:, k])) for k in range(spec.dimensions))
        grids[place] = Grid(points[0], spacing, shape)
    return grids


class PrintedPlanner:
    """Planner as printed, with the interface of `Planner`."""

    relaxed = 1.0

    def __init__(
        self,
        spec: Spec,
        grids: dict[tuple[int, int], Grid],
        options: Options,
        worth: np.ndarray | None,
        settings: Any,
    ):
        self.spec, self.grids, self.options, self.worth = spec, grids, options, worth
        self.last, self.deadline = Joint.empty(spec).plays, Deadline()  # for `Planner` alone
        self.bonus, self.key = settings.bonus, settings.key
        size = spec.states * spec.actions * settings.episodes * spec.horizon
        self.log = float(np.log(size / settings.failure))

    @property
    def stage_bound(self) -> float:
        """Theorem 4.1 as printed, without the term for transitions."""
        spec = self.spec
        names = ("lipschitz", "transition_lipschitz", "delta", "agents", "actions", "horizon")
        given = {name: getattr(spec, name) for name in names}
        return theory.printed_gap(spacing=self.options.side, **given)

    def forget(self, place: tuple[int, int] | None = None) -> None:
        """Do nothing: no menus are kept from plan to plan."""

    def likely(self, evaluation: "PrintedEvaluation") -> None:
        """Return None: the paper returns only policies that it plays."""

    def plan(self, samples: Samples) -> tuple[Joint, "PrintedEvaluation"]:
        """One backward pass: values, programs and draws together."""
        joint = Joint.empty(self.spec)
        # A function of the samples alone, so that the plan can be reproduced.
        rng = np.random.default_rng((self.key, int(samples.visits.sum())))
        options = replace(self.options, rng=rng)

        def choose(h: int, s: int, sheet: "_Sheet") -> float:
            plan = select(self._stage(h, s, sheet), options)
            joint.plays[h, s], joint.aggregate[h, s] = plan.plays, plan.aggregate
            joint.cell[h, s] = self.grids[h, s].nearest(plan.aggregate)
            return plan.objective

        self.values(samples, joint, choose)
        return joint, PrintedEvaluation(self, samples)

    def values(
        self,
        samples: Samples,
        joint: Joint,
        choose: Callable[[int, int, "_Sheet"], float] = lambda *_: 0.0,
    ) -> np.ndarray:
        """(2, agents, states): upper and lower values of a joint policy, backward.

        `choose` may set the plays in a step and state, and returns the welfare ahead.
        """
        spec = self.spec
        later, ahead = np.zeros((2, spec.types, spec.states)), np.zeros(spec.states)
        for h in reversed(range(spec.horizon)):
            now, welfare = np.empty_like(later), np.empty_like(ahead)
            for s in range(spec.states):
                sheet = self.sheet(samples, h, s, later[0], later[1], ahead)
                welfare[s] = choose(h, s, sheet)
                now[:, :, s] = sheet.values(joint.aggregate[h, s], joint.plays[h, s])
            later, ahead = now, welfare
        return later

    def sheet(
        self,
        samples: Samples,
        h: int,
        s: int,
        upper: np.ndarray,
        lower: np.ndarray,
        ahead: np.ndarray,
    ) -> "_Sheet":
        """Q of all agents on the grid of one step and state."""
        spec, grid, steps = self.spec, self.grids[h, s], self.spec.horizon
        rows = samples.rows(h, s)
        seen, count = samples.where[rows, 2], samples.visits[rows]
        shares = samples.following[rows] / count[:, None]
        bonus = self.bonus * np.sqrt(spec.states * steps**2 * self.log / count)
        bonus = bonus + spec.transition_lipschitz * steps * grid.side
        slope = spec.lipschitz + spec.transition_lipschitz * (steps - 1 - h)
        rewards = spec.rewards(h, s, grid.centres[seen]) if rows else np.zeros(0)
        away = np.abs(grid.centres[:, None] - grid.centres[None, seen]).max(-1)
        shape = (grid.cells, spec.types, spec.actions)
        high, low = np.full(shape, float(steps)), np.zeros(shape)
        for k in range(len(rows)):
            far = slope * away[:, k, None, None]
            high = np.minimum(high, rewards[k] + (upper @ shares[k] + bonus[k])[:, None] + far)
            low = np.maximum(low, rewards[k] + (lower @ shares[k] - bonus[k])[:, None] - far)
        later = np.zeros(grid.cells)
        later[seen] = shares @ ahead
        return _Sheet(np.clip(high, 0, steps), np.clip(low, 0, steps), later, slope, grid)

    def _stage(self, h: int, s: int, sheet: "_Sheet") -> Stage:
        """The stage of a program: Q as rewards, scaled by its own Lipschitz constant."""
        changes: dict[str, Any] = {
            "lipschitz": sheet.slope,
            "rewards": lambda points: sheet.upper[sheet.nearest(points)],
        }
        # Without other weights the objective is the sum of Q, which includes what is ahead.
        if self.worth is not None:
            changes["ahead"] = lambda points: sheet.ahead[sheet.nearest(points)]
        return stage_of(self.spec, (h, s), worth=self.worth, **changes)


@dataclass(frozen=True)
class _Sheet:
    """Bounds on Q on a grid, and the welfare ahead."""

    #: (cells, agents, actions)
    upper: np.ndarray
    lower: np.ndarray
    #: (cells,)
    ahead: np.ndarray
    slope: float
    grid: Grid

    def values(self, x: np.ndarray, plays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(agents,) each: upper and lower Q of the action that each agent plays."""
        here, played = self.grid.nearest(x), (np.arange(len(plays)), plays.argmax(1))
        return self.upper[here][played], self.lower[here][played]

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """(points,): the nearest cell of each point."""
        return np.abs(points[:, None] - self.grid.centres).max(-1).argmin(1)


@dataclass(frozen=True)
class PrintedEvaluation:
    """Values of policies between the printed bounds, from the samples of one moment."""

    planner: PrintedPlanner
    samples: Samples

    def bounds(self, joint: Joint) -> Bounds:
        """Evaluate backward over the steps; the gain is the sum in Theorem 5.1."""
        planner, spec = self.planner, self.planner.spec
        upper, lower = planner.values(self.samples, joint)
        gain = upper - lower + planner.stage_bound
        welfare = np.stack([lower.mean(0), upper.mean(0)])
        # One class for each agent, in their order: `policy_of` has no counts to split.
        policy = policy_of(alone(spec.counts), joint.plays)
        return Bounds(policy, lower, upper, gain, welfare, list(spec.starts))
