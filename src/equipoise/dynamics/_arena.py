"""One round of play: who sees what, and what is counted.

An arena holds the tables of a batch of games, batch innermost, rewards scaled to [0, 1]. Its
`round` draws both actions, forms the reward, and hands each learner the feedback its type
declares and nothing else.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import steps, streams
from equipoise.core.fusion import once
from equipoise.dynamics._learner import (
    Bandit,
    Foresight,
    Learner,
    MarkovBandit,
    Nothing,
    Spec,
    Values,
)
from equipoise.dynamics._noise import Noise


class Event(eqx.Module):
    """What happened in a round."""

    #: Policies played: (actions, ...) each.
    policies: tuple[jax.Array, jax.Array]
    actions: tuple[jax.Array, jax.Array]
    #: Mean reward of the joint action, and the reward that was seen.
    mean: jax.Array
    reward: jax.Array
    #: The state the round was played in; `()` in matrix games.
    state: Any = ()


class MatrixArena(eqx.Module):
    """A batch of matrix games, of shape (rows, columns, batch)."""

    payoff: jax.Array

    def specs(self) -> tuple[Spec, Spec]:
        """What each player knows beforehand."""
        rows, columns = self.payoff.shape[:2]
        return Spec(rows), Spec(columns)

    def start(self, start: int) -> tuple[()]:
        """Where play begins: matrix games have no states."""
        return ()

    def tally(self, event: Event) -> Any:
        """What is summed over the rounds: both policies and the mean reward."""
        return (*event.policies, event.mean)

    def round(
        self,
        learners: tuple[Learner, Learner],
        noise: Noise,
        keys: Any,
        t: Any,
        place: Any,
        states: tuple[Any, Any],
    ) -> tuple[Any, tuple[Any, Any], Event]:
        """Play round `t`."""
        row, column = learners
        states = self._foresee(learners, t, states)
        x, y = row.policy(states[0]), column.policy(states[1])
        a = once(steps.sample(x, streams.uniform(keys, t, streams.ROW_ACTION)))
        b = once(steps.sample(y, streams.uniform(keys, t, streams.COLUMN_ACTION)))
        mean = once(steps.pick(steps.pick(self.payoff, a), b))
        reward = noise(mean, keys, t)
        states = (
            self._inform(row, states[0], t, a, reward, x, self._row_values, y),
            self._inform(column, states[1], t, b, 1.0 - reward, y, self._column_values, x),
        )
        return place, states, Event((x, y), (a, b), mean, reward)

    def _row_values(self, y: Any) -> jax.Array:
        return sum((self.payoff[:, j] * y[j] for j in range(y.shape[0])), jnp.zeros(()))

    def _column_values(self, x: Any) -> jax.Array:
        return 1.0 - sum((self.payoff[i] * x[i] for i in range(x.shape[0])), jnp.zeros(()))

    def _foresee(self, learners: Any, t: Any, states: Any) -> tuple[Any, Any]:
        (row, column), (row_state, column_state) = learners, states
        if row.sees is Foresight:
            values = self._row_values(column.policy(column_state))
            row_state = row.update(row_state, Foresight(t, values))
        if column.sees is Foresight:
            values = self._column_values(row.policy(row_state))
            column_state = column.update(column_state, Foresight(t, values))
        return row_state, column_state

    @staticmethod
    def _inform(
        learner: Learner,
        state: Any,
        t: Any,
        action: Any,
        reward: Any,
        policy: Any,
        values: Any,
        opponent: Any,
    ) -> Any:
        """Update a learner with what it may see."""
        if learner.sees is Bandit:
            return learner.update(state, Bandit(t, action, reward))
        if learner.sees is Values:
            return learner.update(state, Values(t, once(values(opponent)), policy))
        return learner.update(state, Nothing(t)) if learner.sees is Nothing else state


class MarkovArena(eqx.Module):
    """A batch of Markov games.

    Joint indices (state, row, column) are flattened: rewards have shape (joint, batch) and
    cumulative transitions (joint, states, batch).
    """

    reward: jax.Array
    cumulative: jax.Array
    actions: tuple[int, int] = eqx.field(static=True)
    discount: float = eqx.field(static=True)

    @property
    def states(self) -> int:
        """Number of states."""
        return self.cumulative.shape[1]

    def specs(self) -> tuple[Spec, Spec]:
        """What each player knows beforehand."""
        rows, columns = self.actions
        return (
            Spec(rows, self.states, self.discount),
            Spec(columns, self.states, self.discount),
        )

    def start(self, start: int) -> jax.Array:
        """Where play begins."""
        return jnp.full(self.reward.shape[-1], start, jnp.int32)

    def tally(self, event: Event) -> Any:
        """What is summed: policies at the states visited, visits, the mean reward."""
        here = steps.one_hot(event.state, self.states)
        x, y = (jnp.where(here[:, None], policy, 0.0) for policy in event.policies)
        return x, y, here.astype(event.mean.dtype), event.mean

    def round(
        self,
        learners: tuple[Learner, Learner],
        noise: Noise,
        keys: Any,
        t: Any,
        place: Any,
        states: tuple[Any, Any],
    ) -> tuple[Any, tuple[Any, Any], Event]:
        """Play round `t` in the current state, and move on."""
        row, column = learners
        x = once(steps.pick(row.policy(states[0]), place))
        y = once(steps.pick(column.policy(states[1]), place))
        a = once(steps.sample(x, streams.uniform(keys, t, streams.ROW_ACTION)))
        b = once(steps.sample(y, streams.uniform(keys, t, streams.COLUMN_ACTION)))
        joint = once((place * self.actions[0] + a) * self.actions[1] + b)
        mean = once(_gather(self.reward, joint))
        reward = noise(mean, keys, t)
        u = streams.uniform(keys, t, streams.TRANSITION)
        ahead = _gather(self.cumulative, joint)
        following = once(sum((u >= ahead[i] for i in range(self.states - 1)), jnp.int32(0) * place))
        states = (
            _inform_markov(row, states[0], t, place, a, reward, following),
            _inform_markov(column, states[1], t, place, b, 1.0 - reward, following),
        )
        return following, states, Event((x, y), (a, b), mean, reward, place)


def _gather(table: Any, index: Any) -> jax.Array:
    """`table[index]` on the first axis for each game, by a gather: the tables may be large."""
    lifted = index.reshape((1,) * (table.ndim - index.ndim) + index.shape)
    return jnp.take_along_axis(table, lifted, axis=0, mode="promise_in_bounds")[0]


def _inform_markov(
    learner: Learner, state: Any, t: Any, place: Any, action: Any, reward: Any, following: Any
) -> Any:
    if learner.sees is MarkovBandit:
        return learner.update(state, MarkovBandit(t, place, action, reward, following))
    return learner.update(state, Nothing(t)) if learner.sees is Nothing else state
