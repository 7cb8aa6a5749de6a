"""Play that is remembered in full: every action, reward, state and policy."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.core.streams import game_words
from equipoise.dynamics._engine import as_arrays, precision
from equipoise.dynamics._learner import Learner
from equipoise.dynamics._loop import begin
from equipoise.dynamics._noise import Noise, check_noise
from equipoise.dynamics._play import check_learners, flat_keys
from equipoise.dynamics._tables import Tables, check_start
from equipoise.dynamics._tiles import SMALLEST, cut
from equipoise.games import MarkovGame, MatrixGame


@dataclass(frozen=True)
class History:
    """What happened in every round; arrays of shape (batch axes, rounds, ...), NumPy."""

    #: (..., rounds, 2): actions of the row and of the column player.
    actions: np.ndarray
    #: (..., rounds): the row player's reward as it was seen, scaled to [0, 1].
    rewards: np.ndarray
    #: (..., rounds, actions): the policies played; in Markov games, at the state visited.
    policies: tuple[np.ndarray, np.ndarray]
    #: (..., rounds + 1): states visited, the one after the last round included; None without.
    states: np.ndarray | None


def rollout(
    games: MatrixGame | MarkovGame,
    row: Learner,
    column: Learner,
    *,
    rounds: int,
    key: Any,
    noise: Noise | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    start: int = 0,
    double: bool = False,
) -> History:
    """Play as `play` does and remember every round: memory grows with the number of rounds.

    The trajectory is that of `play` with the same key, up to rounding.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(8, key=0)
    >>> history = eq.dynamics.rollout(games, eq.dynamics.OMD(), eq.dynamics.OMD(), rounds=20, key=1)
    >>> history.actions.shape, history.policies[0].shape
    ((8, 20, 2), (8, 20, 3))
    """
    rounds = checks.check_count("rounds", rounds)
    check_learners(games, row, column)
    start, noise = check_start("start", games, start), check_noise(noise)
    tables = Tables.of(games, reward_range)
    words = game_words(flat_keys(key, games.batch_shape, None))
    (index,) = cut(tables.games, max(SMALLEST, tables.games))
    with precision(double):
        arena = tables.arena(index)
        parts, sounds = as_arrays((row, column)), as_arrays(noise)
        outcome = _scan(arena, parts, sounds, jnp.asarray(words[:, index]), start, rounds)
        events, place = jax.tree.map(lambda a: np.asarray(a)[..., : tables.games], outcome)

    def shaped(array: np.ndarray) -> np.ndarray:
        """(rounds, ..., games) as (batch axes, rounds, ...)."""
        return tables.unflatten(array)

    states = None
    if tables.states is not None:
        states = shaped(np.concatenate([events.state, place[None]]))
    return History(
        actions=shaped(np.stack(events.actions, 1)),
        rewards=shaped(events.reward),
        policies=(shaped(events.policies[0]), shaped(events.policies[1])),
        states=states,
    )


@eqx.filter_jit
def _scan(
    arena: Any, learners: Any, noise: Any, keys: Any, start: int, rounds: int
) -> tuple[Any, Any]:
    first = begin(arena, learners, noise, keys, start)

    def body(carry: Any, t: Any) -> tuple[Any, Any]:
        place, states, event = arena.round(learners, noise, keys, t, *carry)
        return (place, states), event

    carry = (first.place, first.learners)
    (place, _), events = jax.lax.scan(body, carry, jnp.arange(1, rounds + 1, dtype=jnp.int32))
    return events, place
