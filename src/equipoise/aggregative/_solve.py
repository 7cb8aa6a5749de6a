"""Pure equilibria of aggregative games, any or the best for an objective, and social optima.

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

from equipoise.aggregative._cells import Stage
from equipoise.aggregative._classes import one_stage, places_of
from equipoise.aggregative._fair import fairest
from equipoise.aggregative._planner import Planner
from equipoise.aggregative._stages import CELLS_UP_TO, best_equilibrium
from equipoise.aggregative._structure import Deadline
from equipoise.aggregative._subroutine import (
    OBJECTIVES,
    Options,
    Plan,
    as_options,
    as_worth,
    check_choice,
)
from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.results import Certificate, Outcome, Solution, Status, describe_gains
from equipoise.games import AggregativeGame, AggregativeMarkovGame
from equipoise.runs import interruptible

#: Default time limit in seconds, after which the best policy so far is returned.
TIME_LIMIT = 60.0

#: Programs allowed for the equilibria and the optimum that a selection is compared with.
_BESIDE = 80

#: What the status says when all profiles were compared and none is an equilibrium.
_NONE = "no profile of this game meets the tolerance"

#: A callable that receives the progress of a long search.
Progress = Callable[[dict[str, Any]], None]


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
      worst equilibrium instead of the best. `stats["best_possible"]` bounds the objective of every
      equilibrium, and `stats["price_of_anarchy"]` and `stats["price_of_stability"]` compare with
      the social optimum. In a Markov game arrays may depend on step and state, (horizon, states,
      agents or types, actions); "egalitarian" is the value of the whole game to the worst-off
      agent, averaged over the states in which the game may begin; and functions are not accepted.
      `stats["objective"]` and `stats["best_possible"]` then have one entry for each of these
      states, and the latter bounds all policies that are equilibria of the rewards in every step
      and state.
    - `method`, for Markov games only: "backward" (Algorithm 2, the default) or "state-wise"
      (Algorithm 1). The two differ in the welfare that they reach.
    - `concept="optimum"`: the social optimum, which need not be an equilibrium. The status is
      "solved" if the optimum is proven to be within the tolerance of the best. In Markov games the
      optimum maximises welfare, needs the method "backward", and comes with both prices.
    - `time_limit`: seconds after which the best profile so far is returned, as it is after Ctrl-C.
      `progress` is called during long searches. `stats["method"]` names the method that found the
      profile.
    - `potential`: whether the game has a potential, so that best-reply dynamics must end. Default:
      tested on samples. `spacing`: side of the first cells of aggregates.
    - `slack`, `rounding`, `epsilon`, `key`: use the paper's subroutine with a single spacing, for
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
        **{"potential": potential, "free": free, "prove": free, "loss": loss_sought},
    )
    if options.free and objective not in ("regret", "welfare", "egalitarian"):
        raise InputError("objective", "'welfare' or 'egalitarian' for an optimum", repr(objective))
    backward = method == "backward"
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    if tolerance is not None:
        checks.check_range("tolerance", tolerance, 0.0, np.inf)
    with interruptible() as stop:
        deadline = Deadline(time.perf_counter() + float(time_limit), stop)
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
        "estimate_seconds": float(np.nansum([p.estimate for p in plans])),
    }
    chosen = not options.as_paper and (options.objective != "regret" or options.free)
    chosen = chosen and (single or backward)
    if chosen:
        plan = plans[0]
        found, most = planner.welfare[0], planner.possible[0]
        if single:
            found, most = plan.objective, plan.promise
        elif fair is not None:
            found, most = fair
        stats |= {"objective": found, "best_possible": most}
    status = make_status(game, certificate, tolerance, options, stats)
    if chosen and single:
        stats |= prices(planner.stage, options, plans[0], float(np.mean(value)))
    elif chosen and not single and options.free:
        stats |= _markov_prices(planner)
    stats |= {"plan_seconds": planned - started, "seconds": time.perf_counter() - started}
    return Solution(policy, value, certificate, status, float(tolerance), stats)


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
        if certificate.max_upper <= planner.tolerance or options.deadline.passed:
            break
    assert best is not None
    return best


def prices(stage: Stage, options: Options, plan: Plan, value: float) -> dict[str, Any]:
    """Compare the best and the worst equilibrium with the social optimum, by welfare.

    Welfare is the mean reward, or that of the `welfare` array, whatever the objective. The price of
    anarchy compares the worst equilibrium found with the optimum found, and the price of stability
    the best one. Prices are at least 1, and NaN where welfare has different signs. `value` is the
    mean reward of the plan.
    """
    by_welfare = options.objective in ("welfare", "regret") and not options.loss
    stage = replace(stage, welfare=None) if options.loss else stage
    own = plan.objective if by_welfare else value
    found = [own] if plan.gain <= options.tolerance and not options.free else []
    best = own
    for maximise, free in ((True, False), (False, False), (True, True)):
        if by_welfare and (maximise, free) == (options.maximise, options.free):
            continue
        changes = {"maximise": maximise, "free": free, "prove": False, "programs": _BESIDE}
        other = best_equilibrium(stage, replace(options, objective="welfare", **changes))
        best = max(best, other.objective)
        if not free and other.gain <= options.tolerance:
            found.append(other.objective)
    most, least = max(found, default=np.nan), min(found, default=np.nan)
    return {
        "optimum": best,
        "best_equilibrium": most,
        "worst_equilibrium": least,
        "price_of_anarchy": price(best, least, options.tolerance),
        "price_of_stability": price(best, most, options.tolerance),
    }


def _markov_prices(planner: Planner) -> dict[str, Any]:
    """The comparison of `prices` for a Markov game, by the state in which it begins."""
    given, found = planner.options, {"optimum": planner.welfare[0]}
    for name, maximise in (("best", True), ("worst", False)):
        options = replace(given, objective="welfare", maximise=maximise, free=False, progress=None)
        other = Planner(planner.game, planner.worth, options, True, planner.tolerance)
        met = max(plan.gain for plan in other.plans) <= other.options.tolerance
        found[name] = other.welfare[0] if met else np.full(len(other.welfare[0]), np.nan)
    best = np.fmax(found["optimum"], found["best"])
    each = np.vectorize(price, otypes=[float])
    return {
        "optimum": best,
        "best_equilibrium": found["best"],
        "worst_equilibrium": found["worst"],
        "price_of_anarchy": each(best, found["worst"]),
        "price_of_stability": each(best, found["best"]),
    }


def price(optimum: float, welfare: float, tolerance: float = 0.0) -> float:
    """Optimum over welfare for rewards; welfare over optimum where both are costs.

    A welfare that is negative by no more than the tolerance counts as zero.

    >>> price(2.0, 1.0), price(-1.0, -3.0), price(1.0, 0.0), price(1.0, -1e-5, 1e-4)
    (2.0, 3.0, inf, inf)
    """
    if optimum == welfare:
        return 1.0
    if optimum > 0 and welfare >= -tolerance:
        return float(np.inf) if welfare <= 0 else optimum / welfare
    return welfare / optimum if optimum < 0 and welfare < 0 else float("nan")


def make_status(
    game: Any, certificate: Certificate, tolerance: float, options: Options, stats: dict[str, Any]
) -> Status:
    """Status of a solution: solved if the certificate bounds every gain by the tolerance."""
    gain, upper = float(certificate.max_gain), float(certificate.max_upper)
    bound, relaxed = stats["bound"], stats["relaxed"]
    missed = Outcome.NOT_SOLVED
    if options.deadline.passed:
        missed = Outcome.INTERRUPTED if options.deadline.stop else Outcome.OUT_OF_TIME
    if options.free:
        off = float(np.abs(stats["best_possible"] - stats["objective"]).max())
        solved = off <= tolerance
        message = [f"no policy is better than the optimum found by more than {off:.3g}"]
        if np.ndim(stats["objective"]) == 0:
            known = f"no profile exceeds {stats['best_possible']:.6g}"
            message = [f"the optimum found is {stats['objective']:.6g}, and {known}"]
        message.append(f"if agents were free to deviate from it, the largest gain is {gain:.3g}")
        outcome = Outcome.SOLVED if solved else missed
        return Status(outcome, "; ".join(message), np.asarray(solved))
    solved = upper <= tolerance
    outcome = Outcome.SOLVED if solved else missed
    message = [f"{describe_gains(gain, upper, 'agent')} (tolerance {tolerance:.3g})"]
    message.append(f"found by {stats['method']}")
    if options.rounding == "sample":
        message.append("a sampled profile comes without a guarantee")
    elif not solved and bound is not None and bound >= upper:
        message.append(f"the theory's bound for this number of agents is {bound:.3g}")
    listed = stats["method"] == "enumeration"
    if "best_possible" in stats:
        message.append(_not_found(options, stats, solved))
    elif not solved and listed and isinstance(game, AggregativeGame):
        message.append(_NONE)
    skipped = not (listed or stats["cells"]) and stats["estimate_seconds"] > 0
    if not solved and skipped and outcome is not Outcome.INTERRUPTED:
        message.append("cells were skipped: they take too long, or there are too many coordinates")
    if game.lipschitz_estimated and stats["cells"]:
        message.append("the Lipschitz constant was estimated, not given")
    if relaxed > 1:
        message.append(
            f"no cell was feasible until the slack was multiplied by {relaxed:g}: give a larger "
            "`lipschitz`, or leave `slack` at its default"
        )
    return Status(outcome, "; ".join(message), np.asarray(solved))


def _not_found(options: Options, stats: dict[str, Any], solved: bool) -> str:
    """Describe what is proven about equilibria that were not found."""
    possible, more = stats["best_possible"], "above" if options.maximise else "below"
    if np.ndim(possible) == 0 and possible == (-np.inf if options.maximise else np.inf):
        return _NONE
    if not np.isfinite(possible).all():
        return "nothing is proven about equilibria that were not found"
    name = {"welfare": "a welfare", "egalitarian": "a least reward"}.get(str(options.objective))
    name = "a loss" if options.loss else name or "an objective"
    if np.ndim(possible):
        off = float(np.abs(possible - stats["objective"]).max())
        return f"no equilibrium has {name} more than {off:.3g} {more} this one's from any state"
    here = f" ({stats['objective'] + 0.0:.6g} here)" if solved else ""
    return f"no equilibrium has {name} {more} {possible + 0.0:.6g}{here}"
