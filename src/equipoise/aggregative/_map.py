"""A map of equilibria: where they lie on the grid of aggregates, and their welfare."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial import KDTree

from equipoise.aggregative._cells import Stage, children, feasible_cells, stage_of, tile
from equipoise.aggregative._classes import group_agents, policy_of
from equipoise.aggregative._planner import mean_worth
from equipoise.aggregative._replies import Replies
from equipoise.aggregative._solve import solve_aggregative
from equipoise.aggregative._stages import CELLS_UP_TO
from equipoise.aggregative._subroutine import Options, Plan, as_worth, descend, reward_range
from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.results import Solution
from equipoise.games import AggregativeGame, AggregativeMarkovGame, AggregativePolicy
from equipoise.runs import interruptible

#: Default number of cells along each coordinate, by the number of coordinates.
_CELLS = {1: 96, 2: 24, 3: 10}

#: Largest number of rewards in the first cells for which `study` adds a map.
_REWARDS = 20_000_000

#: Largest number of cells held at once: regions are cut no finer.
_MOST = 20_000


@dataclass(frozen=True)
class Equilibrium:
    """One equilibrium of the map that `equilibria` returns.

    **Example**

    >>> import equipoise as eq
    >>> best = eq.aggregative.equilibria(eq.games.load("public-good", agents=900))[0]
    >>> best.gain, best.policy.plays(types=1, actions=2).tolist(), best.stage is None
    (0.0, [[0, 900]], True)
    """

    #: (d,) the aggregate.
    aggregate: np.ndarray
    #: Largest gain of any agent, certified; in a Markov game, within that step alone.
    gain: float
    #: Mean welfare; in a Markov game, that of the step.
    welfare: float
    #: The action of every agent.
    policy: AggregativePolicy
    #: (2, d) lower and upper edges of the region of feasible cells that contains it.
    region: np.ndarray
    #: Step and state of a Markov game; None in normal form.
    stage: tuple[int, int] | None = None
    #: Whether best-reply dynamics lead back to it after a small push; None if its gain is too large
    #: for an equilibrium.
    stable: bool | None = None
    #: A warning, or an empty string.
    note: str = ""


def equilibria(
    game: AggregativeGame | AggregativeMarkovGame,
    *,
    spacing: float | None = None,
    welfare: Any = None,
) -> tuple[Equilibrium, ...]:
    """Return the distinct equilibria on the grid of aggregates, the best for society first.

    Every equilibrium lies in a feasible cell (Lemma A). Cells are cut while there are few of them;
    cells that touch form a region. In each region the search finds one equilibrium, rounds it to a
    pure profile, certifies it, and pushes it a little to see whether best-reply dynamics lead back
    (`stable`). Equilibria within a few cells of each other share a region, and a `note` warns where
    regions overlap. In a Markov game the stages of every step and state are mapped, in order.

    `welfare` is an array (agents or types, actions), in a Markov game also (horizon, states, agents
    or types, actions). Default: the agents' rewards.

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
    live = int((stage.high > stage.low).sum())
    if live > CELLS_UP_TO:
        expected = f"an aggregate with at most {CELLS_UP_TO} coordinates"
        raise InputError("game", expected, live)
    if spacing is None:
        width = float((stage.high - stage.low).max())
        spacing = width / _CELLS.get(stage.dimensions, 4) if width > 0 else 1.0
    checks.check_range("spacing", spacing, 0.0, np.inf, low_open=True, high_open=True)
    replies = Replies(stage, potential=False)
    size = max(reward_range(stage), 1e-300)
    found: list[Equilibrium] = []
    for centres, half in regions(stage, spacing):
        plan = descend(stage, Options(), (centres, half))
        if plan is None:  # each cell of a region may be feasible only because of its slack
            continue
        plan = settled(stage, plan, replies)
        policy = policy_of(groups, plan.plays)
        edges = np.stack([centres.min(0) - half, centres.max(0) + half])
        gain = float(certify(game, policy).max_gain)
        welfare = mean_worth(stage, plan)
        stable = is_stable(stage, plan.plays, replies) if gain <= 0.01 * size else None
        found.append(Equilibrium(plan.aggregate, gain, welfare, policy, edges, place, stable))
    found.sort(key=lambda e: -e.welfare)
    return [replace(one, note=_overlap(found, k)) for k, one in enumerate(found)]


def settled(stage: Stage, plan: Plan, replies: Replies) -> Plan:
    """Lower the largest gain by single moves, which hardly move the aggregate."""
    profile = replies.settle(replies.profile(plan.plays))
    return replace(plan, plays=profile.plays, aggregate=stage.aggregate(profile.plays))


def is_stable(stage: Stage, plays: np.ndarray, replies: Replies) -> bool:
    """Whether best-reply dynamics lead back to the aggregate after a small push in each direction.

    A push moves a hundredth of the agents of each row, and at least one, from one action to
    another. No more agents than that move at a time, so that the dynamics do not jump to another
    equilibrium. They lead back if the aggregate ends within half the push of where it was.
    """
    x = stage.aggregate(plays)
    actions = plays.shape[1]
    for a, b in permutations(range(actions), 2):
        number = np.minimum(plays[:, a], np.maximum(plays[:, a] // 100, 1))
        if replies.plain:  # every hundredth agent, and at least three
            rows = np.flatnonzero(number)
            number = np.zeros_like(number)
            number[rows[:: max(1, min(100, len(rows) // 3))]] = 1
        pushed = plays.copy()
        pushed[:, a] -= number
        pushed[:, b] += number
        away = float(np.abs(stage.aggregate(pushed) - x).max())
        if away <= 0.0:
            continue
        far = partial(_is_beyond, stage, x, 3.0 * away + 2.0 * stage.delta)
        end = stage.aggregate(replies.reply(pushed, block=float(number.sum()), left=far).plays)
        if float(np.abs(end - x).max()) > max(0.5 * away, 2.0 * stage.delta):
            return False
    return True


def _is_beyond(stage: Stage, x: np.ndarray, far: float, plays: np.ndarray) -> bool:
    return float(np.abs(stage.aggregate(plays) - x).max()) > far


def _overlap(found: list[Equilibrium], k: int) -> str:
    """Return a warning if the region of an equilibrium overlaps other regions."""
    low, high = found[k].region
    others = [
        str(j)
        for j, other in enumerate(found)
        if j != k and (other.region[0] <= high).all() and (other.region[1] >= low).all()
    ]
    if not others:
        return ""
    named = f"equilibrium {others[0]}" if len(others) == 1 else f"equilibria {', '.join(others)}"
    return f"the region overlaps that of {named}: use a finer spacing"


def regions(stage: Stage, spacing: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Group the cells that can be feasible by contact: centres and half sides of each group.

    Cells are cut into parts while there are few, so that loose constants do not join regions.
    """
    centres, half = tile(stage.low, stage.high, spacing)
    finest = max(stage.delta, 1e-4 * float((stage.high - stage.low).max()))
    while True:
        kept = [index for index, _, _ in feasible_cells(stage, centres, half, 0.0, 1.0)]
        centres = centres[kept]
        finer = len(centres) * stage.parts() ** int((half > 0).sum())
        if 2.0 * float(half.max()) <= finest or finer > _MOST or not kept:
            break
        centres, half = children(centres, half, stage.parts())
    if not len(centres):
        return []
    sides = np.where(half > 0, 2.0 * half, 1.0)
    touching = KDTree(centres / sides).query_pairs(1.5, p=np.inf, output_type="ndarray")
    ones = np.ones(len(touching))
    graph = sparse.coo_array((ones, (touching[:, 0], touching[:, 1])), (len(centres),) * 2)
    number, labels = sparse.csgraph.connected_components(graph, directed=False)
    return [(centres[labels == k], half) for k in range(number)]


@dataclass(frozen=True)
class Compared:
    """A policy in a comparison: its largest gain and the value to the mean agent.

    **Example**

    >>> import equipoise as eq
    >>> found = eq.aggregative.study(eq.games.load("public-good", agents=900)).comparison[1]
    >>> found.name, found.gain, round(found.value, 3)
    ('equilibrium 0', 0.0, 0.6)
    """

    #: Name of the policy in the table.
    name: str
    #: (d,) the aggregate; None in a Markov game, where each step and state has its own.
    aggregate: np.ndarray | None
    #: Largest gain of any agent.
    gain: float
    #: Value to the mean agent; in a Markov game, the mean over starting states.
    value: float
    #: "stable", "unstable" or an empty string, followed by warnings.
    note: str = ""


@dataclass(frozen=True)
class Study:
    """A solution, the map of all equilibria found, and how the solution compares with them.

    **Example**

    >>> import equipoise as eq
    >>> found = eq.aggregative.study(eq.games.load("public-good", agents=900))
    >>> found.solution.status.ok, len(found.equilibria), len(found.comparison)
    (True, 3, 4)
    """

    #: The solution.
    solution: Solution
    #: All equilibria of the map; empty for Markov games and for games too large to map.
    equilibria: tuple[Equilibrium, ...]
    #: The solution and the equilibria of the map, as rows of a table.
    comparison: tuple[Compared, ...]


def study(game: AggregativeGame | AggregativeMarkovGame, **options: Any) -> Study:
    """Solve a game and compare the solution with its other equilibria.

    In normal form the comparison covers every equilibrium of the map. In a Markov game it covers
    the solutions with the largest and the smallest welfare. `options` are passed to `solve`. After
    Ctrl-C there is no comparison.

    **Example**

    >>> import equipoise as eq
    >>> found = eq.aggregative.study(eq.games.load("public-good", agents=900))
    >>> [(one.name, round(one.value, 3)) for one in found.comparison]
    [('this solution', 0.0), ('equilibrium 0', 0.6), ('equilibrium 1', 0.0), ('equilibrium 2', 0.0)]
    """
    with interruptible() as stop:
        solution = solve_aggregative(game, **options)
    if stop:
        return Study(solution, (), (_compared("this solution", solution),))
    if isinstance(game, AggregativeMarkovGame):
        told = {"objective": "welfare", "progress": options.get("progress")}
        best, worst = (solve_aggregative(game, **told, sense=sense) for sense in ("max", "min"))
        named = {"this solution": solution, "best for society found": best, "worst found": worst}
        return Study(solution, (), tuple(_compared(*each) for each in named.items()))
    found = equilibria(game) if _can_be_mapped(game) else ()
    own = _compared("this solution", solution, solution.stats["aggregate"])
    others = (
        Compared(f"equilibrium {k}", one.aggregate, one.gain, one.welfare, _note(one))
        for k, one in enumerate(found)
    )
    return Study(solution, found, (own, *others))


def _note(one: Equilibrium) -> str:
    kind = {True: "stable", False: "unstable", None: ""}[one.stable]
    return "; ".join(word for word in (kind, one.note) if word)


def _can_be_mapped(game: AggregativeGame) -> bool:
    """Whether there are few enough coordinates and rewards to add a map to a solution."""
    low, high = game.box
    live = int((high > low).sum())
    cells = _CELLS.get(live, 4) ** max(live, 1)
    return live <= 3 and cells * game.types * game.actions[0] <= _REWARDS


def _compared(name: str, solution: Solution, aggregate: np.ndarray | None = None) -> Compared:
    gain = float(solution.certificate.max_gain)
    return Compared(name, aggregate, gain, float(np.mean(solution.value)))
