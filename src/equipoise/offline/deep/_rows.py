"""Rows of logs as device arrays: padded, split, and converted to inputs of networks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise.offline._log import Log

#: Margin by which agents may exceed the range of the log's actions, as a fraction of this range.
_BEYOND = 0.05
#: Actions farther than this from all actions of an agent are not shown by the log.
HOLE = 0.1


@dataclass(frozen=True)
class Sizes:
    """Numbers of agents, contexts, steps and states that a reward may depend on.

    >>> Sizes(agents=3).local
    1
    """

    agents: int
    contexts: int = 1
    horizon: int = 1
    states: int = 1
    #: Number of numeric contexts, and of numbers that describe a numeric local state.
    covariates: int = 0
    width: int = 0

    @classmethod
    def of(cls, log: Log) -> "Sizes":
        """Sizes of a log."""
        covariates = 0 if log.covariates is None else log.covariates.shape[1]
        numeric = log.states is not None and log.states.ndim == 3
        width = log.states.shape[2] if numeric and log.states is not None else 0
        states = 1 if numeric else log.states_count
        return cls(log.agents, log.contexts_count, log.horizon, states, covariates, width)

    @property
    def local(self) -> int:
        """Number of inputs that describe one agent: its action, and its state if there are any."""
        return 1 + self.width + (self.states if self.states > 1 else 0)

    @property
    def common(self) -> int:
        """Number of inputs common to all agents: context and step, if there are several."""
        several = (n for n in (self.contexts, self.horizon) if n > 1)
        return sum(several) + self.covariates


class Rows(eqx.Module):
    """Samples; leading axes are batch axes."""

    actions: Float[Array, "*B agents"]
    contexts: Int[Array, "*B"]
    steps: Int[Array, "*B"]
    states: Int[Array, "*B agents"]
    #: Numeric contexts and numeric local states; None without.
    covariates: Float[Array, "*B _"] | None = None
    local: Float[Array, "*B agents _"] | None = None

    @classmethod
    def without_states(cls, actions: Array, contexts: Array) -> "Rows":
        """Rows of the first step, with all agents in their only state."""
        zeros = jnp.zeros(actions.shape, jnp.int32)
        return cls(actions, contexts.astype(jnp.int32), zeros[..., 0], zeros)

    def take(self, index: Array) -> "Rows":
        """Select rows."""
        return jax.tree.map(lambda x: x[index], self)


class Data(eqx.Module):
    """One log per trial: training rows first, then held-out rows, then padding."""

    rows: Rows
    rewards: Float[Array, "trials rows agents"]
    next_states: Int[Array, "trials rows agents"]
    #: (trials, agents): shift subtracted from rewards, and scale they were divided by.
    shift: Float[Array, "trials agents"]
    scale: Float[Array, "trials agents"]
    #: Numbers of training rows and of all rows of each log; traced, so that one program serves all.
    trained: Int[Array, ""]
    total: Int[Array, ""]


def prepare(
    logs: Sequence[Log],
    validation: float,
    standardise: bool,
    key: jax.Array,
    capacity: int | None = None,
) -> Data:
    """Split and pad logs of equal size; `key` determines the held-out rows."""
    samples = logs[0].samples
    trained = samples - min(max(1, round(validation * samples)), samples - 1)
    padding = 0 if capacity is None else capacity - samples
    words = np.asarray(jax.random.key_data(key)).ravel().tolist()
    parts = []
    for trial, log in enumerate(logs):
        order = np.random.default_rng([*words, trial]).permutation(samples)
        rewards = np.asarray(log.rewards, np.float64)
        kept = rewards[order[:trained]]
        shift, scale = np.zeros(log.agents), np.ones(log.agents)
        if standardise:
            shift, scale = kept.mean(0), np.maximum(kept.std(0), 1e-12)
        shape, scaled = log.actions.shape, (rewards - shift) / scale
        numeric = log.states is not None and log.states.ndim == 3
        states, following = (None, None) if numeric else (log.states, log.next_states)
        columns = [
            *((log.actions, shape, "f4"), (log.contexts, shape[:1], "i4")),
            *((log.steps, shape[:1], "i4"), (states, shape, "i4")),
            *((scaled, shape, "f4"), (following, shape, "i4")),
        ]
        numbers = (log.covariates, log.states if numeric else None)
        columns += [(x, x.shape, "f4") for x in numbers if x is not None]
        given = [
            (np.broadcast_to(0 if column is None else column, size)[order].astype(kind), size)
            for column, size, kind in columns
        ]
        padded = [np.pad(c, [(0, padding)] + [(0, 0)] * (len(size) - 1)) for c, size in given]
        parts.append([*padded, np.float32(shift), np.float32(scale)])
    stacked = [jnp.asarray(np.stack(part)) for part in zip(*parts, strict=True)]
    rewards, following, *numbers, shift, scale = stacked[4:]
    covariates = None if logs[0].covariates is None else numbers.pop(0)
    local = numbers.pop(0) if numbers else None
    sizes = (jnp.int32(trained), jnp.int32(samples))
    actions, contexts, steps, places = stacked[:4]
    rows = Rows(actions, contexts, steps, places, covariates, local)
    return Data(rows, rewards, following, shift, scale, *sizes)


def local_features(rows: Rows, sizes: Sizes) -> Float[Array, "*B agents local"]:
    """Inputs that describe each agent: its action, and its state as numbers or one-hot."""
    actions = rows.actions[..., None]
    if rows.local is not None:
        actions = jnp.concatenate([actions, rows.local], -1)
    if sizes.states == 1:
        return actions
    states = jax.nn.one_hot(rows.states, sizes.states, dtype=actions.dtype)
    return jnp.concatenate([actions, states], -1)


def common_features(rows: Rows, sizes: Sizes) -> Float[Array, "*B common"]:
    """Inputs common to all agents: the context and the step, one-hot, and numeric contexts."""
    dtype = rows.actions.dtype
    parts = [jnp.zeros((*rows.contexts.shape, 0), dtype)]
    if sizes.contexts > 1:
        parts.append(jax.nn.one_hot(rows.contexts, sizes.contexts, dtype=dtype))
    if sizes.horizon > 1:
        parts.append(jax.nn.one_hot(rows.steps, sizes.horizon, dtype=dtype))
    if rows.covariates is not None:
        parts.append(rows.covariates)
    return jnp.concatenate(parts, -1)


def side_by_side() -> bool:
    """Whether it is faster to evaluate many small networks at once.

    A GPU is fastest with all networks in one operation. On a CPU, the networks of one agent fit
    into the caches but those of all agents do not: one after the other is two to three times as
    fast.
    """
    return jax.default_backend() != "cpu"


def over_agents(function: Callable[..., Any], vectorised: bool) -> Callable[..., Any]:
    """Map `function(per_trial_and_agent, per_trial, per_agent)` over both.

    Arrays of the first argument have axes (trials, agents, ...), of the second (trials, ...), of
    the third (agents, ...).

    >>> import jax.numpy as jnp
    >>> add = over_agents(lambda x, y, z: x + y + z, vectorised=False)
    >>> add(jnp.zeros((2, 3)), jnp.array([10, 20]), jnp.arange(3)).tolist()
    [[10.0, 11.0, 12.0], [20.0, 21.0, 22.0]]
    """
    if vectorised:
        return jax.vmap(jax.vmap(function, (0, None, 0)), (0, 0, None))

    def mapped(both: Any, trials: Any, agents: Any) -> Any:
        def one_trial(given: tuple[Any, Any]) -> Any:
            own, trial = given
            return jax.lax.map(lambda x: function(x[0], trial, x[1]), (own, agents))

        return jax.lax.map(one_trial, (both, trials))

    return mapped


def shown(log: Log) -> tuple[np.ndarray, np.ndarray]:
    """(agents,): smallest and largest action in the log, extended by a small margin."""
    low, high = (np.asarray(f(log.actions, 0), np.float64) for f in (np.min, np.max))
    more = _BEYOND * (high - low)
    return np.maximum(low - more, -1.0), np.minimum(high + more, 1.0)


def tried_actions(log: Log, agent: int, count: int) -> np.ndarray:
    """(count,): actions that an agent may try, evenly spaced over what the log shows.

    Actions in a hole, which the agent hardly ever came near, are replaced by the nearest action in
    the log.

    >>> log = Log(None, [[-1.0], [-0.95], [1.0]], np.zeros((3, 1)), continuous=True)
    >>> tried_actions(log, 0, 5).tolist()
    [-1.0, -0.95, -0.95, 1.0, 1.0]
    """
    low, high = shown(log)
    grid, played = np.linspace(low[agent], high[agent], count), np.sort(log.actions[:, agent])
    after = np.clip(np.searchsorted(played, grid), 1, max(1, len(played) - 1))
    left, right = played[after - 1], played[min(1, len(played) - 1) * after]
    nearest = np.where(np.abs(grid - left) <= np.abs(grid - right), left, right)
    return np.where(np.abs(grid - nearest) <= HOLE, grid, nearest).astype(np.float64)
