"""Cells that tile the aggregates, and a test of which cells can contain an equilibrium.

In a cell with centre c and half side a/2, each agent may play the actions within a slack of its
best at c, and the aggregate must stay in the cell. Cells that fail this test are dropped, mostly
without a linear program: the sums of allowed influences are bounded in 3^d directions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from equipoise.aggregative._classes import Groups, alone
from equipoise.aggregative._knapsack import Vertex, solve_knapsack
from equipoise.aggregative._program import Program, solve_dual
from equipoise.core import checks
from equipoise.core.errors import InputError, named_arguments

#: Largest number of rewards held at once.
CHUNK = 3_000_000

#: Largest number of cells in a grid: more would take minutes, or too much memory.
MOST_CELLS = 4_000_000

#: Types times actions up to which Lipschitz constants are sampled cell by cell.
SAMPLED = 50_000

#: Allowance for rounding in comparisons of rewards.
SLACK = 1e-11


@dataclass(frozen=True)
class Stage:
    """One aggregative game for the planner: a normal form, or a step and state of a Markov game."""

    #: (types, actions, d)
    influence: np.ndarray
    #: (types,)
    counts: np.ndarray
    scale: float
    low: np.ndarray
    high: np.ndarray
    lipschitz: float
    #: Largest distance by which one agent can move the aggregate.
    delta: float
    #: (points, d) -> (points, types, actions)
    rewards: Callable[[np.ndarray], np.ndarray]
    #: (types, actions), welfare of each agent's action; None for its reward.
    welfare: np.ndarray | None = None
    #: (types,), weight of each type's rewards in welfare; None for equal weights.
    importance: np.ndarray | None = None
    #: (points, d) -> (points,), welfare still to come, per agent; None for none.
    ahead: Callable[[np.ndarray], np.ndarray] | None = None
    #: Lipschitz constant of the welfare still to come.
    ahead_lipschitz: float = 0.0
    #: (..., types, actions, d) -> (..., types, actions), each at its own aggregate; None to
    #: call `rewards` point by point.
    own: Callable[[np.ndarray], np.ndarray] | None = None
    #: Lipschitz constants by action and region; None for `lipschitz` everywhere.
    slopes: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    #: Whether the constants are estimated, and so may be sampled in each cell.
    sampled: bool = False

    @property
    def agents(self) -> float:
        """Number of agents."""
        return float(self.counts.sum())

    @property
    def dimensions(self) -> int:
        """Number of coordinates of the aggregate."""
        return self.influence.shape[2]

    def aggregate(self, plays: np.ndarray) -> np.ndarray:
        """(d,): the aggregate of (types, actions) numbers of agents."""
        flat = self.influence.reshape(-1, self.dimensions)
        return self.scale * (plays.reshape(-1).astype(np.float64) @ flat)

    def weighted(self, values: np.ndarray) -> np.ndarray:
        """(types, actions) -> (types, actions): values weighted by `importance`."""
        return values if self.importance is None else self.importance[:, None] * values

    def own_rewards(self, points: np.ndarray) -> np.ndarray:
        """(..., types, actions, d) -> (..., types, actions): rewards, each at its own aggregate."""
        if self.own is not None:
            return self.own(points)
        flat = points.reshape(-1, self.dimensions)
        distinct, where = np.unique(flat, axis=0, return_inverse=True)
        cells = np.arange(len(flat)) % (points.shape[-3] * points.shape[-2])
        values = self.rewards(distinct).reshape(len(distinct), -1)
        return values[where.ravel(), cells].reshape(points.shape[:-1])

    def variation(self, centres: np.ndarray, half: np.ndarray, more: float = 0.0) -> np.ndarray:
        """Largest difference from the rewards at the centre, in cells and `more` beyond them.

        The shape is (cells or 1, types or 1, actions or 1). It uses the Lipschitz constants of each
        cell. Sampled constants are slopes towards the faces, at two distances, plus a tenth.
        """
        reach = float(half.max()) + more
        if self.slopes is not None:
            low = np.maximum(centres - half - more, self.low)
            high = np.minimum(centres + half + more, self.high)
            found = [np.atleast_2d(self.slopes(*edges)) for edges in zip(low, high, strict=True)]
            return reach * np.stack(found)
        if not self.sampled or self.influence.shape[0] * self.influence.shape[1] > SAMPLED:
            return np.full((1, 1, 1), reach * self.lipschitz)
        at, steps = self.rewards(centres), half + more
        total = np.zeros_like(at)
        for k in np.flatnonzero(half > 0):
            most = np.zeros_like(at)
            for part in (-1.0, -0.5, 0.5, 1.0):
                points = centres.copy()
                points[:, k] += part * steps[k]
                points = np.clip(points, self.low, self.high)
                far = np.abs(points[:, k] - centres[:, k])
                change = np.abs(self.rewards(points) - at)
                scale = np.where(far > 0, steps[k] / np.maximum(far, 1e-300), 0.0)
                most = np.maximum(most, change * scale[:, None, None])
            total += most
        return 1.1 * total + 0.02 * reach * self.lipschitz

    def parts(self) -> int:
        """Number of parts into which cells are cut: more where a call costs more than its work."""
        small = self.influence.shape[0] * self.influence.shape[1] < 20_000
        return {1: 8, 2: 4}.get(self.dimensions, 2) if small else 2

    def chunk(self) -> int:
        """Number of points that can be evaluated together."""
        return max(1, CHUNK // (self.influence.shape[0] * self.influence.shape[1]))


def stage_of(
    game: Any,
    place: tuple[int, ...] = (),
    groups: Groups | None = None,
    worth: np.ndarray | None = None,
    **changes: Any,
) -> Stage:
    """Stage of a game in normal form, or of one step and state of a Markov game or learner's spec.

    `worth` is the welfare of actions, (types, actions), possibly by step and state. `changes`
    override fields of the stage.
    """
    groups = alone(game.counts) if groups is None else groups
    low, high = game.box(*place) if place else game.box
    influence = game.influences(*place) if place else game.influence
    worth = worth if worth is None or worth.ndim == 2 else worth[place]

    def rewards(points: np.ndarray) -> np.ndarray:
        values = game.rewards(*place, points)
        return values if groups.trivial else values[:, groups.first]

    def own(points: np.ndarray) -> np.ndarray:
        if groups.trivial:
            return game.own_rewards(*place, points)
        return game.own_rewards(*place, points[..., groups.group, :, :])[..., groups.first, :]

    def slopes(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        values = np.atleast_2d(game.slopes(low, high))
        return values if groups.trivial or len(values) == 1 else values[groups.first]

    local = getattr(game, "slopes", None) is not None
    fields = {
        "own": own if hasattr(game, "own_rewards") else None,
        "slopes": slopes if local else None,
        "sampled": not place and game.lipschitz_estimated,
        "influence": influence if groups.trivial else influence[groups.first],
        "rewards": rewards,
        "lipschitz": game.lipschitz,
        "delta": game.delta,
        "welfare": None if worth is None else worth[groups.first],
    }
    return Stage(counts=groups.counts, scale=game.scale, low=low, high=high, **(fields | changes))


def check_cells(low: np.ndarray, high: np.ndarray, spacing: float) -> None:
    """Refuse a spacing that cuts a box into more than `MOST_CELLS` cells.

    >>> check_cells(np.zeros(2), np.ones(2), 1e-4)
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: spacing: expected at most 4,000,000 cells, found 0.0001,
    which makes about 1e+08
    """
    with np.errstate(over="ignore"):
        cells = float(np.prod(np.maximum((high - low) / spacing, 1.0)))
    if cells > MOST_CELLS * (1 + 1e-6):
        found = f"{spacing:g}, which makes about {cells:.3g}"
        raise InputError("spacing", f"at most {MOST_CELLS:,} cells", found)


def tile(low: np.ndarray, high: np.ndarray, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """Centres (cells, d) and half sides (d,) of equal cells that tile a box exactly.

    No side is longer than `spacing`.

    >>> centres, half = tile(np.zeros(1), np.ones(1), 0.3)
    >>> centres.ravel().tolist(), half.tolist()
    ([0.125, 0.375, 0.625, 0.875], [0.125])
    """
    check_cells(low, high, spacing)
    numbers = np.maximum(np.ceil((high - low) / spacing - 1e-9), 1).astype(int)
    sides = (high - low) / numbers
    axes = [a + side * (np.arange(k) + 0.5) for a, side, k in zip(low, sides, numbers, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(low)), sides / 2


def printed_grid(
    low: np.ndarray, high: np.ndarray, spacing: float
) -> tuple[np.ndarray, np.ndarray]:
    """The grid as printed in the paper: multiples of the spacing, with bands of +-spacing.

    Points that no profile can reach are left out, because rewards need not exist there.
    """
    width = float(np.maximum(np.abs(low), np.abs(high)).max())
    check_cells(low, high, spacing)
    check_cells(np.full(1, -width), np.full(1, width), spacing)
    most = np.floor(width / spacing + 1e-9)
    multiples = spacing * np.arange(-most, most + 1)
    axes = []
    for a, b in zip(low, high, strict=True):
        inside = multiples[(multiples >= a - 1e-12) & (multiples <= b + 1e-12)]
        axes.append(inside if len(inside) else np.array([(a + b) / 2]))
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(low))
    return points, np.full(len(low), spacing)


def children(
    centres: np.ndarray, half: np.ndarray, parts: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Cut each cell into parts along every coordinate in which it has positive width.

    >>> children(np.array([[0.5]]), np.array([0.5]), 4)[0].ravel().tolist()
    [0.125, 0.375, 0.625, 0.875]
    """
    middles = (2.0 * np.arange(parts) + 1.0) / parts - 1.0
    shifts = np.array(list(product(*(middles if h > 0 else (0.0,) for h in half))))
    return (centres[:, None] + shifts * half).reshape(-1, len(half)), half / parts


def near_best(
    rewards: np.ndarray, slack: float, up: np.ndarray | None = None, down: np.ndarray | None = None
) -> np.ndarray:
    """(..., types, actions) bool: the actions within the slack of the best at a point.

    With `up` and `down`, the actions that can be, if a reward is larger by up to `up` and the
    others are smaller by up to `down`.

    >>> near_best(np.array([[1.0, 0.9, 0.5]]), 0.2).tolist()
    [[True, True, False]]
    """
    least = rewards if down is None else rewards - down
    best = least[..., 0]
    for a in range(1, rewards.shape[-1]):
        best = np.maximum(best, least[..., a])
    return (rewards if up is None else rewards + up) >= (best - (slack + SLACK))[..., None]


def possible(
    stage: Stage, allowed: np.ndarray, centres: np.ndarray, half: np.ndarray
) -> np.ndarray:
    """(cells,) bool: False for cells whose band no mix of allowed actions can reach.

    The test is exact for d = 1. In more dimensions some infeasible cells pass.
    """
    weights = stage.scale * stage.counts.astype(np.float64)
    edge = 1e-12 * (np.abs(stage.low) + np.abs(stage.high))
    passed = np.ones(len(centres), bool)
    for direction in product((-1, 0, 1), repeat=stage.dimensions):
        u = np.array(direction, np.float64)
        if not u.any():
            continue
        pull = stage.influence @ u
        reach = np.full(allowed.shape[:2], -np.inf)
        for a in range(allowed.shape[2]):
            np.maximum(reach, np.where(allowed[:, :, a], pull[:, a], -np.inf), out=reach)
        passed &= reach @ weights >= centres @ u - np.abs(u) @ (half + edge)
    return passed


def feasible_cells(
    stage: Stage,
    centres: np.ndarray,
    half: np.ndarray,
    slack: float,
    local: float | None = None,
    more: float = 0.0,
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Iterate over the cells that can be feasible: index, rewards at the centre, allowed actions.

    An action is allowed if it is within the slack of the best at the centre. With `local`, the
    change of rewards in the cell, times `local`, is allowed too, and `more` beyond the cell for
    actions that are not played.
    """
    for start in range(0, len(centres), stage.chunk()):
        part = centres[start : start + stage.chunk()]
        rewards = stage.rewards(part)
        if local is None:
            allowed = near_best(rewards, slack)
        else:
            up = local * stage.variation(part, half)
            down = up if more == 0.0 else local * stage.variation(part, half, more)
            allowed = near_best(rewards, slack, up, down)
        for index in np.flatnonzero(possible(stage, allowed, part, half)).tolist():
            yield start + index, rewards[index], allowed[index]


def solve_cell(
    stage: Stage, weights: np.ndarray, allowed: np.ndarray, centre: np.ndarray, half: np.ndarray
) -> Vertex | None:
    """Maximise the weights with the aggregate in the cell; None if that is infeasible."""
    live = np.flatnonzero(stage.high > stage.low)  # a coordinate that nobody moves is in its band
    live = live if len(live) else np.array([0])
    low, high = ((centre - half) / stage.scale)[live], ((centre + half) / stage.scale)[live]
    influence = stage.influence if len(live) == stage.dimensions else stage.influence[:, :, live]
    if len(live) == 1:
        f = influence[:, :, 0]
        return solve_knapsack(weights, f, stage.counts, allowed, float(low[0]), float(high[0]))
    return solve_dual(Program(weights, influence, stage.counts, allowed, low, high))


@named_arguments
def lipschitz_envelope(
    values: np.ndarray, slope: float, spacing: float, *, upper: bool = True
) -> np.ndarray:
    """Return `min_{x'} v(x') + slope |x - x'|_inf` at every point of a grid, exactly.

    `values` are upper bounds on a function with Lipschitz constant `slope`, on a regular grid with
    one axis for each coordinate. The result is the tightest bound that they imply together. With
    `upper=False`, they are lower bounds: `max_{x'} v(x') - slope |x - x'|_inf`.

    Minima over boxes of radius 1, 2, 4, ... reach every distance, so the cost is the size of the
    grid times the logarithm of its side, not its square.

    **Example**

    >>> import numpy as np
    >>> from equipoise.aggregative import lipschitz_envelope
    >>> lipschitz_envelope(np.array([0.0, 5.0, 5.0, 1.0]), slope=2.0, spacing=0.5).tolist()
    [0.0, 1.0, 2.0, 1.0]
    """
    from scipy import ndimage

    values = np.asarray(values, np.float64)
    checks.check_range("slope", slope, 0.0, np.inf, high_open=True)
    checks.check_range("spacing", spacing, 0.0, np.inf, low_open=True, high_open=True)
    envelope = values.copy() if upper else -values
    radius, side = 1, max(values.shape, default=1)
    # Boxes of all powers of two up to the side compose to every distance on the grid.
    while radius < 2 * side:
        nearest = ndimage.minimum_filter(envelope, size=2 * radius + 1, mode="nearest")
        envelope = np.minimum(envelope, nearest + slope * spacing * radius)
        radius *= 2
    return envelope if upper else -envelope
