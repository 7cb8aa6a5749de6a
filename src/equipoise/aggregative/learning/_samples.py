"""Samples by step, state and cell, and the bounds they prove on rewards and continuations.

The aggregates of the samples are recorded too. Their mean, and their distances from it, bound how
far a Lipschitz function can be from its empirical mean: by less than half a cell when the same
aggregate is played again and again.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.aggregative._cells import check_cells, lipschitz_envelope
from equipoise.aggregative.learning._spec import Spec


@dataclass(frozen=True)
class Grid:
    """Cells with one common side that cover the aggregates of one step and state."""

    #: (cells, d)
    centres: np.ndarray
    #: The side of every cell in every coordinate.
    side: float
    #: Cells along each coordinate.
    shape: tuple[int, ...]

    @property
    def half(self) -> np.ndarray:
        """(d,): half sides."""
        return np.full(len(self.shape), 0.5 * self.side)

    def nearest(self, x: np.ndarray) -> int:
        """Index of the cell whose centre is nearest."""
        return int(np.abs(self.centres - x).max(1).argmin())


def cover(low: np.ndarray, high: np.ndarray, spacing: float) -> Grid:
    """Cover a box with cells of one side, at most `spacing`; their centres lie inside the box.

    `tile` fits its sides to the box, coordinate by coordinate. Envelopes by doubling need the same
    side everywhere, so here the cells may extend beyond the edges, by less than half a side.

    >>> grid = cover(np.zeros(2), np.array([1.0, 0.5]), 0.3)
    >>> grid.shape, grid.side, grid.centres[:2].tolist()
    ((4, 2), 0.25, [[0.125, 0.125], [0.125, 0.375]])
    """
    check_cells(low, high, spacing)
    widths = high - low
    numbers = np.maximum(np.ceil(widths / spacing - 1e-9), 1).astype(int)
    side = float((widths / numbers).max()) or spacing
    numbers = np.maximum(np.ceil(widths / side - 1e-9), 1).astype(int)
    axes = [
        (a + b) / 2 + side * (np.arange(k) - (k - 1) / 2)
        for a, b, k in zip(low, high, numbers, strict=True)
    ]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(low))
    return Grid(centres, side, tuple(int(k) for k in numbers))


def grids_of(spec: Spec, spacing: float) -> dict[tuple[int, int], Grid]:
    """The grid of every step and state; a single grid if influences are the same everywhere."""
    if np.ndim(spec.influence) == 3:
        return dict.fromkeys(spec.places, cover(*spec.box(0, 0), spacing))
    return {place: cover(*spec.box(*place), spacing) for place in spec.places}


@dataclass
class Samples:
    """All data of a learner, in arrays of fixed shapes, which are also its state on disk.

    Memory is `S + d + 2` numbers for each step, state and cell, plus `d + 3` for each row and
    action of the spec if rewards are learned.
    """

    #: (horizon, states, cells)
    visits: np.ndarray
    #: (horizon, states, cells, states)
    following: np.ndarray
    #: (horizon, states, cells, d), sum of the aggregates.
    place: np.ndarray
    #: (horizon, states, cells), sum of the squared lengths of the aggregates.
    square: np.ndarray
    #: (horizon, states, cells, types, actions), number of rewards seen; no rows if they are known.
    seen: np.ndarray
    #: Sum of the rewards seen.
    total: np.ndarray
    #: (horizon, states, cells, types, actions, d), sum of the aggregates at which they were seen.
    seen_place: np.ndarray
    seen_square: np.ndarray

    @classmethod
    def empty(cls, spec: Spec, cells: int, *, rewards: bool) -> "Samples":
        """Arrays without any samples."""
        base = (spec.horizon, spec.states, cells)
        own = (*base, spec.types if rewards else 0, spec.actions)
        return cls(
            visits=np.zeros(base, np.int64),
            following=np.zeros((*base, spec.states), np.int32),
            place=np.zeros((*base, spec.dimensions)),
            square=np.zeros(base),
            seen=np.zeros(own, np.int64),
            total=np.zeros(own),
            seen_place=np.zeros((*own, spec.dimensions)),
            seen_square=np.zeros(own),
        )

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return sum(array.nbytes for array in vars(self).values())

    def add(self, where: tuple[int, int, int], x: np.ndarray, following: int) -> None:
        """Add one transition, from (step, state, cell) at the aggregate x."""
        self.visits[where] += 1
        self.following[where][following] += 1
        self.place[where] += x
        self.square[where] += x @ x

    def add_rewards(
        self, where: tuple[int, int, int], x: np.ndarray, plays: np.ndarray, sums: np.ndarray
    ) -> None:
        """Add (types, actions) numbers of agents and the sums of their rewards."""
        self.seen[where] += plays
        self.total[where] += sums
        self.seen_place[where] += plays[..., None] * x
        self.seen_square[where] += plays * (x @ x)


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
        cells = np.flatnonzero(samples.visits[h, s])
        seen = samples.seen[h, s][cells]
        count = np.maximum(seen, 1).astype(np.float64)
        middles, spread = centred(
            count, samples.seen_place[h, s][cells], samples.seen_square[h, s][cells]
        )
        mean = samples.total[h, s][cells] / count
        off = np.where(seen > 0, radii.reward(count) + spec.lipschitz * spread, np.inf)
        return cls(middles, seen, mean, off, radii.noise, spec.lipschitz, spec.bounds)

    def upper(self, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions): upper bound on the expected rewards."""
        return self._envelope(points, 1.0)

    def lower(self, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions): lower bound on the expected rewards."""
        return -self._envelope(points, -1.0)

    def estimate(self, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions): the best estimate, within the bounds.

        It averages the means of cells, weighted by one over the sum of their variance and the error
        due to samples at other aggregates. Without samples it is the midpoint of the bounds.
        """
        shape = (len(points), *self.seen.shape[1:])
        weight, total = np.zeros(shape), np.zeros(shape)
        floor = max(self.noise**2, 1e-12)
        for middle, mean, seen in zip(self.middles, self.mean, self.seen, strict=True):
            away = self.slope * np.abs(points[:, None, None] - middle).max(-1)
            own = seen / (floor + seen * away**2)
            weight += own
            total += own * mean
        upper, lower = self.upper(points), self.lower(points)
        guess = np.where(weight > 0, total / np.maximum(weight, 1e-300), 0.5 * (upper + lower))
        return np.minimum(np.maximum(guess, lower), upper)

    def _envelope(self, points: np.ndarray, sign: float) -> np.ndarray:
        """The tightest upper bound on the rewards times the sign."""
        low, high = sorted((sign * self.bounds[0], sign * self.bounds[1]))
        found = np.full((len(points), *self.seen.shape[1:]), high)
        for middle, mean, off in zip(self.middles, self.mean, self.off, strict=True):
            # A pair never seen in the cell has an infinite error and drops out.
            away = np.abs(points[:, None, None] - middle).max(-1)
            np.minimum(found, sign * mean + off + self.slope * away, out=found)
        # With noise an envelope may cross the opposite limit; no expected reward does.
        return np.maximum(found, low)


@dataclass(frozen=True)
class Continuation:
    """Bounds on the mean of a function of the next state, from the cells visited.

    From the samples of a cell, at aggregates near `x~`, the mean of f at x is known up to
    `span(f) (radius + gamma_P (spread of the samples + |x - x~|))`. The bounds of all cells hold
    together, so their minimum is a bound too: the Lipschitz envelope of the continuation alone, to
    which rewards are added afterwards.
    """

    #: (visited,)
    cells: np.ndarray
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
        cells = np.flatnonzero(samples.visits[h, s])
        count = samples.visits[h, s][cells].astype(np.float64)
        middles, spread = centred(count, samples.place[h, s][cells], samples.square[h, s][cells])
        shares = samples.following[h, s][cells] / count[:, None]
        return cls(cells, shares, middles, radii.transition(count) + slope * spread, slope)

    def upper(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(states, functions) -> (functions,): upper bound on the means at the aggregate x."""
        highest = f.max(0)
        if not len(self.cells):
            return highest
        span = highest - f.min(0)
        away = self.open + self.slope * np.abs(self.middles - x).max(1)
        bounds = self.shares @ f + np.minimum(away, 1.0)[:, None] * span
        return np.minimum(bounds.min(0), highest)

    def upper_at(self, f: np.ndarray, points: np.ndarray, cell: np.ndarray, grid: Grid):
        """(states,) -> (points,): upper bound at points in cells of the grid, for one function.

        It is the envelope of all cells at the centre, by doubling, extended to the point; or the
        bound from the point's own cell, if that is smaller.
        """
        highest, span = float(f.max()), float(f.max() - f.min())
        if not len(self.cells) or span == 0.0:
            return np.full(len(points), highest)
        values = self.shares @ f
        away = self.open + self.slope * np.abs(self.middles - grid.centres[self.cells]).max(1)
        start = np.full(len(grid.centres), highest)
        start[self.cells] = np.minimum(values + span * np.minimum(away, 1.0), highest)
        slope = self.slope * span
        field = lipschitz_envelope(start.reshape(grid.shape), slope, grid.side).ravel()
        found = field[cell] + slope * np.abs(points - grid.centres[cell]).max(1)
        rank = np.full(len(grid.centres), -1)
        rank[self.cells] = np.arange(len(self.cells))
        own = rank[cell]
        near = self.open[own] + self.slope * np.abs(points - self.middles[own]).max(1)
        seen = np.where(own >= 0, values[own] + span * np.minimum(near, 1.0), highest)
        return np.minimum(np.minimum(found, seen), highest)
