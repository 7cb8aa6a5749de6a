"""The tables of a batch of games, as the loop wants them: scaled, flat, batch innermost."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.core.rewards import scaled
from equipoise.dynamics._arena import MarkovArena, MatrixArena
from equipoise.games import MarkovGame, MatrixGame


@dataclass(frozen=True)
class Tables:
    """Rewards scaled to [0, 1] and, for Markov games, cumulative transitions; NumPy, float64."""

    batch_shape: tuple[int, ...]
    actions: tuple[int, int]
    #: None for matrix games.
    states: int | None
    discount: float
    reward_range: tuple[float, float]
    #: (rows, columns, games), or (joint, games) for Markov games.
    rewards: np.ndarray
    #: (joint, states, games); None for matrix games.
    cumulative: np.ndarray | None

    @property
    def games(self) -> int:
        """Number of games, seeds included."""
        return self.rewards.shape[-1]

    @staticmethod
    def of(games: MatrixGame | MarkovGame, reward_range: tuple[float, float]) -> "Tables":
        """Scale and flatten; refuse rewards outside of their range."""
        matrix = isinstance(games, MatrixGame)
        rewards = scaled(np.asarray(games.payoff if matrix else games.reward), reward_range)
        axes = len(games.batch_shape)
        if isinstance(games, MatrixGame):
            return Tables(
                games.batch_shape,
                games.actions,
                None,
                0.0,
                reward_range,
                _batch_last(rewards, axes),
                None,
            )
        joint = games.states * games.actions[0] * games.actions[1]
        cumulative = np.cumsum(np.asarray(games.transition), -1)
        shape = (*games.batch_shape, joint)
        return Tables(
            games.batch_shape,
            games.actions,
            games.states,
            games.discount,
            reward_range,
            _batch_last(rewards.reshape(shape), axes),
            _batch_last(cumulative.reshape(*shape, games.states), axes),
        )

    def arena(self, index: np.ndarray) -> MatrixArena | MarkovArena:
        """The arena of some of the games, in JAX's current precision."""
        dtype = jnp.result_type(float)
        rewards = jnp.asarray(self.rewards[..., index], dtype)
        if self.cumulative is None:
            return MatrixArena(rewards)
        cumulative = jnp.asarray(self.cumulative[..., index], dtype)
        return MarkovArena(rewards, cumulative, self.actions, self.discount)

    def unflatten(self, array: Any) -> np.ndarray:
        """An array (..., games) as (batch axes, ...)."""
        array = np.moveaxis(np.asarray(array), -1, 0)
        return array.reshape((*self.batch_shape, *array.shape[1:]))


def check_start(name: str, games: MatrixGame | MarkovGame, start: Any) -> int:
    """The state in which play begins; refuse one that the games do not have.

    >>> check_start("start", MatrixGame([[0.0]]), 0)
    0
    """
    start = checks.check_count(name, start, at_least=0)
    if isinstance(games, MatrixGame) and start != 0:
        raise ValueError(f"{name}: expected 0 in matrix games, which have no states, found {start}")
    if isinstance(games, MarkovGame) and start >= games.states:
        raise ValueError(f"{name}: expected a state in [0, {games.states - 1}], found {start}")
    return start


def _batch_last(array: np.ndarray, batch_axes: int) -> np.ndarray:
    flat = array.reshape(-1, *array.shape[batch_axes:])
    return np.ascontiguousarray(np.moveaxis(flat, 0, -1))
