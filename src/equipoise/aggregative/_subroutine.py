"""The subroutine: a pure near-equilibrium of one stage, any or the best for society.

With cells of side `alpha`, a tolerance of `lipschitz * alpha` and the aggregate held in the cell,
some cell is feasible in every game (lemma A). A vertex of its program leaves d agents between
actions, and deciding them moves the aggregate by d delta / 2. Deviations from the Algorithms'
printed subroutine, and why, are listed in docs/theory/aggregative.md.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from equipoise.aggregative._cells import (
    Stage,
    children,
    near_best,
    possible,
    printed_grid,
    solve_cell,
    tile,
)
from equipoise.aggregative._knapsack import Vertex
from equipoise.aggregative._rounding import round_vertex, sample_vertex
from equipoise.aggregative.theory import printed_zeta

#: How often a tolerance that leaves no cell feasible is doubled.
_DOUBLINGS = 60


@dataclass(frozen=True)
class Options:
    """How a stage is solved; `solve` documents them."""

    objective: str = "regret"
    maximise: bool = True
    spacing: float = 0.05
    epsilon: float = 0.0
    #: None for the tolerance of lemma A, "printed" for the paper's, or a number.
    tolerance: float | str | None = None
    rounding: str = "vertex"
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))


@dataclass(frozen=True)
class Plan:
    """A pure profile of a stage, and where it comes from."""

    #: (types, actions) whole numbers of agents.
    plays: np.ndarray
    #: (d,) the aggregate of that profile.
    aggregate: np.ndarray
    #: (types, actions) shares of actions before rounding.
    shares: np.ndarray
    #: (d,) the centre of the cell that was planned for.
    centre: np.ndarray
    #: Value of the objective per agent, what is ahead included.
    objective: float
    #: What no agent can gain more than in this stage, by lemma A.
    bound: float
    spacing: float
    tolerance: float
    #: How much the tolerance had to grow before a cell was feasible; 1 under lemma A.
    relaxed: float
    cells: int
    feasible: int
    programs: int


def solve_stage(stage: Stage, options: Options) -> Plan:
    """A near-equilibrium of one stage: of least regret, or of the best welfare."""
    if options.objective == "regret" and options.tolerance is None:
        return seek(stage, options)
    return select(stage, options)


def stage_tolerance(stage: Stage, options: Options, side: float) -> float:
    """How far from its best an allowed action may be."""
    if options.tolerance == "printed":
        zeta = printed_zeta(stage.agents, stage.influence.shape[1], stage.delta)
        return stage.lipschitz * zeta
    if options.tolerance is not None:
        return float(options.tolerance)
    if options.objective == "regret":
        return stage.lipschitz * side
    return options.epsilon + stage.lipschitz * (side + stage.delta)


def make_plan(
    stage: Stage,
    options: Options,
    vertex: Vertex,
    centre: np.ndarray,
    half: np.ndarray,
    tolerance: float,
    **counted: Any,
) -> Plan:
    """Round a vertex, and say what is guaranteed of it."""
    counts, actions = stage.counts, stage.influence.shape[1]
    if options.rounding == "sample":
        plays = sample_vertex(vertex, counts, actions, options.rng)
    else:
        plays = round_vertex(vertex, stage.influence, counts)
    d = stage.dimensions
    flat = stage.influence.reshape(-1, d)
    side = 2.0 * float(half.max())
    return Plan(
        plays=plays,
        aggregate=stage.scale * (plays.reshape(-1).astype(np.float64) @ flat),
        shares=vertex.mass(counts, actions) / counts[:, None],
        centre=centre,
        objective=float(counted.pop("objective", np.nan)),
        bound=tolerance + stage.lipschitz * (side + (d + 1) * stage.delta),
        spacing=side,
        tolerance=tolerance,
        **counted,
    )


def regret_at(stage: Stage, plan: Plan) -> float:
    """The largest regret of anybody at the aggregate itself; nobody's own weight counted."""
    rewards = stage.rewards(plan.aggregate[None])[0]
    short = rewards.max(1, keepdims=True) - rewards
    return float(np.where(plan.plays > 0, short, 0.0).max())


def seek(stage: Stage, options: Options) -> Plan:
    """Any equilibrium, as exact as the agents' number allows: halve cells, deepest first.

    A cell that holds a fixed point of the exact best replies stays feasible at every size, so
    halving feasible cells alone always ends in one smaller than an agent's influence.
    """
    relaxed, counted = 1.0, {"cells": 0, "feasible": 0, "programs": 0}
    for _ in range(_DOUBLINGS):
        plan = descend(
            stage, options, tile(stage.low, stage.high, options.spacing), relaxed, counted
        )
        if plan is not None:
            return plan
        relaxed *= 2.0
    raise RuntimeError("no cell is feasible at any tolerance: the rewards are not finite")


def descend(
    stage: Stage,
    options: Options,
    cells: tuple[np.ndarray, np.ndarray],
    relaxed: float,
    counted: dict[str, int],
) -> Plan | None:
    """Halve the given cells, centres and half sides, down to an agent's influence."""
    finest = max(0.25 * stage.delta, 1e-10 * float((stage.high - stage.low).max()), 1e-300)
    stack = [cells]
    best, best_regret, looked = None, np.inf, 0
    while stack:
        centres, half = stack.pop()
        size = min(stage.chunk(), 64)
        if len(centres) > size:
            stack.append((centres[size:], half))
            centres = centres[:size]
        side = 2.0 * float(half.max())
        tolerance = relaxed * stage.lipschitz * side
        rewards = stage.rewards(centres)
        allowed = near_best(rewards, tolerance)
        kept = np.flatnonzero(possible(stage, allowed, centres, half))
        counted["cells"] += len(centres)
        counted["feasible"] += len(kept)
        if side > finest:
            if len(kept):
                stack.append(children(centres[kept], half, stage.parts()))
            continue
        for index in kept:
            weights = rewards[index] - rewards[index].max(1, keepdims=True)
            vertex = solve_cell(stage, weights, allowed[index], centres[index], half)
            counted["programs"] += 1
            if vertex is None:
                continue
            plan = make_plan(
                stage, options, vertex, centres[index], half, tolerance,
                objective=vertex.objective / stage.agents, relaxed=relaxed, **counted,
            )  # fmt: skip
            regret = regret_at(stage, plan)
            if regret < best_regret:
                best, best_regret = plan, regret
            looked += 1
            if best_regret <= 0.5 * stage.lipschitz * stage.delta or looked >= 8:
                return best
    return best


def select(stage: Stage, options: Options) -> Plan:
    """The best of all feasible cells at one spacing, for welfare or for the sum of regrets."""
    printed = options.tolerance == "printed"
    grid = printed_grid if printed else tile
    centres, half = grid(stage.low, stage.high, options.spacing)
    # The paper's spacing is half the width of its bands.
    side = float(half.max()) if printed else 2.0 * float(half.max())
    tolerance, relaxed = stage_tolerance(stage, options, side), 1.0
    for _ in range(_DOUBLINGS):
        plan = _scan(stage, options, centres, half, tolerance, relaxed)
        if plan is not None:
            return plan
        relaxed *= 2.0
        tolerance = 2.0 * max(tolerance, 1e-3 * stage.lipschitz * side, 1e-12)
    raise RuntimeError("no cell is feasible at any tolerance: the rewards are not finite")


def cell_weights(stage: Stage, options: Options, rewards: np.ndarray) -> np.ndarray:
    """(types, actions): what the program of a cell maximises, given rewards at its centre."""
    if options.objective == "regret":
        return rewards - rewards.max(1, keepdims=True)
    worth = rewards if stage.welfare is None else stage.welfare
    return worth if options.maximise else -worth


def _scan(
    stage: Stage,
    options: Options,
    centres: np.ndarray,
    half: np.ndarray,
    tolerance: float,
    relaxed: float,
) -> Plan | None:
    """Programs of the cells that can be feasible, the most promising first, while worth it."""
    sign = 1.0 if options.maximise else -1.0
    ahead = np.zeros(len(centres))
    if stage.ahead is not None and options.objective != "regret":
        ahead = sign * stage.ahead(centres)
    promise = np.full(len(centres), -np.inf)
    for start in range(0, len(centres), stage.chunk()):
        part = slice(start, start + stage.chunk())
        rewards = stage.rewards(centres[part])
        allowed = near_best(rewards, tolerance)
        passed = possible(stage, allowed, centres[part], half)
        for index in np.flatnonzero(passed):
            weights = cell_weights(stage, options, rewards[index])
            best = np.where(allowed[index], weights, -np.inf).max(1)
            promise[start + index] = stage.counts @ best / stage.agents + ahead[start + index]
    order = np.argsort(-promise, kind="stable")
    order = order[np.isfinite(promise[order])]
    # Rewards are those of centres: what they promise may be off by as much as they can change.
    margin = 0.0 if stage.welfare is not None else stage.lipschitz * 2.0 * float(half.max())
    best, best_worth, found, programs = None, -np.inf, -np.inf, 0
    for index in order:
        if promise[index] <= found - margin:
            break
        rewards = stage.rewards(centres[index][None])[0]
        weights = cell_weights(stage, options, rewards)
        vertex = solve_cell(stage, weights, near_best(rewards, tolerance), centres[index], half)
        programs += 1
        if vertex is None:
            continue
        found = max(found, vertex.objective / stage.agents + ahead[index])
        plan = make_plan(
            stage, options, vertex, centres[index], half, tolerance, objective=sign * found,
            relaxed=relaxed, cells=len(centres), feasible=len(order), programs=programs,
        )  # fmt: skip
        worth = worth_of(stage, options, plan)
        if worth > best_worth:
            best, best_worth = plan, worth
    if best is None or options.objective == "regret" or options.tolerance is not None:
        return best
    return _or_exact(stage, options, best, best_worth, (centres[order], half))


def _or_exact(
    stage: Stage,
    options: Options,
    best: Plan,
    best_worth: float,
    cells: tuple[np.ndarray, np.ndarray],
) -> Plan:
    """The plan, or an equilibrium in the same cells with less regret if it is worth more.

    Programs take what is to come, and rewards, at the centres of cells; an equilibrium as exact
    as can be may be worth more than the best of them.
    """
    exact = descend(stage, options, cells, 1.0, {"cells": 0, "feasible": 0, "programs": 0})
    if exact is None or worth_of(stage, options, exact) <= best_worth:
        return best
    return replace(best, plays=exact.plays, aggregate=exact.aggregate, shares=exact.shares)


def worth_of(stage: Stage, options: Options, plan: Plan) -> float:
    """What a plan is really worth, at its own aggregate: of plans, the best is taken."""
    point = plan.aggregate[None]
    weights = cell_weights(stage, options, stage.rewards(point)[0])
    worth = float((plan.plays * weights).sum() / stage.agents)
    if stage.ahead is not None and options.objective != "regret":
        worth += (1.0 if options.maximise else -1.0) * float(stage.ahead(point)[0])
    return worth
