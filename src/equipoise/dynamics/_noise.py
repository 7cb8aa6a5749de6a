"""What players see of a reward: itself, a coin with that mean, or itself with Gaussian noise."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import checks, streams
from equipoise.core.fusion import once


class Noise(eqx.Module):
    """How the reward that both players see comes from the mean reward of the joint action."""

    @abstractmethod
    def __call__(self, mean: Any, keys: Any, t: Any) -> jax.Array:
        """The reward seen in round `t`, in [0, 1]."""


def check_noise(noise: Any) -> Noise:
    """The noise that was asked for, exact rewards where none was; refuse what is no noise.

    >>> check_noise(None)
    Exact()
    """
    if noise is None:
        return Exact()
    if not isinstance(noise, Noise):
        found = f"the class {noise.__name__}" if isinstance(noise, type) else repr(noise)
        raise ValueError(f"noise: expected Exact(), Bernoulli() or Gaussian(scale), found {found}")
    return noise


class Exact(Noise):
    """The mean reward itself.

    >>> float(Exact()(0.25, None, 1))
    0.25
    """

    def __call__(self, mean: Any, keys: Any, t: Any) -> jax.Array:
        """The mean."""
        return jnp.asarray(mean)


class Bernoulli(Noise):
    """One with the mean as its probability, otherwise zero: unbiased, and as noisy as can be.

    >>> import jax.numpy as jnp
    >>> float(Bernoulli()(1.0, jnp.zeros(2, jnp.uint32), 1))
    1.0
    """

    def __call__(self, mean: Any, keys: Any, t: Any) -> jax.Array:
        """A coin."""
        u = streams.uniform(keys, t, streams.REWARD)
        return once((u < mean).astype(u.dtype))


class Gaussian(Noise):
    """The mean plus Gaussian noise, clipped to [0, 1].

    Clipping is what a bounded sensor does; where the mean is within a few `scale`s of 0 or 1 it
    biases the reward towards the middle.

    >>> import jax.numpy as jnp
    >>> 0.0 <= float(Gaussian(0.1)(0.5, jnp.zeros(2, jnp.uint32), 1)) <= 1.0
    True
    """

    scale: float = 0.1

    def __check_init__(self) -> None:
        checks.check_range("scale", self.scale, 0.0, float("inf"), high_open=True)

    def __call__(self, mean: Any, keys: Any, t: Any) -> jax.Array:
        """The mean plus the normal quantile of a uniform number."""
        # Half a step off zero, so that the quantile is finite.
        u = streams.uniform(keys, t, streams.REWARD) + 2.0**-25
        normal = jnp.sqrt(2.0) * jax.lax.erf_inv(2.0 * u - 1.0)
        return once(jnp.clip(mean + self.scale * normal, 0.0, 1.0))


#: The noises by the names they have on the command line and in configs.
NOISES: dict[str, Noise] = {
    "exact": Exact(),
    "bernoulli": Bernoulli(),
    "gaussian": Gaussian(),
}
