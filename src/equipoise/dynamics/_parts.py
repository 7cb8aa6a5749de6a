"""The parts of mirror descent: mirror maps, anchors, estimates and loss forms.

A mirror map is the geometry of a step. An anchor is the policy towards which the regulariser
pulls. An estimate turns the loss of one action into losses of all. A loss form turns the reward of
the action played into its loss. No part knows of the learner, so that any combination is one.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import steps
from equipoise.core.fusion import once
from equipoise.core.schedules import Power, Schedule


class MirrorMap(eqx.Module):
    """The geometry of a step, and the regulariser that goes with it."""

    @abstractmethod
    def step(self, policy: Any, gradient: Any, step: Any, floor: Any) -> jax.Array:
        """The mirror-descent step, on {p : sum p = 1, p >= floor}."""

    @abstractmethod
    def regulariser_gradient(self, policy: Any) -> jax.Array:
        """The gradient of the regulariser that pulls towards uniform."""


class Euclidean(MirrorMap):
    """Squared Euclidean distance; regulariser `|x|^2 / 2`. The in-context paper's choice.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import Euclidean
    >>> x, g = jnp.array([0.5, 0.5]), jnp.array([1.0, 0.0])
    >>> [round(float(p), 3) for p in Euclidean().step(x, g, 0.4, 0.0)]
    [0.3, 0.7]
    """

    def step(self, policy: Any, gradient: Any, step: Any, floor: Any) -> jax.Array:
        """A projected gradient step."""
        return steps.euclidean_step(policy, gradient, step, floor)

    def regulariser_gradient(self, policy: Any) -> jax.Array:
        """The policy itself."""
        return policy


class Entropic(MirrorMap):
    """Relative entropy; regulariser `sum x log x`. The choice of Cai et al. (2023).

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import Entropic
    >>> x, g = jnp.array([0.5, 0.5]), jnp.array([1.0, 0.0])
    >>> [round(float(p), 3) for p in Entropic().step(x, g, 0.4, 0.0)]
    [0.401, 0.599]
    """

    def step(self, policy: Any, gradient: Any, step: Any, floor: Any) -> jax.Array:
        """A multiplicative-weights step."""
        return steps.entropic_step(policy, gradient, step, floor)

    def regulariser_gradient(self, policy: Any) -> jax.Array:
        """The logarithm, up to a constant that no step sees."""
        return jnp.log(policy)


class LogBarrier(MirrorMap):
    """Distance and regulariser of `-sum log x`, whose steps shrink near the boundary.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import LogBarrier
    >>> x, g = jnp.array([0.5, 0.5]), jnp.array([1.0, 0.0])
    >>> [round(float(p), 3) for p in LogBarrier().step(x, g, 0.4, 0.0)]
    [0.45, 0.55]
    """

    def step(self, policy: Any, gradient: Any, step: Any, floor: Any) -> jax.Array:
        """A step in 1 / x."""
        return steps.log_barrier_step(policy, gradient, step, floor)

    def regulariser_gradient(self, policy: Any) -> jax.Array:
        """Minus one over the policy."""
        return -1.0 / policy


class Anchor(eqx.Module):
    """The policy towards which the regulariser pulls: `eps * (grad(x) - grad(anchor))`."""

    @abstractmethod
    def init(self, policy: jax.Array) -> Any:
        """The state before the first round, given the first (uniform) policy."""

    @abstractmethod
    def pull(self, state: Any, policy: Any, mirror: MirrorMap) -> jax.Array:
        """The gradient of the regulariser, up to a constant that no step sees."""

    @abstractmethod
    def update(self, state: Any, policy: Any, t: Any) -> Any:
        """The state after round `t`, given the new policy."""


class UniformAnchor(Anchor):
    """The uniform policy: `eps` must vanish, or the limit is not an equilibrium.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import Euclidean, UniformAnchor
    >>> UniformAnchor().pull((), jnp.array([0.75, 0.25]), Euclidean()).tolist()
    [0.75, 0.25]
    """

    def init(self, policy: jax.Array) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def pull(self, state: Any, policy: Any, mirror: MirrorMap) -> jax.Array:
        """The gradient at the policy; at uniform it is constant."""
        return mirror.regulariser_gradient(policy)

    def update(self, state: Any, policy: Any, t: Any) -> tuple[()]:
        """Nothing to remember."""
        return ()


class MovingAnchor(Anchor):
    """A policy that follows the play, `z += weight(t) (x - z)`: a proximal-point method.

    Where the play stands still the pull vanishes, so that `eps` need not: the game stays
    strongly monotone and noise is forgotten faster, without bias.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.core.schedules import Power
    >>> from equipoise.dynamics import Euclidean, MovingAnchor
    >>> anchor, policy = jnp.array([0.5, 0.5]), jnp.array([0.75, 0.25])
    >>> MovingAnchor().pull(anchor, policy, Euclidean()).tolist()
    [0.25, -0.25]
    >>> MovingAnchor(weight=Power(1.0, 1.0)).update(anchor, policy, t=2).tolist()
    [0.625, 0.375]
    """

    weight: Schedule = Power(2.0, 1.0, shift=1.0)

    def init(self, policy: jax.Array) -> jax.Array:
        """Uniform."""
        return policy

    def pull(self, state: Any, policy: Any, mirror: MirrorMap) -> jax.Array:
        """The difference of the gradients at the policy and at the anchor."""
        return mirror.regulariser_gradient(policy) - mirror.regulariser_gradient(state)

    def update(self, state: Any, policy: Any, t: Any) -> jax.Array:
        """Follow the policy."""
        return state + self.weight(t) * (policy - state)


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
