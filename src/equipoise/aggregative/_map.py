"""A map of equilibria: where on the grid of aggregates they lie, and what they are worth."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import ndimage

from equipoise.aggregative._cells import Stage, feasible_cells, stage_of, tile
from equipoise.aggregative._classes import group_agents, policy_of
from equipoise.aggregative._solve import (
    exchange,
    mean_worth,
    solve_aggregative,
)
from equipoise.aggregative._subroutine import Options, as_worth, descend
from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.results import Solution
from equipoise.games import AggregativeGame, AggregativeMarkovGame, AggregativePolicy

#: Cells along each coordinate unless told, by the number of coordinates.
_CELLS = {1: 96, 2: 24, 3: 10}


@dataclass(frozen=True)
class Equilibrium:
    """One equilibrium of the map.

    **Example**

    >>> import equipoise as eq
    >>> best = eq.aggregative.equilibria(eq.games.load("public-good", agents=900))[0]
    >>> best.gain, best.policy.plays(types=1, actions=2).tolist(), best.stage is None
    (0.0, [[0, 900]], True)
    """

    #: (d,) its aggregate.
    aggregate: np.ndarray
    #: What anybody could gain, certified; in a Markov game, in that step alone.
    gain: float
    #: Mean welfare, in a Markov game that of the step.
    welfare: float
    #: What every agent plays.
    policy: AggregativePolicy
    #: Edges of the region of feasible cells it was found in: (2, d).
    region: np.ndarray
    #: Step and state of a Markov game; None in normal form.
    stage: tuple[int, int] | None = None


def equilibria(
    game: AggregativeGame | AggregativeMarkovGame,
    *,
    spacing: float | None = None,
    welfare: Any = None,
) -> tuple[Equilibrium, ...]:
    """The distinct equilibria that lie on the grid of aggregates, the best for society first.

    Every equilibrium lies in a feasible cell (lemma A). Feasible cells that touch form a region;
    in each region one equilibrium is sought, rounded to a pure profile and certified. Equilibria
    nearer to each other than a few cells share a region. In a Markov game the stages of every
    step and state are mapped, in their order.

    `welfare` is (agents or types, actions), the agents' rewards unless given; for a Markov game
    also (horizon, states, agents or types, actions).

    **Example**

    >>> import equipoise as eq
    >>> found = eq.aggregative.equilibria(eq.games.load("public-good", agents=900))
    >>> [(round(float(e.aggregate[0]), 3), round(e.welfare, 3)) for e in found]
    [(1.0, 0.6), (0.0, 0.0), (0.333, 0.0)]
    """
    worth = as_worth(game, "welfare", welfare, None)
    if isinstance(game, AggregativeGame):
        return tuple(_map(game, spacing, worth, None))
    found = []
    for h, s in np.ndindex(game.horizon, game.states):
        own = worth if worth is None or worth.ndim == 2 else worth[h, s]
        found += _map(game.stage(h, s), spacing, own, (h, s))
    return tuple(found)


def _map(
    game: AggregativeGame,
    spacing: float | None,
    worth: np.ndarray | None,
    place: tuple[int, int] | None,
) -> list[Equilibrium]:
    groups = group_agents(game, worth)
    stage = stage_of(game, (), groups, worth)
    if spacing is None:
        width = float((stage.high - stage.low).max())
        spacing = width / _CELLS.get(stage.dimensions, 6) if width > 0 else 1.0
    checks.check_range("spacing", spacing, 0.0, np.inf, low_open=True, high_open=True)
    found = []
    for centres, half in regions(stage, spacing):
        plan = descend(stage, Options(), (centres, half))
        if plan is None:  # cells of a region may each be feasible for its slack alone
            continue
        plan = exchange(game, groups, stage, Options(), plan)
        policy = policy_of(groups, plan.plays)
        edges = np.stack([centres.min(0) - half, centres.max(0) + half])
        gain = float(certify(game, policy).max_gain)
        found.append(
            Equilibrium(plan.aggregate, gain, mean_worth(stage, plan), policy, edges, place)
        )
    return sorted(found, key=lambda e: -e.welfare)


def regions(stage: Stage, spacing: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cells that can be feasible, in groups that touch: centres and half sides of each."""
    centres, half = tile(stage.low, stage.high, spacing)
    side = 2.0 * float(half.max())
    passed = np.zeros(len(centres), bool)
    found = feasible_cells(stage, centres, half, stage.lipschitz * side)
    passed[[index for index, _, _ in found]] = True
    shape = [len(np.unique(centres[:, k])) for k in range(stage.dimensions)]
    touching = np.ones([3] * stage.dimensions)
    labels, number = ndimage.label(passed.reshape(shape), touching)  # pyright: ignore
    labels = labels.ravel()
    return [(centres[labels == k + 1], half) for k in range(number)]


@dataclass(frozen=True)
class Compared:
    """A policy beside others: what anybody could gain, and what the mean agent earns.

    **Example**

    >>> import equipoise as eq
    >>> found = eq.aggregative.study(eq.games.load("public-good", agents=900)).comparison[1]
    >>> found.name, found.gain, round(found.value, 3)
    ('equilibrium 0', 0.0, 0.6)
    """

    name: str
    #: (d,) its aggregate; None in a Markov game, where each step and state has its own.
    aggregate: np.ndarray | None
    gain: float
    #: To the mean agent, over starting states in a Markov game.
    value: float


@dataclass(frozen=True)
class Study:
    """A solution, the map of all equilibria found, and how the solution compares with others.

    **Example**

    >>> import equipoise as eq
    >>> found = eq.aggregative.study(eq.games.load("public-good", agents=900))
    >>> found.solution.status.ok, len(found.equilibria), len(found.comparison)
    (True, 3, 4)
    """

    solution: Solution
    #: All equilibria of the map of a game in normal form; empty for a Markov game.
    equilibria: tuple[Equilibrium, ...]
    comparison: tuple[Compared, ...]


def study(game: AggregativeGame | AggregativeMarkovGame, **options: Any) -> Study:
    """Solve a game once, and compare the solution with other equilibria, found once.

    A game in normal form is compared with every equilibrium of its map, and a Markov game with its
    solutions of the largest and of the smallest welfare. `options` are those of `solve`.

    **Example**

    >>> import equipoise as eq
    >>> found = eq.aggregative.study(eq.games.load("public-good", agents=900))
    >>> [(one.name, round(one.value, 3)) for one in found.comparison]
    [('this solution', 0.0), ('equilibrium 0', 0.6), ('equilibrium 1', 0.0), ('equilibrium 2', 0.0)]
    """
    solution = solve_aggregative(game, **options)
    if isinstance(game, AggregativeMarkovGame):
        best, worst = (
            solve_aggregative(game, objective="welfare", sense=sense) for sense in ("max", "min")
        )
        named = {"this solution": solution, "best for society found": best, "worst found": worst}
        return Study(solution, (), tuple(_compared(*each) for each in named.items()))
    found = equilibria(game)
    own = _compared("this solution", solution, solution.stats["aggregate"])
    others = (
        Compared(f"equilibrium {k}", one.aggregate, one.gain, one.welfare)
        for k, one in enumerate(found)
    )
    return Study(solution, found, (own, *others))


def _compared(name: str, solution: Solution, aggregate: np.ndarray | None = None) -> Compared:
    gain = float(solution.certificate.max_gain)
    return Compared(name, aggregate, gain, float(np.mean(solution.value)))
