"""Rewards of continuous actions that a user's own function computes."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.core.precision import double_precision

#: How many numbers of actions are handed to the function at once.
_CHUNK = 4_000_000


class RewardFunction(eqx.Module):
    """A function of all actions (and of the context, where there are several), written for JAX.

    `reward(actions)`, or `reward(actions, context)`, takes the actions (agents,) of one sample and
    returns the rewards (agents,). `lipschitz` bounds the slope, and `curvature` the second
    derivative, of each agent's reward in its own action, where they are known.

    **Example**

    >>> import numpy as np, equipoise as eq, jax.numpy as jnp
    >>> reward = eq.games.RewardFunction(lambda a: jnp.cos(a * a.sum()), agents=3)
    >>> reward.rewards(np.zeros((5, 3))).shape
    (5, 3)
    """

    reward: Callable[..., Any] = eqx.field(static=True)
    agents: int = eqx.field(static=True)
    contexts: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)
    lipschitz: float | None = eqx.field(static=True)
    curvature: float | None = eqx.field(static=True)

    def __init__(
        self,
        reward: Any,
        agents: int,
        contexts: int = 1,
        rank: int | None = None,
        lipschitz: float | None = None,
        curvature: float | None = None,
    ):
        if not callable(reward):
            raise ValueError(f"reward: expected a function, found {type(reward).__name__}")
        self.reward = reward
        self.agents = checks.check_count("agents", agents)
        self.contexts = checks.check_count("contexts", contexts)
        self.rank = self.agents if rank is None else checks.check_count("rank", rank)
        if self.rank > self.agents:
            raise ValueError(f"rank: expected at most {self.agents}, as agents, found {rank}")
        for name, value in (("lipschitz", lipschitz), ("curvature", curvature)):
            if value is not None:
                checks.check_range(name, value, 0.0, np.inf, high_open=True)
        self.lipschitz = None if lipschitz is None else float(lipschitz)
        self.curvature = None if curvature is None else float(curvature)
        self._check_shape()

    def _check_shape(self) -> None:
        """Call the function once, and refuse what does not have the shape of rewards.

        `jax.eval_shape` would not do: after it, JAX 0.10 gives constants of the function the
        wrong precision when it is compiled in the other one.
        """
        place = () if self.contexts == 1 else (jnp.int32(0),)
        found = jnp.shape(self.reward(jnp.zeros(self.agents), *place))
        if found != (self.agents,):
            raise ValueError(
                f"reward: expected a function that returns shape ({self.agents},), one reward for "
                f"each agent; found {found}"
            )

    @property
    def states(self) -> int:
        """Always 1: such rewards know no local states."""
        return 1

    def rewards(self, actions: Any, contexts: Any = None, states: Any = None) -> Any:
        """(..., agents): rewards at actions (..., agents); of NumPy arrays in double precision."""
        shape = actions.shape
        batch = shape[:-1]
        if isinstance(actions, jax.Array):
            where = None if self.contexts == 1 else jnp.broadcast_to(jnp.asarray(contexts), batch)
            return self._call(actions.reshape(-1, shape[-1]), where).reshape(shape)
        flat = np.asarray(actions).reshape(-1, shape[-1])
        where = None if self.contexts == 1 else np.broadcast_to(np.asarray(contexts), batch).ravel()
        result = np.empty(flat.shape)
        size = max(1, _CHUNK // shape[-1])
        with double_precision():
            for start in range(0, len(flat), size):
                part = slice(start, min(start + size, len(flat)))
                rows = _padded(part.start, part.stop)
                own = None if where is None else jnp.asarray(where[rows])
                rewards = self._call(jnp.asarray(flat[rows], jnp.float64), own)
                result[part] = np.asarray(rewards)[: part.stop - part.start]
        checks.check_finite("reward", result)
        return result.reshape(shape)

    def _call(self, actions: Any, contexts: Any) -> Any:
        together = _batched(self.reward)
        try:
            return together(actions) if contexts is None else together(actions, jnp.ravel(contexts))
        except jax.errors.JAXTypeError as error:
            raise ValueError(
                "reward: expected a function written with jax.numpy, which JAX can compile; found "
                f"one that needs the numbers themselves ({type(error).__name__})"
            ) from error


def _padded(start: int, stop: int) -> np.ndarray:
    """Row numbers from start to stop, the last one repeated up to a power of two.

    A function is compiled for each number of rows it is called with: few numbers, few compilations.
    """
    count = stop - start
    return np.minimum(np.arange(1 << max(count - 1, 0).bit_length()) + start, stop - 1)


@lru_cache(maxsize=64)
def _batched(reward: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled once for each function, whoever asks."""
    return jax.jit(jax.vmap(reward))
