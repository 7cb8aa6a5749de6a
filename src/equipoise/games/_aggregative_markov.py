"""Aggregative Markov games: states that move with the aggregate of what everybody does."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from equipoise.core import InputError, checks
from equipoise.games._aggregative import (
    AggregativeGame,
    Crowd,
    as_bounds,
    as_counts,
    as_influence,
    as_scale,
    reachable_box,
)
from equipoise.games._callables import (
    Field,
    check_within,
    estimate_slope,
    probe_points,
    reward_field,
    transition_elementwise,
)
from equipoise.games._game import Labels

#: The largest product of steps and states: each is looked at when a game is made.
_MOST_STAGES = 100_000
_INFLUENCE = "(agents or types, actions, d), or that by step and state"


class AggregativeMarkovGame(Crowd):
    """An aggregative game played for `horizon` steps, in states that all agents share.

    In step h (from 0) and state s, agents who play `a_i` make the aggregate
    `x = scale * sum_i influence[i, a_i]`; agent i gets `reward(h, s, x)[i, a_i]`, and the next
    state is drawn from `transition(h, s, x)`.

    - `influence`: (agents or types, actions, d); or (horizon, states, agents or types, actions,
      d) where it depends on them.
    - `reward(h, s, x)`: (agents or types, actions); `transition(h, s, x)`: (states,). In NumPy or
      JAX; written with `x[..., k]` they take many aggregates at once (the transition gives
      (..., states)), which exact gains of many distinct agents need.
    - `counts`: how many agents each row stands for; one without.
    - `lipschitz`, `transition_lipschitz`: of rewards, and of transitions in total variation, in
      the sup norm of x; estimated from slopes when not given, and then labelled so.
    - `bounds`: what the rewards of one step lie between.
    - `labels`: names of the actions, which all agents share, of the states and of the types.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> free, jam = np.array([[-0.2, -0.5]]), np.array([[-0.6, 0.0]])
    >>> def reward(h, s, x):                     # rain (state 1) slows both roads
    ...     return free + jam * x[..., 0] - 0.1 * s
    >>> def transition(h, s, x):                 # more traffic, more rain
    ...     return np.stack([1 - 0.5 * x[..., 0], 0.5 * x[..., 0]], -1)
    >>> city = eq.AggregativeMarkovGame(
    ...     [[[1.0], [0.0]]], reward, transition, horizon=3, states=2, counts=[1000]
    ... )
    >>> city.agents, city.states, city.horizon, city.lipschitz_estimated
    (1000, 2, 3, True)
    """

    kind: ClassVar[str] = "aggregative-markov"
    influence: np.ndarray
    counts: np.ndarray
    horizon: int = eqx.field(static=True)
    states: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    bounds: tuple[float, float] = eqx.field(static=True)
    reward: Callable[..., Any] = eqx.field(static=True)
    transition: Callable[..., Any] = eqx.field(static=True)
    elementwise: bool = eqx.field(static=True)
    transition_elementwise: bool = eqx.field(static=True)
    lipschitz: float = eqx.field(static=True)
    transition_lipschitz: float = eqx.field(static=True)
    #: Whether a Lipschitz constant was estimated rather than given.
    lipschitz_estimated: bool = eqx.field(static=True)
    labels: Labels = eqx.field(static=True)

    def __init__(
        self,
        influence: Any,
        reward: Any,
        transition: Any,
        horizon: int,
        states: int,
        counts: Any = None,
        *,
        lipschitz: float | None = None,
        transition_lipschitz: float | None = None,
        scale: float | None = None,
        bounds: tuple[float, float] = (-1.0, 1.0),
        elementwise: bool | None = None,
        labels: Any = None,
    ):
        self.horizon = checks.check_count("horizon", horizon)
        self.states = checks.check_count("states", states)
        if self.horizon * self.states > _MOST_STAGES:
            raise ValueError(
                f"horizon, states: expected a product of at most {_MOST_STAGES:,}, found "
                f"{float(self.horizon) * self.states:.3g}; use fewer steps or states"
            )
        axes = 5 if np.ndim(influence) == 5 else 3
        self.influence = as_influence("influence", influence, axes, _INFLUENCE)
        if axes == 5:
            expected = (self.horizon, self.states, *self.influence.shape[2:])
            checks.check_shape("influence", self.influence, expected, "(horizon, states, ...)")
        self.counts = as_counts(counts, self.influence.shape[-3])
        self.scale = as_scale(scale, self.counts)
        self.bounds = as_bounds(bounds)
        for name, function in (("reward", reward), ("transition", transition)):
            if not callable(function):
                raise InputError(name, "a function of (h, s, x)", type(function).__name__)
        self.reward, self.transition = reward, transition
        self.labels = Labels.of(labels, actions=self.actions, states=self.states, types=self.types)
        low, high = self.box(0, 0)
        shape = (self.types, self.actions[0])
        first = reward_field(partial(reward, 0, 0), shape, low, high, elementwise)
        self.elementwise = first.elementwise
        self.transition_elementwise = transition_elementwise(
            self._transition_field(0, 0, elementwise=False), low, high
        )
        self._check_values()
        self.lipschitz_estimated = lipschitz is None or transition_lipschitz is None
        if lipschitz is None:
            lipschitz = self._estimate(self.rewards, variation=False)
        if transition_lipschitz is None:
            transition_lipschitz = self._estimate(self.transitions, variation=True)
        checks.check_range("lipschitz", lipschitz, 0.0, np.inf, high_open=True)
        checks.check_range("transition_lipschitz", transition_lipschitz, 0.0, np.inf)
        self.lipschitz, self.transition_lipschitz = float(lipschitz), float(transition_lipschitz)

    def describe(self) -> str:
        """The game in a few words."""
        return self._describe(f", {self.states} states and {self.horizon} steps")

    def stage(self, h: int, s: int) -> AggregativeGame:
        """One step in one state as a game of its own: nothing comes after it."""
        return AggregativeGame(
            self.influences(h, s),
            partial(self.reward, h, s),
            self.lipschitz,
            counts=self.counts,
            scale=self.scale,
            bounds=self.bounds,
            elementwise=self.elementwise,
            labels=Labels(actions=self.labels.actions, types=self.labels.types),
        )

    def influences(self, h: int, s: int) -> np.ndarray:
        """(types, actions, d): the influences in one step and state."""
        return self.influence[h, s] if self.influence.ndim == 5 else self.influence

    def box(self, h: int, s: int) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest aggregate that can be reached in one step and state."""
        return reachable_box(self.influences(h, s), self.counts, self.scale)

    def rewards(self, h: int, s: int, x: Any) -> np.ndarray:
        """(d,) -> (types, actions), or (points, d) -> (points, types, actions)."""
        x = np.asarray(x, np.float64)
        field = self._reward_field(h, s)
        return field.at(x) if x.ndim == 1 else field.over(x)

    def own_rewards(self, h: int, s: int, x: np.ndarray) -> np.ndarray:
        """(..., types, actions, d) -> (..., types, actions): each at an aggregate of its own."""
        return self._reward_field(h, s).own(x)

    def transitions(self, h: int, s: int, x: Any) -> np.ndarray:
        """(..., d) -> (..., states): chances of the next states at each aggregate."""
        x = np.asarray(x, np.float64)
        field = self._transition_field(h, s, self.transition_elementwise)
        if x.ndim == 1:
            chances = field.at(x)
        elif self.transition_elementwise:
            chances = field.batch(x, (*x.shape[:-1], self.states))
        else:
            distinct, where = np.unique(x.reshape(-1, x.shape[-1]), axis=0, return_inverse=True)
            values = np.stack([field.at(point) for point in distinct])
            chances = values[where].reshape(*x.shape[:-1], self.states)
        checks.check_probabilities("transition", chances)
        return chances

    def _reward_field(self, h: int, s: int) -> Field:
        shape = (self.types, self.actions[0])
        function = partial(self.reward, h, s)
        meaning = "(agents or types, actions)"
        return Field(function, "reward", self.dimensions, shape, meaning, self.elementwise)

    def _transition_field(self, h: int, s: int, elementwise: bool) -> Field:
        function = partial(self.transition, h, s)
        shape = (self.states,)
        return Field(function, "transition", self.dimensions, shape, "(states,)", elementwise)

    def _check_values(self) -> None:
        """Rewards within their bounds, transitions that are chances, at some points of each."""
        for h in range(self.horizon):
            for s in range(self.states):
                low, high = self.box(h, s)
                for x in (low, high) if self.types * self.states < 10_000 else (low,):
                    values = self.rewards(h, s, x)
                    check_within(f"reward({h}, {s}, x)", values, self.bounds)
                self.transitions(h, s, np.stack([low, high, *probe_points(low, high, 1)]))

    def _estimate(self, evaluate: Callable[..., np.ndarray], *, variation: bool) -> float:
        return max(
            estimate_slope(partial(evaluate, h, s), *self.box(h, s), bases=6, variation=variation)
            for h in range(self.horizon)
            for s in range(self.states)
        )
