"""Logs from PettingZoo, Minari and Vault.

These libraries are optional: a function imports a library only when needed, and says what to
install if it is missing. Local states of a log are whole numbers. `Discrete` observations are whole
numbers already; for all others, pass a function `state(agent, observation)` that returns one, such
as the cell of a grid or the number of a cluster.

Episodes of equal length give a log with episodes. If lengths differ, rows are treated as
independent, and late steps come only from the longer episodes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.extras import import_extra
from equipoise.core.randomness import as_key
from equipoise.offline._log import Log

__all__ = ["from_minari", "from_pettingzoo", "from_vault"]

#: Maps (agent, observation) to the number of the agent's local state.
State = Callable[[Any, Any], int]
#: Maps the first observations of an episode to the number of its public context.
Context = Callable[[Any], int]


#: One episode: its context, (steps + 1, agents) states, (steps, agents) actions and rewards.
Episode = tuple[int, np.ndarray, np.ndarray, np.ndarray]


@named_arguments
def from_pettingzoo(
    env: Any,
    episodes: int,
    *,
    key: Any,
    policies: Mapping[str, Callable[[Any], int]] | None = None,
    state: State | None = None,
    context: Context | None = None,
    steps: int = 1000,
) -> Log:
    """Roll out a PettingZoo environment with the parallel API and return the log.

    - `policies`: maps agents to functions from an observation to an action. Default: uniform.
    - `state(agent, observation)`: the local state, a whole number. Default: the observation itself,
      which must then belong to a `Discrete` space.
    - `context(observations)`: the public context, computed from the first observations of all
      agents. Default: 0.
    - `steps`: largest number of steps of an episode; longer episodes are cut. Default: 1000.

    All agents must stay until an episode ends. For your own environment, PettingZoo itself need not
    be installed.

    **Example**

    >>> from types import SimpleNamespace as Space
    >>> import equipoise as eq
    >>> class Crossing:
    ...     possible_agents = ["car", "tram"]
    ...     def observation_space(self, agent): return Space(n=1, start=0)
    ...     def action_space(self, agent): return Space(n=2, start=0)
    ...     def reset(self, seed=None): return {"car": 0, "tram": 0}, {}
    ...     def step(self, actions):
    ...         crash = actions["car"] == actions["tram"] == 1
    ...         done = dict.fromkeys(actions, True)
    ...         reward = {a: -1.0 if crash else float(move) for a, move in actions.items()}
    ...         return {"car": 0, "tram": 0}, reward, done, done, {}
    >>> log = eq.offline.adapters.from_pettingzoo(Crossing(), episodes=100, key=0)
    >>> log.samples, log.agents, log.horizon, log.actions_per_agent
    (100, 2, 1, (2, 2))
    """
    agents = list(getattr(env, "possible_agents", []))
    if not agents:
        raise InputError("env", "an environment with possible_agents", "none")
    counts, starts = _actions_of({a: env.action_space(a) for a in agents})
    read = state or _states_of({a: env.observation_space(a) for a in agents})
    words = np.asarray(jax.random.key_data(as_key(key))).ravel().tolist()
    played = []
    for episode in range(checks.check_count("episodes", episodes)):
        rng = np.random.default_rng([*words, episode])
        seen = env.reset(seed=int(rng.integers(2**31)))[0]
        number = 0 if context is None else int(context(seen))
        states, actions, rewards = [[read(a, seen[a]) for a in agents]], [], []
        for _ in range(steps):
            chosen = [
                int(rng.integers(count)) + start if policies is None else int(policies[a](seen[a]))
                for a, count, start in zip(agents, counts, starts, strict=True)
            ]
            seen, earned, ended, cut, _ = env.step(dict(zip(agents, chosen, strict=True)))
            _check_present(agents, episode, seen, earned)
            states.append([read(a, seen[a]) for a in agents])
            actions.append(np.array(chosen) - starts)
            rewards.append([float(earned[a]) for a in agents])
            left = [a for a in agents if ended[a] or cut[a]]
            if 0 < len(left) < len(agents):
                raise ValueError(
                    f"env: expected all agents to stay until an episode ends; {left[0]!r} left "
                    f"episode {episode} in step {len(actions) - 1}"
                )
            if left:
                break
        played.append((number, *map(np.array, (states, actions, rewards))))
    return _log(played, counts)


@named_arguments
def from_minari(
    dataset: Any,
    *,
    agents: Sequence[str] | None = None,
    rewards: str = "rewards",
    state: State | None = None,
    context: Context | None = None,
) -> Log:
    """Convert a joint Minari dataset, with observations and actions keyed by agent, to a log.

    Minari stores one reward per step. The rewards of the agents are read from `infos[rewards]`,
    which is keyed by agent too; if it is missing, all agents get the shared reward. `dataset` is a
    `MinariDataset`, or the id of a dataset on this machine (needs the extra `minari`).

    **Example**

    >>> from types import SimpleNamespace as Space
    >>> import numpy as np, equipoise as eq
    >>> episode = Space(
    ...     observations={"a": np.array([0, 1]), "b": np.array([0, 0])},
    ...     actions={"a": np.array([1]), "b": np.array([0])},
    ...     rewards=np.array([0.0]),
    ...     infos={"rewards": {"a": np.array([1.0]), "b": np.array([-1.0])}},
    ... )
    >>> two = {"a": Space(n=2, start=0), "b": Space(n=2, start=0)}
    >>> dataset = Space(action_space=two, observation_space=two, iterate_episodes=lambda: [episode])
    >>> eq.offline.adapters.from_minari(dataset).rewards.tolist()
    [[1.0, -1.0]]
    """
    if isinstance(dataset, str):
        dataset = import_extra("minari", "Minari", "minari").load_dataset(dataset)
    space = dataset.action_space
    inner = getattr(space, "spaces", space)
    if not isinstance(inner, Mapping):
        raise InputError("dataset", "actions keyed by agent", type(space).__name__)
    names = list(inner) if agents is None else list(agents)
    counts, starts = _actions_of({a: inner[a] for a in names})
    observed = getattr(dataset.observation_space, "spaces", dataset.observation_space)
    read = state or _states_of({a: observed[a] for a in names})
    played = []
    for number, episode in enumerate(dataset.iterate_episodes()):
        _check_present(names, number, episode.observations, episode.actions)
        first = {a: episode.observations[a][0] for a in names}
        states = [[read(a, seen) for seen in episode.observations[a]] for a in names]
        actions = np.array([np.asarray(episode.actions[a]).ravel() for a in names]).T - starts
        earned = (episode.infos or {}).get(rewards)
        shared = np.asarray(episode.rewards, np.float64)
        # The first entry of infos belongs to the reset and has no reward.
        own = [shared if earned is None else np.asarray(earned[a])[-len(actions) :] for a in names]
        seen = 0 if context is None else int(context(first))
        played.append((seen, np.array(states).T, actions, np.array(own).T))
    return _log(played, counts)


@named_arguments
def from_vault(vault: Any, *, state: State | None = None, context: Context | None = None) -> Log:
    """Convert a Vault, the format of OG-MARL (flashbax), to a log.

    `vault` is a folder `.../name/uid` (needs the extra `vault`), a `flashbax.vault.Vault`, or its
    experience: arrays `observations`, `actions`, `rewards`, `terminals` and `truncations` of shape
    (1, time, agents, ...). An episode ends when all agents are terminal or truncated; an unfinished
    last episode is left out. A Vault has no observation after the last action of an episode, so the
    next state of a last step is set to the state itself, which no finite-horizon plan reads.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> time, agents = 6, 2
    >>> experience = {
    ...     "observations": np.zeros((1, time, agents), int),
    ...     "actions": np.ones((1, time, agents), int),
    ...     "rewards": np.ones((1, time, agents)),
    ...     "terminals": np.arange(time).reshape(1, time, 1).repeat(agents, 2) % 2 == 1,
    ... }
    >>> eq.offline.adapters.from_vault(experience).horizon
    2
    """
    if isinstance(vault, str | Path):
        folder = Path(vault).resolve()
        library = import_extra("flashbax.vault", "flashbax", "vault")
        vault = library.Vault(
            folder.parent.name, rel_dir=str(folder.parent.parent), vault_uid=folder.name
        )
    experience = vault.read().experience if hasattr(vault, "read") else vault
    missing = {"observations", "actions", "rewards"} - set(experience)
    if missing or not {"terminals", "truncations"} & set(experience):
        expected = "observations, actions, rewards and terminals or truncations"
        raise InputError("vault", expected, sorted(experience))
    observations, actions, rewards = (
        np.asarray(experience[name])[0] for name in ("observations", "actions", "rewards")
    )
    ended = np.zeros(len(actions), bool)
    for name in ("terminals", "truncations"):
        if name in experience:
            ended |= np.asarray(experience[name])[0].reshape(len(actions), -1).astype(bool).all(1)
    names, read = range(actions.shape[1]), state or _scalar_state
    played, ends = [], np.flatnonzero(ended) + 1
    for start, end in pairwise([0, *ends]):
        rows = slice(start, end)
        states = [[read(a, seen[a]) for a in names] for seen in observations[rows]]
        number = 0 if context is None else int(context(observations[start]))
        played.append((number, np.array([*states, states[-1]]), actions[rows], rewards[rows]))
    return _log(played, None)


def _scalar_state(agent: Any, observation: Any) -> int:
    """Return an observation that is already a single whole number."""
    array = np.asarray(observation)
    if array.size != 1 or array.dtype.kind not in "iub":
        raise ValueError(
            "state: expected a function (agent, observation) -> whole number, since observations "
            f"are {array.dtype} of shape {array.shape}; found none"
        )
    return int(array.item())


def _states_of(spaces: Mapping[Any, Any]) -> State:
    """Default conversion of observations to states, for `Discrete` spaces."""
    starts = {agent: _discrete("observation", agent, space)[1] for agent, space in spaces.items()}
    return lambda agent, observation: int(observation) - starts[agent]


def _actions_of(spaces: Mapping[Any, Any]) -> tuple[tuple[int, ...], ...]:
    """Number of actions of each agent, and the number of its first action."""
    return tuple(zip(*(_discrete("action", *own) for own in spaces.items()), strict=True))


def _discrete(what: str, agent: Any, space: Any) -> tuple[int, int]:
    """Size of a `Discrete` space, and its first element."""
    count = getattr(space, "n", None)
    if not isinstance(count, int | np.integer):
        hint = "pass state=" if what == "observation" else ""
        expected = f"a Discrete space for agent {agent!r}"
        raise InputError(f"{what}_space", expected, type(space).__name__, hint)
    return int(count), int(getattr(space, "start", 0))


def _check_present(agents: Iterable[Any], episode: int, *parts: Mapping[Any, Any]) -> None:
    for part in parts:
        for agent in agents:
            if agent not in part:
                raise ValueError(f"episode {episode}: expected agent {agent!r}, found none")


def _log(played: list[Episode], actions_per_agent: Sequence[int] | None) -> Log:
    """Make one log of all episodes, without states if there is one state and one step."""
    if not played:
        raise ValueError("episodes: expected at least one that ends, found none")
    numbers, visited, acted, earned = zip(*played, strict=True)
    lengths = [len(actions) for actions in acted]
    contexts, actions, rewards = np.repeat(numbers, lengths), *map(np.concatenate, (acted, earned))
    states, following = (
        np.concatenate([own[part] for own in visited]) for part in (slice(-1), slice(1, None))
    )
    if max(lengths) == 1 and not states.any():
        return Log(contexts, actions, rewards, actions_per_agent=actions_per_agent)
    steps = np.concatenate([np.arange(length) for length in lengths])
    whole = np.repeat(np.arange(len(played)), lengths) if len(set(lengths)) == 1 else None
    local = (states, following, steps, whole)
    return Log(contexts, actions, rewards, *local, actions_per_agent=actions_per_agent)
