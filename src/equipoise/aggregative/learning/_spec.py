"""The facts declared to a learner, the interface of an environment, and a simulator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.games import AggregativeGame, AggregativeMarkovGame


class Environment(Protocol):
    """Protocol with `reset()` and `step(actions)`; states are whole numbers from 0.

    **Example**

    >>> import equipoise as eq
    >>> city = eq.games.load("demand-response", agents=100)
    >>> env = eq.aggregative.Simulator(city, key=0)
    >>> isinstance(env.reset(), int), hasattr(env, "step")
    (True, True)
    """

    def reset(self) -> int:
        """Begin an episode and return its first state."""
        ...

    def step(self, actions: np.ndarray) -> tuple[int, np.ndarray]:
        """Take (agents,) actions and return the next state and (agents,) rewards."""
        ...


@named_arguments
@dataclass(frozen=True)
class Spec:
    """Declaration of an environment: its agents and Lipschitz constants, without its transitions.

    Agents come row by row: row t stands for `counts[t]` identical agents, and the actions and
    rewards of `step` are in that order.

    - `influence`: (types, actions, d), or by step and state (horizon, states, types, actions, d).
      The aggregate is `scale` times the sum of influences. Default scale: one over the number of
      agents.
    - `lipschitz`, `transition_lipschitz`: Lipschitz constants of rewards, and of transitions in
      total variation, in the sup norm of the aggregate. Every guarantee depends on them.
    - `bounds`: interval that contains the expected rewards of one step. Default: (-1, 1).
    - `starts`: states in which episodes may begin. Default: all states.
    - `reward(h, s, x)`: returns (types, actions); None if rewards are to be learned.

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
    #: Number of steps of an episode.
    horizon: int
    #: Number of states.
    states: int
    lipschitz: float
    transition_lipschitz: float
    #: (types,): number of agents of each type. Default: one.
    counts: Any = None
    scale: Any = None
    bounds: tuple[float, float] = (-1.0, 1.0)
    starts: Any = None
    #: Reward function `reward(h, s, x)`; None if rewards are to be learned.
    reward: Callable[..., Any] | None = None
    #: Whether the constants are declared. Nothing is proven from constants that were sampled.
    declared: bool = True
    #: Whether the game has a single step and no states, and its policies one action an agent.
    one_shot: bool = False

    def __post_init__(self) -> None:
        shape, states = np.shape(self.influence)[-3:-1], self.states

        def nothing(h: int, s: int, x: np.ndarray) -> np.ndarray:
            return np.full(np.broadcast_shapes(shape, np.shape(x)[:-1]), self.bounds[0])

        def stay(h: int, s: int, x: np.ndarray) -> np.ndarray:
            return np.broadcast_to(np.eye(states)[s], (*np.shape(x)[:-1], states))

        same = ("lipschitz", "transition_lipschitz", "scale", "bounds")
        shell = AggregativeMarkovGame(  # checks everything that a game checks
            self.influence,
            self.reward or nothing,
            stay,
            *(self.horizon, states, self.counts),
            **{name: getattr(self, name) for name in same},
        )
        starts = tuple(range(shell.states)) if self.starts is None else tuple(self.starts)
        if not starts or not all(0 <= s < shell.states for s in starts):
            raise ValueError(
                f"starts: expected states from 0 to {shell.states - 1}, found {self.starts}"
            )
        kept = ("influence", "counts", "scale", "bounds", "delta")
        facts = {name: getattr(shell, name) for name in kept}
        for name, value in (facts | {"starts": starts, "_shell": shell}).items():
            object.__setattr__(self, name, value)

    #: Largest distance by which one agent can move the aggregate.
    delta: float = field(default=0.0, init=False)
    _shell: Any = field(default=None, init=False, repr=False)

    @classmethod
    def of(
        cls, game: AggregativeGame | AggregativeMarkovGame, starts: Sequence[int] | None = None
    ) -> "Spec":
        """Declare a game: everything but its transitions.

        If the game's Lipschitz constants were sampled, the spec is not `declared`.

        **Example**

        >>> import equipoise as eq
        >>> spec = eq.aggregative.Spec.of(eq.games.load("demand-response", agents=100))
        >>> spec.agents, hasattr(spec, "transition")
        (100, False)
        """
        stages = as_stages(game)
        names = {f.name for f in fields(cls) if f.init} - {"starts", "declared", "one_shot"}
        return cls(
            **{name: getattr(stages, name) for name in names},
            starts=starts,
            declared=not game.lipschitz_estimated,
            one_shot=isinstance(game, AggregativeGame),
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
    def places(self) -> list[tuple[int, int]]:
        """All steps and states, in order."""
        return [(h, s) for h in range(self.horizon) for s in range(self.states)]

    @property
    def spread(self) -> float:
        """Difference between the largest and the smallest reward of one step."""
        return self.bounds[1] - self.bounds[0]

    def influences(self, h: int, s: int) -> np.ndarray:
        """(types, actions, d): the influences in one step and state."""
        return self.influence[h, s] if self.influence.ndim == 5 else self.influence

    def aggregate(self, h: int, s: int, plays: np.ndarray) -> np.ndarray:
        """(d,): the aggregate of numbers of agents by type and action."""
        flat = self.influences(h, s).reshape(-1, self.dimensions)
        return self.scale * (plays.ravel().astype(np.float64) @ flat)

    def box(self, h: int, s: int) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper edges of the reachable aggregates in one step and state."""
        return self._shell.box(h, s)

    def rewards(self, h: int, s: int, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions), if rewards are known."""
        if self.reward is None:
            raise ValueError("rewards: expected a spec with reward(h, s, x), found none in it")
        return self._shell.rewards(h, s, points)

    def one_by_one(self) -> "Spec":
        """The same agents, each in a row of its own."""
        if (self.counts == 1).all():
            return self
        reward, rows = self.reward, np.repeat(np.arange(self.types), self.counts)

        def spread(h: int, s: int, x: np.ndarray) -> np.ndarray:
            if np.ndim(x) > 1:
                raise ValueError("x: expected one aggregate")
            return np.asarray(reward(h, s, x))[rows]  # pyright: ignore[reportOptionalCall]

        influence = np.repeat(self.influence, self.counts, axis=-3)
        return replace(self, influence=influence, counts=None, reward=reward and spread)

    def rescaled(self) -> "Spec":
        """The same agents with known rewards moved into [0, 1]."""
        reward, (low, _), spread = self.reward, self.bounds, self.spread

        def scaled(h: int, s: int, x: np.ndarray) -> np.ndarray:
            return (np.asarray(reward(h, s, x)) - low) / spread  # pyright: ignore[reportOptionalCall]

        lipschitz = self.lipschitz / spread
        return replace(self, reward=reward and scaled, bounds=(0.0, 1.0), lipschitz=lipschitz)

    def unrewarded(self) -> "Spec":
        """The same spec without rewards, for a learner of unknown rewards."""
        return self if self.reward is None else replace(self, reward=None)


def as_spec(env: Any, spec: Any) -> Spec:
    """Return the given spec, or the environment's."""
    spec = getattr(env, "spec", None) if spec is None else spec
    if not isinstance(spec, Spec):
        raise InputError(
            "spec",
            "a Spec that declares the agents, given or as env.spec",
            type(spec).__name__,
        )
    for name in ("reset", "step"):
        if not callable(getattr(env, name, None)):
            raise InputError("env", f"a method {name}", type(env).__name__)
    return spec


def as_stages(game: Any) -> AggregativeMarkovGame:
    """Return the game; a one-shot game as one with a single step and state."""
    if isinstance(game, AggregativeMarkovGame):
        return game
    if not isinstance(game, AggregativeGame):
        expected = "an AggregativeGame or AggregativeMarkovGame"
        raise InputError("game", expected, type(game).__name__)
    return AggregativeMarkovGame(
        game.influence,
        partial(_once, game.field.function),
        _stay,
        *(1, 1, game.counts),
        lipschitz=game.lipschitz,
        transition_lipschitz=0.0,
        scale=game.scale,
        bounds=game.bounds,
        elementwise=game.field.elementwise,
        labels=game.labels.to_plain(),
    )


def _once(reward: Callable[..., Any], h: int, s: int, x: np.ndarray) -> Any:
    """The reward of a game with a single step and state."""
    return reward(x)


def _stay(h: int, s: int, x: np.ndarray) -> np.ndarray:
    """The transition of a game with a single state."""
    return np.ones((*np.shape(x)[:-1], 1))


@named_arguments
class Simulator:
    """Simulator of a game, with `reset()`, `step(actions)` and the declared `spec`.

    A one-shot game is simulated as one of a single step in a single state.

    - `key`: seed of the random numbers. Episode k is a function of the key and k alone, so an
      interrupted learner resumes exactly where it stopped (`seek`).
    - `start`: the state in which episodes begin, or probabilities of the states. Default: the
      uniform distribution.
    - `noise`: standard deviation of Gaussian noise in the observed rewards. Default: 0.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> env = eq.aggregative.Simulator(eq.games.load("demand-response", agents=100), key=0, start=1)
    >>> env.reset()
    1
    >>> state, rewards = env.step(np.zeros(100, int))
    >>> state in (0, 1, 2), rewards.shape
    (True, (100,))
    """

    #: The declared facts about the game that a learner uses.
    spec: Spec

    def __init__(self, game: Any, key: int = 0, *, start: Any = None, noise: float = 0.0):
        given, game = game, as_stages(game)
        checks.check_range("noise", noise, 0.0, np.inf, high_open=True)
        self._key = checks.check_count("key", key, at_least=0)
        self._start = _as_start(start, game.states)
        self._noise = float(noise)
        # Bound once: attribute lookup on games is slow, and there are many steps.
        self._rewards, self._transitions = game.rewards, game.transitions
        self._rows = np.repeat(np.arange(game.types), game.counts)
        starts = np.flatnonzero(self._start > 0)
        self.spec = Spec.of(given, None if len(starts) == game.states else starts.tolist())
        self._episode, self._h, self._state = 0, game.horizon, 0
        self._rng = np.random.default_rng(0)

    @property
    def state(self) -> int:
        """The current state."""
        return self._state

    @property
    def config(self) -> dict[str, Any]:
        """Facts that identify the simulator: a run is not resumed with a different one."""
        total = 0.0
        weights = np.cos(np.arange(self.spec.states))
        for h, s in self.spec.places:
            low, high = self.spec.box(h, s)
            x = low + 0.37 * (high - low)
            total += float(self._rewards(h, s, x).sum() + self._transitions(h, s, x) @ weights)
        own = {"key": self._key, "noise": self._noise, "start": self._start.tolist()}
        return own | {"game fingerprint": round(total, 9)}

    def seek(self, episode: int) -> None:
        """Make the next `reset` begin this episode, counted from 0."""
        self._episode = checks.check_count("episode", episode, at_least=0)

    def reset(self) -> int:
        """Begin the next episode and return its first state."""
        self._rng = np.random.default_rng((self._key, self._episode))
        self._episode += 1
        self._h, self._state = 0, _draw(self._rng, self._start)
        return self._state

    def step(self, actions: Any) -> tuple[int, np.ndarray]:
        """Take (agents,) actions and return the next state and (agents,) observed rewards.

        Nobody acts in the state after the last step.
        """
        spec, h, s = self.spec, self._h, self._state
        if h >= spec.horizon:
            raise ValueError(f"step: expected reset() after {spec.horizon} steps, found a step")
        actions = np.asarray(actions)
        m = spec.actions
        checks.check_shape("actions", actions, (len(self._rows),), "one for each agent")
        if actions.dtype.kind not in "iu" or actions.min() < 0 or actions.max() >= m:
            raise ValueError(f"actions: expected whole numbers from 0 to {m - 1}")
        cells = self._rows * m + actions
        x = spec.aggregate(h, s, np.bincount(cells, minlength=spec.types * m))
        rewards = self._rewards(h, s, x).ravel()[cells]
        if self._noise:
            rewards = rewards + self._noise * self._rng.standard_normal(len(cells))
        self._state = _draw(self._rng, self._transitions(h, s, x))
        self._h += 1
        return self._state, rewards


def _as_start(start: Any, states: int) -> np.ndarray:
    """(states,): probabilities of first states."""
    if start is None:
        return np.full(states, 1.0 / states)
    if np.ndim(start) == 0:
        state = checks.check_count("start", start, at_least=0)
        if state >= states:
            raise InputError("start", f"a state from 0 to {states - 1}", start)
        return np.eye(states)[state]
    chances = checks.as_float_array("start", start)
    checks.check_shape("start", chances, (states,), "a probability for each state")
    return np.asarray(checks.check_probabilities("start", chances))


def _draw(rng: np.random.Generator, chances: np.ndarray) -> int:
    """Draw one state with one uniform number."""
    drawn = int(np.searchsorted(np.cumsum(chances), rng.random(), side="right"))
    return min(drawn, len(chances) - 1)
