"""Pure near-Nash profiles of aggregative games in normal form."""

import time
from typing import Any

import numpy as np

from equipoise.aggregative._cells import Stage
from equipoise.aggregative._exchange import exchange, spread
from equipoise.aggregative._grouping import Groups, alone, group_rows
from equipoise.aggregative._options import as_options, as_worth
from equipoise.aggregative._subroutine import Plan, solve_stage
from equipoise.certificates import certify
from equipoise.core.results import Solution, Status
from equipoise.games import AggregativeGame

#: Gains above this part of the range of rewards are not called solved without more ado.
_SMALL = 0.01


def solve_aggregative(
    game: AggregativeGame,
    *,
    objective: str = "regret",
    welfare: Any = None,
    loss: Any = None,
    sense: str = "max",
    spacing: float | None = None,
    epsilon: float = 0.0,
    tolerance: float | str | None = None,
    rounding: str = "vertex",
    key: int = 0,
) -> Solution:
    """A pure profile in which no agent can gain more than `stats["bound"]`, certified.

    - `objective="regret"`: any equilibrium, as exact as the number of agents allows. "welfare":
      the near-equilibrium of the largest (or, with `sense="min"`, smallest) mean `welfare`, an
      array (agents or types, actions), or the agents' rewards without it; no pure
      `epsilon`-Nash profile is better. "loss": the least mean `loss`.
    - `spacing`: side of the cells, a twentieth of the widest side of the reachable aggregates
      unless given; where any equilibrium will do, that of the first cells, which are halved.
    - In small games agents then try other actions one at a time, and keep what lowers the largest
      gain, or betters the welfare at no larger gain.
    - `tolerance="printed"` and `rounding="sample"` (with `key`) are as the paper has them, to
      compare with; a number is a tolerance of one's own.

    **Example**

    >>> import equipoise as eq
    >>> town = eq.games.load("two-roads", agents=1000)
    >>> solution = eq.aggregative.solve_aggregative(town)
    >>> solution.status.ok, bool(solution.certificate.max_gain <= solution.stats["bound"])
    (True, True)
    """
    started = time.perf_counter()
    worth = as_worth(objective, welfare, loss, game.influence.shape[:2], "(agents, actions)")
    low, high = game.box
    options = as_options(
        float((high - low).max()), objective=objective, sense=sense, spacing=spacing,
        epsilon=epsilon, tolerance=tolerance, rounding=rounding, key=key,
    )  # fmt: skip
    groups = group_agents(game, worth)
    stage = stage_of(game, groups, worth)
    plan = exchange(game, groups, stage, options, solve_stage(stage, options))
    policy = spread(groups, plan.plays)
    planned = time.perf_counter()
    certificate = certify(game, policy)
    rewards = stage.rewards(plan.aggregate[None])[0]
    value = float((plan.plays * rewards).sum() / stage.agents)
    earned = value if worth is None else mean_worth(stage, plan)
    bound = None if options.rounding == "sample" else plan.bound
    stats = {
        "bound": bound,
        "welfare": earned,
        "aggregate": plan.aggregate,
        "shares": plan.shares,
        "types": len(groups.first),
        "groups": groups.group,
        "delta": game.delta,
        "lipschitz": game.lipschitz,
        "lipschitz_estimated": game.lipschitz_estimated,
        "spacing": plan.spacing,
        "tolerance": plan.tolerance,
        "relaxed": plan.relaxed,
        "cells": plan.cells,
        "feasible": plan.feasible,
        "programs": plan.programs,
        "plan_seconds": planned - started,
        "seconds": time.perf_counter() - started,
    }
    status = make_status(
        float(certificate.max_gain), bound, plan.relaxed, game.lipschitz_estimated,
        span=game.bounds[1] - game.bounds[0],
    )  # fmt: skip
    return Solution(policy, np.asarray(value), certificate, status, stats)


def group_agents(game: AggregativeGame, worth: np.ndarray | None = None) -> Groups:
    """Agents given one by one who are alike; declared types stay as they are."""
    if game.types < 2 or (game.counts != 1).any():
        return alone(game.counts)
    low, high = game.box
    points = [low, high, *(low + (high - low) * np.array([[0.37], [0.61]]))]
    facts = [lambda: game.influence]
    facts += [] if worth is None else [lambda: worth]
    facts += [lambda x=x: game.rewards(x) for x in points]
    return group_rows(game.counts, facts)


def stage_of(game: AggregativeGame, groups: Groups, worth: np.ndarray | None = None) -> Stage:
    """The game as the planner sees it."""
    low, high = game.box
    first = groups.first

    def rewards(points: np.ndarray) -> np.ndarray:
        values = game.rewards(points)
        return values if groups.trivial else values[:, first]

    return Stage(
        influence=game.influence if groups.trivial else game.influence[first],
        counts=groups.counts,
        scale=game.scale,
        low=low,
        high=high,
        lipschitz=game.lipschitz,
        delta=game.delta,
        rewards=rewards,
        welfare=None if worth is None else worth[first],
    )


def mean_worth(stage: Stage, plan: Plan) -> float:
    """The mean welfare of a plan in its own stage."""
    worth = stage.rewards(plan.aggregate[None])[0] if stage.welfare is None else stage.welfare
    return float((plan.plays * worth).sum() / stage.agents)


def make_status(
    gain: float, bound: float | None, relaxed: float, estimated: bool, *, span: float
) -> Status:
    """Solved when the certified gain is within what was promised, for the reasons promised.

    A promise may be large. A gain of more than a hundredth of `span`, the range of rewards, is
    called no more than it is: within the proven bound.
    """
    notes = []
    if estimated:
        notes.append("the Lipschitz constant was estimated, not given")
    if relaxed > 1:
        notes.append(
            f"no cell was feasible until the tolerance grew {relaxed:g} times: give a larger "
            "`lipschitz`, or leave `tolerance` to its default"
        )
    if bound is None:
        message = f"no agent gains more than {gain:.3g}; sampling promises nothing"
        solved = False
    else:
        solved = gain <= bound + 1e-12 and relaxed == 1
        verb = "and at most" if gain <= bound + 1e-12 else "more than the promised"
        message = f"no agent gains more than {gain:.3g}, {verb} {bound:.3g}"
        message += " was promised" if verb == "and at most" else ""
    text = "; ".join([message, *notes])
    name = "solved" if gain <= _SMALL * span else "within the proven bound"
    return Status(name if solved else "inexact", text, np.asarray(solved))
