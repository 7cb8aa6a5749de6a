"""Anchors: the policy towards which a regulariser pulls."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax

from equipoise.core.schedules import Power, Schedule
from equipoise.dynamics._mirror import MirrorMap


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
