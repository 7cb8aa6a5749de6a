"""A map of equilibria: where they lie on the grid of aggregates, and their welfare."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import Any, final, overload

import numpy as np

from equipoise.aggregative._cells import Stage, children, feasible_cells, stage_of, tile
from equipoise.aggregative._classes import group_agents, policy_of
from equipoise.aggregative._planner import PROFILES, TOLERANCE, mean_worth, stage_tolerance
from equipoise.aggregative._replies import Replies
from equipoise.aggregative._select import all_plays, can_enumerate
from equipoise.aggregative._solve import solve_aggregative
from equipoise.aggregative._stages import CELLS_UP_TO
from equipoise.aggregative._subroutine import Options, as_worth, descend, reward_range
from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.html import format_value
from equipoise.core.results import Solution, Status, judged
from equipoise.core.text import about, first_rows, named
from equipoise.games import AggregativeGame, AggregativeMarkovGame, AggregativePolicy
from equipoise.runs import interruptible

#: Default number of cells along each coordinate, by the number of coordinates.
_CELLS = {1: 96, 2: 24, 3: 10}

#: Largest number of rewards in the first cells for which `study` adds a map.
_REWARDS = 20_000_000

#: Largest number of cells held at once: regions are cut no finer.
_MOST = 20_000

#: Largest number of equilibria of one stage in a list.
_LISTED = 1_000


@dataclass(frozen=True)
class Equilibrium:
    """One equilibrium of those that `equilibria` lists.

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
    #: (2, d) lower and upper edges of the region of feasible cells that contains it; of half an
    #: agent's influence around it if all profiles were compared.
    region: np.ndarray
    #: Step and state of a Markov game; None in normal form.
    stage: tuple[int, int] | None = None
    #: Whether best-reply dynamics lead back to it after a small push; None if its gain is too large
    #: for an equilibrium.
    stable: bool | None = None
    #: A warning, or an empty string.
    note: str = ""


@final
@dataclass(frozen=True)
class Listing(Sequence[Equilibrium]):
    """Equilibria of one crowd, each certified within the tolerance; see `equilibria`.

    **Example**

    >>> import equipoise as eq
    >>> listing = eq.aggregative.equilibria(eq.games.load("public-good", agents=900))
    >>> len(listing), listing.complete, listing.status.message
    (2, True, '2 equilibria: no other profile meets the tolerance 9e-05')
    """

    #: The equilibria, the best for society first; in a Markov game, in the order of the stages.
    equilibria: tuple[Equilibrium, ...]
    #: Whether all profiles were compared, so that no equilibrium is missing: every profile in which
    #: nobody gains is listed, and every other one that meets the tolerance leads to one on the list
    #: by moves of single agents that do not raise the largest gain.
    complete: bool
    #: Largest gain that a listed profile may leave; in a Markov game, the largest over the stages.
    tolerance: float
    #: What was found; "solved" if the list is complete.
    status: Status

    def __len__(self) -> int:
        return len(self.equilibria)

    def __str__(self) -> str:
        """Return what was found, and the aggregate, gain and welfare of each equilibrium."""
        rows = (
            (
                f"aggregate {format_value(one.aggregate)}",
                f"gain {format_value(one.gain)}",
                f"welfare {format_value(one.welfare)}",
                *([] if one.stage is None else [f"step {one.stage[0]}, state {one.stage[1]}"]),
            )
            for one in self.equilibria
        )
        title = about(self).title
        lines = [title] if title else []
        return "\n".join([*lines, f"{self.status}", *first_rows(rows, len(self))])

    @overload
    def __getitem__(self, index: int) -> Equilibrium: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Equilibrium]: ...
    def __getitem__(self, index: int | slice) -> Equilibrium | Sequence[Equilibrium]:
        """Return one equilibrium, or several."""
        return self.equilibria[index]

    def __iter__(self) -> Iterator[Equilibrium]:
        return iter(self.equilibria)


@dataclass(frozen=True)
class _Part:
    """The equilibria of one stage, and what is known of others."""

    equilibria: list[Equilibrium]
    tolerance: float
    #: Number of equilibria; None if not all profiles were compared.
    total: int | None
    #: Number of regions in which none was found, and the smallest gain of a profile in any.
    empty: int = 0
    least: float = np.inf


@named_arguments
def equilibria(
    game: AggregativeGame | AggregativeMarkovGame,
    *,
    spacing: float | None = None,
    welfare: Any = None,
    tolerance: float | None = None,
) -> Listing:
    """Return equilibria whose largest gain is certified, the best for society first.

    All profiles of a game with at most 20,000 of them are compared, and the list is `complete`.
    Other games are searched: every equilibrium lies in a feasible cell (Lemma A). Cells are cut
    while there are few of them; cells that touch form a region. In each region the search finds one
    profile, and lists it if nobody gains more than the tolerance. Equilibria within a few cells of
    each other share a region, and a `note` warns where regions overlap. Each equilibrium is pushed
    a little to see whether best-reply dynamics lead back (`stable`).

    In a Markov game the stages of every step and state are mapped, in order.

    - `tolerance`: the largest gain that an equilibrium may leave, in units of reward. Default: that
      of `solve`. Where one agent moves the aggregate by much, an equilibrium between two others may
      leave a larger gain; raise the tolerance to see it.
    - `spacing`: side of the first cells. `welfare`: an array (agents or types, actions), in a
      Markov game also (horizon, states, agents or types, actions). Default: the agents' rewards.

    **Example**

    >>> import equipoise as eq
    >>> listing = eq.aggregative.equilibria(eq.games.load("public-good", agents=900))
    >>> [(round(float(e.aggregate[0]), 3), round(e.welfare, 3)) for e in listing]
    [(1.0, 0.6), (0.0, 0.0)]
    """
    worth = as_worth(game, "welfare", welfare, None)
    if tolerance is not None:
        checks.check_range("tolerance", tolerance, 0.0, np.inf)
    if spacing is not None:
        checks.check_range("spacing", spacing, 0.0, np.inf, low_open=True, high_open=True)
    if isinstance(game, AggregativeGame):
        return named(_listing([_map(game, spacing, worth, None, tolerance, PROFILES)]), game.about)
    parts = []
    most = max(PROFILES // (game.horizon * game.states), Options.profiles)
    limit = stage_tolerance(game, TOLERANCE * _range_of(game) if tolerance is None else tolerance)
    for h, s in np.ndindex(game.horizon, game.states):
        own = worth if worth is None or worth.ndim == 2 else worth[h, s]
        parts.append(_map(game.stage(h, s), spacing, own, (h, s), limit, most))
    return named(_listing(parts), game.about)


def _range_of(game: AggregativeMarkovGame) -> float:
    """Sum over the steps of the largest range of rewards in any state."""
    ranges = [
        reward_range(stage_of(game, (h, s))) for h, s in np.ndindex(game.horizon, game.states)
    ]
    return float(np.reshape(ranges, (game.horizon, game.states)).max(1).sum())


def _listing(parts: list[_Part]) -> Listing:
    """Join the stages, and say what is known of equilibria that are not listed."""
    listed = tuple(one for part in parts for one in part.equilibria)
    complete = all(part.total == len(part.equilibria) for part in parts)
    tolerance = max(part.tolerance for part in parts)
    message = "1 equilibrium" if len(listed) == 1 else f"{len(listed)} equilibria"
    empty, least = sum(part.empty for part in parts), min(part.least for part in parts)
    if complete and not listed:
        message = f"no profile meets the tolerance {tolerance:.3g}"
    elif complete:
        message += f": no other profile meets the tolerance {tolerance:.3g}"
    elif all(part.total is not None for part in parts):
        total = sum(part.total or 0 for part in parts)
        message += f", the best for society of {total:,} that meet the tolerance {tolerance:.3g}"
    else:
        message += f" that meet the tolerance {tolerance:.3g}; others may exist"
        if empty:
            where = "a region" if empty == 1 else f"{empty} regions"
            message += f", also in {where} where the smallest gain found is {least:.3g}"
    return Listing(listed, complete, tolerance, judged(complete, message))


def _map(
    game: AggregativeGame,
    spacing: float | None,
    worth: np.ndarray | None,
    place: tuple[int, int] | None,
    tolerance: float | None,
    profiles: int,
) -> _Part:
    groups = group_agents(game, worth)
    stage = stage_of(game, (), groups, worth)
    replies = Replies(stage, potential=False)
    size = max(reward_range(stage), 1e-300)
    tolerance = TOLERANCE * size if tolerance is None else float(tolerance)
    every = within(stage, replies, tolerance, profiles)
    found: dict[bytes, Equilibrium] = {}

    def offer(plays: np.ndarray, edges: np.ndarray) -> float:
        """Certify a profile, and keep it if it meets the tolerance; return its largest gain."""
        policy = policy_of(groups, plays)
        certificate = certify(game, policy)
        if certificate.max_upper <= tolerance:
            x, gain = stage.aggregate(plays), float(certificate.max_gain)
            welfare = mean_worth(stage, plays)
            stable = is_stable(stage, plays, replies) if gain <= 0.01 * size else None
            one = Equilibrium(x, gain, welfare, policy, edges, place, stable)
            found.setdefault(plays.tobytes(), one)
        return float(certificate.max_upper)

    empty, least, total = 0, np.inf, None
    if every is not None:
        total = len(every)
        for plays in sorted(every, key=lambda one: -mean_worth(stage, one))[:_LISTED]:
            x = stage.aggregate(plays)
            total -= offer(plays, x + 0.5 * stage.delta * np.array([[-1.0], [1.0]])) > tolerance
    else:
        for centres, half in _regions_of(stage, spacing):
            edges = np.stack([centres.min(0) - half, centres.max(0) + half])
            plan = descend(stage, Options(), (centres, half))
            if plan is None:  # each cell may be feasible only because of its slack
                continue
            # Single moves hardly move the aggregate; best replies may lead to another region.
            gain = offer(replies.settle(replies.profile(plan.plays)).plays, edges)
            if gain > tolerance:
                plays = replies.improve(plan.plays, tolerance).plays
                off = np.abs(stage.aggregate(plays) - edges.mean(0))
                inside = (off <= np.ptp(edges, axis=0) / 2 + stage.delta).all()
                gain = min(offer(plays, edges), gain) if inside else gain
            if gain > tolerance:
                empty, least = empty + 1, min(least, gain)
    listed = sorted(found.values(), key=lambda e: (-round(e.welfare, 12), *e.aggregate))
    if every is None:
        listed = [replace(one, note=_overlap(listed, k)) for k, one in enumerate(listed)]
    return _Part(listed, tolerance, total, empty, least)


def within(
    stage: Stage, replies: Replies, tolerance: float, profiles: int
) -> list[np.ndarray] | None:
    """All profiles that meet a tolerance, by comparing all; None if they are too many.

    A profile in which somebody gains counts unless a neighbour, one agent's move away, has a
    smaller largest gain (or the same, and comes earlier). Moves to such neighbours lead from every
    other profile that meets the tolerance to one that counts.
    """
    if not can_enumerate(stage, profiles):
        return None
    found: dict[bytes, tuple[int, np.ndarray]] = {}
    for block in all_plays(stage):
        gains = replies.gains(block)
        for k in np.flatnonzero(gains <= tolerance):
            found[block[k].tobytes()] = int(gains[k] / replies.least), block[k]

    def is_least(key: bytes) -> bool:
        size, plays = found[key]
        for t, a in zip(*np.nonzero(plays), strict=True) if size else ():
            for b in range(plays.shape[1]):
                near = plays.copy()
                near[t, a] -= 1
                near[t, b] += 1
                other = near.tobytes()
                if other in found and (found[other][0], other) < (size, key):
                    return False
        return True

    return [found[key][1] for key in found if is_least(key)]


def _regions_of(stage: Stage, spacing: float | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """The regions of feasible cells, with a default spacing."""
    live = int((stage.high > stage.low).sum())
    if live > CELLS_UP_TO:
        expected = f"an aggregate with at most {CELLS_UP_TO} coordinates, or at most "
        raise InputError("game", f"{expected}{PROFILES:,} profiles", f"{live} coordinates")
    if spacing is None:
        width = float((stage.high - stage.low).max())
        spacing = width / _CELLS.get(stage.dimensions, 4) if width > 0 else 1.0
    return regions(stage, spacing)


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
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import KDTree

    sides = np.where(half > 0, 2.0 * half, 1.0)
    touching = KDTree(centres / sides).query_pairs(1.5, p=np.inf, output_type="ndarray")
    ones = np.ones(len(touching))
    graph = coo_array((ones, (touching[:, 0], touching[:, 1])), (len(centres),) * 2)
    number, labels = connected_components(graph, directed=False)
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
    """A solution, the equilibria listed, and how the solution compares with them.

    **Example**

    >>> import equipoise as eq
    >>> found = eq.aggregative.study(eq.games.load("public-good", agents=900))
    >>> found.solution.status.ok, len(found.equilibria), len(found.comparison)
    (True, 2, 3)
    """

    #: The solution.
    solution: Solution
    #: The `Listing` of equilibria; empty for Markov games and for games too large to map.
    equilibria: Sequence[Equilibrium]
    #: The solution and the equilibria of the map, as rows of a table.
    comparison: tuple[Compared, ...]


def study(game: AggregativeGame | AggregativeMarkovGame, **options: Any) -> Study:
    """Solve a game and compare the solution with its other equilibria.

    In normal form the comparison covers every equilibrium of the list. In a Markov game it covers
    the solutions with the largest and the smallest welfare. `options` are passed to `solve`. After
    Ctrl-C there is no comparison.

    **Example**

    >>> import equipoise as eq
    >>> found = eq.aggregative.study(eq.games.load("public-good", agents=900))
    >>> [(one.name, round(one.value, 3)) for one in found.comparison]
    [('this solution', 0.0), ('equilibrium 0', 0.6), ('equilibrium 1', 0.0)]
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
