"""How one stage is solved: which method answers, after what estimate, and within what time.

To find any equilibrium of an aggregate with one coordinate, cells are halved and the plan is
polished by best replies. With more coordinates best replies come first, projections next, and cells
last, if there is time for them; with more than `CELLS_UP_TO` coordinates there are no cells. To
choose among equilibria, branch and bound begins where best replies from some aggregates end.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from equipoise.aggregative._cells import MOST_CELLS, Stage, tile
from equipoise.aggregative._replies import Profile, Replies
from equipoise.aggregative._select import Aim, choose
from equipoise.aggregative._structure import project
from equipoise.aggregative._subroutine import Options, Plan, descend, seek, select

#: Coordinates up to which cells are ever made.
CELLS_UP_TO = 6
#: Cells along each coordinate from which a choice among equilibria begins, by their number.
_ACROSS = {1: 20, 2: 10, 3: 6, 4: 4, 5: 3, 6: 3}
#: Numbers looked at to polish a plan that meets the tolerance already.
_POLISH = 100_000_000
#: Random aggregates from which agents reply, where there are no cells.
_STARTS = 6


@dataclass(frozen=True)
class Cells:
    """The cells that a search would begin with, and about how long it would take."""

    #: None where there are too many, or no time for them.
    spacing: float | None
    #: Seconds, measured on one cell; infinite where they are never made.
    estimate: float


def plan_cells(stage: Stage, options: Options) -> Cells:
    """Whether cells can be afforded until the time is up."""
    widths = stage.high - stage.low
    live, width = int((widths > 0).sum()), float(widths.max())
    if live > CELLS_UP_TO:
        return Cells(None, np.inf)
    any_one = options.objective == "regret"
    across = 4 if any_one else _ACROSS.get(live, 20)
    spacing = options.spacing if options.spacing is not None else width / across or 1.0
    with np.errstate(over="ignore"):
        number = float(np.prod(np.maximum(widths / spacing, 1.0)))
    if options.spacing is None and number > MOST_CELLS:
        return Cells(None, np.inf)
    begun = time.perf_counter()
    stage.rewards(((stage.low + stage.high) / 2)[None])
    # The rewards of a cell, and the sums of allowed influences in each direction.
    one = (time.perf_counter() - begun) * (2.0 + 3.0**live)
    finest = max(0.25 * stage.delta, 1e-10 * width, 1e-300)
    levels = max(np.log2(max(spacing / finest, 1.0)), 1.0)
    # Halving keeps the few cells around an equilibrium, all of whose parts are looked at.
    estimate = one * (number + levels * 4.0**live)
    small = stage.influence.size < 5_000  # looked at many at a time
    estimate = estimate / 20 if small else estimate
    left = options.until - time.perf_counter()
    return Cells(spacing if estimate <= left or live <= 1 else None, float(estimate))


def solve_stage(stage: Stage, options: Options) -> Plan:
    """A near-equilibrium of one stage: any, or the best for the objective."""
    if options.as_paper:
        return select(stage, options)
    if options.objective == "regret" and not options.free:
        return any_equilibrium(stage, options)
    return best_equilibrium(stage, options)


def any_equilibrium(stage: Stage, options: Options) -> Plan:
    """The profile of the smallest gain of the methods in turn, until the tolerance is met."""
    replies = Replies(stage, options.until, options.potential, options.progress)
    cells = plan_cells(stage, options)
    if options.progress is not None and cells.estimate > 5.0:
        options.progress({"seconds_of_cells": cells.estimate})
    plan = None
    if cells.spacing is not None and (stage.high > stage.low).sum() <= 1:
        plan = descend(stage, options, tile(stage.low, stage.high, cells.spacing))
        plan = None if plan is None else polish(stage, options, plan, replies)
        if plan is not None and plan.gain <= options.tolerance:
            return replace(plan, estimate=cells.estimate)
    for name, start in (("best replies", _middle), ("projection", _projected)):
        found = refine(options, replies, start(stage, options, replies))
        if plan is None or found.gain < plan.gain:
            plan = _moved(stage, plan or _plan_of(stage, found, name), found, name)
        if plan.gain <= options.tolerance or replies.late:
            break
    assert plan is not None
    if plan.gain > options.tolerance and plan.relaxed == 1 and cells.spacing is not None:
        other = seek(stage, replace(options, spacing=cells.spacing))
        other = polish(stage, options, other, replies)
        plan = other if other.gain < plan.gain else plan
    return replace(plan, estimate=cells.estimate, evaluations=replies.evaluations)


def polish(stage: Stage, options: Options, plan: Plan, replies: Replies) -> Plan:
    """The plan after agents replied to each other: never a larger gain, so the bound holds."""
    first = replies.profile(plan.plays)
    found = refine(options, replies, plan.plays)
    if found.gain >= first.gain:
        return replace(plan, gain=first.gain)
    method = plan.method if first.gain <= options.tolerance else f"{plan.method}, then best replies"
    return _moved(stage, plan, found, method)


def refine(options: Options, replies: Replies, plays: np.ndarray) -> Profile:
    """Best replies until the tolerance is met, and some more towards an exact equilibrium."""
    found = replies.improve(plays, options.tolerance)
    more = min(_POLISH // replies.work, options.polish)
    if found.gain <= replies.least or found.gain > options.tolerance or more < 50:
        return found
    replies.allow(more)
    better = replies.improve(found.plays, 0.0)
    replies.allow(None)
    return min(found, better, key=lambda one: one.gain)


def _moved(stage: Stage, plan: Plan, found: Profile, method: str) -> Plan:
    aggregate = stage.aggregate(found.plays)
    return replace(plan, plays=found.plays, aggregate=aggregate, gain=found.gain, method=method)


def _plan_of(stage: Stage, found: Profile, method: str) -> Plan:
    """A plan that no cell promised anything about."""
    counts = stage.counts[:, None]
    return Plan(
        plays=found.plays,
        aggregate=stage.aggregate(found.plays),
        shares=found.plays / counts,
        bound=np.inf,
        spacing=np.nan,
        slack=np.nan,
        relaxed=1.0,
        gain=found.gain,
        method=method,
    )


def _middle(stage: Stage, options: Options, replies: Replies) -> np.ndarray:
    return replies.middle()


def _projected(stage: Stage, options: Options, replies: Replies) -> np.ndarray:
    precision = 0.01 * max(options.tolerance, replies.least)
    return whole_agents(project(stage, options.until, precision, rounds=4000), stage.counts)


def whole_agents(shares: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(types, actions): whole numbers near the shares, what is rounded off carried to the next row.

    >>> whole_agents(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([1, 1])).tolist()
    [[1, 0], [0, 1]]
    """
    exact = shares * counts[:, None]
    plays = np.floor(exact + 1e-9).astype(np.int64)
    owed = np.zeros(shares.shape[1])
    for row in np.flatnonzero(plays.sum(1) < counts):
        owed += exact[row] - plays[row]
        for _ in range(int(counts[row] - plays[row].sum())):
            action = int(owed.argmax())
            plays[row, action] += 1
            owed[action] -= 1.0
    return plays


def best_equilibrium(stage: Stage, options: Options) -> Plan:
    """The best equilibrium found for the objective, with a bound on all that were not found."""
    cells = plan_cells(stage, options)
    name = options.objective if isinstance(options.objective, str) else "custom"
    function = options.objective if callable(options.objective) else None
    name = "welfare" if name == "regret" else name
    aim = Aim(name, 1.0 if options.maximise else -1.0, function, options.free)
    replies = Replies(stage, options.until, options.potential, options.progress)
    rng = np.random.default_rng(3)
    share = rng.random((2 if cells.spacing is not None else _STARTS, stage.dimensions))
    points = [stage.low, stage.high, *(stage.low + share * (stage.high - stage.low))]
    starts = [replies.start(x) for x in points]
    if stage.influence.size * len(starts) > 20_000_000:
        starts = starts[-1:]
    # Programs of one coordinate take no time; those of an optimum are all that bounds it.
    programs = options.programs // (2 if options.free else 8)
    if (stage.high > stage.low).sum() <= 1:
        programs = options.programs * (10 if options.free else 1)
    found = choose(stage, aim, replies, options.tolerance, cells.spacing, programs, tuple(starts))
    if found.gain > options.tolerance and not options.free:
        # Among those that are none, the one of the least gain is the most honest answer.
        plan = any_equilibrium(stage, replace(options, objective="regret", spacing=None))
        if plan.gain <= options.tolerance or plan.gain < found.gain:
            worth = aim.sign * aim.worth(stage, plan.plays)
            return replace(plan, objective=worth, promise=aim.sign * found.bound)
    plan = _plan_of(stage, Profile(found.plays, found.gain), found.method)
    return replace(
        plan,
        objective=aim.sign * found.worth,
        promise=aim.sign * found.bound,
        estimate=cells.estimate,
        evaluations=replies.evaluations,
        spacing=np.nan if cells.spacing is None else cells.spacing,
        **{name: found.counted.get(name, 0) for name in ("cells", "feasible", "programs")},
    )
