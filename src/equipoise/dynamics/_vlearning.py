"""V-learning: optimistic values, weighted exponential weights at every state."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import checks, steps
from equipoise.core.fusion import once
from equipoise.dynamics._learner import Learner, MarkovBandit, Spec


class VLearningState(eqx.Module):
    """Weighted losses, optimistic values, visits, and the policy they make."""

    #: (states, actions, ...): weighted averages of estimated losses, in [0, 1] units.
    losses: jax.Array
    policy: jax.Array
    #: (states, ...): before they are cut at the largest value there can be.
    values: jax.Array
    visits: jax.Array
    discount: float = eqx.field(static=True)


class VLearning(Learner):
    """V-learning (Jin, Liu, Wang and Yu, 2021), with the discount in place of an episode.

    With `H = 1 / (1 - discount)` and on the `t`-th visit of a state, `alpha_t = (H+1) / (H+t)`,

        V <- (1 - alpha_t) V + alpha_t (r + discount * V(s') + bonus_t)
        L <- (1 - alpha_t) L + alpha_t 1{a} loss / (x_a + eta_t)
        x proportional to exp(-scale (eta_t / alpha_t) L)

    where `eta_t = sqrt(H log A / (A t))`, losses are scaled to [0, 1] and
    `bonus_t = bonus * sqrt(H^3 A / t)`. The guarantee is for the output policy, a mixture of
    everything played, which `certified_output` makes; the last policy has none.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=2, states=2).sample(8, key=0)
    >>> learner = eq.dynamics.VLearning()
    >>> eq.dynamics.play(games, learner, learner, rounds=100, key=1).last[1].shape
    (8, 2, 2)
    """

    sees: ClassVar[type] = MarkovBandit

    scale: float = 1.0
    bonus: float = 0.01

    def __check_init__(self) -> None:
        checks.check_range("scale", self.scale, 0.0, float("inf"), low_open=True, high_open=True)
        checks.check_range("bonus", self.bonus, 0.0, float("inf"), high_open=True)

    def init(self, spec: Spec) -> VLearningState:
        """Uniform play, the largest values there can be."""
        if spec.states is None:
            raise ValueError("spec: expected a number of states, found None")
        dtype = jnp.result_type(float)
        zeros = jnp.zeros((spec.states, spec.actions), dtype)
        return VLearningState(
            zeros,
            zeros + 1.0 / spec.actions,
            jnp.full(spec.states, 1.0 / (1.0 - spec.discount), dtype),
            jnp.zeros(spec.states, jnp.int32),
            spec.discount,
        )

    def policy(self, state: VLearningState) -> jax.Array:
        """Exponential weights of every state."""
        return state.policy

    def update(self, state: VLearningState, feedback: MarkovBandit) -> VLearningState:
        """Update the value, the losses and the policy of the state visited."""
        horizon = 1.0 / (1.0 - state.discount)
        actions = state.losses.shape[1]
        here = steps.one_hot(feedback.state, state.visits.shape[0])
        t = once((steps.pick(state.visits, feedback.state) + 1).astype(state.values.dtype))
        alpha = once(mixing_weight(t, state.discount))
        eta = once(jnp.sqrt(horizon * jnp.log(float(actions)) / (actions * t)))
        ahead = jnp.minimum(steps.pick(state.values, feedback.next_state), horizon)
        target = once(feedback.reward + state.discount * ahead)
        bonus = self.bonus * jnp.sqrt(horizon**3 * actions / t)
        value = steps.pick(state.values, feedback.state)
        value = once(value + alpha * (target + bonus - value))
        policy, losses = self._weigh(state, feedback, 1.0 - target / horizon, alpha, eta)
        return VLearningState(
            jnp.where(here[:, None], losses, state.losses),
            jnp.where(here[:, None], policy, state.policy),
            jnp.where(here, value, state.values),
            state.visits + here,
            state.discount,
        )

    def _weigh(
        self, state: VLearningState, feedback: MarkovBandit, loss: Any, alpha: Any, eta: Any
    ) -> tuple[jax.Array, jax.Array]:
        played = steps.one_hot(feedback.action, state.losses.shape[1])
        policy = steps.pick(state.policy, feedback.state)
        estimate = once(loss / (steps.pick(policy, feedback.action) + eta))
        losses = steps.pick(state.losses, feedback.state)
        losses = once(losses + alpha * (jnp.where(played, estimate, 0.0) - losses))
        rate = self.scale * eta / alpha
        weights = once(jnp.exp(-rate * (losses - steps.smallest(losses))))
        return once(weights / steps.total(weights)), losses


def mixing_weight(t: Any, discount: Any) -> Any:
    """V-learning's `alpha_t = (H + 1) / (H + t)` for the `t`-th visit, `H = 1 / (1 - discount)`.

    >>> mixing_weight(1, 0.5)
    1.0
    """
    horizon = 1.0 / (1.0 - discount)
    return (horizon + 1.0) / (horizon + t)
