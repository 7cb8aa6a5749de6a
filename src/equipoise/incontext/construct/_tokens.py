"""Tokens of hand-built networks: what happened in a round, and which round it was, as one-hots."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from equipoise.incontext._tokens import Tokens


class PositionTokens(Tokens):
    """One token a round: action, reward, states if there are any, and the round's number.

    All are one-hot but the reward, so that whatever a network needs to know about round `t` (its
    step size, its number in binary) is a column of the embedding matrix. `rounds` is the last
    round that can be written.

    **Example**

    >>> import jax.numpy as jnp
    >>> tokens = PositionTokens(actions=2, rounds=3)
    >>> tokens.round(2, jnp.int32(1), 0.25, None, None).tolist()
    [[0.0, 1.0, 0.25, 0.0, 0.0, 1.0, 0.0]]
    """

    actions: int = eqx.field(static=True)
    rounds: int = eqx.field(static=True)
    states: int | None = eqx.field(static=True, default=None)

    @property
    def features(self) -> int:
        """Length of the vector of a token."""
        return self.actions + 1 + 2 * (self.states or 0) + self.rounds + 1

    @property
    def per_round(self) -> int:
        """One."""
        return 1

    def opening(self, state: Any) -> Float[Array, "1 features"]:
        """Round zero, in which nothing happened; in Markov games, where play begins."""
        nothing = jnp.zeros(self.actions + 1 + (self.states or 0))
        return self._write(nothing, state, 0)

    def round(
        self, t: Any, action: Any, reward: Any, state: Any, next_state: Any
    ) -> Float[Array, "1 features"]:
        """The token of round `t`; the policy played is not told, the network has to know it."""
        played = jax.nn.one_hot(action, self.actions)
        parts = [played, jnp.asarray(reward, played.dtype)[None]]
        if self.states is not None:
            parts.append(jax.nn.one_hot(state, self.states))
        return self._write(jnp.concatenate(parts), next_state, t)

    def _write(self, happened: Array, next_state: Any, t: Any) -> Array:
        after = [] if self.states is None else [jax.nn.one_hot(next_state, self.states)]
        position = jax.nn.one_hot(t, self.rounds + 1)
        return jnp.concatenate([happened, *after, position])[None]
