"""Aggregative games: many agents that matter to each other only through a sum."""

from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.values import frozen, read_only
from equipoise.games._callables import (
    Field,
    Slopes,
    as_lipschitz,
    check_within,
    estimate_slope,
    probe_points,
    reward_field,
)
from equipoise.games._game import Labels, SingleGame

#: The largest number of agents of a type: float64 counts them exactly.
MOST_AGENTS = 2**53


class Crowd(SingleGame):
    """Base of the games whose agents meet in an aggregate; types and actions are the last axes."""

    influence: eqx.AbstractVar[np.ndarray]
    counts: eqx.AbstractVar[np.ndarray]
    scale: eqx.AbstractVar[float]
    labels: eqx.AbstractVar[Labels]

    @property
    def types(self) -> int:
        """Number of rows: types, or agents when they were given one by one."""
        return self.influence.shape[-3]

    @property
    def agents(self) -> int:
        """Number of agents."""
        return int(self.counts.sum())

    @property
    def players(self) -> int:
        """Number of agents."""
        return self.agents

    @property
    def actions(self) -> tuple[int]:
        """Number of actions, the same for every agent."""
        return (self.influence.shape[-2],)

    @property
    def dimensions(self) -> int:
        """Number of coordinates of the aggregate."""
        return self.influence.shape[-1]

    @property
    def delta(self) -> float:
        """The most by which one agent can move the aggregate, in the sup norm."""
        return self.scale * float(np.ptp(self.influence, axis=-2).max())

    def _describe(self, more: str = "") -> str:
        kinds = "each of its own type" if self.types == self.agents else f"of {self.types} types"
        kinds = "all alike" if self.types == 1 else kinds
        text = f"game of {self.agents:,} agents, {kinds}, with {self.actions[0]} actions{more}"
        plural = "s" * (self.dimensions > 1)
        return f"aggregative {text}; the aggregate has {self.dimensions} coordinate{plural}"


class AggregativeGame(Crowd):
    """A game of n agents who feel each other only through the aggregate `x`.

    Agent i that plays action a adds `influence[i, a]` to a sum over all agents; the aggregate is
    that sum times `scale`, one over the number of agents unless said otherwise, so a mean.
    `reward(x)` gives every agent's reward of every action when the aggregate is x.

    Agents may be given one by one, or as types: with `counts`, row t of the influence and of the
    reward stands for `counts[t]` agents who are alike. Identical agents given one by one are
    found and grouped by the solver.

    - `influence`: (agents or types, actions, d).
    - `reward`: from x, of shape (d,), to (agents or types, actions), in NumPy or JAX. Written
      with `x[..., k]` it takes one aggregate per agent and action too, and exact gains of many
      agents cost one call; otherwise it is called point by point.
    - `lipschitz`: how much a reward can change when the aggregate moves by one in the sup norm: a
      number, an array of one for each action or type and action, or a function of the edges
      (low, high) of a region of aggregates that returns either. Local constants make bounds
      tighter and searches faster. Without it slopes are sampled, by action and region, and
      `lipschitz_estimated` says so.
    - `bounds`: what rewards lie between; checked at some points.
    - `labels`: names of the actions, which all agents share, and of the types.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> roads = np.array([[[1.0], [0.0]]])            # x is the share of agents on the first
    >>> free, jam = np.array([[-0.2, -0.5]]), np.array([[-0.6, 0.0]])
    >>> town = eq.AggregativeGame(
    ...     roads, lambda x: free + jam * x[..., 0], lipschitz=0.6, counts=[1000]
    ... )
    >>> town.agents, town.actions, town.dimensions
    (1000, (2,), 1)
    >>> town.rewards([0.5]).round(6)
    array([[-0.5, -0.5]])
    """

    kind: ClassVar[str] = "aggregative"
    influence: np.ndarray
    counts: np.ndarray
    field: Field = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    #: The largest Lipschitz constant of any reward.
    lipschitz: float = eqx.field(static=True)
    #: Lipschitz constants by action and region, where they were given.
    slopes: Slopes | None = eqx.field(static=True)
    #: Whether the Lipschitz constant was estimated rather than given.
    lipschitz_estimated: bool = eqx.field(static=True)
    bounds: tuple[float, float] = eqx.field(static=True)
    labels: Labels = eqx.field(static=True)

    def __init__(
        self,
        influence: Any,
        reward: Any,
        lipschitz: Any = None,
        *,
        counts: Any = None,
        scale: float | None = None,
        bounds: tuple[float, float] = (-1.0, 1.0),
        elementwise: bool | None = None,
        labels: Any = None,
    ):
        self.influence = as_influence("influence", influence, 3, "(agents or types, actions, d)")
        self.counts = as_counts(counts, self.influence.shape[0])
        self.scale = as_scale(scale, self.counts)
        self.bounds = as_bounds(bounds)
        if not callable(reward):
            raise InputError("reward", "a function of x", type(reward).__name__)
        low, high = reachable_box(self.influence, self.counts, self.scale)
        shape = (self.influence.shape[0], self.influence.shape[1])
        self.field = reward_field(reward, shape, low, high, elementwise)
        for x in (low, high, *probe_points(low, high, 1)):
            check_within("reward", self.field.at(x), self.bounds)
        self.lipschitz_estimated = lipschitz is None
        if lipschitz is None:
            lipschitz = estimate_slope(self.field.at, low, high, bases=16)
        self.lipschitz, self.slopes = as_lipschitz(lipschitz, shape, low, high)
        self.labels = Labels.of(labels, actions=self.actions, types=self.types)

    def describe(self) -> str:
        """The game in a few words."""
        return self._describe()

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest aggregate that the agents can reach, by coordinate."""
        return reachable_box(self.influence, self.counts, self.scale)

    def rewards(self, x: Any) -> np.ndarray:
        """(d,) -> (types, actions), or (points, d) -> (points, types, actions)."""
        x = np.asarray(x, np.float64)
        return self.field.at(x) if x.ndim == 1 else self.field.over(x)

    def own_rewards(self, x: np.ndarray) -> np.ndarray:
        """(..., types, actions, d) -> (..., types, actions): each at an aggregate of its own."""
        return self.field.own(x)


def as_influence(name: str, value: Any, ndim: int, meaning: str) -> np.ndarray:
    """A finite array of influences with `ndim` axes, none of them empty."""
    array = read_only(name, value)
    if array.ndim != ndim:
        raise InputError(name, f"{ndim} axes, {meaning}", f"shape {array.shape}")
    checks.check_ndim(name, array, ndim, meaning)
    checks.check_finite(name, array)
    return array


def as_counts(counts: Any, types: int) -> np.ndarray:
    """How many agents each row stands for: one, unless told."""
    if counts is None:
        return frozen(np.ones(types, np.int64))
    array = np.asarray(checks.as_float_array("counts", counts), np.float64)
    checks.check_shape("counts", array, (types,), "one for each type")
    bad = ~((array >= 1) & (array <= MOST_AGENTS) & (array == np.floor(array)))
    if bad.any():
        where = checks.first_index(bad)
        raise InputError(
            "counts", "whole numbers from 1 to 2^53", f"{array[where]:g} at {list(where)}"
        )
    return frozen(array.astype(np.int64))


def as_scale(scale: float | None, counts: np.ndarray) -> float:
    """What the sum of influences is multiplied by."""
    if scale is None:
        return 1.0 / float(counts.sum())
    checks.check_range("scale", scale, 0.0, np.inf, low_open=True, high_open=True)
    return float(scale)


def as_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """The least and the largest reward."""
    low, high = (float(bound) for bound in bounds)
    if not (np.isfinite([low, high]).all() and low < high):
        raise InputError("bounds", "(low, high) with low < high", bounds)
    return low, high


def reachable_box(
    influence: np.ndarray, counts: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """What the aggregate lies between, by coordinate, whatever the agents do."""
    weights = scale * counts.astype(np.float64)
    return weights @ influence.min(1), weights @ influence.max(1)
