"""Opponents that do not learn: a fixed policy, uniform play, a best responder."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks, steps
from equipoise.dynamics._learner import Foresight, Learner, Nothing, Spec


class Uniform(Learner):
    """Every action with the same probability, in every round (and state).

    **Example**

    >>> import equipoise as eq
    >>> eq.dynamics.Uniform().init(eq.dynamics.Spec(actions=2)).tolist()
    [0.5, 0.5]
    """

    sees: ClassVar[type] = Nothing

    def init(self, spec: Spec) -> jax.Array:
        """The uniform policy."""
        shape = (spec.actions,) if spec.states is None else (spec.states, spec.actions)
        return jnp.full(shape, 1.0 / spec.actions, jnp.result_type(float))

    def policy(self, state: jax.Array) -> jax.Array:
        """The uniform policy."""
        return state

    def update(self, state: jax.Array, feedback: Nothing) -> jax.Array:
        """Nothing changes."""
        return state


class Fixed(Learner):
    """One policy for every game and round: (actions,), or (states, actions) in Markov games.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=2).sample(8, key=0)
    >>> fixed = eq.dynamics.Fixed([0.25, 0.75])
    >>> trace = eq.dynamics.play(games, eq.dynamics.OMD(), fixed, rounds=10, key=0)
    >>> trace.last[1][0].tolist()
    [0.25, 0.75]
    """

    sees: ClassVar[type] = Nothing

    probabilities: np.ndarray

    def __init__(self, probabilities: Any):
        array = np.asarray(checks.as_float_array("probabilities", probabilities))
        checks.check_ndim("probabilities", array, 1, "(actions,) or (states, actions)")
        checks.check_probabilities("probabilities", array)
        self.probabilities = array

    def init(self, spec: Spec) -> jax.Array:
        """The policy, after a look at its shape."""
        shape = (spec.actions,) if spec.states is None else (spec.states, spec.actions)
        checks.check_shape("probabilities", self.probabilities, shape, "the shape of a policy")
        return jnp.asarray(self.probabilities, jnp.result_type(float))

    def policy(self, state: jax.Array) -> jax.Array:
        """The policy."""
        return state

    def update(self, state: jax.Array, feedback: Nothing) -> jax.Array:
        """Nothing changes."""
        return state


class BestResponder(Learner):
    """The worst opponent there is: a best response to the very policy it meets, in every round.

    It sees the game and the policy of the other player before it moves, so that it cannot meet
    another best responder. In matrix games only.

    **Example**

    >>> import equipoise as eq
    >>> pennies = eq.MatrixGame([[1, 0], [0, 1]])
    >>> fixed, best = eq.dynamics.Fixed([0.75, 0.25]), eq.dynamics.BestResponder()
    >>> trace = eq.dynamics.play(pennies, fixed, best, rounds=10, key=0)
    >>> trace.average[1].tolist()
    [0.0, 1.0]
    """

    sees: ClassVar[type] = Foresight

    def init(self, spec: Spec) -> jax.Array:
        """Uniform, before any policy is met."""
        return jnp.full(spec.actions, 1.0 / spec.actions, jnp.result_type(float))

    def policy(self, state: jax.Array) -> jax.Array:
        """The response."""
        return state

    def update(self, state: jax.Array, feedback: Foresight) -> jax.Array:
        """The first of the best actions."""
        best = jnp.argmax(feedback.values, 0).astype(jnp.int32)
        return steps.one_hot(best, feedback.values.shape[0]).astype(feedback.values.dtype)
