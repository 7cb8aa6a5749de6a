"""Estimates: how the loss of one action becomes an estimate of the losses of all."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import steps
from equipoise.core.fusion import once
from equipoise.core.schedules import Power, Schedule


class Estimate(eqx.Module):
    """How the loss of one action becomes an estimate of the losses of all."""

    @abstractmethod
    def init(self, actions: int) -> Any:
        """The state before the first round."""

    @abstractmethod
    def estimate(
        self, state: Any, policy: Any, action: Any, loss: Any, beta: Any, t: Any
    ) -> tuple[jax.Array, Any]:
        """The estimated losses, of shape (actions, ...), and the state after round `t`."""


class ImplicitExploration(Estimate):
    """`1{a played} loss / (x_a + beta)` (Neu, 2015): biased a little, with bounded variance.

    Its expectation is `loss_a x_a / (x_a + beta)`.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import ImplicitExploration
    >>> policy, action = jnp.array([0.75, 0.25]), jnp.array(1)
    >>> guess, _ = ImplicitExploration().estimate((), policy, action, 0.5, beta=0.25, t=1)
    >>> guess.tolist()
    [0.0, 1.0]
    """

    def init(self, actions: int) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def estimate(
        self, state: Any, policy: Any, action: Any, loss: Any, beta: Any, t: Any
    ) -> tuple[jax.Array, tuple[()]]:
        """Weigh the loss of the action played."""
        weighted = once(loss / (steps.pick(policy, action) + beta))
        played = steps.one_hot(action, policy.shape[0])
        return jnp.where(played, weighted, 0.0), ()


class ControlVariate(Estimate):
    """`m_a + 1{a played} (loss - m_a) / (x_a + beta)`, where `m_a` follows the losses of `a`.

    The estimate varies only by what `m` did not foresee.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import ControlVariate
    >>> policy, action = jnp.array([0.75, 0.25]), jnp.array(1)
    >>> foreseen = jnp.array([0.5, 0.25])
    >>> guess, _ = ControlVariate().estimate(foreseen, policy, action, 0.5, beta=0.25, t=1)
    >>> guess.tolist()
    [0.5, 0.75]
    """

    step: Schedule = Power(1.0, 0.5)

    def init(self, actions: int) -> jax.Array:
        """No loss is foreseen for any action."""
        return jnp.zeros(actions, jnp.result_type(float))

    def estimate(
        self, state: Any, policy: Any, action: Any, loss: Any, beta: Any, t: Any
    ) -> tuple[jax.Array, jax.Array]:
        """Weigh what was not foreseen of the loss of the action played."""
        played = steps.one_hot(action, policy.shape[0])
        surprise = once(loss - steps.pick(state, action))
        weighted = once(surprise / (steps.pick(policy, action) + beta))
        foreseen = state + jnp.where(played, self.step(t) * surprise, 0.0)
        return state + jnp.where(played, weighted, 0.0), foreseen
