"""Samples by step, state and cell, and the bounds they prove on rewards and continuations.

The aggregates of the samples are recorded too. Their mean, and their distances from it, bound how
far a Lipschitz function can be from its empirical mean: by less than half a cell when the same
aggregate is played again and again.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from equipoise.aggregative._cells import MOST_CELLS, Stage, possible
from equipoise.aggregative.learning._spec import Spec
from equipoise.core import InputError

#: Largest number of cells: their numbers must fit into 64 bits.
_NUMBERED = 2.0**62
#: Largest number of entries in a block of an envelope: blocks should fit into the cache.
_BLOCK = 200_000
#: Types of arrays of samples; all others are of floats.
_KINDS = {
    "where": np.int64,
    "visits": np.int64,
    "following": np.int32,
    "seen": np.int64,
    "visits_planned": np.int64,
    "seen_planned": np.int64,
}


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells with one common side that cover the aggregates of one step and state.

    Cells are numbers, from which centres are computed, so that a grid of any size costs nothing.
    """

    #: (d,) centre of the first cell.
    first: np.ndarray
    #: The side of every cell in every coordinate.
    side: float
    #: Cells along each coordinate.
    shape: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def half(self) -> np.ndarray:
        """(d,): half sides."""
        return np.full(len(self.shape), 0.5 * self.side)

    @cached_property
    def centres(self) -> np.ndarray:
        """(cells, d): the centres of all cells; refused if there are too many of them."""
        if self.cells > MOST_CELLS:
            found = f"{self.side:g}, which makes {self.cells:,}"
            raise InputError("spacing", f"at most {MOST_CELLS:,} cells", found)
        return self.centre(np.arange(self.cells))

    def centre(self, cell: Any) -> np.ndarray:
        """(..., d): centres of cells."""
        return self.first + self.side * np.stack(np.unravel_index(cell, self.shape), -1)

    def nearest(self, x: np.ndarray) -> int:
        """Number of the cell whose centre is nearest, and the first of them at a tie."""
        steps = np.ceil((x - self.first) / self.side - 0.5 - 1e-9).astype(np.int64)
        inside = np.clip(steps, 0, np.array(self.shape) - 1)
        return int(np.ravel_multi_index(tuple(inside), self.shape))

    def reachable(self, stage: Stage) -> tuple[np.ndarray, np.ndarray]:
        """The cells that agents can reach by any actions, and their centres (cells, d).

        A grid belongs to one geometry of agents, so this is computed once.
        """
        if "_reachable" not in self.__dict__:
            every = np.ones((1, *stage.influence.shape[:2]), bool)
            cells = np.flatnonzero(possible(stage, every, self.centres, self.half))
            self.__dict__["_reachable"] = cells, self.centres[cells]
        return self.__dict__["_reachable"]


def cover(low: np.ndarray, high: np.ndarray, spacing: float) -> Grid:
    """Cover a box with cells of one side, at most `spacing`; their centres lie inside the box.

    `tile` fits its sides to the box, coordinate by coordinate. Here the side is the same
    everywhere, so the cells may extend beyond the edges, by less than half a side.

    >>> grid = cover(np.zeros(2), np.array([1.0, 0.5]), 0.3)
    >>> grid.shape, grid.side, grid.centres[:2].tolist()
    ((4, 2), 0.25, [[0.125, 0.125], [0.125, 0.375]])
    """
    widths = high - low
    with np.errstate(over="ignore"):
        about = float(np.prod(np.maximum(widths / spacing, 1.0)))
    if about > _NUMBERED:
        found = f"{spacing:g}, which makes about {about:.3g}"
        raise InputError("spacing", f"at most {_NUMBERED:.1g} cells", found)
    numbers = np.maximum(np.ceil(widths / spacing - 1e-9), 1).astype(int)
    side = float((widths / numbers).max()) or spacing
    numbers = np.maximum(np.ceil(widths / side - 1e-9), 1).astype(int)
    first = (low + high) / 2 - side * (numbers - 1) / 2
    return Grid(first, side, tuple(int(k) for k in numbers))


def grids_of(spec: Spec, spacing: float) -> dict[tuple[int, int], Grid]:
    """The grid of every step and state; a single grid if influences are the same everywhere."""
    if np.ndim(spec.influence) == 3:
        return dict.fromkeys(spec.places, cover(*spec.box(0, 0), spacing))
    return {place: cover(*spec.box(*place), spacing) for place in spec.places}


class Samples:
    """All data of a learner, one row for each cell of a step and state that was visited.

    Rows are in the order of the first visit. Memory is `S + d + 5` numbers for each row, plus
    `d + 3` for each row and action of the spec if rewards are learned.
    """

    def __init__(self, spec: Spec, *, rewards: bool):
        own = (spec.types if rewards else 0, spec.actions)
        d = spec.dimensions
        self._used = 0
        #: (step, state, cell) -> row, and (step, state) -> rows.
        self._row: dict[tuple[int, int, int], int] = {}
        self._rows: dict[tuple[int, int], list[int]] = {}
        shapes = {
            "where": (3,),  # step, state and cell
            "visits": (),
            "following": (spec.states,),
            "place": (d,),  # sum of the aggregates
            "square": (),  # sum of the squared lengths of the aggregates
            "seen": own,  # number of rewards seen; no entries if they are known
            "total": own,  # sum of the rewards seen
            "seen_place": (*own, d),  # sum of the aggregates at which they were seen
            "seen_square": own,
            # How often each was visited and seen when it was last planned for.
            "visits_planned": (),
            "seen_planned": own,
        }
        self._arrays = {
            name: np.zeros((0, *shape), _KINDS.get(name, np.float64))
            for name, shape in shapes.items()
        }

    def __getattr__(self, name: str) -> np.ndarray:
        """The rows of an array that are in use."""
        arrays = self.__dict__.get("_arrays", {})
        if name not in arrays:
            raise AttributeError(name)
        return arrays[name][: self._used]

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return sum(array[: self._used].nbytes for array in self._arrays.values())

    def to_plain(self) -> dict[str, np.ndarray]:
        """All arrays, by name."""
        return {name: getattr(self, name) for name in self._arrays}

    def restore(self, plain: dict[str, np.ndarray]) -> None:
        """Take the arrays that `to_plain` returned."""
        self._arrays = {name: np.array(plain[name]) for name in self._arrays}
        self._used = len(plain["where"])
        self._row, self._rows = {}, {}
        for row, where in enumerate(plain["where"].tolist()):
            self._add_row(tuple(where), row)

    def rows(self, h: int, s: int) -> list[int]:
        """The rows of one step and state."""
        return self._rows.get((h, s), [])

    def row(self, where: tuple[int, int, int]) -> int:
        """The row of (step, state, cell), which is added if it is new."""
        if where not in self._row:
            used = self._used
            if used == len(self._arrays["where"]):
                more = max(16, used)
                for name, array in self._arrays.items():
                    self._arrays[name] = np.concatenate(
                        [array, np.zeros((more, *array.shape[1:]), array.dtype)]
                    )
            self._arrays["where"][used] = where
            self._used = used + 1
            self._add_row(where, used)
        return self._row[where]

    def _add_row(self, where: tuple[int, ...], row: int) -> None:
        h, s, cell = where
        self._row[h, s, cell] = row
        self._rows.setdefault((h, s), []).append(row)

    def add(self, where: tuple[int, int, int], x: np.ndarray, following: int) -> int:
        """Add one transition, from (step, state, cell) at the aggregate x; return the row."""
        row = self.row(where)
        self.visits[row] += 1
        self.following[row, following] += 1
        self.place[row] += x
        self.square[row] += x @ x
        return row

    def add_rewards(self, row: int, x: np.ndarray, plays: np.ndarray, sums: np.ndarray) -> None:
        """Add (types, actions) numbers of agents and the sums of their rewards."""
        self.seen[row] += plays
        self.total[row] += sums
        self.seen_place[row] += plays[..., None] * x
        self.seen_square[row] += plays * (x @ x)

    def plan_visits(self) -> None:
        """Remember the present numbers of visits as those of the last plan."""
        self.visits_planned[...] = self.visits

    def plan_rewards(self, place: tuple[int, int] | None = None) -> None:
        """Remember the rewards seen in a step and state, or all, as those of the last plan."""
        rows: Any = slice(None) if place is None else self.rows(*place)
        self.seen_planned[rows] = self.seen[rows]


def centred(
    count: np.ndarray, place: np.ndarray, square: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mean (..., d) of aggregates, and a bound (...) on their mean distance from it.

    The mean distance in the sup norm is at most the root of the mean squared distance.

    >>> middle, away = centred(np.array(2), np.array([0.6]), np.array(0.2))
    >>> middle.tolist(), round(float(away), 6)
    ([0.3], 0.1)
    """
    middle = place / count[..., None]
    mean = square / count
    variance = np.maximum(mean - (middle * middle).sum(-1), 0.0)
    return middle, np.sqrt(variance + 1e-15 * mean)  # rounding may lose this much


@dataclass(frozen=True)
class Radii:
    """Radii of the theorem in docs/theory/aggregative-learning.md, times `bonus`.

    With `bonus = 1` all of them hold together with probability at least `1 - failure`; with a
    smaller bonus nothing is proven.

    >>> radii = Radii(log_transition=20.0, log_reward=20.0, states=3, noise=0.0, bonus=1.0)
    >>> float(radii.transition(np.array(100)).round(3)), float(radii.reward(np.array(4)))
    (0.332, 0.0)
    """

    log_transition: float
    log_reward: float
    states: int
    noise: float
    bonus: float

    @classmethod
    def of(
        cls, spec: Spec, cells: int, episodes: int, *, noise: float, bonus: float, failure: float
    ) -> "Radii":
        """Radii for the given numbers of cells and episodes."""
        places = spec.horizon * spec.states * cells * episodes
        pairs = 2.0 * places * spec.actions * spec.agents
        # Half of the failure probability each; without noise all of it is for the transitions.
        share = failure / 2 if noise > 0 else failure
        log_transition, log_reward = float(np.log(places / share)), float(np.log(pairs / share))
        return cls(log_transition, log_reward, spec.states, float(noise), float(bonus))

    def transition(self, count: np.ndarray) -> np.ndarray:
        """Total variation between the empirical and the mean distribution of next states."""
        log = self.states * np.log(2.0) + self.log_transition
        return self.bonus * np.sqrt(log / (2.0 * count))

    def reward(self, count: np.ndarray) -> np.ndarray:
        """Distance between the mean of `count` observed rewards and their expected mean."""
        return self.bonus * self.noise * np.sqrt(2.0 * self.log_reward / count)


@dataclass(frozen=True)
class KnownRewards:
    """Known rewards of one step and state."""

    spec: Spec
    h: int
    s: int

    def upper(self, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions): the rewards themselves."""
        return self.spec.rewards(self.h, self.s, points)

    lower = estimate = upper


@dataclass(frozen=True)
class RewardBounds:
    """Envelopes of the rewards of one step and state, at any aggregate.

    `upper(x)` is the minimum of the largest reward and, over the visited cells, of
    `mean + radius + gamma_r (spread of the samples + |x - x~|)`. It is a gamma_r-Lipschitz function
    of x, so Lemma A holds for it. Without samples it is the largest reward.
    """

    #: (visited, types, actions, d), mean aggregate at which each pair was seen.
    middles: np.ndarray
    #: (visited, types, actions), how often each pair was seen.
    seen: np.ndarray
    #: (visited, types, actions), mean of the rewards seen.
    mean: np.ndarray
    #: (visited, types, actions), largest error of that mean; infinite for pairs never seen.
    off: np.ndarray
    #: Standard deviation of the noise, or a bound on it.
    noise: float
    slope: float
    bounds: tuple[float, float]

    @classmethod
    def of(cls, spec: Spec, samples: Samples, h: int, s: int, radii: Radii) -> "RewardBounds":
        """Envelopes from the samples of one step and state."""
        rows = samples.rows(h, s)
        seen = samples.seen[rows]
        count = np.maximum(seen, 1).astype(np.float64)
        middles, spread = centred(count, samples.seen_place[rows], samples.seen_square[rows])
        mean = samples.total[rows] / count
        off = np.where(seen > 0, radii.reward(count) + spec.lipschitz * spread, np.inf)
        return cls(middles, seen, mean, off, radii.noise, spec.lipschitz, spec.bounds)

    def upper(self, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions): upper bound on the expected rewards."""
        return self._envelope(points[:, None, None], 1.0)

    def lower(self, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions): lower bound on the expected rewards."""
        return -self._envelope(points[:, None, None], -1.0)

    def own_upper(self, points: np.ndarray) -> np.ndarray:
        """(..., types, actions, d) -> (..., types, actions): `upper`, each at its own aggregate."""
        flat = points.reshape(-1, *points.shape[-3:])
        return self._envelope(flat, 1.0).reshape(points.shape[:-1])

    def estimate(self, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions): the best estimate, within the bounds.

        It averages the means of cells, weighted by one over the sum of their variance and the error
        due to samples at other aggregates. Without samples it is the midpoint of the bounds.
        """
        shape = (len(points), *self.seen.shape[1:])
        weight, total = np.zeros(shape), np.zeros(shape)
        floor = max(self.noise**2, 1e-12)
        for part in self._parts(shape):
            seen = self.seen[part]
            away = self.slope * self._away(points[:, None, None], part)
            own = seen / (floor + seen * away**2)
            weight += own.sum(1)
            total += (own * self.mean[part]).sum(1)
        upper, lower = self.upper(points), self.lower(points)
        guess = np.where(weight > 0, total / np.maximum(weight, 1e-300), 0.5 * (upper + lower))
        return np.minimum(np.maximum(guess, lower), upper)

    def _envelope(self, points: np.ndarray, sign: float) -> np.ndarray:
        """The tightest upper bound on the rewards times the sign, at points of each row and action
        or, with axes of length one, of all."""
        low, high = sorted((sign * self.bounds[0], sign * self.bounds[1]))
        shape = (len(points), *self.seen.shape[1:])
        found = np.full(shape, high)
        for part in self._parts(shape):
            # A pair never seen in the cell has an infinite error and drops out.
            bounds = self.slope * self._away(points, part)
            bounds += sign * self.mean[part] + self.off[part]
            np.minimum(found, bounds.min(1), out=found)
        # With noise an envelope may cross the opposite limit; no expected reward does.
        return np.maximum(found, low)

    def _parts(self, shape: tuple[int, ...]) -> list[slice]:
        """Blocks of visited cells for tables of this shape."""
        size = max(1, _BLOCK // max(math.prod(shape), 1))
        return [slice(k, k + size) for k in range(0, len(self.seen), size)]

    def _away(self, points: np.ndarray, part: slice) -> np.ndarray:
        """(points, visited, types, actions): sup distances from the mean aggregates."""
        middles = self.middles[part]
        away = np.abs(points[:, None, ..., 0] - middles[..., 0])
        for k in range(1, middles.shape[-1]):
            np.maximum(away, np.abs(points[:, None, ..., k] - middles[..., k]), out=away)
        return away


@dataclass(frozen=True)
class Continuation:
    """Bounds on the mean of a function of the next state, from the cells visited.

    From the samples of a cell, at aggregates near `x~`, the mean of f at x is known up to
    `span(f) (radius + gamma_P (spread of the samples + |x - x~|))`. The bounds of all cells hold
    together, so their minimum is a bound too: the Lipschitz envelope of the continuation alone, to
    which rewards are added afterwards.
    """

    #: (visited, states), shares of next states.
    shares: np.ndarray
    #: (visited, d), mean aggregate of the samples.
    middles: np.ndarray
    #: (visited,), total variation left open by the samples and their spread.
    open: np.ndarray
    #: Lipschitz constant of transitions.
    slope: float

    @classmethod
    def of(cls, samples: Samples, h: int, s: int, radii: Radii, slope: float) -> "Continuation":
        """Bounds from the samples of one step and state."""
        rows = samples.rows(h, s)
        count = samples.visits[rows].astype(np.float64)
        middles, spread = centred(count, samples.place[rows], samples.square[rows])
        shares = samples.following[rows] / count[:, None]
        return cls(shares, middles, radii.transition(count) + slope * spread, slope)

    def upper(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(states, functions) -> (functions,): upper bound on the means at the aggregate x."""
        highest = f.max(0)
        if not len(self.shares):
            return highest
        span = highest - f.min(0)
        away = self.open + self.slope * np.abs(self.middles - x).max(1)
        bounds = self.shares @ f + np.minimum(away, 1.0)[:, None] * span
        return np.minimum(bounds.min(0), highest)

    def upper_at(self, f: np.ndarray, points: np.ndarray) -> np.ndarray:
        """(states,) -> (points,): upper bound on the mean of one function at many aggregates."""
        highest, span = float(f.max()), float(f.max() - f.min())
        found = np.full(len(points), highest)
        if span == 0.0:
            return found
        size = max(1, _BLOCK // max(len(points), 1))
        for k in range(0, len(self.shares), size):
            part = slice(k, k + size)
            away = np.abs(points[:, None] - self.middles[part]).max(-1)
            near = np.minimum(self.open[part] + self.slope * away, 1.0)
            np.minimum(found, (self.shares[part] @ f + span * near).min(1), out=found)
        return found
