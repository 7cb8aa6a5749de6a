"""EXP3-IX: exponential weights on cumulative losses, with implicit exploration."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import checks, steps
from equipoise.core.fusion import once
from equipoise.dynamics._learner import Bandit, Learner, Spec


class EXP3IXState(eqx.Module):
    """Cumulative estimated losses, less the smallest of them, and the policy they make."""

    losses: jax.Array
    policy: jax.Array


class EXP3IX(Learner):
    """EXP3 with implicit exploration (Neu, 2015, Algorithm 1), anytime.

    `eta_t = scale * sqrt(2 log(A) / (A t))` and `beta_t = eta_t / 2`; the loss is `1 - r`. Its
    *average* policy is the one with a guarantee in self-play; its last one cycles.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(64, key=0)
    >>> learner = eq.dynamics.EXP3IX()
    >>> trace = eq.dynamics.play(games, learner, learner, rounds=2000, key=1)
    >>> bool(eq.certify(games, trace.average).nash_conv.mean() < 0.12)
    True
    """

    sees: ClassVar[type] = Bandit

    scale: float = 1.0

    def __check_init__(self) -> None:
        checks.check_range("scale", self.scale, 0.0, float("inf"), low_open=True, high_open=True)

    def init(self, spec: Spec) -> EXP3IXState:
        """No losses, uniform play."""
        zeros = jnp.zeros(spec.actions, jnp.result_type(float))
        return EXP3IXState(zeros, zeros + 1.0 / spec.actions)

    def policy(self, state: EXP3IXState) -> jax.Array:
        """Exponential weights."""
        return state.policy

    def update(self, state: EXP3IXState, feedback: Bandit) -> EXP3IXState:
        """Add the estimated losses, and weigh them with the next round's rate."""
        beta = self._rate(state, feedback.round) / 2.0
        played = steps.one_hot(feedback.action, state.losses.shape[0])
        probability = steps.pick(state.policy, feedback.action)
        estimate = once((1.0 - feedback.reward) / (probability + beta))
        losses = state.losses + jnp.where(played, estimate, 0.0)
        losses = once(losses - steps.smallest(losses))
        weights = once(jnp.exp(-self._rate(state, feedback.round + 1) * losses))
        return EXP3IXState(losses, weights / steps.total(weights))

    def _rate(self, state: EXP3IXState, t: Any) -> jax.Array:
        actions = state.losses.shape[0]
        t = jnp.asarray(t, jnp.result_type(float))
        return self.scale * jnp.sqrt(2.0 * jnp.log(float(actions)) / (actions * t))
