"""Step sizes, exploration and regularisation as functions of the round.

A schedule is a pytree that maps a round `t = 1, 2, ...` (traced or not, one or many) to a
number. `Rates` holds the four schedules of a mirror-descent learner.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, dataclass_transform

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core import checks
from equipoise.core.errors import check_call


@dataclass_transform(field_specifiers=(eqx.field,))
class NamedArguments(type(eqx.Module)):
    """Answers a constructor's call that does not fit in one line, with the nearest name."""

    #: What to use for further arguments by position.
    _instead = ""

    if not TYPE_CHECKING:  # a type checker would take every value for one of any type

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Create a value."""
            try:
                return cls._create(*args, **kwargs)
            except TypeError:
                check_call(cls.__init__, cls.__name__, args, kwargs, 1, cls._instead)
                raise

        def _create(cls, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs)


class Schedule(eqx.Module, metaclass=NamedArguments):
    """A number for every round `t = 1, 2, ...`."""

    @abstractmethod
    def __call__(self, t: Any) -> jax.Array:
        """Return the value at round `t`."""


class Constant(Schedule):
    """The same value at every round.

    >>> float(Constant(0.5)(10))
    0.5
    """

    value: float

    def __call__(self, t: Any) -> jax.Array:
        """Return the value."""
        return jnp.asarray(self.value, jnp.result_type(float))


class Power(Schedule):
    """`coefficient * (t + shift) ** -exponent`.

    >>> float(Power(2.0, 0.5)(4)), float(Power(1.0, 2.0, shift=1.0)(3))
    (1.0, 0.0625)
    """

    coefficient: float
    exponent: float
    shift: float = 0.0

    def __call__(self, t: Any) -> jax.Array:
        """Return the value at round `t`."""
        t = jnp.asarray(t, jnp.result_type(float))
        return self.coefficient * (t + self.shift) ** -self.exponent


class Rates(eqx.Module, metaclass=NamedArguments):
    """The four schedules of a mirror-descent learner under bandit feedback.

    **Example**

    >>> rates = Rates(eta=Power(2.0, 0.75), beta=Power(0.5, 1 / 3), eps=Power(1.0, 0.25))
    >>> round(float(rates.floor(9)), 6)
    0.01
    """

    #: Step size; `(1 / eta) |x - x_t|^2` as printed, so that a gradient step has length eta / 2.
    eta: Schedule
    #: Implicit exploration: added to the probability of the action played.
    beta: Schedule
    #: Strength of the regulariser.
    eps: Schedule
    #: Smallest probability of an action, times the number of actions.
    floor: Schedule = Power(1.0, 2.0, shift=1.0)
    #: With A actions, eta is divided and eps multiplied by `A ** growth`.
    growth: float = 0.0

    def step(self, t: Any, actions: int) -> jax.Array:
        """Length of a gradient step, `eta / 2`."""
        return self.eta(t) * (0.5 * actions**-self.growth)

    def strength(self, t: Any, actions: int) -> jax.Array:
        """Strength of the regulariser."""
        return self.eps(t) * actions**self.growth


def paper(rounds: int) -> Rates:
    """Return the in-context paper's constants (proof of Lemma B.2), for a horizon of `rounds`.

    `eta = T^-5/3`, `beta = eps = T^-1/3` and the floor `1 / (A T^2)`. With these constants the
    policy moves by about `T^-2/3` in total, whatever the game: the proof bounds `(1 - eta eps)^T`,
    which tends to one, by `1 / T`. They are kept so that tests and figures can show this.

    **Example**

    >>> round(float(paper(1000).eta(1)), 8)
    1e-05
    """
    horizon = float(checks.check_count("rounds", rounds))
    return Rates(
        eta=Constant(horizon ** (-5 / 3)),
        beta=Constant(horizon ** (-1 / 3)),
        eps=Constant(horizon ** (-1 / 3)),
        floor=Constant(horizon**-2.0),
    )
