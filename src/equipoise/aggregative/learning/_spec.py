"""What a learner is told before it begins, and what it may ask of an environment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from equipoise.core import checks
from equipoise.games import AggregativeMarkovGame


class Environment(Protocol):
    """Anything with `reset()` and `step(actions)`; states are whole numbers from 0.

    **Example**

    >>> import equipoise as eq
    >>> city = eq.games.load("demand-response", agents=100)
    >>> env = eq.aggregative.Simulator(city, key=0)
    >>> isinstance(env.reset(), int), hasattr(env, "step")
    (True, True)
    """

    def reset(self) -> int:
        """Begin an episode; returns its first state."""
        ...

    def step(self, actions: np.ndarray) -> tuple[int, np.ndarray]:
        """Take (agents,) actions; returns the next state and (agents,) rewards."""
        ...


@dataclass(frozen=True)
class Spec:
    """What is declared of an environment: who is in it and how smooth it is, not how it moves.

    Agents come row by row: row t stands for `counts[t]` agents who are alike, and the actions and
    rewards of `step` are in that order.

    - `influence`: (types, actions, d), or that by step and state, (horizon, states, types,
      actions, d); the aggregate is `scale` (one over the number of agents unless given) times
      the sum of influences.
    - `lipschitz`, `transition_lipschitz`: of rewards, and of transitions in total variation, in
      the sup norm of the aggregate. Every guarantee rests on them.
    - `bounds`: what the expected rewards of one step lie between.
    - `starts`: states in which episodes may begin; all unless given.
    - `reward(h, s, x)`: (types, actions), or None if rewards are to be learnt.

    **Example**

    >>> import equipoise as eq
    >>> spec = eq.aggregative.Spec(
    ...     [[[1.0], [0.0]]], horizon=3, states=2, lipschitz=0.6, transition_lipschitz=0.5,
    ...     counts=[1000],
    ... )
    >>> spec.agents, spec.types, spec.delta, spec.reward is None
    (1000, 1, 0.001, True)
    """

    influence: Any
    horizon: int
    states: int
    lipschitz: float
    transition_lipschitz: float
    counts: Any = None
    scale: Any = None
    bounds: tuple[float, float] = (-1.0, 1.0)
    starts: Any = None
    reward: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        shell = AggregativeMarkovGame(  # checks everything that a game would
            self.influence,
            self.reward or partial(_nothing, np.shape(self.influence)[-3:-1], self.bounds[0]),
            partial(_stay, self.states),
            self.horizon,
            self.states,
            self.counts,
            lipschitz=self.lipschitz,
            transition_lipschitz=self.transition_lipschitz,
            scale=self.scale,
            bounds=self.bounds,
        )
        starts = tuple(range(shell.states)) if self.starts is None else tuple(self.starts)
        if not starts or not all(0 <= s < shell.states for s in starts):
            raise ValueError(
                f"starts: expected states from 0 to {shell.states - 1}, found {self.starts}"
            )
        facts = {
            "influence": shell.influence,
            "counts": shell.counts,
            "scale": shell.scale,
            "bounds": shell.bounds,
            "starts": starts,
            "delta": shell.delta,
            "_shell": shell,
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    #: The most by which one agent can move the aggregate.
    delta: float = field(default=0.0, init=False)
    _shell: Any = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, game: AggregativeMarkovGame, starts: Sequence[int] | None = None) -> "Spec":
        """What may be told of a game: everything but its transitions.

        **Example**

        >>> import equipoise as eq
        >>> spec = eq.aggregative.Spec.of(eq.games.load("demand-response", agents=100))
        >>> spec.agents, hasattr(spec, "transition")
        (100, False)
        """
        return cls(
            game.influence,
            game.horizon,
            game.states,
            game.lipschitz,
            game.transition_lipschitz,
            game.counts,
            game.scale,
            game.bounds,
            starts,
            game.reward,
        )

    @property
    def types(self) -> int:
        """Number of rows."""
        return len(self.counts)

    @property
    def agents(self) -> int:
        """Number of agents."""
        return int(self.counts.sum())

    @property
    def actions(self) -> int:
        """Number of actions, the same for every agent."""
        return self.influence.shape[-2]

    @property
    def dimensions(self) -> int:
        """Number of coordinates of the aggregate."""
        return self.influence.shape[-1]

    @property
    def spread(self) -> float:
        """Difference between the largest and the smallest reward of one step."""
        return self.bounds[1] - self.bounds[0]

    def influences(self, h: int, s: int) -> np.ndarray:
        """(types, actions, d): the influences in one step and state."""
        return self.influence[h, s] if self.influence.ndim == 5 else self.influence

    def box(self, h: int, s: int) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest aggregate that can be reached in one step and state."""
        return self._shell.box(h, s)

    def rewards(self, h: int, s: int, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions), where rewards are known."""
        if self.reward is None:
            raise ValueError("rewards: expected a spec with reward(h, s, x), found none in it")
        return self._shell.rewards(h, s, points)

    def one_by_one(self) -> "Spec":
        """The same agents, each in a row of its own."""
        if (self.counts == 1).all():
            return self
        reward, rows = self.reward, np.repeat(np.arange(self.types), self.counts)
        return replace(
            self,
            influence=np.repeat(self.influence, self.counts, axis=-3),
            counts=None,
            reward=None if reward is None else partial(_spread_rows, reward, rows),
        )

    def unrewarded(self) -> "Spec":
        """The same without the rewards: what a learner of unknown rewards is handed."""
        return self if self.reward is None else replace(self, reward=None)


def as_spec(env: Any, spec: Any) -> Spec:
    """The spec given, or that of the environment."""
    spec = getattr(env, "spec", None) if spec is None else spec
    if not isinstance(spec, Spec):
        raise ValueError(
            "spec: expected a Spec, given or as env.spec, that says who the agents are; "
            f"found {type(spec).__name__}"
        )
    for name in ("reset", "step"):
        if not callable(getattr(env, name, None)):
            raise ValueError(f"env: expected a method {name}, found {type(env).__name__}")
    return spec


def _nothing(shape: tuple[int, int], value: float, h: int, s: int, x: np.ndarray) -> np.ndarray:
    return np.full(np.broadcast_shapes(shape, np.shape(x)[:-1]), value)


def _stay(states: int, h: int, s: int, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.eye(states)[s], (*np.shape(x)[:-1], states))


def _spread_rows(reward: Any, rows: np.ndarray, h: int, s: int, x: np.ndarray) -> np.ndarray:
    """Rewards of agents one by one, from those of their types at one aggregate."""
    if np.ndim(x) > 1:
        raise ValueError("x: expected one aggregate")
    return np.asarray(reward(h, s, x))[rows]


def check_rewards(rewards: str, spec: Spec) -> str:
    """Refuse anything but "known", with rewards in the spec, and "unknown"."""
    if rewards not in ("known", "unknown"):
        raise ValueError(f"rewards: expected 'known' or 'unknown', found {rewards!r}")
    if rewards == "known" and spec.reward is None:
        raise ValueError("rewards: expected 'unknown', since the spec has no reward(h, s, x)")
    checks.check_finite("bounds", np.array(spec.bounds))
    return rewards
