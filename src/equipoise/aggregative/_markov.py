"""Pure near-Nash policies of aggregative Markov games, any or the best for society.

Algorithm 1 of the paper plans each step and state alone; Algorithm 2 goes backward and adds the
welfare still to come to each cell's program. What an agent will get later depends on the
aggregate, not on its own action at a given aggregate, so it cancels from its best replies (lemma
B): both need only the slack of the rewards' Lipschitz constant. Values and welfare are those
of the aggregate that the pure profile really has, not of the centre of its cell.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.aggregative._cells import Stage
from equipoise.aggregative._classes import Groups, Roster, alone, group_rows
from equipoise.aggregative._normal import as_tolerance, make_status, mean_worth
from equipoise.aggregative._subroutine import (
    Options,
    Plan,
    as_options,
    as_worth,
    reward_range,
    solve_stage,
)
from equipoise.certificates import certify
from equipoise.core.results import Solution
from equipoise.games import AggregativeMarkovGame


def solve_aggregative_markov(
    game: AggregativeMarkovGame,
    *,
    objective: str = "regret",
    welfare: Any = None,
    loss: Any = None,
    sense: str = "max",
    method: str = "backward",
    spacing: float | None = None,
    epsilon: float = 0.0,
    slack: float | str | None = None,
    rounding: str = "vertex",
    key: int = 0,
    tolerance: float | None = None,
) -> Solution:
    """A pure policy in which no agent can gain more than `stats["bound"]`, certified.

    Options are those of `solve_aggregative`; `welfare` and `loss` are (agents or types, actions)
    or that by step and state, (horizon, states, agents or types, actions). `method` is "backward"
    (Algorithm 2) or "state-wise" (Algorithm 1), which differ in the welfare they reach.

    **Example**

    >>> import equipoise as eq
    >>> grid = eq.games.load("demand-response", agents=1000)
    >>> solution = eq.aggregative.solve_aggregative_markov(grid)
    >>> solution.status.ok, solution.stats["aggregate"].shape
    (True, (8, 3, 1))
    """
    started = time.perf_counter()
    if method not in ("backward", "state-wise"):
        raise ValueError(f"method: expected 'backward' or 'state-wise', found {method!r}")
    shape = (game.horizon, game.states, game.types, game.actions[0])
    worth = as_worth(objective, welfare, loss, shape, "(horizon, states, agents, actions)")
    boxes = [game.box(h, s) for h in range(game.horizon) for s in range(game.states)]
    width = max(float((high - low).max()) for low, high in boxes)
    options = as_options(
        width, objective=objective, sense=sense, spacing=spacing, epsilon=epsilon,
        slack=slack, rounding=rounding, key=key,
    )  # fmt: skip
    groups = group_agents(game, worth)
    planner = Planner(game, groups, worth, options, method)
    planner.plan()
    policy = planner.roster.policy()
    planned = time.perf_counter()
    certificate = certify(game, policy)
    bound = None if rounding == "sample" else planner.bound()
    span = float(planner.ranges.max(1).sum())
    allowed = as_tolerance(tolerance, span)
    stats = {
        "bound": bound,
        "welfare": planner.welfare[0],
        "aggregate": planner.aggregate,
        "shares": planner.shares,
        "types": len(groups.first),
        "groups": groups.group,
        "classes": policy.classes,
        "delta": game.delta,
        "lipschitz": game.lipschitz,
        "lipschitz_estimated": game.lipschitz_estimated,
        "range": span,
        "spacing": max(plan.spacing for plan in planner.plans),
        "slack": max(plan.slack for plan in planner.plans),
        "relaxed": max(plan.relaxed for plan in planner.plans),
        "cells": sum(plan.cells for plan in planner.plans),
        "feasible": sum(plan.feasible for plan in planner.plans),
        "programs": sum(plan.programs for plan in planner.plans),
        "plan_seconds": planned - started,
        "seconds": time.perf_counter() - started,
    }
    status = make_status(certificate, allowed, bound, stats["relaxed"], game.lipschitz_estimated)
    return Solution(policy, planner.value[0], certificate, status, allowed, stats)


def group_agents(game: AggregativeMarkovGame, worth: np.ndarray | None) -> Groups:
    """Agents given one by one who are alike in all steps and states."""
    if game.types < 2 or (game.counts != 1).any():
        return alone(game.counts)

    def rows_first(array: np.ndarray) -> np.ndarray:
        return array if array.ndim < 4 else np.moveaxis(array, 2, 0)

    facts = [lambda: rows_first(game.influence)]
    facts += [] if worth is None else [lambda: rows_first(worth)]
    for h in range(game.horizon):
        for s in range(game.states):
            low, high = game.box(h, s)
            for share in (0.0, 0.61):
                x = low + share * (high - low)
                facts.append(lambda h=h, s=s, x=x: game.rewards(h, s, x))
    return group_rows(game.counts, facts)


def stage_of(
    game: AggregativeMarkovGame,
    groups: Groups,
    h: int,
    s: int,
    *,
    worth: np.ndarray | None = None,
    lipschitz: float | None = None,
    ahead: np.ndarray | None = None,
) -> Stage:
    """One step and state as the planner sees it; `ahead` is the welfare of the next states."""
    low, high = game.box(h, s)
    first = groups.first
    influence = game.influences(h, s)
    own = None if worth is None else (worth if worth.ndim == 2 else worth[h, s])

    def rewards(points: np.ndarray) -> np.ndarray:
        values = game.rewards(h, s, points)
        return values if groups.trivial else values[:, first]

    def later(points: np.ndarray) -> np.ndarray:
        return game.transitions(h, s, points) @ ahead

    return Stage(
        influence=influence if groups.trivial else influence[first],
        counts=groups.counts,
        scale=game.scale,
        low=low,
        high=high,
        lipschitz=game.lipschitz if lipschitz is None else lipschitz,
        delta=game.delta,
        rewards=rewards,
        welfare=None if own is None else own[first],
        ahead=None if ahead is None else later,
    )


class Planner:
    """Backward over the steps, one stage for each state."""

    def __init__(
        self,
        game: AggregativeMarkovGame,
        groups: Groups,
        worth: np.ndarray | None,
        options: Options,
        method: str,
    ):
        self.game, self.groups, self.worth, self.options = game, groups, worth, options
        self.backward = method == "backward"
        horizon, states, actions = game.horizon, game.states, game.actions[0]
        self.roster = Roster(groups, horizon, states, actions)
        self.aggregate = np.zeros((horizon, states, game.dimensions))
        #: (horizon + 1, states): value to the mean agent, and mean welfare, from each step on.
        self.value = np.zeros((horizon + 1, states))
        self.welfare = np.zeros((horizon + 1, states))
        self.bounds = np.zeros((horizon, states))
        #: (horizon, states): the range of rewards at some reachable aggregates.
        self.ranges = np.zeros((horizon, states))
        few = len(groups.first) * actions * horizon * states <= 10_000_000
        #: (horizon, states, types, actions): shares before rounding; None for very many types.
        self.shares = np.zeros((horizon, states, len(groups.first), actions)) if few else None
        self.plans: list[Plan] = []

    def plan(self) -> None:
        """Fill in everything."""
        for h in reversed(range(self.game.horizon)):
            for s in range(self.game.states):
                stage = self._stage(h, s)
                plan = solve_stage(stage, self.options)
                self._record(h, s, stage, plan)

    def _stage(self, h: int, s: int) -> Stage:
        lipschitz = None
        if self.options.slack == "printed" and self.backward:
            left = self.game.horizon - 1 - h
            lipschitz = self.game.lipschitz + self.game.transition_lipschitz * left
        ahead = self.welfare[h + 1] if self.backward else None
        return stage_of(
            self.game, self.groups, h, s, worth=self.worth, lipschitz=lipschitz, ahead=ahead
        )

    def _record(self, h: int, s: int, stage: Stage, plan: Plan) -> None:
        self.roster.assign(h, s, plan.plays)
        self.aggregate[h, s] = plan.aggregate
        self.bounds[h, s] = plan.bound
        self.ranges[h, s] = reward_range(stage)
        if self.shares is not None:
            self.shares[h, s] = plan.shares
        rewards = stage.rewards(plan.aggregate[None])[0]
        value = float((plan.plays * rewards).sum() / stage.agents)
        chances = self.game.transitions(h, s, plan.aggregate)
        earned = value if self.worth is None else mean_worth(stage, plan)
        self.value[h, s] = value + chances @ self.value[h + 1]
        self.welfare[h, s] = earned + chances @ self.welfare[h + 1]
        self.plans.append(_light(plan))

    def bound(self) -> float:
        """Lemma B: the stages' bounds, and what moving the transitions can bring."""
        game, steps = self.game, self.game.horizon
        spread = game.bounds[1] - game.bounds[0]
        moving = game.delta * game.transition_lipschitz * spread * steps * (steps - 1) / 2
        return float(self.bounds.max(1).sum() + moving)


def _light(plan: Plan) -> Plan:
    """A plan without what was recorded elsewhere; a million agents need not be kept twice."""
    nothing = np.zeros((0, 0))
    return replace(plan, plays=nothing, shares=nothing)
