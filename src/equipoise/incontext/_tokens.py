"""Encode rounds as tokens, the input of a player's transformer.

A player sees its own action, its own reward (in [0, 1], larger is better), and in Markov games the
states. All functions are for one round of one game; the caller `vmap`s.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Tokens(eqx.Module):
    """An encoding of rounds as feature vectors.

    A sequence starts with the tokens of `opening`, and each round adds `per_round` tokens. The
    output at the last token is the policy of the next round.
    """

    #: Largest number of actions and of states (None in matrix games) of a player.
    actions: eqx.AbstractVar[int]
    states: eqx.AbstractVar[int | None]

    @property
    @abstractmethod
    def features(self) -> int:
        """Length of the vector of a token."""

    @property
    @abstractmethod
    def per_round(self) -> int:
        """Number of tokens per round."""

    @abstractmethod
    def opening(self, state: Any) -> Float[Array, "opening features"]:
        """Return the tokens before round 1, which starts in `state` (None in matrix games)."""

    def length(self, rounds: int) -> int:
        """Return the number of tokens after `rounds` rounds."""
        most = getattr(self, "rounds", None)  # tokens of hand-built networks number the rounds
        if most is not None and rounds > most:
            raise ValueError(f"rounds: expected at most {most} (the built size), found {rounds}")
        first = jax.eval_shape(self.opening, None if self.states is None else jnp.int32(0))
        return first.shape[0] + self.per_round * rounds


class PlainTokens(Tokens):
    """Tokens that depend only on the events of their own round."""

    @abstractmethod
    def round(
        self, t: Any, action: Any, reward: Any, state: Any, next_state: Any
    ) -> Float[Array, "per_round features"]:
        """Return the tokens of round `t` (from 1); states are None in matrix games."""


class RoundTokens(PlainTokens):
    """One token per round, the theory's `h(a_t, o_t)`, with the exact reward.

    Features are the action (one-hot), the reward, the reward at the entry of the action, the states
    before and after the round, and three smooth functions of the round number, so that sequences
    can have any length.

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
        """Return the one token that precedes the first round."""
        token = jnp.zeros(self.features).at[0].set(1.0)
        if self.states is not None:
            token = token.at[self.features - 3 - self.states + state].set(1.0)
        return jnp.concatenate([token[:-3], clock(0)])[None]

    def round(
        self, t: Any, action: Any, reward: Any, state: Any, next_state: Any
    ) -> Float[Array, "1 features"]:
        """Return the token of a round."""
        place = action if self.states is None else state * self.actions + action
        here = jax.nn.one_hot(place, self.actions * (self.states or 1))
        reward = jnp.asarray(reward, here.dtype)
        parts = [jnp.zeros(1), here, reward[None], reward * here]
        if self.states is not None:
            parts += [jax.nn.one_hot(s, self.states) for s in (state, next_state)]
        return jnp.concatenate([*parts, clock(t)])[None]


class VocabularyTokens(PlainTokens):
    """The in-context paper's tokens: states, actions and discretised rewards in one vocabulary.

    A sequence starts with a start token or the first state. A round is `a_t, r_t` in matrix games
    and `a_t, r_t, s_{t+1}` in Markov games. A token is a one-hot vector over the vocabulary, which
    the embedding looks up, followed by the clock of its round.

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
        """Length of the vector of a token: the vocabulary and the clock."""
        return 1 + self.actions + self.bins + (self.states or 0) + 3

    @property
    def per_round(self) -> int:
        """Number of tokens per round: two, or three with states."""
        return 2 if self.states is None else 3

    def opening(self, state: Any) -> Float[Array, "1 features"]:
        """Return the start token, or the first state."""
        word = 0 if self.states is None else 1 + self.actions + self.bins + state
        return self._write(jnp.asarray(word)[None], 0)

    def round(
        self, t: Any, action: Any, reward: Any, state: Any, next_state: Any
    ) -> Float[Array, "per_round features"]:
        """Return the tokens of the action, the reward and, in Markov games, the next state."""
        level = jnp.clip(jnp.floor(jnp.asarray(reward) * self.bins), 0, self.bins - 1)
        words = [1 + action, 1 + self.actions + level.astype(jnp.int32)]
        if self.states is not None:
            words.append(1 + self.actions + self.bins + next_state)
        return self._write(jnp.stack([jnp.asarray(word, jnp.int32) for word in words]), t)

    def _write(self, words: Array, t: Any) -> Array:
        now = jnp.broadcast_to(clock(t), (words.shape[0], 3))
        return jnp.concatenate([jax.nn.one_hot(words, self.features - 3), now], -1)


def clock(t: Any) -> Float[Array, " 3"]:
    """Return smooth functions of the round number, all of order one up to thousands of rounds."""
    count = jnp.asarray(t, jnp.result_type(float)) + 1.0
    return jnp.stack([jnp.log(count) / 4.0 - 1.0, jax.lax.rsqrt(count), 1.0 / count])
