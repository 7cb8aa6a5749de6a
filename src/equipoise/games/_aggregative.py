"""Aggregative games: many agents who affect each other only through a sum."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.reductions import extremes
from equipoise.core.values import frozen, read_only, static
from equipoise.games._callables import (
    Field,
    Slopes,
    as_lipschitz,
    check_within,
    estimate_slope,
    probe_points,
    reward_field,
    transition_elementwise,
)
from equipoise.games._game import Labels, SingleGame
from equipoise.games._policies import AggregativePolicy
from equipoise.games._policy import Level, by_name, chances_of, level

#: Largest number of agents; float64 counts them exactly.
MOST_AGENTS = 2**53


class Crowd(SingleGame[AggregativePolicy]):
    """Base of the games with an aggregate. Types and actions are the last axes of the arrays."""

    if TYPE_CHECKING:  # fields of the kinds
        influence: np.ndarray
        counts: np.ndarray
        scale: float
    _who: ClassVar[str] = "agent"
    _measure: ClassVar[str] = "mean reward"

    @property
    def types(self) -> int:
        """Number of rows: types, or agents if they were given one by one."""
        return self.influence.shape[-3]

    @property
    def agents(self) -> int:
        """Number of agents."""
        return sum(self.counts.tolist())

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
        """Largest change of the aggregate that one agent can cause, in the sup norm."""
        return self.scale * float(np.ptp(self.influence, axis=-2).max())

    @property
    def _stages(self) -> tuple[int, ...]:
        """(horizon, states) of a game with steps and states."""
        return ()

    @property
    def _player_level(self) -> Level:
        return level("type", self.labels.types, self.types, "type {}")

    def _by_names(self, policy: Mapping[str, Any]) -> AggregativePolicy:
        """Return what types play: an action (by state), or numbers of agents by action."""
        entries, actions = super()._by_names(policy), self._action_level(0)
        count, stages = self.actions[0], self._stages
        places = [level("state", self.labels.states, stages[1])] if stages else []
        plays = np.zeros((self.types, count), np.int64)
        played = np.zeros((self.types, *stages), np.int64)
        for row, own in enumerate(entries):
            where = f"policy[{self.about.named('type', row)!r}]"
            if stages or isinstance(own, str):
                pure = chances_of(where, own, places, actions)
                if not (pure.max(-1) == 1.0).all():
                    raise InputError(where, "one action in each state", "a mixed strategy")
                played[row] = pure.argmax(-1)
                plays[row] = self.counts[row] * pure if not stages else 0
            elif isinstance(own, Mapping):
                for action, agents in by_name(where, own, actions, every=False).items():
                    plays[row, action] = checks.check_count(where, agents, 0)
            else:
                expected = "the name of an action, or numbers of agents by action"
                raise InputError(where, expected, type(own).__name__)
        if stages:
            return AggregativePolicy(np.arange(self.types), self.counts, played)
        return AggregativePolicy.of_plays(plays)

    def _checked(self, policy: Any) -> AggregativePolicy:
        """Return a policy, the actions of every agent, or numbers of agents by type and action."""
        stages = self._stages
        if not isinstance(policy, AggregativePolicy):
            array = checks.plain_numbers("policy", policy)
            if not stages and array.shape == (self.types, *self.actions):
                policy = AggregativePolicy.of_plays(array)
            else:
                meaning = "one action for each agent" + (", step and state" if stages else "")
                shape = (self.types, *self.actions)
                meaning += "" if stages else f"; or numbers of agents, {shape}"
                checks.check_shape("policy", array, (self.agents, *stages), meaning)
                if array.dtype.kind not in "iu":
                    raise InputError("policy", "whole numbers", f"dtype {array.dtype}")
                policy = AggregativePolicy.of_agents(array, self.counts)
        if policy.actions.shape[1:] != stages:
            expected = f"actions of shape {('classes', *stages)}"
            raise InputError("policy", expected, policy.actions.shape)
        if policy.rows.max() >= self.types:
            raise InputError("policy", f"rows below {self.types}", policy.rows.max())
        low, high = policy.actions.min(), policy.actions.max()
        if low < 0 or high >= self.actions[0]:
            expected = f"actions from 0 to {self.actions[0] - 1}"
            raise InputError("policy", expected, f"{low} to {high}")
        present = np.bincount(policy.rows, weights=policy.counts, minlength=self.types)
        if not np.array_equal(present, self.counts):
            row = int(np.argmax(present != self.counts))
            whose = f"row {row}" if self.labels.types is None else self.labels.type(row)
            expected = f"{self.counts[row]} agents of {whose}"
            raise InputError("policy", expected, f"{present[row]:.0f}")
        return policy

    def _describe(self, more: str = "") -> str:
        kinds = "each of its own type" if self.types == self.agents else f"of {self.types} types"
        kinds = "all alike" if self.types == 1 else kinds
        text = f"game of {self.agents:,} agents, {kinds}, with {self.actions[0]} actions{more}"
        plural = "s" * (self.dimensions > 1)
        return f"aggregative {text}; the aggregate has {self.dimensions} coordinate{plural}"


class AggregativeGame(Crowd):
    """A game of n agents who affect each other only through the aggregate `x`.

    An agent i who plays action a adds `influence[i, a]` to a sum over all agents. The aggregate is
    that sum times `scale`. By default `scale` is one over the number of agents, so that the
    aggregate is a mean. `reward(x)` returns every agent's reward of every action at aggregate x.

    Give agents one by one, or as types: with `counts`, row t of the influence and of the reward
    stands for `counts[t]` identical agents. The solver finds and groups identical agents that are
    given one by one.

    - `influence`: (agents or types, actions, d), or (actions, d) for a single type.
    - `counts`: number of agents of each type, or one number for a single type. Default: one.
    - `reward`: maps x, of shape (d,), to (agents or types, actions), in NumPy or JAX; a single type
      may leave out the first axis. Write it with
      `x[..., k]` so that it also accepts one aggregate per agent and action: computing exact gains
      of many agents then takes one call. Otherwise it is called point by point.
    - `lipschitz`: bound on the change of a reward when the aggregate moves by one in the sup norm.
      It is a number, an array with one entry per action or per type and action, or a function that
      maps the corners (low, high) of a region of aggregates to either. Local constants make bounds
      tighter and searches faster. If it is not given, slopes are sampled by action and region, and
      `lipschitz_estimated` is True.
    - `bounds`: (low, high), an interval that contains all rewards; checked at some points.
    - `labels`: names of the actions, which all agents share, and of the types.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> roads = np.array([[1.0], [0.0]])              # x is the share of agents on the first
    >>> free, jam = np.array([-0.2, -0.5]), np.array([-0.6, 0.0])
    >>> town = eq.AggregativeGame(
    ...     roads, lambda x: free + jam * x[..., 0], lipschitz=0.6, counts=1000
    ... )
    >>> town.agents, town.actions, town.dimensions
    (1000, (2,), 1)
    >>> town.rewards([0.5]).round(6)
    array([[-0.5, -0.5]])
    """

    kind: ClassVar[str] = "aggregative"
    _held_by: ClassVar[Mapping[str, str]] = {"lipschitz": "declared_lipschitz"}
    #: (agents or types, actions, d): what each action adds to the sum.
    influence: np.ndarray
    #: (agents or types,): number of agents that each row stands for.
    counts: np.ndarray
    #: The reward function, with what is known about it.
    field: Field = static()
    #: Factor of the sum of influences.
    scale: float = static()
    #: Largest Lipschitz constant of any reward.
    lipschitz: float = static()
    #: Lipschitz constants by action and region, if they were given.
    slopes: Slopes | None = static()
    #: Whether the Lipschitz constant was estimated rather than given.
    lipschitz_estimated: bool = static()
    #: Interval that contains all rewards.
    bounds: tuple[float, float] = static()
    #: Names of types and actions.
    labels: Labels = static()

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
        influence = as_influence("influence", influence, 3, "(agents or types, actions, d)")
        counts = as_counts(counts, influence.shape[0])
        scale, bounds = as_scale(scale, counts), as_bounds(bounds)
        if not callable(reward):
            raise InputError("reward", "a function of x", type(reward).__name__)
        low, high = reachable_box(influence, counts, scale)
        shape = (influence.shape[0], influence.shape[1])
        field = reward_field(reward, shape, low, high, elementwise)
        for x in (low, high, *probe_points(low, high, 1)):
            check_within("reward", field.at(x), bounds)
        estimated = lipschitz is None
        if estimated:
            lipschitz = estimate_slope(field.at, low, high, bases=16)
        lipschitz, slopes = as_lipschitz(lipschitz, shape, low, high)
        self._set(influence=influence, counts=counts, scale=scale, bounds=bounds, field=field)
        self._set(lipschitz=lipschitz, slopes=slopes, lipschitz_estimated=estimated)
        self._set(labels=Labels.of(labels, actions=self.actions, types=self.types))

    @property
    def declared_lipschitz(self) -> Any:
        """The Lipschitz constants as declared; None if they are estimated."""
        return None if self.lipschitz_estimated else self.slopes or self.lipschitz

    @property
    def reward(self) -> Callable[[Any], Any]:
        """The reward function."""
        return self.field.function

    @property
    def elementwise(self) -> bool:
        """Whether `reward` accepts many aggregates at once."""
        return self.field.elementwise

    def describe(self) -> str:
        """Return a one-line description of the game."""
        return self._describe()

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest reachable aggregate, by coordinate."""
        return reachable_box(self.influence, self.counts, self.scale)

    def rewards(self, x: Any) -> np.ndarray:
        """Return rewards: (d,) -> (types, actions), or (points, d) -> (points, types, actions)."""
        x = np.asarray(x, np.float64)
        return self.field.at(x) if x.ndim == 1 else self.field.over(x)

    def own_rewards(self, x: np.ndarray) -> np.ndarray:
        """(..., types, actions, d) -> (..., types, actions): each entry at its own aggregate."""
        return self.field.own(x)


def as_influence(name: str, value: Any, ndim: int, meaning: str) -> np.ndarray:
    """Return a finite array of influences with `ndim` axes, none of them empty.

    The axis of a single type may be left out.
    """
    array = read_only(name, value)
    array = array[None] if array.ndim == 2 and ndim == 3 else array
    if array.ndim != ndim:
        raise InputError(name, f"{ndim} axes, {meaning}", f"shape {array.shape}")
    checks.check_ndim(name, array, ndim, meaning)
    checks.check_finite(name, array)
    return array


def as_counts(counts: Any, types: int) -> np.ndarray:
    """Return the number of agents per row. Default: one. A single row may have a plain number."""
    if counts is None:
        return frozen(np.ones(types, np.int64))
    array = np.asarray(checks.as_float_array("counts", counts), np.float64)
    array = array[None] if array.ndim == 0 and types == 1 else array
    checks.check_shape("counts", array, (types,), "one for each type")
    bad = ~((array >= 1) & (array <= MOST_AGENTS) & (array == np.floor(array)))
    if bad.any():
        where = checks.first_index(bad)
        raise InputError(
            "counts", "whole numbers from 1 to 2^53", f"{array[where]:g} at {list(where)}"
        )
    whole = array.astype(np.int64)
    if (total := sum(whole.tolist())) > MOST_AGENTS:
        raise InputError("counts", "at most 2^53 agents in all", f"{total:,}")
    return frozen(whole)


def as_scale(scale: float | None, counts: np.ndarray) -> float:
    """Return the factor by which the sum of influences is multiplied."""
    if scale is None:
        return 1.0 / float(sum(counts.tolist()))
    checks.check_range("scale", scale, 0.0, np.inf, low_open=True, high_open=True)
    return float(scale)


def as_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return the smallest and the largest reward."""
    low, high = (float(bound) for bound in bounds)
    if not (np.isfinite([low, high]).all() and low < high):
        raise InputError("bounds", "(low, high) with low < high", bounds)
    return low, high


def reachable_box(
    influence: np.ndarray, counts: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest aggregate that any actions can produce, by coordinate."""
    weights = scale * counts.astype(np.float64)
    low, high = extremes(np.moveaxis(influence, 1, -1))
    return weights @ low, weights @ high


#: Largest product of steps and states; the constructor examines each of them.
_MOST_STAGES = 100_000
_INFLUENCE = "(agents or types, actions, d), optionally by step and state"


class AggregativeMarkovGame(Crowd):
    """An aggregative game played for `horizon` steps, in states that all agents share.

    In step h (from 0) and state s, the agents' actions `a_i` produce the aggregate
    `x = scale * sum_i influence[i, a_i]`; agent i gets `reward(h, s, x)[i, a_i]`, and the next
    state is drawn from `transition(h, s, x)`.

    - `influence`: (agents or types, actions, d), or (horizon, states, agents or types, actions,
      d) if it depends on step and state.
    - `reward(h, s, x)`: (agents or types, actions); `transition(h, s, x)`: (states,). Both in NumPy
      or JAX. Write them with `x[..., k]` so that they accept many aggregates at once (the
      transition then returns (..., states)); exact gains of many distinct agents need this.
    - `counts`: number of agents that each row stands for. Default: one.
    - `lipschitz`, `transition_lipschitz`: Lipschitz constants in the sup norm of x, of the rewards
      and of the transitions (in total variation). If not given, they are estimated from sampled
      slopes, and `lipschitz_estimated` is True.
    - `bounds`: (low, high), an interval that contains all rewards of one step.
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
    _held_by: ClassVar[Mapping[str, str]] = {
        "lipschitz": "declared_lipschitz",
        "transition_lipschitz": "declared_transition_lipschitz",
    }
    influence: np.ndarray
    counts: np.ndarray
    horizon: int = static()
    #: Number of states.
    states: int = static()
    #: Factor of the sum of influences.
    scale: float = static()
    bounds: tuple[float, float] = static()
    #: Reward function `reward(h, s, x)`.
    reward: Callable[..., Any] = static()
    #: Transition function `transition(h, s, x)`.
    transition: Callable[..., Any] = static()
    #: Whether `reward` accepts many aggregates at once.
    elementwise: bool = static()
    #: Whether `transition` accepts many aggregates at once.
    transition_elementwise: bool = static()
    #: The Lipschitz constant of the rewards as declared; None if it is estimated.
    declared_lipschitz: float | None = static()
    #: The Lipschitz constant of the transitions as declared; None if it is estimated.
    declared_transition_lipschitz: float | None = static()
    #: Names of types, actions and states.
    labels: Labels = static()

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
        horizon = checks.check_count("horizon", horizon)
        states = checks.check_count("states", states)
        if horizon * states > _MOST_STAGES:
            raise ValueError(
                f"horizon, states: expected a product of at most {_MOST_STAGES:,}, found "
                f"{float(horizon) * states:.3g}; use fewer steps or states"
            )
        axes = 5 if np.ndim(influence) == 5 else 3
        influence = as_influence("influence", influence, axes, _INFLUENCE)
        if axes == 5:
            expected = (horizon, states, *influence.shape[2:])
            checks.check_shape("influence", influence, expected, "(horizon, states, ...)")
        counts = as_counts(counts, influence.shape[-3])
        self._set(influence=influence, counts=counts, scale=as_scale(scale, counts))
        self._set(bounds=as_bounds(bounds), horizon=horizon, states=states)
        for name, function in (("reward", reward), ("transition", transition)):
            if not callable(function):
                raise InputError(name, "a function of (h, s, x)", type(function).__name__)
        self._set(reward=reward, transition=transition)
        names = {"actions": self.actions, "states": states, "types": self.types}
        self._set(labels=Labels.of(labels, **names))
        low, high = self.box(0, 0)
        shape = (self.types, self.actions[0])
        first = reward_field(partial(reward, 0, 0), shape, low, high, elementwise)
        field = self._transition_field(0, 0, elementwise=False)
        self._set(elementwise=first.elementwise)
        self._set(transition_elementwise=transition_elementwise(field, low, high))
        self._check_values()
        if lipschitz is not None:
            checks.check_range("lipschitz", lipschitz, 0.0, np.inf, high_open=True)
            lipschitz = float(lipschitz)
        if transition_lipschitz is not None:
            checks.check_range("transition_lipschitz", transition_lipschitz, 0.0, np.inf)
            transition_lipschitz = float(transition_lipschitz)
        self._set(declared_lipschitz=lipschitz)
        self._set(declared_transition_lipschitz=transition_lipschitz)

    @cached_property
    def lipschitz(self) -> float:
        """Lipschitz constant of the rewards, sampled on first use if it was not declared."""
        if self.declared_lipschitz is not None:
            return self.declared_lipschitz
        return self._estimate(self.rewards, variation=False)

    @cached_property
    def transition_lipschitz(self) -> float:
        """Lipschitz constant of the transitions, sampled on first use if it was not declared."""
        if self.declared_transition_lipschitz is not None:
            return self.declared_transition_lipschitz
        return self._estimate(self.transitions, variation=True)

    @property
    def lipschitz_estimated(self) -> bool:
        """Whether a Lipschitz constant was estimated rather than given."""
        return self.declared_lipschitz is None or self.declared_transition_lipschitz is None

    @property
    def _stages(self) -> tuple[int, ...]:
        return self.horizon, self.states

    def describe(self) -> str:
        """Return a one-line description of the game."""
        return self._describe(f", {self.states} states and {self.horizon} steps")

    def stage(self, h: int, s: int) -> AggregativeGame:
        """Return one step in one state as a one-shot game, without future rewards."""
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
        """Return the smallest and largest aggregate of one step and state, by coordinate."""
        return reachable_box(self.influences(h, s), self.counts, self.scale)

    def rewards(self, h: int, s: int, x: Any) -> np.ndarray:
        """Return rewards: (d,) -> (types, actions), or (points, d) -> (points, types, actions)."""
        x = np.asarray(x, np.float64)
        field = self._reward_field(h, s)
        return field.at(x) if x.ndim == 1 else field.over(x)

    def own_rewards(self, h: int, s: int, x: np.ndarray) -> np.ndarray:
        """(..., types, actions, d) -> (..., types, actions): each entry at its own aggregate."""
        return self._reward_field(h, s).own(x)

    def transitions(self, h: int, s: int, x: Any) -> np.ndarray:
        """(..., d) -> (..., states): probabilities of the next states at each aggregate."""
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
        """Check at some points that rewards are within bounds and transitions are probabilities."""
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
