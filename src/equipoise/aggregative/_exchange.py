"""The last few agents: after rounding, one agent at a time tries another action.

A vertex is rounded to keep the aggregate, which need not be the profile with the least gain: of
25 drivers, the one in between may be put to the wrong road. In games small enough every exchange
is judged by the exact gains, each deviation at its own aggregate.
"""

from dataclasses import replace

import numpy as np

from equipoise.aggregative._cells import Stage
from equipoise.aggregative._grouping import Groups
from equipoise.aggregative._subroutine import Options, Plan, worth_of
from equipoise.certificates import certify
from equipoise.games import AggregativeGame, AggregativePolicy

#: Exchanges times (rows x actions) of the game: beyond, they cost more than they bring.
_WORK = 2**18

#: How many agents change their action, at most.
_ROUNDS = 8

#: What counts as better, beyond rounding.
_BETTER = 1e-12


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
    if options.tolerance == "printed" or options.rounding == "sample" or work > _WORK:
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
