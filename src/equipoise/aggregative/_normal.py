"""Pure near-Nash profiles of aggregative games in normal form.

After rounding, one agent at a time tries another action. A vertex is rounded to keep the aggregate,
which need not be the profile with the least gain: of 25 drivers, the one in between may be put to
the wrong road. In small games every exchange is judged by certified gains.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.aggregative._cells import Stage
from equipoise.aggregative._classes import Groups, alone, group_rows
from equipoise.aggregative._subroutine import (
    Options,
    Plan,
    as_options,
    as_worth,
    reward_range,
    solve_stage,
    worth_of,
)
from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.results import Certificate, Outcome, Solution, Status
from equipoise.games import AggregativeGame, AggregativePolicy

#: The largest gain allowed, unless told, as a part of the range of rewards.
TOLERANCE = 1e-4

#: Exchanges times (rows x actions) of the game: beyond, they cost more than they bring.
_WORK = 2**18

#: How many agents change their action, at most.
_ROUNDS = 8

#: What counts as better, beyond rounding.
_BETTER = 1e-12


def solve_aggregative(
    game: AggregativeGame,
    *,
    objective: str = "regret",
    welfare: Any = None,
    loss: Any = None,
    sense: str = "max",
    spacing: float | None = None,
    epsilon: float = 0.0,
    slack: float | str | None = None,
    rounding: str = "vertex",
    key: int = 0,
    tolerance: float | None = None,
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
    - `slack`: how far from its best an action of a cell may be; lemma A sets it unless it is
      given. `slack="printed"` and `rounding="sample"` (with `key`) are as the paper has them, to
      compare with.
    - `tolerance`: the largest gain allowed, in units of reward, 1e-4 of the range of rewards at
      some reachable aggregates unless given. The game is solved if the certificate proves it.

    **Example**

    >>> import equipoise as eq
    >>> town = eq.games.load("two-roads", agents=100_000)
    >>> solution = eq.aggregative.solve_aggregative(town)
    >>> solution.status.ok, bool(solution.certificate.max_upper <= solution.tolerance)
    (True, True)
    """
    started = time.perf_counter()
    worth = as_worth(objective, welfare, loss, game.influence.shape[:2], "(agents, actions)")
    low, high = game.box
    options = as_options(
        float((high - low).max()), objective=objective, sense=sense, spacing=spacing,
        epsilon=epsilon, slack=slack, rounding=rounding, key=key,
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
    span = reward_range(stage)
    allowed = as_tolerance(tolerance, span)
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
        "range": span,
        "spacing": plan.spacing,
        "slack": plan.slack,
        "relaxed": plan.relaxed,
        "cells": plan.cells,
        "feasible": plan.feasible,
        "programs": plan.programs,
        "plan_seconds": planned - started,
        "seconds": time.perf_counter() - started,
    }
    status = make_status(certificate, allowed, bound, plan.relaxed, game.lipschitz_estimated)
    return Solution(policy, np.asarray(value), certificate, status, allowed, stats)


def as_tolerance(tolerance: float | None, span: float) -> float:
    """The largest gain allowed: as given, or a part of the range of rewards."""
    if tolerance is None:
        return TOLERANCE * span
    checks.check_range("tolerance", tolerance, 0.0, np.inf)
    return float(tolerance)


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
    certificate: Certificate,
    tolerance: float,
    bound: float | None,
    relaxed: float,
    estimated: bool,
) -> Status:
    """Solved when no agent can gain more than the tolerance, as certified.

    Otherwise the gain may still be within the bound that the theory promises of the plan.
    """
    gain, upper = float(certificate.max_gain), float(certificate.max_upper)
    solved = upper <= tolerance
    kept = bound is not None and gain <= bound + 1e-12 and relaxed == 1
    outcome = Outcome.SOLVED if solved else Outcome.WITHIN_BOUND if kept else Outcome.INEXACT
    verb = "at most" if solved else "above"
    message = [f"the largest gain is {upper:.3g}, {verb} the tolerance of {tolerance:.3g}"]
    if bound is None:
        message.append("sampling promises nothing")
    elif not solved:
        verb = "at most" if gain <= bound + 1e-12 else "less than that"
        message.append(f"{verb} {bound:.3g} was promised for this number of agents")
    if estimated:
        message.append("the Lipschitz constant was estimated, not given")
    if relaxed > 1:
        message.append(
            f"no cell was feasible until the slack grew {relaxed:g} times: give a larger "
            "`lipschitz`, or leave `slack` to its default"
        )
    return Status(outcome, "; ".join(message), np.asarray(solved))


def exchange(
    game: AggregativeGame, groups: Groups, stage: Stage, options: Options, plan: Plan
) -> Plan:
    """The plan after a few agents moved, each to the best end: never a larger gain.

    Where any equilibrium will do, a move must lower the largest gain; where welfare is sought, it
    must raise it (or lower it, as asked) and leave the gain no larger; so the plan's bound holds.
    What is as printed stays as printed.
    """
    types, actions = plan.plays.shape
    work = types * actions**2 * game.types * actions
    if options.slack == "printed" or options.rounding == "sample" or work > _WORK:
        return plan
    gain = _gain(game, groups, plan)
    for _ in range(_ROUNDS):
        if options.objective == "regret" and gain <= 0.0:
            break
        found = _best_move(game, groups, stage, options, plan, gain)
        if found is None:
            break
        plan, gain = found
    return plan


def _best_move(
    game: AggregativeGame, groups: Groups, stage: Stage, options: Options, plan: Plan, gain: float
) -> tuple[Plan, float] | None:
    """The best plan that one agent's move leads to, with its gain; None where none is better."""
    regret = options.objective == "regret"
    best, least = None, -gain if regret else worth_of(stage, options, plan)
    for kind, left in np.argwhere(plan.plays).tolist():
        for taken in range(plan.plays.shape[1]):
            if taken == left:
                continue
            moved = _move(stage, plan, kind, left, taken)
            score = np.inf if regret else worth_of(stage, options, moved)
            if score <= least + _BETTER:
                continue
            after = _gain(game, groups, moved)
            score = -after if regret else score
            if score > least + _BETTER and after <= gain + _BETTER:
                best, least = (moved, after), score
    return best


def _move(stage: Stage, plan: Plan, kind: int, left: int, taken: int) -> Plan:
    """The plan with one agent of a type at another action."""
    plays = plan.plays.copy()
    plays[kind, left] -= 1
    plays[kind, taken] += 1
    flat = stage.influence.reshape(-1, stage.dimensions)
    aggregate = stage.scale * (plays.reshape(-1).astype(np.float64) @ flat)
    return replace(plan, plays=plays, aggregate=aggregate)


def _gain(game: AggregativeGame, groups: Groups, plan: Plan) -> float:
    """The largest gain of anybody, exact."""
    return float(certify(game, spread(groups, plan.plays)).max_gain)


def spread(groups: Groups, plays: np.ndarray) -> AggregativePolicy:
    """What the agents of each group play, as a policy of the game's own rows."""
    kinds, actions = np.nonzero(plays)
    counts = plays[kinds, actions]
    if groups.trivial:
        return AggregativePolicy(kinds, counts, actions)
    rows = np.argsort(groups.group, kind="stable")
    played = np.empty(len(rows), np.int64)
    played[rows] = np.repeat(actions, counts)
    return AggregativePolicy(np.arange(len(rows)), np.ones(len(rows), np.int64), played)
