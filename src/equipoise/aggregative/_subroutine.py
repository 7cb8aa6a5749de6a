"""Subroutine 4.1.1 of the paper: a pure near-equilibrium of one stage, any one or the best.

With cells of side `alpha`, a slack of `lipschitz * alpha` and the aggregate held in the cell,
some cell is feasible in every game (Lemma A). A vertex of its program leaves d agents between
actions, and deciding them moves the aggregate by d delta / 2. docs/theory/aggregative.md lists the
deviations from the printed subroutine and their reasons.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any, TypeVar

import numpy as np

from equipoise.aggregative._cells import (
    Stage,
    children,
    feasible_cells,
    near_best,
    printed_grid,
    solve_cell,
    tile,
)
from equipoise.aggregative._knapsack import Vertex
from equipoise.aggregative.theory import printed_zeta
from equipoise.core import checks
from equipoise.core.deadline import Deadline
from equipoise.core.errors import InputError

#: Largest number of times that a slack without a feasible cell is doubled.
_DOUBLINGS = 60
#: Largest number of ways to decide the agents in between that are compared.
_WAYS = 4096

OBJECTIVES = ("regret", "welfare", "loss", "egalitarian")

_T = TypeVar("_T")


@dataclass(frozen=True)
class Options:
    """Options for solving a stage; `solve` documents them."""

    objective: str | Callable[..., float] = "regret"
    maximise: bool = True
    #: Side of the first cells; None for a default that depends on the number of coordinates.
    spacing: float | None = 0.05
    epsilon: float = 0.0
    #: None or "lemma" for the slack of Lemma A, "printed" for the paper's, or a number.
    slack: float | str | None = None
    rounding: str = "vertex"
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    #: Largest gain that an equilibrium may leave.
    tolerance: float = 0.0
    #: When to stop and return the best so far.
    deadline: Deadline = field(default_factory=Deadline)
    #: Whether the game has a potential; None to test for one.
    potential: bool | None = None
    #: Whether any profile is accepted, as for the social optimum.
    free: bool = False
    #: Largest number of small cells for a bound on the social optimum; 0 for none.
    prove: float = 0.0
    #: Whether the objective is a loss.
    loss: bool = False
    #: Largest number of programs of cells for a choice among equilibria.
    programs: int = 240
    #: Largest number of profiles that are enumerated.
    profiles: int = 300
    #: Number of evaluations of gains to refine a plan that meets the tolerance.
    polish: int = 3000
    #: A callable that receives the progress of a search.
    progress: Callable[[dict[str, Any]], None] | None = None

    @property
    def side(self) -> float:
        """Side of the cells; 1 if no spacing is given."""
        return 1.0 if self.spacing is None else self.spacing

    @property
    def as_paper(self) -> bool:
        """Whether to use the paper's subroutine: one spacing, one slack."""
        return self.slack is not None or self.rounding == "sample"


@dataclass(frozen=True)
class Plan:
    """A pure profile of a stage, and how it was found."""

    #: (types, actions) whole numbers of agents.
    plays: np.ndarray
    #: (d,) the aggregate of that profile.
    aggregate: np.ndarray
    #: (types, actions) shares of actions before rounding.
    shares: np.ndarray
    #: Upper bound on any agent's gain in this stage (Lemma A).
    bound: float
    spacing: float
    slack: float
    #: Factor by which the slack had to grow before a cell was feasible; 1 under Lemma A.
    relaxed: float
    #: Objective per agent, including the welfare still to come; NaN if any equilibrium is sought.
    objective: float = np.nan
    cells: int = 0
    feasible: int = 0
    programs: int = 0
    #: The exact largest gain of any agent in this stage; NaN if it was not computed.
    gain: float = np.nan
    #: The method that found the profile.
    method: str = "cells"
    #: Upper bound on the objective at any equilibrium; not finite if nothing is proven.
    promise: float = np.nan
    #: Whether cells were left out because they need too many rewards.
    skipped: bool = False
    #: Whether `promise` comes from all profiles.
    complete: bool = False
    evaluations: int = 0


def relax(attempt: Callable[[float], _T | None]) -> _T:
    """Double the slack of an attempt until some cell is feasible, and return its result."""
    for doublings in range(_DOUBLINGS):
        found = attempt(2.0**doublings)
        if found is not None:
            return found
    raise RuntimeError("no cell is feasible at any slack: the rewards are not finite")


def stage_slack(stage: Stage, options: Options, side: float, relaxed: float = 1.0) -> float:
    """Largest distance of an allowed action from the best."""
    if options.slack == "printed":
        zeta = printed_zeta(stage.agents, stage.influence.shape[1], stage.delta)
        slack = stage.lipschitz * zeta
    elif options.slack not in (None, "lemma"):
        slack = float(options.slack)
    elif options.objective == "regret":
        slack = stage.lipschitz * side
    else:
        slack = options.epsilon + stage.lipschitz * (side + stage.delta)
    return slack if relaxed == 1 else relaxed * max(slack, 1e-3 * stage.lipschitz * side, 1e-12)


def make_plan(
    stage: Stage,
    options: Options,
    vertex: Vertex,
    half: np.ndarray,
    slack: float,
    bound: float = np.inf,
    **counted: Any,
) -> Plan:
    """Round a vertex of a cell with these half sides, and bound the gains of the result.

    `bound` is the bound from the constants of the cell, if they are better than the game's.
    """
    counts, actions = stage.counts, stage.influence.shape[1]
    if options.rounding == "sample":
        plays = sample_vertex(vertex, counts, actions, options.rng)
    else:
        plays = round_vertex(vertex, stage.influence, counts)
    side = 2.0 * float(half.max())
    return Plan(
        plays=plays,
        aggregate=stage.aggregate(plays),
        shares=vertex.mass(counts, actions) / counts[:, None],
        bound=min(slack + stage.lipschitz * (side + (stage.dimensions + 1) * stage.delta), bound),
        spacing=side,
        slack=slack,
        **counted,
    )


def reward_range(stage: Stage) -> float:
    """Largest minus smallest reward of any agent at some reachable aggregates."""
    if stage.dimensions == 1:
        points = stage.low + np.linspace(0.0, 1.0, 5)[:, None] * (stage.high - stage.low)
    else:  # corners of the box may be unreachable: use one action for all, and the mean of these
        sums = stage.scale * np.tensordot(stage.counts.astype(np.float64), stage.influence, 1)
        points = np.concatenate([sums[:16], sums.mean(0, keepdims=True)])
    rewards = (stage.rewards(point[None]) for point in points)  # one at a time, to save memory
    lows, highs = zip(*((values.min(), values.max()) for values in rewards), strict=True)
    return float(max(highs) - min(lows))


def local_bound(
    stage: Stage, rewards: np.ndarray, allowed: np.ndarray, centre: np.ndarray, half: np.ndarray
) -> float:
    """Upper bound on any gain after rounding in a cell, by the Lipschitz constants there."""
    off = 0.5 * stage.dimensions * stage.delta  # move of the aggregate by rounding
    if stage.slopes is None and not stage.sampled:
        return np.inf  # with one constant everywhere, Lemma A gives the same
    most = rewards + stage.variation(centre[None], half, off + stage.delta)[0]
    least = np.where(allowed, rewards - stage.variation(centre[None], half, off)[0], np.inf)
    return float((most.max(1) - least.min(1)).max())


def regret_at(stage: Stage, plan: Plan) -> float:
    """Largest regret of any agent at the aggregate itself, without the agents' own influence."""
    rewards = stage.rewards(plan.aggregate[None])[0]
    short = rewards.max(1, keepdims=True) - rewards
    return float(np.where(plan.plays > 0, short, 0.0).max())


def seek(stage: Stage, options: Options) -> Plan:
    """Any equilibrium, as exact as the number of agents allows: halve cells, deepest first.

    A cell that contains a fixed point of the exact best responses stays feasible at every size, so
    halving only feasible cells always ends in one smaller than an agent's influence.
    """
    cells, counted = tile(stage.low, stage.high, options.side), Counter[str]()
    return relax(lambda relaxed: descend(stage, options, cells, relaxed, counted))


def seek_within(stage: Stage, options: Options, most: float) -> Plan | None:
    """`seek` with at most so many cells, until the deadline; None if these end it."""
    cells, counted = tile(stage.low, stage.high, options.side), Counter[str]()
    for doublings in range(_DOUBLINGS):
        plan = descend(stage, options, cells, 2.0**doublings, counted, most)
        if plan is not None or counted["cells"] >= most or options.deadline.over():
            return plan
    return None


def descend(
    stage: Stage,
    options: Options,
    cells: tuple[np.ndarray, np.ndarray],
    relaxed: float = 1.0,
    counted: Counter[str] | None = None,
    most: float = np.inf,
) -> Plan | None:
    """Halve the given cells (centres and half sides) down to an agent's influence."""
    counted = Counter() if counted is None else counted
    finest = max(0.25 * stage.delta, 1e-10 * float((stage.high - stage.low).max()), 1e-300)
    stack = [cells]
    best, best_regret, looked = None, np.inf, 0
    while stack and counted["cells"] < most and not options.deadline.over():
        centres, half = stack.pop()
        size = min(stage.chunk(), 64)
        if len(centres) > size:
            stack.append((centres[size:], half))
            centres = centres[:size]
        side = 2.0 * float(half.max())
        slack = relaxed * stage.lipschitz * side
        kept = list(feasible_cells(stage, centres, half, 0.0, relaxed))
        counted.update(cells=len(centres), feasible=len(kept))
        if side > finest:
            if kept:
                inside = centres[[index for index, _, _ in kept]]
                stack.append(children(inside, half, stage.parts()))
            continue
        for index, rewards, allowed in kept:
            weights = rewards - rewards.max(1, keepdims=True)
            vertex = solve_cell(stage, weights, allowed, centres[index], half)
            counted["programs"] += 1
            if vertex is None:
                continue
            bound = local_bound(stage, rewards, allowed, centres[index], half)
            plan = make_plan(stage, options, vertex, half, slack, bound, relaxed=relaxed, **counted)
            regret = regret_at(stage, plan)
            if regret < best_regret:
                best, best_regret = plan, regret
            looked += 1
            if best_regret <= 0.5 * stage.lipschitz * stage.delta or looked >= 8:
                return best
    return best


def select(stage: Stage, options: Options) -> Plan:
    """The best of all feasible cells at one spacing, for welfare or for the sum of regrets.

    This is subroutine 4.1.1 of the paper, with its slack or that of Lemma A.
    """
    printed = options.slack == "printed"
    cells = (printed_grid if printed else tile)(stage.low, stage.high, options.side)
    # The paper's spacing is half the width of its bands.
    side = (1.0 if printed else 2.0) * float(cells[1].max())

    def attempt(relaxed: float) -> Plan | None:
        return _scan(stage, options, *cells, stage_slack(stage, options, side, relaxed), relaxed)

    return relax(attempt)


def cell_weights(stage: Stage, options: Options, rewards: np.ndarray) -> np.ndarray:
    """(types, actions): the weights that the program of a cell maximises, given its rewards."""
    if options.objective == "regret":
        return rewards - rewards.max(1, keepdims=True)
    worth = rewards if stage.welfare is None else stage.welfare
    return worth if options.maximise else -worth


def worth_ahead(stage: Stage, options: Options, points: np.ndarray) -> np.ndarray:
    """(points,): the welfare still to come, in the sense of the objective."""
    if stage.ahead is None or options.objective == "regret":
        return np.zeros(len(points))
    return (1.0 if options.maximise else -1.0) * stage.ahead(points)


def _scan(
    stage: Stage,
    options: Options,
    centres: np.ndarray,
    half: np.ndarray,
    slack: float,
    relaxed: float,
) -> Plan | None:
    """Solve programs of the cells that can be feasible, largest bound first, while worthwhile."""
    sign = 1.0 if options.maximise else -1.0
    ahead = worth_ahead(stage, options, centres)
    promise = np.full(len(centres), -np.inf)
    for index, rewards, allowed in feasible_cells(stage, centres, half, slack):
        weights = cell_weights(stage, options, rewards)
        most = np.where(allowed, weights, -np.inf).max(1)
        promise[index] = stage.counts @ most / stage.agents + ahead[index]
    order = np.argsort(-promise, kind="stable")
    order = order[np.isfinite(promise[order])]
    counted = {"relaxed": relaxed, "cells": len(centres), "feasible": len(order)}
    # Rewards are taken at centres: a cell's bound may be off by as much as rewards can change.
    margin = 0.0 if stage.welfare is not None else stage.lipschitz * 2.0 * float(half.max())
    best, best_worth, found = None, -np.inf, -np.inf
    for programs, index in enumerate(order):
        if promise[index] <= found - margin:
            break
        rewards = stage.rewards(centres[index][None])[0]
        weights = cell_weights(stage, options, rewards)
        vertex = solve_cell(stage, weights, near_best(rewards, slack), centres[index], half)
        if vertex is None:
            continue
        found = max(found, vertex.objective / stage.agents + ahead[index])
        counted |= {"objective": sign * found, "programs": programs + 1}
        plan = make_plan(stage, options, vertex, half, slack, **counted)
        worth = worth_of(stage, options, plan)
        if worth > best_worth:
            best, best_worth = plan, worth
    if best is None or options.objective == "regret" or options.slack != "lemma":
        return best
    # Programs take later welfare, and rewards, at the centres of cells. The most exact equilibrium
    # in the same cells may therefore have a larger value than the best of them.
    exact = descend(stage, options, (centres[order], half))
    if exact is None or worth_of(stage, options, exact) <= best_worth:
        return best
    return replace(best, plays=exact.plays, aggregate=exact.aggregate, shares=exact.shares)


def worth_of(stage: Stage, options: Options, plan: Plan) -> float:
    """Value of a plan at its own aggregate, by which plans are compared."""
    point = plan.aggregate[None]
    weights = cell_weights(stage, options, stage.rewards(point)[0])
    worth = float((plan.plays * weights).sum() / stage.agents)
    return worth + float(worth_ahead(stage, options, point)[0])


def round_vertex(vertex: Vertex, influence: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(types, actions): round to whole agents, keeping the sum of influences nearly the same.

    A vertex leaves at most d agents between actions. Among all ways to decide them, the rounding
    takes the one whose sum is nearest in the sup norm. It is off by at most d/2 times the largest
    influence of one agent.

    >>> vertex = Vertex(np.array([0]), np.array([0]), np.array([[2.6, 0.4]]), 0.0)
    >>> round_vertex(vertex, np.array([[[0.0], [1.0]]]), np.array([3])).tolist()
    [[3, 0]]
    """
    types, actions = influence.shape[:2]
    plays = np.zeros((types, actions), np.int64)
    plays[np.arange(types), vertex.choice] = counts
    if not len(vertex.moved):
        return plays
    whole = np.floor(vertex.split + 1e-9)
    plays[vertex.moved] = whole.astype(np.int64)
    fractions = np.maximum(vertex.split - whole, 0.0)
    between: list[tuple[int, np.ndarray]] = []
    for kind, fraction in zip(vertex.moved, fractions, strict=True):
        missing = int(counts[kind] - plays[kind].sum())
        options = np.flatnonzero(fraction > 1e-9)
        options = options if len(options) else np.array([vertex.choice[kind]])
        between += [(int(kind), options[np.argsort(-fraction[options])])] * missing
    wanted = np.einsum("ta,tad->d", fractions, influence[vertex.moved])
    best, chosen = np.inf, ()
    for way in islice(product(*(options for _, options in between)), _WAYS):
        pull = sum((influence[k, a] for (k, _), a in zip(between, way, strict=True)), 0.0 * wanted)
        off = float(np.abs(pull - wanted).max())
        if off < best:
            best, chosen = off, way
    for (kind, _), action in zip(between, chosen, strict=True):
        plays[kind, action] += 1
    return plays


def sample_vertex(
    vertex: Vertex, counts: np.ndarray, actions: int, rng: np.random.Generator
) -> np.ndarray:
    """(types, actions): draw every agent's action from its type's mix, as printed."""
    share = vertex.mass(counts, actions) / counts[:, None]
    share = np.maximum(share, 0.0)
    return rng.multinomial(counts, share / share.sum(1, keepdims=True)).astype(np.int64)


def as_options(
    width: float,
    objective: str | Callable[..., float],
    sense: str,
    spacing: float | None,
    epsilon: float,
    slack: float | str | None,
    rounding: str,
    key: int,
) -> Options:
    """Check the options; `width` is the widest side of the reachable aggregates."""
    checks.check_count("key", key, at_least=0)
    check_choice("sense", sense, "max", "min")
    check_choice("rounding", rounding, "vertex", "sample")
    if isinstance(slack, str) and slack not in ("printed", "lemma"):
        raise InputError("slack", "a number, 'lemma' or 'printed'", repr(slack))
    if slack is not None and not isinstance(slack, str):
        checks.check_range("slack", slack, 0.0, np.inf)
    checks.check_range("epsilon", epsilon, 0.0, np.inf, high_open=True)
    if sense == "min" and objective in ("regret", "loss"):
        expected = "objective='welfare', 'egalitarian' or a function with 'min'"
        raise InputError("sense", expected, repr(objective))
    as_paper = slack is not None or rounding == "sample"
    if epsilon > 0 and (objective not in ("welfare", "loss") or slack not in ("lemma", None)):
        expected = "objective='welfare' or 'loss', and slack='lemma', with epsilon"
        raise InputError("epsilon", expected, f"{objective!r} and {slack!r}")
    if epsilon > 0 and slack is None:
        raise InputError("epsilon", "slack='lemma' with epsilon, or use `tolerance` instead", None)
    if as_paper and objective not in ("regret", "welfare", "loss"):
        expected = "objective='regret', 'welfare' or 'loss' with a slack or rounding='sample'"
        raise InputError("objective", expected, repr(objective))
    if spacing is None and as_paper:
        spacing = 0.05 * width or 1.0
    if spacing is not None:
        checks.check_range("spacing", spacing, 0.0, np.inf, low_open=True, high_open=True)
        spacing = float(spacing)
    sought = "welfare" if objective == "loss" else objective
    maximise = sense == "max" and objective != "loss"
    rng = np.random.default_rng(key)
    return Options(sought, maximise, spacing, float(epsilon), slack, rounding, rng)


def check_choice(name: str, value: Any, *known: str) -> None:
    """Raise an error for a word that is not one of the known ones."""
    if value not in known:
        raise InputError(name, " or ".join(map(repr, known)), repr(value))


def as_worth(game: Any, objective: Any, welfare: Any, loss: Any) -> np.ndarray | None:
    """The weights of the objective, or None for the agents' own rewards."""
    if not callable(objective) and objective not in OBJECTIVES:
        raise InputError("objective", f"one of {OBJECTIVES} or a function", repr(objective))
    full, meaning = game.influence.shape[-3:-1], "(agents, actions)"
    shape = full
    if hasattr(game, "horizon"):
        shape, meaning = (game.horizon, game.states, *full), "(horizon, states, agents, actions)"
    given = {"welfare": welfare, "loss": loss}
    for name, value in given.items():
        if value is not None and objective != name:
            raise InputError(name, f"this option only with objective={name!r}", repr(objective))
    if objective == "loss" and loss is None:
        raise InputError("loss", f"an array of shape {shape}, {meaning}", None)
    value = None if callable(objective) else given.get(objective)
    if value is None or callable(objective):
        return None
    array = np.asarray(checks.as_float_array(objective, value), np.float64)
    if array.shape not in (full, shape):
        raise InputError(objective, f"shape {full} or {shape}, {meaning}", array.shape)
    checks.check_finite(objective, array)
    return array
