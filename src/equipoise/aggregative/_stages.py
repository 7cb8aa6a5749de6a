"""Choice of the method that solves one stage, from the number of rewards that it evaluates.

To find any equilibrium with one coordinate, cells are halved and best-reply dynamics polish the
plan. With more coordinates best-reply dynamics come first, projections next, and cells last, if
they need few enough rewards. With more than `CELLS_UP_TO` coordinates cells are never used. To
choose among equilibria, branch and bound starts from the ends of best-reply dynamics from some
aggregates.
"""

from dataclasses import dataclass, replace

import numpy as np

from equipoise.aggregative._cells import MOST_CELLS, Stage, tile
from equipoise.aggregative._replies import Profile, Replies
from equipoise.aggregative._select import Aim, choose, least_gain
from equipoise.aggregative._structure import project, whole_agents
from equipoise.aggregative._subroutine import Options, Plan, descend, seek_within, select

#: Largest number of coordinates with which cells are used.
CELLS_UP_TO = 6
#: First cells along each coordinate for a choice among equilibria, by number of coordinates.
_ACROSS = {1: 20, 2: 10, 3: 6, 4: 4, 5: 3, 6: 3}
#: Largest number of rewards for which cells are used. A call counts as so many rewards more.
_WORK, _CALL = 4_000_000_000, 1_500
#: Number of rewards evaluated to polish a plan that meets the tolerance already.
_POLISH = 100_000_000
#: Number of random aggregates from which the dynamics start if there are no cells.
_STARTS = 6
#: Number of mixes of actions from which the dynamics start to compare several equilibria, and the
#: number of rewards that one evaluation of the gains from all of them may take.
_MIXES, _MIXED = 24, 100_000


@dataclass(frozen=True)
class Cells:
    """The first cells of a search."""

    #: Side of the cells; None if they are not used.
    spacing: float | None
    #: Whether they are not used because they need too many rewards.
    skipped: bool = False


def plan_cells(stage: Stage, options: Options) -> Cells:
    """Decide whether cells are used: the answer does not depend on the speed of the machine."""
    widths = stage.high - stage.low
    live, width = int((widths > 0).sum()), float(widths.max())
    if live > CELLS_UP_TO:
        return Cells(None, skipped=True)
    any_one = options.objective == "regret"
    across = 4 if any_one else _ACROSS.get(live, 20)
    spacing = options.spacing if options.spacing is not None else width / across or 1.0
    with np.errstate(over="ignore"):
        number = float(np.prod(np.maximum(widths / spacing, 1.0)))
    if options.spacing is None and number > MOST_CELLS:
        return Cells(None, skipped=True)
    # Rewards of a cell, and sums of allowed influences in each direction.
    rewards = float(stage.influence.shape[0] * stage.influence.shape[1])
    one = (_CALL + rewards) * (2.0 + 3.0**live)
    finest = max(0.25 * stage.delta, 1e-10 * width, 1e-300)
    levels = max(np.log2(max(spacing / finest, 1.0)), 1.0)
    # Halving keeps the few cells around an equilibrium and evaluates all of their parts.
    estimate = one * (number + levels * 4.0**live)
    small = stage.influence.size < 5_000  # many cells are evaluated at a time
    estimate = estimate / 20 if small else estimate
    enough = estimate <= _WORK or live <= 1
    return Cells(spacing if enough else None, not enough)


def solve_stage(stage: Stage, options: Options) -> Plan:
    """Find a near-equilibrium of one stage: any one, or the best for the objective."""
    if options.as_paper:
        return select(stage, options)
    if options.objective == "regret" and not options.free:
        return any_equilibrium(stage, options)
    return best_equilibrium(stage, options)


def any_equilibrium(stage: Stage, options: Options) -> Plan:
    """Try the methods in turn until the tolerance is met; return the profile of smallest gain."""
    replies = Replies(stage, options.deadline, options.potential, options.progress)
    cells = plan_cells(stage, options)
    plan = None
    if cells.spacing is not None and (stage.high > stage.low).sum() <= 1:
        plan = descend(stage, options, tile(stage.low, stage.high, cells.spacing))
        plan = None if plan is None else polish(stage, options, plan, replies)
        if plan is not None and plan.gain <= options.tolerance:
            return plan
    for name, start in (("best replies", _middle), ("projection", _projected)):
        found = refine(options, replies, start(stage, options, replies))
        if plan is None or found.gain < plan.gain:
            plan = _moved(stage, plan or _plan_of(stage, found, name), found, name)
        if plan.gain <= options.tolerance or replies.late:
            break
    assert plan is not None
    if plan.gain > options.tolerance:  # the one with the least gain, if all can be compared
        found = least_gain(stage, replies, options.profiles)
        if found is not None:
            plan = _moved(stage, plan, found, "enumeration")
            return replace(plan, evaluations=replies.evaluations)
    if plan.gain > options.tolerance and plan.relaxed == 1 and cells.spacing is not None:
        one = stage.influence.shape[0] * stage.influence.shape[1]
        other = seek_within(stage, replace(options, spacing=cells.spacing), _WORK // (_CALL + one))
        if other is not None:
            other = polish(stage, options, other, replies)
            plan = other if other.gain < plan.gain else replace(plan, cells=other.cells)
    return replace(plan, skipped=cells.skipped, evaluations=replies.evaluations)


def polish(stage: Stage, options: Options, plan: Plan, replies: Replies) -> Plan:
    """Polish a plan by best-reply dynamics; the gain never increases, so the bound still holds."""
    first = replies.profile(plan.plays)
    found = refine(options, replies, plan.plays)
    if found.gain >= first.gain:
        return replace(plan, gain=first.gain)
    method = plan.method if first.gain <= options.tolerance else f"{plan.method}, then best replies"
    return _moved(stage, plan, found, method)


def refine(options: Options, replies: Replies, plays: np.ndarray) -> Profile:
    """Run best-reply dynamics until the tolerance is met, then on towards an exact equilibrium."""
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
    """A plan without a bound from cells."""
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
    return whole_agents(project(stage, options.deadline, precision, rounds=4000), stage.counts)


def _starts(
    stage: Stage, options: Options, replies: Replies, cells: Cells
) -> tuple[np.ndarray, ...]:
    """Profiles from which best-reply dynamics start before a choice among equilibria.

    These are best responses to some aggregates. Where cells bound an objective less well than with
    one coordinate, pure profiles with a single action and random mixes are added, each of which may
    lead to another equilibrium.
    """
    rng = np.random.default_rng(3)
    share = rng.random((2 if cells.spacing is not None else _STARTS, stage.dimensions))
    points = [stage.low, stage.high, *(stage.low + share * (stage.high - stage.low))]
    starts = [replies.start(x) for x in points]
    rows, actions = stage.influence.shape[:2]
    if stage.influence.size * len(starts) > 20_000_000:
        return tuple(starts[-1:])
    if options.free or ((stage.high > stage.low).sum() <= 1 and not callable(options.objective)):
        return tuple(starts)
    mixes = [np.tile(one, (rows, 1)) for one in np.eye(actions)[:_MIXES]]
    for k in range(_MIXES * options.programs // Options.programs):
        # The same mix in all rows or one for each row; near one action or between many.
        mix = rng.dirichlet(np.full(actions, 0.5 + k % 3), 1 if k % 2 else rows)
        mixes.append(np.broadcast_to(mix, (rows, actions)))
    most = max(_MIXED // replies.work, 2)
    return (*starts, *(whole_agents(mix, stage.counts) for mix in mixes[:most]))


def best_equilibrium(stage: Stage, options: Options) -> Plan:
    """The best equilibrium found for the objective, with a bound on those that were not found."""
    cells = plan_cells(stage, options)
    name = options.objective if isinstance(options.objective, str) else "custom"
    function = options.objective if callable(options.objective) else None
    name = "welfare" if name == "regret" else name
    aim = Aim(name, 1.0 if options.maximise else -1.0, function, options.free)
    replies = Replies(stage, options.deadline, options.potential, options.progress)
    starts = _starts(stage, options, replies, cells)
    # Programs with one coordinate are fast, and bound an optimum well enough.
    programs, effort = options.programs // 8, options.programs / Options.programs
    if (stage.high > stage.low).sum() <= 1:
        programs, effort = options.programs * (10 if options.free else 1), 0.0
    found = choose(
        *(stage, aim, replies, options.tolerance, cells.spacing, programs, starts, effort),
        small_cells=options.prove,
        profiles=options.profiles,
    )
    if found.gain > options.tolerance and not options.free and found.method != "enumeration":
        # If no profile meets the tolerance, return the one with the least gain.
        plan = any_equilibrium(stage, replace(options, objective="regret", spacing=None))
        if plan.gain <= options.tolerance or plan.gain < found.gain:
            worth = aim.sign * aim.worth(stage, plan.plays)
            return replace(plan, objective=worth, promise=aim.sign * found.bound)
    plan = _plan_of(stage, Profile(found.plays, found.gain), found.method)
    return replace(
        plan,
        objective=aim.sign * found.worth,
        promise=aim.sign * found.bound,
        skipped=cells.skipped,
        complete=found.method == "enumeration",
        evaluations=replies.evaluations,
        spacing=np.nan if cells.spacing is None else cells.spacing,
        **{name: found.counted.get(name, 0) for name in ("cells", "feasible", "programs")},
    )
