"""All near-equilibria of one stage that the grid tells apart, to choose from when replanning.

What lies ahead is a constant of each cell and does not change what is best within it. So the
programs of a stage are solved once for given rewards, and replanning only compares what their
solutions are worth now plus what lies ahead.
"""

from dataclasses import dataclass, replace

import numpy as np

from equipoise.aggregative._cells import Stage, near_best, possible, solve_cell
from equipoise.aggregative._subroutine import (
    Options,
    Plan,
    cell_weights,
    descend,
    make_plan,
    seek,
    stage_slack,
)
from equipoise.aggregative.learning._grid import Grid
from equipoise.aggregative.learning._rewards import Rewards
from equipoise.aggregative.learning._spec import Spec

#: How often a slack that leaves no cell feasible is doubled.
_DOUBLINGS = 60


@dataclass(frozen=True)
class Menu:
    """Pure profiles of one step and state."""

    #: (entries, types, actions)
    plays: np.ndarray
    #: (entries, d)
    aggregate: np.ndarray
    #: (entries,) the cell that each was planned for.
    cell: np.ndarray
    #: (entries,) mean worth of the step.
    worth: np.ndarray
    #: What nobody gains more than in this step by lemma A, if the rewards are right.
    bound: float
    #: How much the slack had to grow before a cell was feasible; 1 under lemma A.
    relaxed: float


def stage_of(
    spec: Spec, h: int, s: int, rewards: Rewards, worth: np.ndarray | None = None
) -> Stage:
    """One step and state with these rewards, as the subroutine sees it."""
    low, high = spec.box(h, s)
    own = None if worth is None else (worth if worth.ndim == 2 else worth[h, s])
    return Stage(
        influence=spec.influences(h, s),
        counts=spec.counts,
        scale=spec.scale,
        low=low,
        high=high,
        lipschitz=spec.lipschitz,
        delta=spec.delta,
        rewards=rewards,
        welfare=own,
    )


def make_menu(stage: Stage, options: Options, grid: Grid) -> Menu:
    """Every feasible cell's plan; or, where any equilibrium will do, the one of least regret."""
    if options.objective == "regret":
        plans = [seek(stage, options)]
        return _menu(stage, options, plans, [grid.nearest(plans[0].aggregate)])
    slack, relaxed = stage_slack(stage, options, grid.side), 1.0
    for _ in range(_DOUBLINGS):
        plans, cells = _programs(stage, options, grid, slack, relaxed)
        if plans:
            return _menu(stage, options, plans, cells)
        relaxed *= 2.0
        slack = 2.0 * max(slack, 1e-3 * stage.lipschitz * grid.side, 1e-12)
    raise RuntimeError("no cell is feasible at any slack: the rewards are not finite")


def _programs(
    stage: Stage, options: Options, grid: Grid, slack: float, relaxed: float
) -> tuple[list[Plan], list[int]]:
    plans: list[Plan] = []
    cells: list[int] = []
    counted = {"cells": 0, "feasible": 0, "programs": 0}
    feasible = []
    for start in range(0, len(grid.centres), stage.chunk()):
        centres = grid.centres[start : start + stage.chunk()]
        rewards = stage.rewards(centres)
        allowed = near_best(rewards, slack)
        for index in np.flatnonzero(possible(stage, allowed, centres, grid.half)):
            weights = cell_weights(stage, options, rewards[index])
            vertex = solve_cell(stage, weights, allowed[index], centres[index], grid.half)
            if vertex is None:
                continue
            feasible.append(start + index)
            plan = make_plan(
                stage, options, vertex, centres[index], grid.half, slack,
                relaxed=relaxed, **counted,
            )  # fmt: skip
            plans.append(plan)
            cells.append(int(start + index))
    if plans:  # an equilibrium as exact as can be may be worth more than any program's solution
        inside = (grid.centres[np.array(feasible)], grid.half)
        exact = descend(stage, options, inside, 1.0, dict(counted))
        if exact is not None:
            plans.append(replace(exact, bound=plans[0].bound))
            cells.append(grid.nearest(exact.aggregate))
    return plans, cells


def _menu(stage: Stage, options: Options, plans: list[Plan], cells: list[int]) -> Menu:
    plays = np.stack([plan.plays for plan in plans])
    aggregate = np.stack([plan.aggregate for plan in plans])
    worth = np.zeros(len(plans))
    if options.objective != "regret":
        rewards = stage.rewards(aggregate) if stage.welfare is None else stage.welfare
        worth = (plays * rewards).sum((1, 2)) / stage.agents
    bound, relaxed = max(plan.bound for plan in plans), max(plan.relaxed for plan in plans)
    return Menu(plays, aggregate, np.array(cells), worth, bound, relaxed)
