"""Loss forms: how the reward of the action played becomes its loss."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core.schedules import Power, Schedule


class LossForm(eqx.Module):
    """How a reward becomes a loss. The constant that a form adds is no constant under bandit
    feedback: only the action played receives it, so that forms differ in what they explore."""

    @abstractmethod
    def init(self) -> Any:
        """The state before the first round."""

    @abstractmethod
    def loss(self, state: Any, reward: Any) -> jax.Array:
        """The loss of the action played."""

    @abstractmethod
    def update(self, state: Any, reward: Any, t: Any) -> Any:
        """The state after round `t`."""


class Baseline(LossForm):
    """`b - reward`, where `b` follows the rewards: neither sign of the loss is favoured.

    **Example**

    >>> from equipoise.dynamics import Baseline
    >>> form = Baseline()
    >>> b = form.update(form.init(), 1.0, t=4)
    >>> float(b), float(form.loss(b, 0.5))
    (0.75, 0.25)
    """

    step: Schedule = Power(1.0, 0.5)
    start: float = 0.5

    def init(self) -> jax.Array:
        """The first baseline."""
        return jnp.asarray(self.start, jnp.result_type(float))

    def loss(self, state: Any, reward: Any) -> jax.Array:
        """How far the reward fell short of the baseline."""
        return state - reward

    def update(self, state: Any, reward: Any, t: Any) -> jax.Array:
        """Move the baseline towards the reward."""
        return state + self.step(t) * (reward - state)


class Standardised(LossForm):
    """`unit (b - reward) / s`: a baseline, and the spread `s` of the rewards around it as unit.

    A game then looks the same whatever part of [0, 1] its rewards take up.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import Standardised
    >>> form = Standardised(unit=0.25, least=0.0)
    >>> round(float(form.loss((jnp.array(0.5), jnp.array(0.1) ** 2), 0.4)), 6)
    0.25
    """

    step: Schedule = Power(1.0, 0.5)
    start: float = 0.5
    #: The spread at which losses are left as they are: that of a fair coin.
    unit: float = 0.5
    #: Rewards are never taken to vary less than this.
    least: float = 0.02

    def init(self) -> tuple[jax.Array, jax.Array]:
        """The first baseline, and the square of the first spread."""
        dtype = jnp.result_type(float)
        return jnp.asarray(self.start, dtype), jnp.asarray(self.unit * self.unit, dtype)

    def loss(self, state: Any, reward: Any) -> jax.Array:
        """How far the reward fell short of the baseline, in units of the spread."""
        return self.unit * (state[0] - reward) * jax.lax.rsqrt(state[1] + self.least**2)

    def update(self, state: Any, reward: Any, t: Any) -> tuple[jax.Array, jax.Array]:
        """Move the baseline and the spread towards what was seen."""
        surprise, weight = reward - state[0], self.step(t)
        return (
            state[0] + weight * surprise,
            state[1] + weight * (surprise * surprise - state[1]),
        )


class StatelessLoss(LossForm):
    """A loss of the reward alone, with nothing to remember."""

    def init(self) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def update(self, state: Any, reward: Any, t: Any) -> tuple[()]:
        """Nothing to remember."""
        return ()


class PlainLoss(StatelessLoss):
    """`1 - reward`: every action played loses something, so that all are tried again.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import PlainLoss
    >>> float(PlainLoss().loss((), jnp.array(0.25)))
    0.75
    """

    def loss(self, state: Any, reward: Any) -> jax.Array:
        """The shortfall from the best reward there is."""
        return 1.0 - reward


class Gain(StatelessLoss):
    """`-reward`: every action played gains something, so that the first ones lock in.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import Gain
    >>> float(Gain().loss((), jnp.array(0.25)))
    -0.25
    """

    def loss(self, state: Any, reward: Any) -> jax.Array:
        """The reward, negated."""
        return -reward


class PrintedSign(StatelessLoss):
    """`+reward`, as the in-context paper prints it: the player minimises its own reward.

    **Example**

    >>> from equipoise.dynamics import PrintedSign
    >>> float(PrintedSign().loss((), 0.25))
    0.25
    """

    def loss(self, state: Any, reward: Any) -> jax.Array:
        """The reward."""
        return jnp.asarray(reward)
