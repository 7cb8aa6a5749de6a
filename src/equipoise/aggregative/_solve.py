"""Pure near-Nash policies of aggregative games, any or the best for society.

In a Markov game Algorithm 1 of the paper plans each step and state alone; Algorithm 2 goes backward
and adds the welfare still to come to each cell's program. What an agent will get later depends on
the aggregate, not on its own action at a given aggregate, so it cancels from its best replies
(lemma B): both need only the slack of the rewards' Lipschitz constant. Values and welfare are those
of the aggregate that the pure profile really has, not of the centre of its cell.

A game in normal form is one stage. After rounding, one agent at a time tries another action there.
A vertex is rounded to keep the aggregate, which need not be the profile with the least gain: of 25
drivers, the one in between may be put to the wrong road. In small games every exchange is judged by
certified gains.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.aggregative._cells import Stage, stage_of
from equipoise.aggregative._classes import (
    Groups,
    Roster,
    group_agents,
    one_stage,
    places_of,
    policy_of,
)
from equipoise.aggregative._subroutine import (
    Options,
    Plan,
    as_options,
    as_worth,
    check_choice,
    reward_range,
    solve_stage,
    worth_of,
)
from equipoise.certificates import certify
from equipoise.core import InputError, checks
from equipoise.core.results import Certificate, Outcome, Solution, Status
from equipoise.games import AggregativeGame, AggregativeMarkovGame

#: The largest gain allowed, unless told, as a part of the range of rewards.
TOLERANCE = 1e-4

#: Exchanges times (rows x actions) of the game: beyond, they cost more than they bring.
_WORK = 2**18

#: How many agents change their action, at most.
_ROUNDS = 8

#: What counts as better, beyond rounding.
_BETTER = 1e-12

#: Shares before rounding are kept of so many types, actions, steps and states.
_SHARES = 10_000_000


def solve_aggregative(
    game: AggregativeGame | AggregativeMarkovGame,
    *,
    objective: str = "regret",
    welfare: Any = None,
    loss: Any = None,
    sense: str = "max",
    method: str | None = None,
    spacing: float | None = None,
    epsilon: float = 0.0,
    slack: float | str | None = None,
    rounding: str = "vertex",
    key: int = 0,
    tolerance: float | None = None,
) -> Solution:
    """A pure policy in which no agent can gain more than `stats["bound"]`, certified.

    - `objective="regret"`: any equilibrium, as exact as the number of agents allows. "welfare":
      the near-equilibrium of the largest (or, with `sense="min"`, smallest) mean `welfare`, an
      array (agents or types, actions), or the agents' rewards without it; no pure
      `epsilon`-Nash profile is better. "loss": the least mean `loss`. In a Markov game, `welfare`
      and `loss` may depend on step and state: (horizon, states, agents or types, actions).
    - `method`, for Markov games alone: "backward" (Algorithm 2, the default) or "state-wise"
      (Algorithm 1). The two differ in the welfare that they reach.
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
    >>> grid = eq.games.load("demand-response", agents=1000)
    >>> solution = eq.aggregative.solve_aggregative(grid)
    >>> solution.status.ok, solution.stats["aggregate"].shape
    (True, (8, 3, 1))
    """
    if isinstance(game, AggregativeMarkovGame):
        method = "backward" if method is None else method
        check_choice("method", method, "backward", "state-wise")
    elif method is not None:
        raise InputError("method", "none for a game without states", repr(method))
    worth = as_worth(game, objective, welfare, loss)
    width = widest_side(game)
    options = as_options(width, objective, sense, spacing, epsilon, slack, rounding, key)
    return _solve(game, worth, options, tolerance, backward=method == "backward")


def widest_side(game: Any) -> float:
    """The widest side of the aggregates that can be reached, over all steps and states."""
    boxes = [game.box(*place) if place else game.box for place in places_of(game)]
    return max(float((high - low).max()) for low, high in boxes)


def _solve(
    game: AggregativeGame | AggregativeMarkovGame,
    worth: np.ndarray | None,
    options: Options,
    tolerance: float | None,
    *,
    backward: bool = False,
) -> Solution:
    started = time.perf_counter()
    planner = Planner(game, worth, options, backward)
    policy = planner.roster.policy()
    value, welfare = planner.value[0], planner.welfare[0]
    aggregate, shares = planner.aggregate, planner.shares
    if isinstance(game, AggregativeGame):  # one stage: its own numbers, without steps and states
        policy = one_stage(policy)
        value, welfare = np.asarray(value[0]), float(welfare[0])
        aggregate, shares = aggregate[0, 0], None if shares is None else shares[0, 0]
    planned = time.perf_counter()
    certificate = certify(game, policy)
    bound = None if options.rounding == "sample" else planner.bound()
    span = float(planner.ranges.max(1).sum())
    if tolerance is None:
        tolerance = TOLERANCE * span
    checks.check_range("tolerance", tolerance, 0.0, np.inf)
    plans = planner.plans
    stats = {
        "bound": bound,
        "welfare": welfare,
        "aggregate": aggregate,
        "shares": shares,
        "types": len(planner.groups.first),
        "groups": planner.groups.group,
        "classes": policy.classes,
        "delta": game.delta,
        "lipschitz": game.lipschitz,
        "lipschitz_estimated": game.lipschitz_estimated,
        "range": span,
        **{k: max(getattr(p, k) for p in plans) for k in ("spacing", "slack", "relaxed")},
        **{k: sum(getattr(p, k) for p in plans) for k in ("cells", "feasible", "programs")},
        "plan_seconds": planned - started,
        "seconds": time.perf_counter() - started,
    }
    estimated = game.lipschitz_estimated
    status = make_status(certificate, tolerance, bound, stats["relaxed"], estimated)
    return Solution(policy, value, certificate, status, float(tolerance), stats)


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


class Planner:
    """Backward over the steps, one stage for each state; a normal form is one stage."""

    def __init__(self, game: Any, worth: np.ndarray | None, options: Options, backward: bool):
        self.game, self.worth, self.options, self.backward = game, worth, options, backward
        self.groups = groups = group_agents(game, worth)
        places, actions = places_of(game), game.actions[0]
        shape = horizon, states = (game.horizon, game.states) if places[0] else (1, 1)
        self.roster = Roster(groups, horizon, states, actions)
        self.aggregate = np.zeros((*shape, game.dimensions))
        #: (horizon + 1, states): value to the mean agent, and mean welfare, from each step on.
        self.value, self.welfare = np.zeros((2, horizon + 1, states))
        #: (horizon, states): bounds on gains, and ranges of rewards at some reachable aggregates.
        self.bounds, self.ranges = np.zeros((2, *shape))
        sizes = (*shape, len(groups.first), actions)
        #: (horizon, states, types, actions): shares before rounding; None for very many types.
        self.shares = np.zeros(sizes) if len(places) == 1 or np.prod(sizes) <= _SHARES else None
        self.plans: list[Plan] = []
        for h in reversed(range(horizon)):
            for s in range(states):
                self._plan(h, s, (h, s) if places[0] else ())

    def _plan(self, h: int, s: int, place: tuple[int, ...]) -> None:
        game, options, changes = self.game, self.options, {}
        if self.backward:
            changes["ahead"] = lambda x: game.transitions(h, s, x) @ self.welfare[h + 1]
            if options.slack == "printed":
                left = game.horizon - 1 - h
                changes["lipschitz"] = game.lipschitz + game.transition_lipschitz * left
        stage = stage_of(game, place, self.groups, self.worth, **changes)
        plan = solve_stage(stage, options)
        if not place:
            plan = exchange(game, self.groups, stage, options, plan)
        self.roster.assign(h, s, plan.plays)
        self.aggregate[h, s], self.bounds[h, s] = plan.aggregate, plan.bound
        self.ranges[h, s] = reward_range(stage)
        if self.shares is not None:
            self.shares[h, s] = plan.shares
        rewards = stage.rewards(plan.aggregate[None])[0]
        self.value[h, s] = (plan.plays * rewards).sum() / stage.agents
        self.welfare[h, s] = self.value[h, s] if self.worth is None else mean_worth(stage, plan)
        if place:
            chances = game.transitions(h, s, plan.aggregate)
            self.value[h, s] += chances @ self.value[h + 1]
            self.welfare[h, s] += chances @ self.welfare[h + 1]
        nothing = np.zeros((0, 0))  # a million agents need not be kept twice
        self.plans.append(replace(plan, plays=nothing, shares=nothing))

    def bound(self) -> float:
        """Lemma B: the stages' bounds, and what moving the transitions can bring."""
        game, steps = self.game, len(self.bounds)
        moving = 0.0
        if steps > 1:
            spread = game.bounds[1] - game.bounds[0]
            moving = game.delta * game.transition_lipschitz * spread * steps * (steps - 1) / 2
        return float(self.bounds.max(1).sum() + moving)


def mean_worth(stage: Stage, plan: Plan) -> float:
    """The mean welfare of a plan in its own stage."""
    worth = stage.rewards(plan.aggregate[None])[0] if stage.welfare is None else stage.welfare
    return float((plan.plays * worth).sum() / stage.agents)


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
            plays = plan.plays.copy()
            plays[kind, left] -= 1
            plays[kind, taken] += 1
            moved = replace(plan, plays=plays, aggregate=stage.aggregate(plays))
            score = np.inf if regret else worth_of(stage, options, moved)
            if score <= least + _BETTER:
                continue
            after = _gain(game, groups, moved)
            score = -after if regret else score
            if score > least + _BETTER and after <= gain + _BETTER:
                best, least = (moved, after), score
    return best


def _gain(game: AggregativeGame, groups: Groups, plan: Plan) -> float:
    """The largest gain of anybody, exact."""
    return float(certify(game, policy_of(groups, plan.plays)).max_gain)
