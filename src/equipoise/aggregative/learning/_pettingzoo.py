"""PettingZoo's parallel environments: use one with `learn`, or export a simulator as one."""

from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.aggregative.learning._spec import Simulator, Spec
from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.extras import import_extra


class Wrapped:
    """A parallel environment with `reset()` and `step(actions)`; `from_pettingzoo` returns it."""

    #: The declared facts about the environment that a learner uses.
    spec: Spec

    def __init__(self, env: Any, spec: Spec, state: Callable[..., Any], key: int):
        self.spec = spec
        self._env, self._state, self._key = env, state, key
        self._agents: list[Any] = list(env.possible_agents)
        if len(self._agents) != spec.agents:
            raise InputError(
                "env", f"{spec.agents} possible agents, as in the influence", len(self._agents)
            )
        for agent in self._agents:
            size = getattr(env.action_space(agent), "n", None)
            if size != spec.actions:
                raise InputError(
                    "env",
                    f"{spec.actions} discrete actions for agent {agent}",
                    env.action_space(agent),
                )
        self.config = {"key": key}
        self._episode = self._last = 0

    def seek(self, episode: int) -> None:
        """Make the next `reset` begin this episode, counted from 0."""
        self._episode = checks.check_count("episode", episode, at_least=0)

    def reset(self) -> int:
        """Begin an episode, seeded by the key and its number."""
        seed = int(np.random.SeedSequence((self._key, self._episode)).generate_state(1)[0])
        self._episode += 1
        observations, infos = self._env.reset(seed=seed & 0x7FFFFFFF)
        self._last = self._read(observations, infos)
        return self._last

    def step(self, actions: Any) -> tuple[int, np.ndarray]:
        """Take (agents,) actions and return the next state and (agents,) rewards."""
        actions = np.asarray(actions)
        checks.check_shape("actions", actions, (self.spec.agents,), "one for each agent")
        living = set(self._env.agents)
        if len(living) != len(self._agents):
            raise ValueError(
                f"env: expected all {len(self._agents)} agents for {self.spec.horizon} steps, "
                f"found {len(living)} before the end"
            )
        plan = {agent: int(a) for agent, a in zip(self._agents, actions, strict=True)}
        observations, rewards, _, _, infos = self._env.step(plan)
        # Environments may stop observing at the end of an episode; nobody acts in that state.
        if observations:
            self._last = self._read(observations, infos)
        return self._last, np.array([rewards[agent] for agent in self._agents], np.float64)

    def _read(self, observations: Any, infos: Any) -> int:
        found = self._state(observations, infos)
        state = int(np.asarray(found).reshape(-1)[0]) if np.size(found) == 1 else -1
        if not 0 <= state < self.spec.states:
            raise ValueError(
                f"state: expected a whole number from 0 to {self.spec.states - 1}, found {found!r}"
            )
        return state


@named_arguments
def from_pettingzoo(
    env: Any,
    influence: Any,
    *,
    horizon: int,
    states: int,
    lipschitz: float,
    transition_lipschitz: float,
    state: Callable[..., Any] | None = None,
    key: int = 0,
    **declared: Any,
) -> Wrapped:
    """Let `learn` play a PettingZoo parallel environment, given the influence of its agents.

    PettingZoo environments do not declare aggregates, so you must declare them: `influence` is
    (agents or types, actions, d), with agents in the order of `env.possible_agents` and, with
    `counts`, type by type. `state(observations, infos)` returns the state that all agents share, a
    whole number. Default: the observation of the first agent. `declared` are the other fields of
    `Spec`: `counts`, `scale`, `bounds`, `starts`, `reward`.

    **Example**

    >>> import equipoise as eq
    >>> city = eq.games.load("demand-response", agents=20)
    >>> parallel = eq.aggregative.to_pettingzoo(eq.aggregative.Simulator(city))
    >>> env = eq.aggregative.from_pettingzoo(
    ...     parallel, city.influence, horizon=city.horizon, states=city.states,
    ...     lipschitz=city.lipschitz, transition_lipschitz=city.transition_lipschitz,
    ...     counts=city.counts,
    ... )
    >>> run = eq.learn(env, episodes=3, rewards="unknown")
    >>> run.episodes
    3
    """
    for name in ("possible_agents", "action_space", "reset", "step"):
        if not hasattr(env, name):
            raise InputError("env", "a PettingZoo ParallelEnv", f"no {name} in it")
    spec = Spec(influence, horizon, states, lipschitz, transition_lipschitz, **declared)
    first = env.possible_agents[0]
    return Wrapped(env, spec, state or (lambda observations, infos: observations[first]), key)


def to_pettingzoo(simulator: Any) -> Any:
    """Export the simulator as a PettingZoo `ParallelEnv` in which every agent observes the state.

    Agents are named "agent_0" and so on, row by row of the game. Episodes are truncated at the
    horizon. Requires the extra `pettingzoo`.

    **Example**

    >>> import equipoise as eq
    >>> city = eq.games.load("demand-response", agents=20)
    >>> env = eq.aggregative.to_pettingzoo(eq.aggregative.Simulator(city))
    >>> observations, infos = env.reset(seed=1)
    >>> len(observations), env.action_space("agent_0")
    (20, Discrete(3))
    """
    spaces = import_extra("gymnasium.spaces", "PettingZoo", "pettingzoo")
    parallel: Any = import_extra("pettingzoo", "PettingZoo", "pettingzoo").ParallelEnv
    if not isinstance(simulator, Simulator):
        raise InputError("simulator", "a Simulator", type(simulator).__name__)
    spec = simulator.spec
    agents = [f"agent_{i}" for i in range(spec.agents)]
    seen, moves = spaces.Discrete(spec.states), spaces.Discrete(spec.actions)

    class Crowd(parallel):
        metadata = {"name": "equipoise_crowd_v0", "render_modes": []}  # noqa: RUF012
        render_mode = None

        def __init__(self) -> None:
            self.possible_agents = list(agents)
            self.agents: list[str] = []
            self.observation_spaces = dict.fromkeys(agents, seen)
            self.action_spaces = dict.fromkeys(agents, moves)
            self._step = 0

        def observation_space(self, agent: str) -> Any:
            return self.observation_spaces[agent]

        def action_space(self, agent: str) -> Any:
            return self.action_spaces[agent]

        def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
            if seed is not None:
                simulator.seek(int(seed))
            self.agents, self._step = list(agents), 0
            return dict.fromkeys(agents, np.int64(simulator.reset())), {a: {} for a in agents}

        def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
            state, rewards = simulator.step(np.array([int(actions[a]) for a in agents]))
            self._step += 1
            over = self._step == spec.horizon
            self.agents = [] if over else list(agents)
            earned = dict(zip(agents, rewards.tolist(), strict=True))
            same = (dict.fromkeys(agents, value) for value in (np.int64(state), False, over))
            observations, ended, truncated = same
            return observations, earned, ended, truncated, {agent: {} for agent in agents}

        def state(self) -> np.ndarray:
            return np.array([simulator.state])

    return Crowd()
