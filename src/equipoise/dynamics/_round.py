"""A batch of games as tables, and one round of play on them: who sees what, and what is counted."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import steps, streams
from equipoise.core.fusion import once
from equipoise.core.rewards import scaled
from equipoise.dynamics._learner import Spec
from equipoise.dynamics._noise import Noise
from equipoise.dynamics._seats import Seats, Seen
from equipoise.games import MarkovGame, MatrixGame


class Tables(eqx.Module):
    """A batch of games in one row: rewards of the row player in [0, 1], games on the last axis.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.dynamics.loop import Tables
    >>> tables = Tables.of(eq.games.families.uniform(actions=(2, 3), states=4).sample(8, key=0))
    >>> tables.actions, tables.states, tables.games
    ((2, 3), 4, 8)
    """

    #: (rows, columns, games), or (states, rows, columns, games).
    reward: Any
    #: (states, rows, columns, states, games); None for matrix games.
    transition: Any = None
    discount: float = eqx.field(static=True, default=0.0)

    @property
    def games(self) -> int:
        """Number of games."""
        return self.reward.shape[-1]

    @property
    def actions(self) -> tuple[int, int]:
        """Of the row and of the column player."""
        return self.reward.shape[-3], self.reward.shape[-2]

    @property
    def states(self) -> int | None:
        """Number of states; None for matrix games."""
        return None if self.transition is None else self.reward.shape[0]

    @staticmethod
    def of(
        games: MatrixGame | MarkovGame, reward_range: tuple[float, float] | None = None
    ) -> "Tables":
        """The tables of games with any batch axes; rewards are scaled from a range, if given.

        Scaling refuses rewards outside of their range, and needs to see them: without it, games
        may be drawn inside a compiled function.
        """
        axes = len(games.batch_shape)

        def last(array: Any) -> Any:
            flat = array.reshape(-1, *array.shape[axes:])
            return (np if isinstance(flat, np.ndarray) else jnp).moveaxis(flat, 0, -1)

        reward = games.payoff if isinstance(games, MatrixGame) else games.reward
        if reward_range is not None:
            reward = scaled(np.asarray(reward), reward_range)
        if isinstance(games, MatrixGame):
            return Tables(last(reward))
        return Tables(last(reward), last(games.transition), games.discount)

    @staticmethod
    def blank(
        games: int, actions: tuple[int, int], states: int | None = None, discount: float = 0.0
    ) -> "Tables":
        """Games of a shape and nothing more: all that a learner needs to follow a history.

        >>> Tables.blank(4, (2, 3), 5, 0.9).specs()[1].actions
        3
        """
        if states is None:
            return Tables(jnp.zeros((*actions, games)))
        reward = jnp.zeros((states, *actions, games))
        return Tables(reward, jnp.zeros((*reward.shape[:-1], states, games)), discount)

    def some(self, index: Any) -> "Tables":
        """Some of the games."""
        moves = None if self.transition is None else self.transition[..., index]
        return Tables(self.reward[..., index], moves, self.discount)

    def on_device(self, index: np.ndarray) -> "Tables":
        """Some of the games as JAX arrays, in JAX's current precision."""
        dtype = jnp.result_type(float)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), self.some(index))

    def specs(self, start: int = 0, rounds: int = 0) -> tuple[Spec, Spec]:
        """What each player knows beforehand."""
        rows, columns = self.actions
        more = (self.states, self.discount, start, rounds)
        return Spec(rows, *more), Spec(columns, *more)

    def start(self, start: int) -> Any:
        """Where play begins; `()` in matrix games, which have no states."""
        return () if self.states is None else jnp.full(self.games, start, jnp.int32)

    def values(self, own: int, met: Any, place: Any = None) -> jax.Array:
        """(actions, games): what each action of a seat earns against a policy, in a state.

        Without a `place`, at all states: (states, actions, games), with `met` at all states too.
        """
        table = self.reward if place is None else _gather(self.reward, place)
        axis = table.ndim - 2 - own  # the other seat's actions, on which the sum is written out
        met = jnp.expand_dims(met, -3 if own == 0 else -2)

        def part(i: int) -> jax.Array:
            mine, theirs = (jax.lax.index_in_dim(a, i, axis, False) for a in (table, met))
            return mine * theirs

        total = sum((part(i) for i in range(table.shape[axis])), jnp.zeros(()))
        return total if own == 0 else 1.0 - total

    def against(self, own: int, met: Any) -> tuple[Any, ...]:
        """What a seat faces that knows the policy it meets: the fields of `Foresight`."""
        if self.transition is None:
            return (self.values(own, met),)
        law = "srcng,scg->srng" if own == 0 else "srcng,srg->scng"
        return self.values(own, met), jnp.einsum(law, self.transition, met), self.discount


class Event(eqx.Module):
    """What happened in a round; policies are those at the state visited, (actions, games)."""

    played: tuple[jax.Array, jax.Array]
    #: Before exploration was mixed in; None where nobody explores.
    held: tuple[jax.Array, jax.Array] | None
    actions: tuple[jax.Array, jax.Array]
    #: Mean reward of the joint action, and the reward that was seen.
    mean: jax.Array
    reward: jax.Array
    #: The state the round was played in; `()` in matrix games.
    state: Any = ()


def play_round(
    tables: Tables, seats: Seats, noise: Noise, keys: Any, t: Any, place: Any, states: Any
) -> tuple[Any, Any, Event]:
    """Play round `t`: the place and the states after it, and what happened."""
    markov = tables.states is not None
    states = seats.foresee(states, t, tables.against)
    x, y = seats.policies(states)
    if markov:
        x, y = once(steps.pick(x, place)), once(steps.pick(y, place))
    held = None if seats.exploration == (None, None) else (x, y)
    x, y = seats.played((x, y), t)
    a = once(steps.sample(x, streams.uniform(keys, t, streams.ROW_ACTION)))
    b = once(steps.sample(y, streams.uniform(keys, t, streams.COLUMN_ACTION)))
    if markov:
        rows, columns = tables.actions
        joint = once((place * rows + a) * columns + b)
        mean = once(_gather(tables.reward.reshape(-1, tables.games), joint))
        chances = _gather(tables.transition.reshape(-1, *tables.transition.shape[3:]), joint)
        then = once(steps.sample(chances, streams.uniform(keys, t, streams.TRANSITION)))
        where = (place, then)
    else:
        mean = once(steps.pick(steps.pick(tables.reward, a), b))
        then, where = place, (None, None)
    reward = noise(mean, keys, t)
    seen = (
        Seen(a, reward, *where, x, lambda: once(tables.values(0, y))),
        Seen(b, 1.0 - reward, *where, y, lambda: once(tables.values(1, x))),
    )
    states = seats.update(states, t, seen)
    return then, states, Event((x, y), held, (a, b), mean, reward, place)


def upcoming(tables: Tables, seats: Seats, t: Any, states: Any) -> tuple[jax.Array, jax.Array]:
    """The policies of the round after round `t`, at all states."""
    return seats.policies(seats.foresee(states, t + 1, tables.against))


def tally(tables: Tables, event: Event) -> Any:
    """What is summed over rounds: policies, the mean reward, and in Markov games the visits."""
    if tables.states is None:
        return (*event.played, event.mean)
    here = steps.one_hot(event.state, tables.states)
    x, y = (jnp.where(here[:, None], policy, 0.0) for policy in event.played)
    return x, y, here.astype(event.mean.dtype), event.mean


def expected(tables: Tables, event: Event) -> jax.Array:
    """(games,): mean reward of the row player given both policies played."""
    place = None if tables.states is None else event.state
    return steps.total(event.played[0] * tables.values(0, event.played[1], place))


def _gather(table: Any, index: Any) -> jax.Array:
    """`table[index]` on the first axis for each game, by a gather: the tables may be large."""
    lifted = index.reshape((1,) * (table.ndim - index.ndim) + index.shape)
    return jnp.take_along_axis(table, lifted, axis=0, mode="promise_in_bounds")[0]
