"""References with full information: what bandit learners are measured against."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import steps
from equipoise.core.fusion import once
from equipoise.core.schedules import Constant, Schedule
from equipoise.dynamics._learner import Learner, Spec, Values
from equipoise.dynamics._mirror import Euclidean, MirrorMap


class OptimisticState(eqx.Module):
    """The prox centre, and the policy one step ahead of it."""

    centre: jax.Array
    policy: jax.Array


class OptimisticOMD(Learner):
    """Optimistic mirror descent (Rakhlin and Sridharan, 2013), which sees every action's value.

    Both steps use the values last seen. In zero-sum self-play the last policy converges.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(16, key=0)
    >>> learner = eq.dynamics.OptimisticOMD()
    >>> trace = eq.dynamics.play(games, learner, learner, rounds=2000, key=1)
    >>> bool(eq.certify(games, trace.last).nash_conv.mean() < 1e-2)
    True
    """

    sees: ClassVar[type] = Values

    eta: Schedule = Constant(0.2)
    mirror: MirrorMap = Euclidean()

    def init(self, spec: Spec) -> OptimisticState:
        """Uniform play."""
        uniform = jnp.full(spec.actions, 1.0 / spec.actions, jnp.result_type(float))
        return OptimisticState(uniform, uniform)

    def policy(self, state: OptimisticState) -> jax.Array:
        """The policy one step ahead."""
        return state.policy

    def update(self, state: OptimisticState, feedback: Values) -> OptimisticState:
        """Move the centre, then look ahead with the same values."""
        eta = self.eta(feedback.round)
        centre = once(self.mirror.step(state.centre, -feedback.values, eta, 0.0))
        return OptimisticState(centre, self.mirror.step(centre, -feedback.values, eta, 0.0))


class RegretMatchingState(eqx.Module):
    """Positive cumulative regrets."""

    regrets: jax.Array
    policy: jax.Array


class RegretMatchingPlus(Learner):
    """Regret matching+ (Tammelin, 2014), which sees every action's value.

    Both players update at once. The average policy converges; the last one need not.

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

    def policy(self, state: RegretMatchingState) -> jax.Array:
        """Proportional to the positive regrets; uniform where there are none."""
        return state.policy

    def update(self, state: RegretMatchingState, feedback: Values) -> RegretMatchingState:
        """Add the regrets of this round and keep what is positive."""
        earned = once(steps.total(feedback.policy * feedback.values))
        regrets = once(jnp.maximum(state.regrets + feedback.values - earned, 0.0))
        sum_ = once(steps.total(regrets))
        uniform = 1.0 / regrets.shape[0]
        some = sum_ > 0.0
        policy = jnp.where(some, regrets / jnp.where(some, sum_, 1.0), uniform)
        return RegretMatchingState(regrets, policy)
