"""References for bandit learners: full-information learners, fixed policies, a best responder."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks, steps
from equipoise.core.mdp import best_response
from equipoise.core.schedules import Constant, Schedule
from equipoise.core.steps import once
from equipoise.dynamics._learner import Foresight, Learner, Nothing, PolicyLearner, Spec, Values
from equipoise.dynamics._parts import Euclidean, MirrorMap


class OptimisticState(eqx.Module):
    """State of `OptimisticOMD`: the prox centre, and the policy one step ahead of it."""

    centre: jax.Array
    policy: jax.Array


class OptimisticOMD(PolicyLearner):
    """Optimistic mirror descent (Rakhlin and Sridharan, 2013), with full-information feedback.

    Both steps use the latest values. In zero-sum self-play the last policy converges.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(16, key=0)
    >>> learner = eq.dynamics.OptimisticOMD()
    >>> trace = eq.dynamics.play(games, learner, learner, rounds=2000, key=1)
    >>> bool(eq.certify(games, trace.last).nash_conv.mean() < 1e-2)
    True
    """

    sees: ClassVar[type] = Values

    #: Step size.
    eta: Schedule = Constant(0.2)
    #: Mirror map, which defines the distance.
    mirror: MirrorMap = Euclidean()

    def init(self, spec: Spec) -> OptimisticState:
        """Uniform play."""
        return OptimisticState(spec.uniform, spec.uniform)

    def update(self, state: OptimisticState, feedback: Values) -> OptimisticState:
        """Move the centre, then take a step ahead with the same values."""
        eta = self.eta(feedback.round)
        centre = once(self.mirror.step(state.centre, -feedback.values, eta, 0.0))
        return OptimisticState(centre, self.mirror.step(centre, -feedback.values, eta, 0.0))


class RegretMatchingState(eqx.Module):
    """State of `RegretMatchingPlus`: positive cumulative regrets, and the policy."""

    regrets: jax.Array
    policy: jax.Array


class RegretMatchingPlus(PolicyLearner):
    """Regret matching+ (Tammelin, 2014), with full-information feedback.

    Both players update simultaneously. The average policy converges; the last policy need not.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(16, key=0)
    >>> learner = eq.dynamics.RegretMatchingPlus()
    >>> trace = eq.dynamics.play(games, learner, learner, rounds=2000, key=1)
    >>> bool(eq.certify(games, trace.average).nash_conv.mean() < 1e-2)
    True
    """

    sees: ClassVar[type] = Values

    def init(self, spec: Spec) -> RegretMatchingState:
        """No regrets, uniform play."""
        zeros = jnp.zeros(spec.actions, jnp.result_type(float))
        return RegretMatchingState(zeros, zeros + 1.0 / spec.actions)

    def update(self, state: RegretMatchingState, feedback: Values) -> RegretMatchingState:
        """Add the regrets of this round and keep the positive parts."""
        earned = once(steps.total(feedback.policy * feedback.values))
        regrets = once(jnp.maximum(state.regrets + feedback.values - earned, 0.0))
        sum_ = once(steps.total(regrets))
        uniform = 1.0 / regrets.shape[0]
        some = sum_ > 0.0
        policy = jnp.where(some, regrets / jnp.where(some, sum_, 1.0), uniform)
        return RegretMatchingState(regrets, policy)


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
        return spec.uniform

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

    #: (actions,), or (states, actions) in Markov games.
    probabilities: np.ndarray

    def __init__(self, probabilities: Any):
        array = np.asarray(checks.as_float_array("probabilities", probabilities))
        checks.check_ndim("probabilities", array, 1, "(actions,) or (states, actions)")
        checks.check_probabilities("probabilities", array)
        self.probabilities = array

    def init(self, spec: Spec) -> jax.Array:
        """Return the policy after a check of its shape."""
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
    """The strongest opponent: a best response to the other player's policy in every round.

    It sees the game and the other player's policy before it moves, so that two best responders
    cannot play each other. In Markov games it responds to the policy at all states, as if that
    policy stayed constant.

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
        """Return the uniform policy, which holds before the first update."""
        return spec.uniform

    def policy(self, state: jax.Array) -> jax.Array:
        """Return the response."""
        return state

    def update(self, state: jax.Array, feedback: Foresight) -> jax.Array:
        """Return the best response; ties go to the first action."""
        if feedback.transition is not None:
            # Batch axes are last here, but first in the solver.
            values = jnp.moveaxis(feedback.values, (0, 1), (-2, -1))
            moves = jnp.moveaxis(feedback.transition, (0, 1, 2), (-3, -2, -1))
            _, response = best_response(values, moves, feedback.discount)
            return jnp.moveaxis(response, (-2, -1), (0, 1)).astype(feedback.values.dtype)
        best = jnp.argmax(feedback.values, 0).astype(jnp.int32)
        return steps.is_at(best, feedback.values.shape[0]).astype(feedback.values.dtype)
