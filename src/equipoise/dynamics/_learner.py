"""The interface of learners, the types of feedback they receive, and the noise in rewards.

A learner is an immutable module of pure functions: `init(spec)` returns the state before the first
round, `policy(state)` the distribution it plays, and `update(state, feedback)` the state after a
round. All three are written for one game. `equipoise.dynamics._round` alone decides how the states
of many games are laid out in memory.

`update` receives only feedback of the type `sees`. Rewards are the learner's own, scaled to [0, 1]:
`r` for the row player and `1 - r` for the column player. No learner knows which seat it has.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import InputError, checks, streams
from equipoise.core.schedules import NamedArguments
from equipoise.core.steps import once


class Spec(eqx.Module, metaclass=NamedArguments):
    """What a player knows before the first round: the size of the game and the discount.

    **Example**

    >>> Spec(actions=3).markov, Spec(actions=3, states=5, discount=0.9).markov
    (False, True)
    """

    #: Number of actions of this player.
    actions: int = eqx.field(static=True)
    #: Number of states of a Markov game; None in a matrix game.
    states: int | None = eqx.field(static=True, default=None)
    #: Discount factor of a Markov game.
    discount: float = eqx.field(static=True, default=0.0)
    #: State in which play begins, in Markov games.
    start: int = eqx.field(static=True, default=0)
    #: Number of rounds that a `ContextLearner` should have room for.
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
    """Return a field of finite numbers or of integers >= `least`; traced values are not checked."""

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
    """Return the value as an int; raise unless it is an integer from 0 to `count - 1`.

    >>> check_below("next_state", 2, 3)
    2
    """
    value = checks.check_count(name, value, at_least=0)
    if value >= count:
        raise InputError(name, f"{what} in [0, {count - 1}]", value)
    return value


class Bandit(eqx.Module):
    """Feedback of a matrix game: only the player's own action and reward.

    **Example**

    >>> from equipoise.dynamics import Bandit
    >>> Bandit(round=0, action=1, reward=0.5)
    Traceback (most recent call last):
        ...
    equipoise.core.errors.InputError: round: expected a whole number >= 1, found 0
    """

    #: Number of the round: 1, 2, ...
    round: jax.Array = _field("round", 1)
    #: Action that this player played.
    action: jax.Array = _field("action", 0)
    #: Reward in [0, 1]; larger is better for this player.
    reward: jax.Array = _field("reward")


class JointBandit(eqx.Module):
    """Bandit feedback that includes the opponent's action: both actions, and the own reward.

    **Example**

    >>> from equipoise.dynamics import JointBandit
    >>> int(JointBandit(round=1, action=0, reward=0.5, other=2).other)
    2
    """

    #: Number of the round: 1, 2, ...
    round: jax.Array = _field("round", 1)
    #: Action that this player played.
    action: jax.Array = _field("action", 0)
    #: Reward in [0, 1]; larger is better for this player.
    reward: jax.Array = _field("reward")
    #: The opponent's action.
    other: jax.Array = _field("other", 0)


class Values(eqx.Module):
    """Full-information feedback: the mean reward of each own action given the opponent's policy."""

    #: Number of the round: 1, 2, ...
    round: jax.Array = _field("round", 1)
    #: (actions, ...): mean rewards, in [0, 1].
    values: jax.Array = _field("values")
    #: Policy that this player has just played.
    policy: jax.Array = _field("policy")


class MarkovBandit(eqx.Module):
    """Feedback of a Markov game: the state, the own action and reward, and the next state."""

    #: Number of the round: 1, 2, ...
    round: jax.Array = _field("round", 1)
    #: State in which the round was played.
    state: jax.Array = _field("state", 0)
    #: Action that this player played.
    action: jax.Array = _field("action", 0)
    #: Reward in [0, 1]; larger is better for this player.
    reward: jax.Array = _field("reward")
    #: State after the round.
    next_state: jax.Array = _field("next_state", 0)


class JointMarkovBandit(eqx.Module):
    """Feedback of a Markov game that includes the opponent's action.

    **Example**

    >>> from equipoise.dynamics import JointMarkovBandit
    >>> seen = JointMarkovBandit(round=1, state=0, action=1, reward=0.5, next_state=2, other=0)
    >>> int(seen.next_state), int(seen.other)
    (2, 0)
    """

    #: Number of the round: 1, 2, ...
    round: jax.Array = _field("round", 1)
    #: State in which the round was played.
    state: jax.Array = _field("state", 0)
    #: Action that this player played.
    action: jax.Array = _field("action", 0)
    #: Reward in [0, 1]; larger is better for this player.
    reward: jax.Array = _field("reward")
    #: State after the round.
    next_state: jax.Array = _field("next_state", 0)
    #: The opponent's action.
    other: jax.Array = _field("other", 0)


class Nothing(eqx.Module):
    """Empty feedback, for a player that does not learn."""

    #: Number of the round: 1, 2, ...
    round: jax.Array = _field("round", 1)


class Foresight(eqx.Module):
    """Feedback before a round: the mean reward of each own action against the coming policy.

    A learner that sees this is updated before it plays, not after.
    """

    #: Number of the round: 1, 2, ...
    round: jax.Array = _field("round", 1)
    #: (actions, ...), or (states, actions, ...) in Markov games; rewards in [0, 1].
    values: jax.Array = _field("values")
    #: (states, actions, states, ...): transition probabilities; None in matrix games.
    transition: jax.Array | None = None
    #: Discount factor of a Markov game.
    discount: float = eqx.field(static=True, default=0.0)


#: Axes of the policies of many games; the first is that of Markov games.
_AXES = ("states", "actions", "games")


class Learner(eqx.Module, metaclass=NamedArguments):
    """A method of playing a repeated game. It is immutable, and its state is a separate object.

    **Example**

    >>> from equipoise.dynamics import OMD, Bandit, Spec
    >>> learner = OMD()
    >>> state = learner.init(Spec(actions=2))
    >>> state = learner.update(state, Bandit(round=1, action=0, reward=1.0))
    >>> bool(learner.policy(state)[0] > 0.5)
    True
    """

    #: Type of feedback that `update` receives: one of the types of this module.
    sees: ClassVar[Any] = Bandit

    @abstractmethod
    def init(self, spec: Spec) -> Any:
        """Return the state before the first round, for one game."""

    @abstractmethod
    def policy(self, state: Any) -> jax.Array:
        """Return the policy of the next round, (actions, ...) or (states, actions, ...)."""

    @abstractmethod
    def update(self, state: Any, feedback: Any) -> Any:
        """Return the state after a round with this feedback."""


def check_feedback(feedback: Any, actions: int, states: int = 1) -> None:
    """Raise if the actions or states of feedback exceed the size of a learner.

    Traced values are not checked.

    >>> check_feedback(Bandit(round=1, action=7, reward=1.0), actions=3)
    Traceback (most recent call last):
        ...
    equipoise.core.errors.InputError: action: expected whole numbers in [0, 2], found 7
    """
    for name, count in (("action", actions), ("state", states), ("next_state", states)):
        value = getattr(feedback, name, 0)
        if not checks.is_traced(value) and np.size(value) and np.max(value) >= count:
            raise InputError(name, f"whole numbers in [0, {count - 1}]", np.max(value))


def check_policy(
    name: str, learner: Learner, policy: Any, shape: tuple[int, ...], names: Any = _AXES
) -> None:
    """Raise if the array that `learner.policy` returns has the wrong shape or holds booleans."""
    axes = names[-len(shape) :]
    where = f"a policy from {type(learner).__name__}.policy"
    found = getattr(policy, "shape", None)
    if found != shape:
        kept = "keep the axes that the loop adds to the arrays that `init` returned"
        hint = kept if len(found or ()) < len(shape) else ""
        expected = f"{where} of shape {shape}, {', '.join(axes)}"
        raise InputError(name, expected, found or type(policy).__name__, hint)
    if policy.dtype == bool:
        raise InputError(name, f"{where} of numbers", "booleans", "use `.astype(float)`")


class PolicyLearner(Learner):
    """A learner whose state holds the policy of the next round.

    **Example**

    >>> from equipoise.dynamics import OMD, Spec
    >>> OMD().policy(OMD().init(Spec(actions=2))).tolist()
    [0.5, 0.5]
    """

    def policy(self, state: Any) -> jax.Array:
        """Return the policy stored in the state."""
        return state.policy


class ContextLearner(Learner):
    """A learner whose state is a record of the play so far, such as a transformer's cache.

    Its state has room for `spec.rounds` rounds, and the cost of a round grows with the number of
    rounds before it.

    **Example**

    >>> import equipoise as eq
    >>> row, _ = eq.incontext.load("iid3").learners()
    >>> isinstance(row, eq.dynamics.ContextLearner), row.within(16).reach
    (True, 16)
    """

    #: Share of uniform play that is mixed into the policies played, but not into the policies
    #: recorded: one number, or one for each game. None means no exploration.
    exploration: eqx.AbstractVar[Any]
    #: Whether this share falls as t^-1/4 from round 16 on.
    fading: eqx.AbstractVar[bool]

    @property
    def context_rounds(self) -> int | None:
        """Last round that reads the context, after which `without_context` applies; None if all."""
        return None

    def without_context(self, state: Any) -> tuple["ContextLearner", Any]:
        """Return a learner that goes on in the same way without the context, and its state.

        The state may be that of many games.
        """
        return self, state

    @abstractmethod
    def within(self, rounds: int) -> "ContextLearner":
        """Return this learner, given the promise that it will play no later round than `rounds`."""

    def fitted(self, actions: int, states: int | None = None) -> "ContextLearner":
        """Return this learner for games of this size, if it plays games of several sizes."""
        return self

    @abstractmethod
    def grow(self, state: Any, rounds: int) -> Any:
        """Return the state of one game with room for `rounds` rounds."""


class Pair(eqx.Module, metaclass=NamedArguments):
    """Two learners that belong together, one per seat. `play` and `Online` accept it as one object.

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
        """Return the row player and the column player."""


def explored_share(first: Any, t: Any) -> jax.Array:
    """Share of uniform play in round `t`: `first` for 16 rounds, then falling as t^-1/4.

    >>> [round(float(explored_share(0.2, t)), 4) for t in (1, 16, 256)]
    [0.2, 0.2, 0.1]
    """
    return first * jnp.minimum(1.0, (16.0 / jnp.asarray(t, jnp.float32)) ** 0.25)


class Noise(eqx.Module, metaclass=NamedArguments):
    """Distribution of the reward that both players see, given the mean reward of the actions."""

    @abstractmethod
    def __call__(self, mean: Any, keys: Any, t: Any) -> jax.Array:
        """Return the reward seen in round `t`, in [0, 1]."""


def check_noise(noise: Any) -> Noise:
    """Return the noise, or `Exact()` if it is None; raise unless it is a `Noise`.

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
    """One with probability equal to the mean, otherwise zero: unbiased, with the largest variance.

    >>> import jax.numpy as jnp
    >>> float(Bernoulli()(1.0, jnp.zeros(2, jnp.uint32), 1))
    1.0
    """

    def __call__(self, mean: Any, keys: Any, t: Any) -> jax.Array:
        """Return the outcome of a coin flip."""
        u = streams.uniform(keys, t, streams.REWARD)
        return once((u < mean).astype(u.dtype))


class Gaussian(Noise):
    """The mean plus Gaussian noise, clipped to [0, 1].

    Clipping models a bounded sensor. It biases the reward towards 0.5 if the mean is within a few
    `scale`s of 0 or 1.

    >>> import jax.numpy as jnp
    >>> 0.0 <= float(Gaussian(0.1)(0.5, jnp.zeros(2, jnp.uint32), 1)) <= 1.0
    True
    """

    scale: float = 0.1

    def __check_init__(self) -> None:
        checks.check_range("scale", self.scale, 0.0, float("inf"), high_open=True)

    def __call__(self, mean: Any, keys: Any, t: Any) -> jax.Array:
        """Return the mean plus Gaussian noise, clipped."""
        normal = streams.normal(keys, t, streams.REWARD)
        return once(jnp.clip(mean + self.scale * normal, 0.0, 1.0))


#: Noises by their names on the command line and in configs.
NOISES: dict[str, Noise] = {
    "exact": Exact(),
    "bernoulli": Bernoulli(),
    "gaussian": Gaussian(),
}
