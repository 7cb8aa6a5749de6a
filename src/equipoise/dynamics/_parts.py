"""The parts of mirror descent: mirror maps, anchors, estimates and loss forms.

A mirror map is the geometry of a step. An anchor is the policy towards which the regulariser
pulls. An estimate turns the loss of one action into losses of all actions. A loss form turns the
reward of the action played into its loss. The parts are independent, so that any combination of
them is a learner.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import steps
from equipoise.core.schedules import NamedArguments, Power, Schedule


class MirrorMap(eqx.Module, metaclass=NamedArguments):
    """The geometry of a step, and the regulariser that goes with it."""

    @abstractmethod
    def step(self, policy: Any, gradient: Any, step: Any, floor: Any) -> jax.Array:
        """Return the mirror-descent step on {p : sum p = 1, p >= floor}."""

    @abstractmethod
    def regulariser_gradient(self, policy: Any) -> jax.Array:
        """Return the gradient of the regulariser that pulls towards uniform."""


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
        """Take a projected gradient step."""
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
        """Take a multiplicative-weights step."""
        return steps.entropic_step(policy, gradient, step, floor)

    def regulariser_gradient(self, policy: Any) -> jax.Array:
        """The logarithm of the policy, up to a constant that does not affect steps."""
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
        """Take a gradient step in 1 / x."""
        return steps.log_barrier_step(policy, gradient, step, floor)

    def regulariser_gradient(self, policy: Any) -> jax.Array:
        """Minus one over the policy."""
        return -1.0 / policy


class Anchor(eqx.Module, metaclass=NamedArguments):
    """The policy towards which the regulariser pulls: `eps * (grad(x) - grad(anchor))`."""

    @abstractmethod
    def init(self, policy: jax.Array) -> Any:
        """The state before the first round, given the first (uniform) policy."""

    @abstractmethod
    def pull(self, state: Any, policy: Any, mirror: MirrorMap) -> jax.Array:
        """Return the gradient of the regulariser, up to a constant that does not affect steps."""

    @abstractmethod
    def update(self, state: Any, policy: Any, t: Any) -> Any:
        """The state after round `t`, given the new policy."""


class UniformAnchor(Anchor):
    """The uniform policy as anchor. Then `eps` must vanish, or the limit is not an equilibrium.

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
    """An anchor that follows the play, `z += weight(t) (x - z)`: a proximal-point method.

    The pull vanishes when the policy stops changing, so that `eps` need not vanish: the game stays
    strongly monotone, and noise is forgotten faster, without bias.

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

    #: Weight of the current policy in each update of the anchor.
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


class Estimate(eqx.Module, metaclass=NamedArguments):
    """An estimate of the losses of all actions from the loss of one action."""

    @abstractmethod
    def init(self, actions: int) -> Any:
        """The state before the first round."""

    @abstractmethod
    def estimate(
        self, state: Any, policy: Any, action: Any, loss: Any, beta: Any, t: Any
    ) -> tuple[jax.Array, Any]:
        """Return the estimated losses, (actions, ...), and the state after round `t`."""


class ImplicitExploration(Estimate):
    """`1{a played} loss / (x_a + beta)` (Neu, 2015): a small bias, and bounded variance.

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
        """Divide the loss of the action played by its probability plus beta."""
        weighted = steps.once(loss / (steps.pick(policy, action) + beta))
        played = steps.is_at(action, policy.shape[0])
        return jnp.where(played, weighted, 0.0), ()


class ControlVariate(Estimate):
    """`m_a + 1{a played} (loss - m_a) / (x_a + beta)`, where `m_a` tracks the losses of `a`.

    Only the part of the loss that `m` does not predict adds variance.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import ControlVariate
    >>> policy, action = jnp.array([0.75, 0.25]), jnp.array(1)
    >>> foreseen = jnp.array([0.5, 0.25])
    >>> guess, _ = ControlVariate().estimate(foreseen, policy, action, 0.5, beta=0.25, t=1)
    >>> guess.tolist()
    [0.5, 0.75]
    """

    #: Step size of the tracked losses.
    step: Schedule = Power(1.0, 0.5)

    def init(self, actions: int) -> jax.Array:
        """Return the first predictions, zero for every action."""
        return jnp.zeros(actions, jnp.result_type(float))

    def estimate(
        self, state: Any, policy: Any, action: Any, loss: Any, beta: Any, t: Any
    ) -> tuple[jax.Array, jax.Array]:
        """Importance-weight the unpredicted part of the loss of the action played."""
        played = steps.is_at(action, policy.shape[0])
        surprise = steps.once(loss - steps.pick(state, action))
        weighted = steps.once(surprise / (steps.pick(policy, action) + beta))
        foreseen = state + jnp.where(played, self.step(t) * surprise, 0.0)
        return state + jnp.where(played, weighted, 0.0), foreseen


class LossForm(eqx.Module, metaclass=NamedArguments):
    """A map from rewards to losses. Under bandit feedback an added constant matters: only the
    action played receives it, so that loss forms differ in how they explore."""

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
    """The loss `b - reward`, where `b` tracks the rewards: neither sign is favoured.

    **Example**

    >>> from equipoise.dynamics import Baseline
    >>> form = Baseline()
    >>> b = form.update(form.init(), 1.0, t=4)
    >>> float(b), float(form.loss(b, 0.5))
    (0.75, 0.25)
    """

    #: Step size of the baseline.
    step: Schedule = Power(1.0, 0.5)
    #: Baseline before the first round.
    start: float = 0.5

    def init(self) -> jax.Array:
        """The first baseline."""
        return jnp.asarray(self.start, jnp.result_type(float))

    def loss(self, state: Any, reward: Any) -> jax.Array:
        """Return the shortfall of the reward from the baseline."""
        return state - reward

    def update(self, state: Any, reward: Any, t: Any) -> jax.Array:
        """Move the baseline towards the reward."""
        return state + self.step(t) * (reward - state)


class Standardised(LossForm):
    """The loss `unit (b - reward) / s`, with a baseline `b` and the spread `s` of the rewards.

    Play then does not depend on which part of [0, 1] the rewards of a game occupy.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import Standardised
    >>> form = Standardised(unit=0.25, least=0.0)
    >>> round(float(form.loss((jnp.array(0.5), jnp.array(0.1) ** 2), 0.4)), 6)
    0.25
    """

    #: Step size of the baseline and of the spread.
    step: Schedule = Power(1.0, 0.5)
    #: Baseline before the first round.
    start: float = 0.5
    #: Spread at which losses are unchanged: the standard deviation of a fair coin.
    unit: float = 0.5
    #: Lower bound on the spread.
    least: float = 0.02

    def init(self) -> tuple[jax.Array, jax.Array]:
        """Return the first baseline and the square of the first spread."""
        dtype = jnp.result_type(float)
        return jnp.asarray(self.start, dtype), jnp.asarray(self.unit * self.unit, dtype)

    def loss(self, state: Any, reward: Any) -> jax.Array:
        """Return the shortfall of the reward from the baseline, in units of the spread."""
        return self.unit * (state[0] - reward) * jax.lax.rsqrt(state[1] + self.least**2)

    def update(self, state: Any, reward: Any, t: Any) -> tuple[jax.Array, jax.Array]:
        """Move the baseline and the spread towards the observed values."""
        surprise, weight = reward - state[0], self.step(t)
        return (
            state[0] + weight * surprise,
            state[1] + weight * (surprise * surprise - state[1]),
        )


class StatelessLoss(LossForm):
    """A loss form that depends only on the current reward."""

    def init(self) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def update(self, state: Any, reward: Any, t: Any) -> tuple[()]:
        """Nothing to remember."""
        return ()


class PlainLoss(StatelessLoss):
    """The loss `1 - reward`: every action played loses, so that all actions are tried again.

    **Example**

    >>> import jax.numpy as jnp
    >>> from equipoise.dynamics import PlainLoss
    >>> float(PlainLoss().loss((), jnp.array(0.25)))
    0.75
    """

    def loss(self, state: Any, reward: Any) -> jax.Array:
        """Return the shortfall from the largest possible reward."""
        return 1.0 - reward


class Gain(StatelessLoss):
    """The loss `-reward`: every action played gains, so that play locks in on early actions.

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
    """The loss `+reward`, as printed in the in-context paper: it minimises the player's reward.

    **Example**

    >>> from equipoise.dynamics import PrintedSign
    >>> float(PrintedSign().loss((), 0.25))
    0.25
    """

    def loss(self, state: Any, reward: Any) -> jax.Array:
        """The reward."""
        return jnp.asarray(reward)
