"""What a learner is, and what it may see.

A learner is an immutable module of pure functions: `init(spec)` makes the state before the
first round, `policy(state)` the distribution it plays, `update(state, feedback)` the state after
a round. All three are written for one game. How the states of many games lie in memory is decided
in one place, `equipoise.dynamics._seats`.

The type named by `sees` is all that `update` receives. Rewards are the learner's own, scaled to
[0, 1]: the row player's `r`, and `1 - r` for the column player. No learner knows which it is.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks


class Spec(eqx.Module):
    """What a player knows before the first round: sizes, and how the future is discounted.

    **Example**

    >>> Spec(actions=3).markov, Spec(actions=3, states=5, discount=0.9).markov
    (False, True)
    """

    actions: int = eqx.field(static=True)
    states: int | None = eqx.field(static=True, default=None)
    discount: float = eqx.field(static=True, default=0.0)
    #: The state in which play begins, in Markov games.
    start: int = eqx.field(static=True, default=0)
    #: The number of rounds that a `ContextLearner` should have room for.
    rounds: int = eqx.field(static=True, default=0)

    @property
    def markov(self) -> bool:
        """Whether the game has states."""
        return self.states is not None

    @property
    def uniform(self) -> jax.Array:
        """The uniform policy, of shape (actions,) or (states, actions)."""
        shape = (self.actions,) if self.states is None else (self.states, self.actions)
        return jnp.full(shape, 1.0 / self.actions, jnp.result_type(float))


def _count(name: str, least: int) -> Any:
    """A converter to whole numbers; refuses what is no such number, where it can be read."""

    def convert(value: Any) -> Any:
        if isinstance(value, jax.Array | np.ndarray | np.generic):
            if checks.is_traced(value) or not hasattr(value, "dtype"):
                return value
            array = np.asarray(value)
            if array.dtype.kind not in "iu" or (array.size and array.min() < least):
                raise ValueError(
                    f"{name}: expected whole numbers >= {least}, found {array.dtype} {array}"
                )
            return jnp.asarray(value)
        return jnp.int32(checks.check_count(name, value, at_least=least))

    return convert


def _numbers(name: str) -> Any:
    """A converter to finite numbers."""

    def convert(value: Any) -> Any:
        if checks.is_traced(value):
            return value
        array = checks.as_float_array(name, value, copy=False)
        checks.check_finite(name, array)
        return value if isinstance(value, jax.Array) else jnp.asarray(array)

    return convert


def _field(name: str, least: int | None = None) -> Any:
    return eqx.field(converter=_numbers(name) if least is None else _count(name, least))


class Bandit(eqx.Module):
    """The feedback of a matrix game: the player's own action and its own reward, nothing else.

    **Example**

    >>> from equipoise.dynamics import Bandit
    >>> Bandit(round=0, action=1, reward=0.5)
    Traceback (most recent call last):
        ...
    ValueError: round: expected a whole number >= 1, found 0
    """

    #: 1, 2, ...
    round: jax.Array = _field("round", 1)
    action: jax.Array = _field("action", 0)
    #: In [0, 1]; larger is better for this player.
    reward: jax.Array = _field("reward")


class Values(eqx.Module):
    """Full information: what each own action earns against the opponent's policy, on average."""

    round: jax.Array = _field("round", 1)
    #: (actions, ...), in [0, 1].
    values: jax.Array = _field("values")
    #: The policy this player has just played.
    policy: jax.Array = _field("policy")


class MarkovBandit(eqx.Module):
    """The feedback of a Markov game: where the play was, own action and reward, where it went."""

    round: jax.Array = _field("round", 1)
    state: jax.Array = _field("state", 0)
    action: jax.Array = _field("action", 0)
    reward: jax.Array = _field("reward")
    next_state: jax.Array = _field("next_state", 0)


class Nothing(eqx.Module):
    """The feedback of a player that does not learn."""

    round: jax.Array = _field("round", 1)


class Foresight(eqx.Module):
    """Before a round, what each own action earns against the very policy it will meet.

    A learner that sees this is updated before it plays, not after.
    """

    round: jax.Array = _field("round", 1)
    #: (actions, ...), or (states, actions, ...) in Markov games; rewards in [0, 1].
    values: jax.Array = _field("values")
    #: (states, actions, states, ...): where each own action leads; None in matrix games.
    transition: jax.Array | None = None
    discount: float = eqx.field(static=True, default=0.0)


class Learner(eqx.Module):
    """A way to play a repeated game. Immutable; its state is kept apart.

    **Example**

    >>> from equipoise.dynamics import OMD, Bandit, Spec
    >>> learner = OMD()
    >>> state = learner.init(Spec(actions=2))
    >>> state = learner.update(state, Bandit(round=1, action=0, reward=1.0))
    >>> bool(learner.policy(state)[0] > 0.5)
    True
    """

    #: Which feedback `update` receives: one of the types of this module.
    sees: ClassVar[Any] = Bandit

    @abstractmethod
    def init(self, spec: Spec) -> Any:
        """The state before the first round, for one game."""

    @abstractmethod
    def policy(self, state: Any) -> jax.Array:
        """The policy of the next round, of shape (actions, ...) or (states, actions, ...)."""

    @abstractmethod
    def update(self, state: Any, feedback: Any) -> Any:
        """The state after a round with this feedback."""


class ContextLearner(Learner):
    """A learner whose state is a record of the play so far, such as a transformer's cache.

    Its state has room for `spec.rounds` rounds, and its work grows with the rounds that it looks
    back on.

    **Example**

    >>> import equipoise as eq
    >>> row, _ = eq.incontext.load("iid3").learners()
    >>> isinstance(row, eq.dynamics.ContextLearner), row.within(16).reach
    (True, 16)
    """

    #: The share of uniform play that is mixed into what is played, but not into the policies that
    #: are recorded; None for none. One number, or one for each game.
    exploration: eqx.AbstractVar[Any]
    #: Whether the share falls as t^-1/4 from round 16 on.
    fading: eqx.AbstractVar[bool]

    @abstractmethod
    def within(self, rounds: int) -> "ContextLearner":
        """The same learner, with the promise that it is asked for no later round than this."""

    @abstractmethod
    def grow(self, state: Any, rounds: int) -> Any:
        """The state of one game with room for so many rounds."""


class Pair(eqx.Module):
    """Two learners made for each other, one for each seat: what `play` and `Online` take as one.

    **Example**

    >>> import equipoise as eq
    >>> class Twins(eq.dynamics.Pair):
    ...     def learners(self):
    ...         return eq.dynamics.OMD(), eq.dynamics.OMD()
    >>> pennies = eq.MatrixGame([[1, 0], [0, 1]])
    >>> eq.dynamics.play(pennies, Twins(), Twins(), rounds=3, key=0).rounds
    3
    """

    @abstractmethod
    def learners(self) -> tuple[Learner, Learner]:
        """The row player and the column player."""


def explored_share(first: Any, t: Any) -> jax.Array:
    """The share of uniform play in round `t`: `first` in sixteen rounds, then falling as t^-1/4.

    >>> [round(float(explored_share(0.2, t)), 4) for t in (1, 16, 256)]
    [0.2, 0.2, 0.1]
    """
    return first * jnp.minimum(1.0, (16.0 / jnp.asarray(t, jnp.float32)) ** 0.25)
