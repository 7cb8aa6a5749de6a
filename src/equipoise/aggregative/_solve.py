"""Pure equilibria of aggregative games, any or the best for an objective, and social optima.

In a Markov game Algorithm 1 of the paper plans each step and state alone; Algorithm 2 goes backward
and adds the welfare still to come to each cell's program. What an agent will get later depends on
the aggregate, not on its own action at a given aggregate, so it cancels from its best replies
(lemma B): both need only the slack of the rewards' Lipschitz constant. Values and welfare are those
of the aggregate that the pure profile really has, not of the centre of its cell.

A game in normal form is one stage. `_stages` says how a stage is solved.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.aggregative._cells import Stage, stage_of
from equipoise.aggregative._classes import Roster, alone, group_agents, one_stage, places_of
from equipoise.aggregative._stages import CELLS_UP_TO, best_equilibrium, solve_stage
from equipoise.aggregative._subroutine import (
    Options,
    Plan,
    as_options,
    as_worth,
    check_choice,
    reward_range,
)
from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.results import Certificate, Outcome, Solution, Status
from equipoise.games import AggregativeGame, AggregativeMarkovGame

#: The largest gain allowed, unless told, as a part of the range of rewards.
TOLERANCE = 1e-4

#: Seconds after which the best policy so far is returned, unless told.
TIME_LIMIT = 60.0

#: Shares before rounding are kept of so many types, actions, steps and states.
_SHARES = 10_000_000

#: Programs that the equilibria and the optimum beside a selection may take, and those of a stage of
#: a Markov game.
_BESIDE, _STAGE = 80, 40

#: Evaluations of gains to polish a stage of a Markov game.
_POLISH = 60

#: Told how far a long search has come.
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
    """A pure equilibrium of very many agents: any, or the best or the worst for an objective.

    In a Markov game it is an equilibrium of the rewards in every step and state.

    - `tolerance`: the largest gain of what counts as an equilibrium, in units of reward; 1e-4 of
      the range of rewards at some reachable aggregates unless given. The status is "solved" if the
      certificate proves that the profile meets it.
    - `objective`: "regret" is any equilibrium. The others choose among equilibria: "welfare" by
      the mean reward, or by the mean of a `welfare` array (agents or types, actions); "loss" by
      the least mean of a `loss` array; "egalitarian" by the reward of the agent who has least; or
      a function of (types, actions) numbers of agents and the aggregate. `sense="min"` is the
      worst instead of the best. `stats["best_possible"]` is what no equilibrium exceeds, and
      `stats["price_of_anarchy"]` and `stats["price_of_stability"]` compare with the social optimum.
      In a Markov game: "regret", "welfare" or "loss", whose arrays may depend on step and state,
      (horizon, states, agents or types, actions). `stats["best_possible"]` then has one entry for
      each state that the game may begin in, and bounds policies that are equilibria of the rewards
      in every step and state.
    - `method`, for Markov games alone: "backward" (Algorithm 2, the default) or "state-wise"
      (Algorithm 1). The two differ in the welfare that they reach.
    - `concept="optimum"`: the social optimum, which need not be an equilibrium. It is solved if it
      is proven to be within the tolerance of the best. In Markov games by welfare, with the
      method "backward"; the prices come with it.
    - `time_limit`: seconds after which the best profile so far is returned. `progress` is told
      about long searches. `stats["method"]` says which method answered.
    - `potential`: whether the game has a potential, so that best replies must end; found out from
      samples unless given. `spacing`: side of the first cells of aggregates.
    - `slack`, `rounding`, `epsilon`, `key`: the paper's subroutine at one spacing, to compare with.
      `slack="lemma"` is that of lemma A, "printed" the paper's, or give a number; `epsilon` lets
      in every epsilon-Nash profile; `rounding="sample"` (with `key`) draws the pure profile.

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
    check_choice("concept", concept, "nash", "optimum")
    if isinstance(game, AggregativeMarkovGame):
        method = "backward" if method is None else method
        check_choice("method", method, "backward", "state-wise")
        if concept == "optimum":
            check_choice("objective", objective, "regret", "welfare")
            check_choice("method", method, "backward")
        if objective not in ("regret", "welfare", "loss"):
            raise InputError("objective", "'regret', 'welfare' or 'loss'", repr(objective))
    elif method is not None:
        raise InputError("method", "none for a game without states", repr(method))
    worth = as_worth(game, objective, welfare, loss)
    given = (spacing, epsilon, slack, rounding, key)
    free, loss_sought = concept == "optimum", objective == "loss"
    options = replace(
        _options(game, objective, sense, *given), potential=potential, free=free, loss=loss_sought
    )
    if options.free and objective not in ("regret", "welfare", "egalitarian"):
        raise InputError("objective", "'welfare' or 'egalitarian' of an optimum", repr(objective))
    backward = method == "backward"
    return _solve(game, worth, options, tolerance, time_limit, progress, backward=backward)


def _options(game: Any, objective: Any, sense: str, spacing: Any, *given: Any) -> Options:
    """Checked options of a game."""
    boxes = [game.box(*place) if place else game.box for place in places_of(game)]
    most = max(int((high > low).sum()) for low, high in boxes)
    if spacing is not None and most > CELLS_UP_TO:
        expected = f"None for an aggregate of more than {CELLS_UP_TO} coordinates, which is solved "
        raise InputError("spacing", expected + "without cells", spacing)
    return as_options(widest_side(game), objective, sense, spacing, *given)


def widest_side(game: Any) -> float:
    """The widest side of the aggregates that can be reached, over all steps and states."""
    boxes = [game.box(*place) if place else game.box for place in places_of(game)]
    return max(float((high - low).max()) for low, high in boxes)


def _solve(
    game: AggregativeGame | AggregativeMarkovGame,
    worth: np.ndarray | None,
    options: Options,
    tolerance: float | None,
    time_limit: float,
    progress: Progress | None,
    *,
    backward: bool,
) -> Solution:
    started = time.perf_counter()
    checks.check_range("time_limit", time_limit, 0.0, np.inf)
    if tolerance is not None:
        checks.check_range("tolerance", tolerance, 0.0, np.inf)
    options = replace(options, until=started + float(time_limit), progress=progress)
    planner = Planner(game, worth, options, backward, tolerance)
    tolerance, options = planner.tolerance, planner.options
    policy = planner.roster.policy()
    value, welfare = planner.value[0], planner.welfare[0]
    aggregate, shares = planner.aggregate, planner.shares
    single = isinstance(game, AggregativeGame)
    if single:  # one stage: its own numbers, without steps and states
        policy = one_stage(policy)
        value, welfare = np.asarray(value[0]), float(welfare[0])
        aggregate, shares = aggregate[0, 0], None if shares is None else shares[0, 0]
    planned = time.perf_counter()
    certificate = certify(game, policy)
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
        found = plan.objective if single else planner.welfare[0]
        stats |= {"objective": found}
        stats |= {"best_possible": plan.promise if single else planner.possible[0]}
    status = make_status(game, certificate, tolerance, options, stats)
    mean = options.objective == "welfare" and not options.loss
    if chosen and single and (mean or callable(options.objective)):
        stats |= prices(planner.stage, options, plans[0])
    elif chosen and not single and options.free:
        stats |= _markov_prices(planner)
    stats |= {"plan_seconds": planned - started, "seconds": time.perf_counter() - started}
    return Solution(policy, value, certificate, status, float(tolerance), stats)


def prices(stage: Stage, options: Options, plan: Plan) -> dict[str, Any]:
    """The best and the worst equilibrium, the social optimum, and how they compare, by welfare.

    The price of anarchy compares the worst equilibrium found with the optimum found, the price of
    stability the best one: at least 1, and NaN where welfare has different signs.
    """
    found = {}
    for name, changes in (
        ("best", {"maximise": True}),
        ("worst", {"maximise": False}),
        ("optimum", {"maximise": True, "free": True}),
    ):
        same = options.objective == "welfare" and options.maximise == changes["maximise"]
        if same and not options.free and name != "optimum":
            found[name] = plan.objective, plan.gain
        else:
            aim = replace(
                options, objective="welfare", programs=_BESIDE, **{"free": False} | changes
            )
            other = best_equilibrium(stage, aim)
            found[name] = other.objective, other.gain
    best = max(found["optimum"][0], found["best"][0])
    met = {name: found[name][1] <= options.tolerance for name in ("best", "worst")}
    return {
        "optimum": best,
        "best_equilibrium": found["best"][0] if met["best"] else np.nan,
        "worst_equilibrium": found["worst"][0] if met["worst"] else np.nan,
        "price_of_anarchy": price(best, found["worst"][0]) if met["worst"] else np.nan,
        "price_of_stability": price(best, found["best"][0]) if met["best"] else np.nan,
    }


def _markov_prices(planner: "Planner") -> dict[str, Any]:
    """The same beside the optimum of a Markov game, from each state that it may begin in."""
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


def price(optimum: float, welfare: float) -> float:
    """How many times as good the optimum is, or how many times as costly the welfare.

    >>> price(2.0, 1.0), price(-1.0, -3.0), price(1.0, 0.0)
    (2.0, 3.0, inf)
    """
    if optimum == welfare:
        return 1.0
    if optimum > 0 and welfare >= 0:
        return float(np.inf) if welfare == 0 else optimum / welfare
    return welfare / optimum if optimum < 0 and welfare < 0 else float("nan")


def make_status(
    game: Any, certificate: Certificate, tolerance: float, options: Options, stats: dict[str, Any]
) -> Status:
    """Solved when no agent can gain more than the tolerance, as certified.

    Otherwise the gain may still be within the bound that the theory promises of the plan.
    """
    gain, upper = float(certificate.max_gain), float(certificate.max_upper)
    bound, relaxed = stats["bound"], stats["relaxed"]
    if options.free:
        off = float(np.abs(stats["best_possible"] - stats["objective"]).max())
        solved = off <= tolerance
        message = [f"no policy is better than the optimum found by more than {off:.3g}"]
        if np.ndim(stats["objective"]) == 0:
            known = f"no profile has more than {stats['best_possible']:.6g}"
            message = [f"the optimum found is {stats['objective']:.6g}, and {known}"]
        message.append(f"as a policy of agents who choose, it leaves a gain of {gain:.3g}")
        outcome = Outcome.SOLVED if solved else Outcome.INEXACT
        return Status(outcome, "; ".join(message), np.asarray(solved))
    solved = upper <= tolerance
    kept = bound is not None and gain <= bound + 1e-12 and relaxed == 1
    outcome = Outcome.SOLVED if solved else Outcome.WITHIN_BOUND if kept else Outcome.INEXACT
    if not solved and time.perf_counter() >= options.until:
        outcome = Outcome.OUT_OF_TIME
    verb = "at most" if solved else "above"
    message = [f"the largest gain is {upper:.3g}, {verb} the tolerance of {tolerance:.3g}"]
    message.append(f"found by {stats['method']}")
    if options.rounding == "sample":
        message.append("sampling promises nothing")
    elif not solved and bound is not None:
        verb = "at most" if gain <= bound + 1e-12 else "less than that"
        message.append(f"{verb} {bound:.3g} was promised for this number of agents")
    if "best_possible" in stats:
        message.append(_not_found(options, stats, solved))
    if not solved and not stats["cells"] and stats["estimate_seconds"] > 0:
        message.append("cells would have taken too long, or are not made for so many coordinates")
    if game.lipschitz_estimated and stats["cells"]:
        message.append("the Lipschitz constant was estimated, not given")
    if relaxed > 1:
        message.append(
            f"no cell was feasible until the slack grew {relaxed:g} times: give a larger "
            "`lipschitz`, or leave `slack` to its default"
        )
    return Status(outcome, "; ".join(message), np.asarray(solved))


def _not_found(options: Options, stats: dict[str, Any], solved: bool) -> str:
    """What is proven about equilibria that were not found."""
    possible, more = stats["best_possible"], "above" if options.maximise else "below"
    if not np.isfinite(possible).all():
        return "nothing is proven about equilibria that were not found"
    name = options.objective if isinstance(options.objective, str) else "objective"
    if np.ndim(possible):
        off = float(np.abs(possible - stats["objective"]).max())
        return f"no equilibrium has a {name} more than {off:.3g} {more} this one's from any state"
    here = f" ({stats['objective']:.6g} here)" if solved else ""
    return f"no equilibrium has a {name} {more} {possible:.6g}{here}"


class Planner:
    """Backward over the steps, one stage for each state; a normal form is one stage."""

    def __init__(
        self,
        game: Any,
        worth: np.ndarray | None,
        options: Options,
        backward: bool,
        tolerance: float | None,
    ):
        self.game, self.worth, self.backward = game, worth, backward
        # A user's function counts the agents of each row of the game.
        custom = callable(options.objective)
        self.groups = groups = alone(game.counts) if custom else group_agents(game, worth)
        places, actions = places_of(game), game.actions[0]
        shape = horizon, states = (game.horizon, game.states) if places[0] else (1, 1)
        self.roster = Roster(groups, horizon, states, actions)
        self.aggregate = np.zeros((*shape, game.dimensions))
        #: (horizon + 1, states): value to the mean agent, and mean welfare, from each step on.
        self.value, self.welfare = np.zeros((2, horizon + 1, states))
        #: (horizon + 1, states): what the welfare of no equilibrium exceeds, from each step on.
        self.possible = np.zeros((horizon + 1, states))
        #: (horizon, states): bounds on gains, and ranges of rewards at some reachable aggregates.
        self.bounds, self.ranges = np.zeros((2, *shape))
        for h, s in np.ndindex(*shape):
            stage = stage_of(game, (h, s) if places[0] else (), groups)
            self.ranges[h, s] = reward_range(stage)
        if tolerance is None:
            tolerance = TOLERANCE * float(self.ranges.max(1).sum())
        self.tolerance = float(tolerance)
        #: What stages may leave of the tolerance; the rest is for what moving transitions brings.
        own = tolerance if places == [()] else 0.5 * tolerance / horizon
        if places != [()]:  # lemma A promises no less of so many agents
            own = max(own, game.lipschitz * (game.dimensions + 1) * game.delta)
        programs = options.programs if len(places) == 1 else min(options.programs, _STAGE)
        self.options = replace(options, tolerance=own, programs=programs)
        if len(places) > 1:
            self.options = replace(self.options, polish=_POLISH)
        sizes = (*shape, len(groups.first), actions)
        #: (horizon, states, types, actions): shares before rounding; None for very many types.
        self.shares = np.zeros(sizes) if len(places) == 1 or np.prod(sizes) <= _SHARES else None
        self.plans: list[Plan] = []
        for h in reversed(range(horizon)):
            for s in range(states):
                self._plan(h, s, (h, s) if places[0] else ())
                if options.progress is not None:
                    done = {"stages": len(self.plans), "of": horizon * states}
                    options.progress(done | {"gain": self.plans[-1].gain})

    def _plan(self, h: int, s: int, place: tuple[int, ...]) -> None:
        game, options, changes = self.game, self.options, {}
        if self.backward:
            later = self.welfare[h + 1]
            changes["ahead"] = lambda x: game.transitions(h, s, x) @ later
            changes["ahead_lipschitz"] = game.transition_lipschitz * float(np.ptp(later))
            if options.slack == "printed":
                left = game.horizon - 1 - h
                changes["lipschitz"] = game.lipschitz + game.transition_lipschitz * left
        self.stage = stage = stage_of(game, place, self.groups, self.worth, **changes)
        plan = solve_stage(stage, options)
        self.roster.assign(h, s, plan.plays)
        self.aggregate[h, s], self.bounds[h, s] = plan.aggregate, plan.bound
        if place and not np.isfinite(plan.bound):  # no cell promised anything: the gain as it is
            self.bounds[h, s] = plan.gain
        if self.shares is not None:
            self.shares[h, s] = plan.shares
        rewards = stage.rewards(plan.aggregate[None])[0]
        self.value[h, s] = (plan.plays * rewards).sum() / stage.agents
        self.welfare[h, s] = self.value[h, s] if self.worth is None else mean_worth(stage, plan)
        if place:
            chances = game.transitions(h, s, plan.aggregate)
            # The stage's bound takes for what is ahead what was found, which may fall short.
            short = self.possible[h + 1] - self.welfare[h + 1]
            most = short.max() if options.maximise else short.min()
            self.possible[h, s] = plan.promise + most
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
