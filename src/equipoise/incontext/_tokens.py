"""What a player writes down of a round: the tokens its transformer reads.

A player sees its own action, its own reward (in [0, 1], larger is better), and in Markov games the
states. All functions are written for one round of one game; the caller `vmap`s.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Tokens(eqx.Module):
    """A way to write rounds as vectors of features.

    Before the first round there are the tokens of `opening`, after each round `per_round` more; the
    output at the last token is the policy of the round to come.
    """

    #: Actions this player can have at most, and states (None in matrix games).
    actions: eqx.AbstractVar[int]
    states: eqx.AbstractVar[int | None]

    @property
    @abstractmethod
    def features(self) -> int:
        """Length of the vector of a token."""

    @property
    @abstractmethod
    def per_round(self) -> int:
        """Number of tokens of a round."""

    @abstractmethod
    def opening(self, state: Any) -> Float[Array, "opening features"]:
        """Tokens before the first round, which begins in `state` (None in matrix games)."""

    def length(self, rounds: int) -> int:
        """Number of tokens when so many rounds have been played."""
        most = getattr(self, "rounds", None)  # tokens of hand-built networks number the rounds
        if most is not None and rounds > most:
            raise ValueError(f"rounds: expected at most {most}, as built, found {rounds}")
        first = jax.eval_shape(self.opening, None if self.states is None else jnp.int32(0))
        return first.shape[0] + self.per_round * rounds


class PlainTokens(Tokens):
    """Tokens of a round that depend on nothing but what happened in it."""

    @abstractmethod
    def round(
        self, t: Any, action: Any, reward: Any, state: Any, next_state: Any
    ) -> Float[Array, "per_round features"]:
        """Tokens of round `t` (from 1); states are None in matrix games."""


class RoundTokens(PlainTokens):
    """One token a round, the theory's `h(a_t, o_t)`: the reward is kept exactly.

    Features are the action, the reward, the reward at the place of the action, the states around
    the round, and three smooth functions of the round's number, so that sequences of any length
    can be written.

    **Example**

    >>> import jax.numpy as jnp
    >>> tokens = RoundTokens(actions=2)
    >>> token = tokens.round(1, jnp.int32(1), 0.25, None, None)
    >>> token.shape, token[0, :6].tolist()
    ((1, 9), [0.0, 0.0, 1.0, 0.25, 0.0, 0.25])
    """

    actions: int = eqx.field(static=True)
    states: int | None = eqx.field(static=True, default=None)

    @property
    def features(self) -> int:
        """Length of the vector of a token."""
        places = self.actions * (self.states or 1)
        states = 0 if self.states is None else 2 * self.states
        return 2 + 2 * places + states + 3

    @property
    def per_round(self) -> int:
        """One."""
        return 1

    def opening(self, state: Any) -> Float[Array, "1 features"]:
        """One token that says that nothing has happened."""
        token = jnp.zeros(self.features).at[0].set(1.0)
        if self.states is not None:
            token = token.at[self.features - 3 - self.states + state].set(1.0)
        return jnp.concatenate([token[:-3], clock(0)])[None]

    def round(
        self, t: Any, action: Any, reward: Any, state: Any, next_state: Any
    ) -> Float[Array, "1 features"]:
        """The token of a round."""
        place = action if self.states is None else state * self.actions + action
        here = jax.nn.one_hot(place, self.actions * (self.states or 1))
        reward = jnp.asarray(reward, here.dtype)
        parts = [jnp.zeros(1), here, reward[None], reward * here]
        if self.states is not None:
            parts += [jax.nn.one_hot(s, self.states) for s in (state, next_state)]
        return jnp.concatenate([*parts, clock(t)])[None]


class VocabularyTokens(PlainTokens):
    """The in-context paper's tokens: states, actions and discretised rewards in one vocabulary.

    A round is `a_t, r_t` in matrix games and `a_t, r_t, s_{t+1}` in Markov games, after a start
    token or the first state. A token is a one-hot vector over the vocabulary, so that the
    embedding looks it up, and the clock of its round.

    **Example**

    >>> tokens = VocabularyTokens(actions=2, bins=4)
    >>> token = tokens.round(1, jnp.int32(1), 0.3, None, None)
    >>> tokens.per_round, token[:, :7].argmax(1).tolist()
    (2, [2, 4])
    """

    actions: int = eqx.field(static=True)
    states: int | None = eqx.field(static=True, default=None)
    bins: int = eqx.field(static=True, default=20)

    @property
    def features(self) -> int:
        """Size of the vocabulary, and the clock."""
        return 1 + self.actions + self.bins + (self.states or 0) + 3

    @property
    def per_round(self) -> int:
        """Two, or three with states."""
        return 2 if self.states is None else 3

    def opening(self, state: Any) -> Float[Array, "1 features"]:
        """The start token, or the first state."""
        word = 0 if self.states is None else 1 + self.actions + self.bins + state
        return self._write(jnp.asarray(word)[None], 0)

    def round(
        self, t: Any, action: Any, reward: Any, state: Any, next_state: Any
    ) -> Float[Array, "per_round features"]:
        """Action, reward and, in Markov games, the state after."""
        level = jnp.clip(jnp.floor(jnp.asarray(reward) * self.bins), 0, self.bins - 1)
        words = [1 + action, 1 + self.actions + level.astype(jnp.int32)]
        if self.states is not None:
            words.append(1 + self.actions + self.bins + next_state)
        return self._write(jnp.stack([jnp.asarray(word, jnp.int32) for word in words]), t)

    def _write(self, words: Array, t: Any) -> Array:
        now = jnp.broadcast_to(clock(t), (words.shape[0], 3))
        return jnp.concatenate([jax.nn.one_hot(words, self.features - 3), now], -1)


def clock(t: Any) -> Float[Array, " 3"]:
    """Smooth functions of the number of rounds played, all of order one up to thousands."""
    count = jnp.asarray(t, jnp.result_type(float)) + 1.0
    return jnp.stack([jnp.log(count) / 4.0 - 1.0, jax.lax.rsqrt(count), 1.0 / count])
