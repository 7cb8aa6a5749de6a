"""Pure equilibria of aggregative games, any or the best for an objective, optima and prices.

In a Markov game Algorithm 1 of the paper plans each step and state separately. Algorithm 2 goes
backward over the steps and adds the welfare still to come to each cell's program. An agent's later
rewards depend on the aggregate, not on its own action at a given aggregate, so they cancel from its
best responses (Lemma B). Both algorithms therefore need only the slack of the rewards' Lipschitz
constant. Values and welfare are computed at the aggregate of the pure profile, not at the centre of
its cell.

A game in normal form is one stage. `_stages` decides how a stage is solved.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.aggregative._classes import one_stage, places_of
from equipoise.aggregative._fair import fairest
from equipoise.aggregative._planner import Planner
from equipoise.aggregative._stages import CELLS_UP_TO
from equipoise.aggregative._subroutine import (
    OBJECTIVES,
    Options,
    as_options,
    as_worth,
    check_choice,
)
from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.deadline import Deadline
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.results import (
    Certificate,
    Interval,
    Prices,
    Solution,
    finish,
    judged,
)
from equipoise.core.text import named
from equipoise.games import AggregativeGame, AggregativeMarkovGame

#: Default time limit in seconds, after which the best policy so far is returned.
TIME_LIMIT = 60.0

#: The searches of `prices`: whether each maximises, and whether agents need not be content.
_SEARCHES = (("optimum", True, True), ("best", True, False), ("worst", False, False))

#: What the status of prices advises if the searches were ended.
_HINTS = {"out of time": ": allow a longer `time_limit`", "interrupted": ": Ctrl-C ended a search"}

#: Largest relative error of a ratio of mean rewards by rounding.
_ROUNDED = 1e-12

#: What a bound rests on if the Lipschitz constants were not declared.
_SAMPLED = "if rewards change no faster than at the aggregates sampled (declare `lipschitz`)"

#: What the status says when all profiles were compared and none is an equilibrium.
_NONE = "no profile of this game meets the tolerance"

#: A callable that receives the progress of a long search.
Progress = Callable[[dict[str, Any]], None]


@named_arguments
def solve_aggregative(
    game: AggregativeGame | AggregativeMarkovGame,
    *,
    concept: str = "nash",
    objective: Any = "regret",
    welfare: Any = None,
    loss: Any = None,
    sense: str = "max",
    method: str | None = None,
    spacing: float | None = None,
    potential: bool | None = None,
    epsilon: float = 0.0,
    slack: float | str | None = None,
    rounding: str = "vertex",
    key: int = 0,
    tolerance: float | None = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Solution:
    """Find a pure equilibrium of very many agents: any one, or the best or worst for an objective.

    In a Markov game the policy is an equilibrium of the rewards in every step and state.

    - `tolerance`: the largest gain that an equilibrium may leave, in units of reward. Default: 1e-4
      of the range of rewards at some reachable aggregates. The status is "solved" if the
      certificate proves that the profile meets the tolerance.
    - `objective`: "regret" accepts any equilibrium. The others choose among equilibria: "welfare"
      by the mean reward, or by the mean of a `welfare` array (agents or types, actions); "loss" by
      the smallest mean of a `loss` array; "egalitarian" by the reward of the worst-off agent; or a
      function of the numbers of agents (types, actions) and the aggregate. `sense="min"` finds the
      worst equilibrium instead of the best. `solution.objective` is the interval between the
      objective attained and what no equilibrium exceeds, and `solution.assumes` says what it rests
      on. `equipoise.prices` compares the best and the worst equilibrium with the social optimum. In
      a Markov game arrays may depend on step and state,
      (horizon, states, agents or types, actions); "egalitarian" is the value of the whole game to
      the worst-off agent, averaged over the states in which the game may begin; and functions are
      not accepted. The ends of `solution.objective` then have one entry for each of these states,
      and bound all policies that are equilibria of the rewards in every step and state.
    - `method`, for Markov games only: "backward" (Aggre-BI, Algorithm 2 of the paper, the default)
      or "state-wise" (Algorithm 1). The two differ in the welfare that they reach.
    - `concept="optimum"`: the social optimum, which need not be an equilibrium. The status is
      "solved" if the optimum is proven to be within the tolerance of the best. Estimated Lipschitz
      constants prove nothing; all profiles of small games are compared, which needs none. In Markov
      games the optimum maximises welfare and needs the method "backward".
    - `time_limit`: seconds after which the best profile so far is returned, as it is after Ctrl-C;
      the status then says so. `progress` is called during long searches. `stats["method"]` names
      the method that found the profile.
    - `potential`: whether the game has a potential, so that best-reply dynamics must end. Default:
      tested on samples. `spacing`: side of the first cells of aggregates.
    - `slack`, `rounding`, `epsilon`, `key`: use the paper's subroutine 4.1.1 with one spacing, for
      comparison. `slack="lemma"` is the slack of Lemma A, "printed" is the paper's, or give a
      number; `epsilon` admits every epsilon-Nash profile; `rounding="sample"` (with `key`) draws
      the pure profile.

    **Example**

    >>> import equipoise as eq
    >>> town = eq.games.load("two-roads", agents=100_000)
    >>> solution = eq.aggregative.solve_aggregative(town)
    >>> solution.solved
    True
    >>> grid = eq.games.load("demand-response", agents=1000)
    >>> solution = eq.aggregative.solve_aggregative(grid)
    >>> solution.status.ok, solution.stats["aggregate"].shape
    (True, (8, 3, 1))
    """
    check_choice("concept", concept, "nash", "optimum")
    if isinstance(game, AggregativeMarkovGame):
        method = "backward" if method is None else method
        check_choice("method", method, "backward", "state-wise")
        if concept == "optimum":
            check_choice("objective", objective, "regret", "welfare")
            check_choice("method", method, "backward")
        if objective not in OBJECTIVES:
            raise InputError("objective", f"one of {OBJECTIVES}", repr(objective))
        if objective == "egalitarian":
            check_choice("method", method, "backward")
    elif method is not None:
        raise InputError("method", "no method for a game without states", repr(method))
    worth = as_worth(game, objective, welfare, loss)
    given = (spacing, epsilon, slack, rounding, key)
    free, loss_sought = concept == "optimum", objective == "loss"
    options = replace(
        _options(game, objective, sense, *given),
        **{
            "potential": potential,
            "free": free,
            "prove": np.inf if free else 0.0,
            "loss": loss_sought,
        },
    )
    if options.free and objective not in ("regret", "welfare", "egalitarian"):
        raise InputError("objective", "'welfare' or 'egalitarian' for an optimum", repr(objective))
    backward = method == "backward"
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    if tolerance is not None:
        checks.check_range("tolerance", tolerance, 0.0, np.inf)
    with Deadline(float(time_limit)) as deadline:
        options = replace(options, deadline=deadline, progress=progress)
        return _solve(game, worth, options, tolerance, backward=backward)


def _options(game: Any, objective: Any, sense: str, spacing: Any, *given: Any) -> Options:
    """Checked options for a game."""
    boxes = [game.box(*place) if place else game.box for place in places_of(game)]
    most = max(int((high > low).sum()) for low, high in boxes)
    if spacing is not None and most > CELLS_UP_TO:
        expected = f"None for an aggregate of more than {CELLS_UP_TO} coordinates, which is solved "
        raise InputError("spacing", expected + "without cells", spacing)
    return as_options(widest_side(game), objective, sense, spacing, *given)


def widest_side(game: Any) -> float:
    """The widest side of the reachable aggregates, over all steps and states."""
    boxes = [game.box(*place) if place else game.box for place in places_of(game)]
    return max(float((high - low).max()) for low, high in boxes)


def _solve(
    game: AggregativeGame | AggregativeMarkovGame,
    worth: np.ndarray | None,
    options: Options,
    tolerance: float | None,
    *,
    backward: bool,
) -> Solution:
    started = time.perf_counter()
    single = isinstance(game, AggregativeGame)
    chosen = not options.as_paper and (options.objective != "regret" or options.free)
    chosen = chosen and (single or backward)
    deadline = options.deadline
    planner, policy, certificate, fair = _plan(game, worth, options, tolerance, backward)
    tolerance = planner.tolerance
    options = replace(planner.options, objective=options.objective)
    value, welfare = planner.value[0], planner.welfare[0] if fair is None else planner.value[0]
    aggregate, shares = planner.aggregate, planner.shares
    if single:  # one stage: drop the axes of steps and states
        value, welfare = np.asarray(value[0]), float(welfare[0])
        aggregate, shares = aggregate[0, 0], None if shares is None else shares[0, 0]
    planned = time.perf_counter()
    bound = None if options.rounding == "sample" else planner.bound()
    plans = planner.plans
    stats = {
        "bound": bound if bound is None or np.isfinite(bound) else None,
        "welfare": welfare,
        "aggregate": aggregate,
        "shares": shares,
        "method": ", ".join(sorted({plan.method for plan in plans})),
        "types": len(planner.groups.first),
        "groups": planner.groups.group,
        "classes": policy.classes,
        "delta": game.delta,
        "lipschitz": game.lipschitz,
        "lipschitz_estimated": game.lipschitz_estimated,
        "range": float(planner.ranges.max(1).sum()),
        **{k: max(getattr(p, k) for p in plans) for k in ("spacing", "slack", "relaxed")},
        **{k: sum(getattr(p, k) for p in plans) for k in ("cells", "feasible", "programs")},
    }
    objective, assumes = None, ""
    if chosen:
        plan = plans[0]
        attained, most = planner.welfare[0], planner.possible[0]
        if single:
            attained, most = plan.objective, plan.promise
        elif fair is not None:
            attained, most = fair
        objective = _objective(attained, most, options.maximise)
        stats |= {"objective": attained, "best_possible": most}
        complete = all(plan.complete for plan in plans)
        by_array = single and options.free and planner.stage.welfare is not None
        if game.lipschitz_estimated and not (complete or by_array):
            assumes = _SAMPLED
        stats["assumes"] = assumes
    stats |= {"plan_seconds": planned - started, "seconds": time.perf_counter() - started}
    ended = _ending(deadline)
    cut_short = {"interrupted": "Ctrl-C", "out of time": "the time limit"}.get(ended, "")
    cut_short += " ended the search" if cut_short else ""
    more: dict[str, Any] = {"assumes": assumes, "stats": stats, "game": game}
    if options.free:
        assert objective is not None
        met, told = _optimum(objective, certificate, tolerance, options, assumes)
        status = judged(met, "; ".join((told, *filter(None, (cut_short,)))), ended)
        solution = Solution(policy, value, certificate, status, tolerance, objective, **more)
    else:
        skipped = any(plan.skipped for plan in plans) and ended != "interrupted"
        upper = float(certificate.max_upper)
        notes = _notes(game, upper, upper <= tolerance, options, stats, skipped)
        if chosen:
            notes[1:1] = filter(None, (_not_found(options, stats, upper <= tolerance), cut_short))
        words: dict[str, Any] = {"who": "agent", "told": f"tolerance {tolerance:.3g}"}
        words |= {"notes": notes, "value": value, "objective": objective}
        solution = finish(policy, certificate, tolerance, ended, **words, **more)
    return named(solution, game.about)


def _ending(deadline: Deadline) -> str:
    """What ended a search from outside, or nothing."""
    return "interrupted" if deadline.stop else "out of time" if deadline.missed else ""


def _objective(attained: Any, most: Any, maximise: bool) -> Interval | None:
    """The interval of an objective; None where it is proven that no equilibrium exists."""
    if maximise:
        return None if np.any(np.isneginf(most)) else Interval(attained, np.maximum(attained, most))
    return None if np.any(np.isposinf(most)) else Interval(np.minimum(attained, most), attained)


def _plan(
    game: Any, worth: np.ndarray | None, options: Options, tolerance: float | None, backward: bool
) -> tuple[Planner, Any, Certificate, tuple[np.ndarray, np.ndarray] | None]:
    """The planner, its policy, its certificate and, for "egalitarian", the least value and bound.

    With few agents, stages of a Markov game may leave more than their share of the tolerance, and
    the whole policy may or may not meet it. A choice among equilibria first holds each stage to its
    share. A search for any equilibrium does so last, which takes less time.
    """
    single = isinstance(game, AggregativeGame)
    modes = [(False, options)]
    if not (single or options.as_paper or options.free):
        modes = [(True, options), (False, options)]
        if options.objective == "regret":
            # Another equilibrium may leave smaller gains from moving the state.
            other = replace(options, objective="welfare")
            modes = [*reversed(modes), (True, other)] if backward else modes[::-1]
    best = None
    for strict, options in modes:
        fair = None
        if options.objective == "egalitarian" and not single:
            planner, least, possible = fairest(game, options, tolerance, strict=strict)
            fair = least, possible
        else:
            planner = Planner(game, worth, options, backward, tolerance, strict=strict)
        policy = planner.roster.policy()
        policy = one_stage(policy) if single else policy
        certificate = certify(game, policy)
        if best is None or certificate.max_upper < best[2].max_upper:
            best = planner, policy, certificate, fair
        if certificate.max_upper <= planner.tolerance or options.deadline.over():
            break
    assert best is not None
    return best


@named_arguments
def prices(
    game: AggregativeGame | AggregativeMarkovGame,
    *,
    welfare: Any = None,
    tolerance: float | None = None,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> Prices:
    """Compare the best and the worst equilibrium of very many agents with the social optimum.

    `equipoise.prices` calls this function. It searches for the optimum and for the best and the
    worst equilibrium in turn; each search has its share of the time that is left.

    - `welfare`: what is compared, the mean of an array (agents or types, actions); in a Markov game
      it may depend on step and state, (horizon, states, agents or types, actions). Default: the
      mean reward.
    - `tolerance`: the largest gain that an equilibrium may leave. Default: that of `solve`. A
      welfare that is negative by no more than the tolerance counts as zero. The status is "solved"
      if the optimum and both equilibria are known to the tolerance.
    - `time_limit`: seconds after which the intervals are those proven so far, as they are after
      Ctrl-C. `progress` is called during long searches.

    Where Lipschitz constants were not declared, samples prove nothing and the intervals are wide,
    unless all profiles are compared. `solutions` has the "best" and the "worst" equilibrium found.

    **Example**

    >>> import equipoise as eq
    >>> prices = eq.aggregative.prices(eq.games.load("two-roads", agents=100))
    >>> round(prices.anarchy.lower, 4), prices.solutions["worst"].solved
    (1.0322, True)
    """
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    if tolerance is not None:
        checks.check_range("tolerance", tolerance, 0.0, np.inf)
    worth = as_worth(game, "welfare", welfare, None)
    stateful = isinstance(game, AggregativeMarkovGame)
    base = _options(game, "welfare", "max", None, 0.0, None, "vertex", 0)
    solutions: dict[str, Solution] = {}
    values, bounds, met, stage_gain, most_gain = [], [], [], 0.0, 0.0
    with Deadline(float(time_limit)) as deadline:
        for left, (name, maximise, free) in zip((3, 2, 1), _SEARCHES, strict=True):
            part = deadline.part(1.0 / left)
            changes: dict[str, Any] = {"maximise": maximise, "free": free}
            changes |= {"prove": np.inf if free else 0.0, "deadline": part, "progress": progress}
            planner = Planner(game, worth, replace(base, **changes), stateful, tolerance)
            value, bound = _known(planner)
            values.append(value)
            bounds.append(bound)
            stage_gain, most_gain = planner.options.tolerance, planner.tolerance
            met.append(all(one.gain <= stage_gain for one in planner.plans))
            if met[-1] and not free:
                solutions[name] = _solution(planner, _ending(part))
        ended = _ending(deadline)
    highest = np.fmax.reduce(values)
    optimum = Interval(highest, np.maximum(highest, bounds[0]))
    found = [value for value, one in zip(values[1:], met[1:], strict=True) if one]
    if not found:
        status = judged(False, "no equilibrium was found" + _HINTS.get(ended, ""), ended)
        return named(Prices(_alone(game, optimum), None, None, None, None, status), game.about)
    most, least = np.max(found, 0), np.min(found, 0)
    best = Interval(most, np.maximum(most, np.minimum(bounds[1], optimum.upper)))
    worst = Interval(np.minimum(least, bounds[2]), least)
    anarchy, stability = (_alone(game, _prices(optimum, one, stage_gain)) for one in (worst, best))
    told = f"the price of anarchy is {anarchy} and the price of stability {stability}"
    if anarchy is None or stability is None:
        told = "no ratio compares an optimum above zero with an equilibrium below"
    narrow = all(np.all(one.width <= most_gain) for one in (optimum, best, worst))
    if not narrow and game.lipschitz_estimated and not ended:
        told += "; samples of rewards prove no bounds: declare `lipschitz`"
    status = judged(narrow, told + ("" if narrow else _HINTS.get(ended, "")), ended)
    optimum, best, worst = (_alone(game, one) for one in (optimum, best, worst))
    return named(Prices(optimum, best, worst, anarchy, stability, status, solutions), game.about)


def _solution(planner: Planner, ended: str) -> Solution:
    """The equilibrium that a search for prices found, with its certificate."""
    policy, value = planner.roster.policy(), planner.value[0]
    if isinstance(planner.game, AggregativeGame):
        policy, value = one_stage(policy), np.asarray(value[0])
    certificate, stats = certify(planner.game, policy), {"aggregate": planner.aggregate}
    more: dict[str, Any] = {"who": "agent", "value": value, "stats": stats, "game": planner.game}
    return named(finish(policy, certificate, planner.tolerance, ended, **more), planner.game.about)


def _known(planner: Planner) -> tuple[np.ndarray, np.ndarray]:
    """(states,) each: the welfare attained, and its bound; infinite where it rests on samples."""
    plan, options = planner.plans[0], planner.options
    attained, most = planner.welfare[0], planner.possible[0]
    declared = not planner.game.lipschitz_estimated
    if isinstance(planner.game, AggregativeGame):
        attained, most = np.array([plan.objective]), np.array([plan.promise])
        declared = declared or (options.free and planner.stage.welfare is not None)
    if declared or all(one.complete for one in planner.plans):
        return attained, most
    return attained, np.full_like(most, np.inf if options.maximise else -np.inf)


def _alone(game: Any, interval: Any) -> Any:
    """An interval of numbers for a game without states, which has one entry."""
    if interval is None or isinstance(game, AggregativeMarkovGame):
        return interval
    return Interval(interval.lower[0], interval.upper[0])


def _prices(optimum: Interval, welfare: Interval, tolerance: float) -> Interval | None:
    """The price for each starting state; None if one of them has none."""
    pairs = zip(optimum.lower, optimum.upper, welfare.lower, welfare.upper, strict=True)
    each = [price(Interval(a, b), Interval(c, d), tolerance) for a, b, c, d in pairs]
    ends = [(one.lower, one.upper) for one in each if one is not None]
    return Interval(*np.transpose(ends)) if len(ends) == len(each) else None


def price(optimum: Interval, welfare: Interval, tolerance: float = 0.0) -> Interval | None:
    """What is known of optimum over welfare, or where both are costs, of welfare over optimum.

    A price is at least 1. A welfare that is negative by no more than the tolerance counts as zero,
    and the price is then infinite. It is None where the welfare is negative and the optimum is not.

    >>> str(price(Interval(2.0, 2.0), Interval(1.0, 1.0)))
    '2'
    >>> str(price(Interval(-1.0, -0.9), Interval(-3.0, -2.7)))
    '2.7 to 3.33333'
    >>> str(price(Interval(2.0, 3.0), Interval(-1.0, 1.0)))
    '2 to inf'
    """
    if optimum.upper <= welfare.lower:
        return Interval(1.0, 1.0)
    if optimum.lower > 0.0:
        if welfare.upper < -tolerance:
            return None
        if welfare.upper <= 0.0:
            return Interval(np.inf, np.inf)
        above = optimum.upper / welfare.lower if welfare.lower > 0.0 else np.inf
        return _rounded(optimum.lower / welfare.upper, above)
    if welfare.upper >= 0.0 or optimum.lower == 0.0:
        return Interval(1.0, np.inf)
    above = welfare.lower / optimum.upper if optimum.upper < 0.0 else np.inf
    return _rounded(welfare.upper / optimum.lower, above)


def _rounded(lower: float, upper: float) -> Interval:
    """A price of at least 1 between two ratios, whose terms and quotient were rounded."""
    return Interval(max(lower * (1.0 - _ROUNDED), 1.0), max(upper, 1.0) * (1.0 + _ROUNDED))


def _optimum(
    objective: Interval, certificate: Certificate, tolerance: float, options: Options, assumes: str
) -> tuple[bool, str]:
    """Whether an optimum is proven to be within the tolerance of the best, and what is known."""
    off, gain = float(np.max(objective.width)), float(certificate.max_gain)
    ends = (objective.lower, objective.upper)[:: 1 if options.maximise else -1]
    known = f"no policy is better than the optimum found by more than {off:.3g}"
    if np.ndim(ends[0]) == 0:
        known = f"the optimum found is {ends[0]:.6g}, and no profile exceeds {ends[1]:.6g}"
    known += f", {assumes}" if assumes else ""
    free = f"if agents were free to deviate from it, the largest gain is {gain:.3g}"
    return off <= tolerance and not assumes, f"{known}; {free}"


def _notes(
    game: Any, upper: float, solved: bool, options: Options, stats: dict[str, Any], skipped: bool
) -> list[str]:
    """Further sentences on a solution: how it was found, and why it may not be solved."""
    bound, relaxed, notes = stats["bound"], stats["relaxed"], [f"found by {stats['method']}"]
    if options.rounding == "sample":
        notes.append("a sampled profile comes without a guarantee")
    elif not solved and bound is not None and bound >= upper:
        notes.append(f"the theory's bound for this number of agents is {bound:.3g}")
    listed = stats["method"] == "enumeration" and isinstance(game, AggregativeGame)
    if not solved and listed and "best_possible" not in stats:
        notes.append(_NONE)
    if not solved and skipped:
        notes.append("cells were skipped: they take too long, or there are too many coordinates")
    if game.lipschitz_estimated and stats["cells"] and not stats.get("assumes"):
        notes.append("the Lipschitz constant was estimated, not given")
    if relaxed > 1:
        notes.append(
            f"no cell was feasible until the slack was multiplied by {relaxed:g}: give a larger "
            "`lipschitz`, or leave `slack` at its default"
        )
    return notes


def _not_found(options: Options, stats: dict[str, Any], solved: bool) -> str:
    """Describe what is proven about equilibria that were not found."""
    possible, more = stats["best_possible"], "above" if options.maximise else "below"
    if np.ndim(possible) == 0 and possible == (-np.inf if options.maximise else np.inf):
        return _NONE
    if not np.isfinite(possible).all():
        return "nothing is proven about equilibria that were not found"
    name = {"welfare": "a welfare", "egalitarian": "a least reward"}.get(str(options.objective))
    name = "a loss" if options.loss else name or "an objective"
    rests = f", {stats['assumes']}" if stats["assumes"] else ""
    if np.ndim(possible):
        off = float(np.abs(possible - stats["objective"]).max())
        known = f"no equilibrium has {name} more than {off:.3g} {more} this one's from any state"
        return known + rests
    here = f" ({stats['objective'] + 0.0:.6g} here)" if solved else ""
    return f"no equilibrium has {name} {more} {possible + 0.0:.6g}{here}{rests}"
