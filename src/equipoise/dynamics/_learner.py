"""What a learner is, what it may see, and the noise in what it sees of a reward.

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

from equipoise.core import InputError, checks, streams
from equipoise.core.fusion import once


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


def _field(name: str, least: int | None = None) -> Any:
    """A field of finite numbers, or of whole ones from `least` on; traced ones are not read."""

    def convert(value: Any) -> Any:
        if checks.is_traced(value):
            return value
        if least is not None and not hasattr(value, "dtype"):
            return jnp.int32(checks.check_count(name, value, at_least=least))
        array = checks.as_float_array(name, value, copy=False)
        checks.check_finite(name, array)
        if least is None:
            return value if isinstance(value, jax.Array) else jnp.asarray(array)
        if value.dtype.kind not in "iu" or (array.size and array.min() < least):
            raise InputError(name, f"whole numbers >= {least}", f"{value.dtype} {value}")
        return jnp.asarray(value)

    return eqx.field(converter=convert)


def check_below(name: str, value: Any, count: int, what: str = "a state") -> int:
    """The value as an int; refuse what is no number from 0 to `count - 1`.

    >>> check_below("next_state", 2, 3)
    2
    """
    value = checks.check_count(name, value, at_least=0)
    if value >= count:
        raise InputError(name, f"{what} in [0, {count - 1}]", value)
    return value


class Bandit(eqx.Module):
    """The feedback of a matrix game: the player's own action and its own reward, nothing else.

    **Example**

    >>> from equipoise.dynamics import Bandit
    >>> Bandit(round=0, action=1, reward=0.5)
    Traceback (most recent call last):
        ...
    equipoise.core.errors.InputError: round: expected a whole number >= 1, found 0
    """

    #: 1, 2, ...
    round: jax.Array = _field("round", 1)
    action: jax.Array = _field("action", 0)
    #: In [0, 1]; larger is better for this player.
    reward: jax.Array = _field("reward")


class JointBandit(eqx.Module):
    """Bandit feedback that shows what the opponent did: both actions, and the own reward.

    **Example**

    >>> from equipoise.dynamics import JointBandit
    >>> int(JointBandit(round=1, action=0, reward=0.5, other=2).other)
    2
    """

    round: jax.Array = _field("round", 1)
    action: jax.Array = _field("action", 0)
    reward: jax.Array = _field("reward")
    #: The opponent's action.
    other: jax.Array = _field("other", 0)


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


def check_feedback(feedback: Any, actions: int, states: int = 1) -> None:
    """Refuse actions and states of feedback that a learner of this size does not have.

    Traced values are not read.

    >>> check_feedback(Bandit(round=1, action=7, reward=1.0), actions=3)
    Traceback (most recent call last):
        ...
    equipoise.core.errors.InputError: action: expected whole numbers in [0, 2], found 7
    """
    for name, count in (("action", actions), ("state", states), ("next_state", states)):
        value = getattr(feedback, name, 0)
        if not checks.is_traced(value) and np.size(value) and np.max(value) >= count:
            raise InputError(name, f"whole numbers in [0, {count - 1}]", np.max(value))


class PolicyLearner(Learner):
    """A learner whose state holds the policy of the next round.

    **Example**

    >>> from equipoise.dynamics import OMD, Spec
    >>> OMD().policy(OMD().init(Spec(actions=2))).tolist()
    [0.5, 0.5]
    """

    def policy(self, state: Any) -> jax.Array:
        """The policy in the state."""
        return state.policy


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

    def fitted(self, actions: int) -> "ContextLearner":
        """The same learner for so many actions, where it plays games of more than one size."""
        return self

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


class Noise(eqx.Module):
    """How the reward that both players see comes from the mean reward of the joint action."""

    @abstractmethod
    def __call__(self, mean: Any, keys: Any, t: Any) -> jax.Array:
        """The reward seen in round `t`, in [0, 1]."""


def check_noise(noise: Any) -> Noise:
    """The noise that was asked for, exact rewards where none was; refuse what is no noise.

    >>> check_noise(None)
    Exact()
    """
    if noise is None:
        return Exact()
    if not isinstance(noise, Noise):
        found = f"the class {noise.__name__}" if isinstance(noise, type) else repr(noise)
        raise InputError("noise", "Exact(), Bernoulli() or Gaussian(scale)", found)
    return noise


class Exact(Noise):
    """The mean reward itself.

    >>> float(Exact()(0.25, None, 1))
    0.25
    """

    def __call__(self, mean: Any, keys: Any, t: Any) -> jax.Array:
        """The mean."""
        return jnp.asarray(mean)


class Bernoulli(Noise):
    """One with the mean as its probability, otherwise zero: unbiased, and as noisy as can be.

    >>> import jax.numpy as jnp
    >>> float(Bernoulli()(1.0, jnp.zeros(2, jnp.uint32), 1))
    1.0
    """

    def __call__(self, mean: Any, keys: Any, t: Any) -> jax.Array:
        """A coin."""
        u = streams.uniform(keys, t, streams.REWARD)
        return once((u < mean).astype(u.dtype))


class Gaussian(Noise):
    """The mean plus Gaussian noise, clipped to [0, 1].

    Clipping is what a bounded sensor does; where the mean is within a few `scale`s of 0 or 1 it
    biases the reward towards the middle.

    >>> import jax.numpy as jnp
    >>> 0.0 <= float(Gaussian(0.1)(0.5, jnp.zeros(2, jnp.uint32), 1)) <= 1.0
    True
    """

    scale: float = 0.1

    def __check_init__(self) -> None:
        checks.check_range("scale", self.scale, 0.0, float("inf"), high_open=True)

    def __call__(self, mean: Any, keys: Any, t: Any) -> jax.Array:
        """The mean plus the normal quantile of a uniform number."""
        # Half a step off zero, so that the quantile is finite.
        u = streams.uniform(keys, t, streams.REWARD) + 2.0**-25
        normal = jnp.sqrt(2.0) * jax.lax.erf_inv(2.0 * u - 1.0)
        return once(jnp.clip(mean + self.scale * normal, 0.0, 1.0))


#: The noises by the names they have on the command line and in configs.
NOISES: dict[str, Noise] = {
    "exact": Exact(),
    "bernoulli": Bernoulli(),
    "gaussian": Gaussian(),
}
