"""What a learner is, and what it may see.

A learner is an immutable module of pure functions: `init(spec)` makes the state before the
first round, `policy(state)` the distribution it plays, `update(state, feedback)` the state after
a round. All three are written for one game, with actions (and states) on the first axes; trailing
batch axes, if there are any, pass through by broadcasting. The loop that runs them lays the batch
innermost in memory.

The type named by `sees` is all that `update` receives. Rewards are the learner's own, scaled to
[0, 1]: the row player's `r`, and `1 - r` for the column player. No learner knows which it is.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax


class Spec(eqx.Module):
    """What a player knows before the first round: sizes, and how the future is discounted.

    **Example**

    >>> Spec(actions=3).markov, Spec(actions=3, states=5, discount=0.9).markov
    (False, True)
    """

    actions: int = eqx.field(static=True)
    states: int | None = eqx.field(static=True, default=None)
    discount: float = eqx.field(static=True, default=0.0)

    @property
    def markov(self) -> bool:
        """Whether the game has states."""
        return self.states is not None


class Bandit(eqx.Module):
    """The feedback of a matrix game: the player's own action and its own reward, nothing else."""

    #: 1, 2, ...
    round: jax.Array
    action: jax.Array
    #: In [0, 1]; larger is better for this player.
    reward: jax.Array


class Values(eqx.Module):
    """Full information: what each own action earns against the opponent's policy, on average."""

    round: jax.Array
    #: (actions, ...), in [0, 1].
    values: jax.Array
    #: The policy this player has just played.
    policy: jax.Array


class MarkovBandit(eqx.Module):
    """The feedback of a Markov game: where the play was, own action and reward, where it went."""

    round: jax.Array
    state: jax.Array
    action: jax.Array
    reward: jax.Array
    next_state: jax.Array


class Nothing(eqx.Module):
    """The feedback of a player that does not learn."""

    round: jax.Array


class Foresight(eqx.Module):
    """Before a round, what each own action earns against the very policy it will meet.

    A learner that sees this is updated before it plays, not after.
    """

    round: jax.Array
    #: (actions, ...), in [0, 1].
    values: jax.Array


class Learner(eqx.Module):
    """A way to play a repeated game. Immutable; its state is kept apart.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import OMD, Bandit, Spec
    >>> learner = OMD()
    >>> state = learner.init(Spec(actions=2))
    >>> state = learner.update(state, Bandit(jnp.int32(1), jnp.int32(0), jnp.float32(1.0)))
    >>> bool(learner.policy(state)[0] > 0.5)
    True
    """

    #: Which feedback `update` receives: one of the types of this module.
    sees: ClassVar[type] = Bandit

    @abstractmethod
    def init(self, spec: Spec) -> Any:
        """The state before the first round, for one game."""

    @abstractmethod
    def policy(self, state: Any) -> jax.Array:
        """The policy of the next round, of shape (actions, ...) or (states, actions, ...)."""

    @abstractmethod
    def update(self, state: Any, feedback: Any) -> Any:
        """The state after a round with this feedback."""
