"""Numbers of a log as columns: numeric contexts, local states, and polynomials of them.

A log may describe contexts and local states by whole numbers, by vectors of numbers, or by both.
Whatever is counted becomes one-hot columns here, so that every context and every local state is a
vector. Polynomials of these vectors are the linear function classes of rewards, behaviour and
critics in `_number_model`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from equipoise.core import InputError
from equipoise.offline._log import Log

#: Largest number of polynomials of one agent's reward.
MOST_FEATURES = 5_000


@dataclass(frozen=True)
class Layout:
    """Sizes of a log, and which of its contexts and local states are counted.

    >>> Layout(agents=2, contexts=3, covariates=1, states=0, width=2, horizon=4, actions=3).common
    4
    """

    agents: int
    contexts: int
    covariates: int
    #: Number of local states that are counted; 0 without states and for numeric states.
    states: int
    #: Number of numbers that describe a local state: one-hot if states are counted.
    width: int
    horizon: int
    #: Largest number of actions of an agent; 0 if actions are continuous.
    actions: int

    @classmethod
    def of(cls, log: Log) -> "Layout":
        """Return the sizes of a log."""
        counted = log.states is not None and log.states.ndim == 2
        width = 0 if log.states is None else log.states_count if counted else log.states.shape[2]
        return cls(
            agents=log.agents,
            contexts=log.contexts_count,
            covariates=0 if log.covariates is None else log.covariates.shape[1],
            states=log.states_count if counted else 0,
            width=width,
            horizon=log.horizon,
            actions=max(log.actions_per_agent, default=0),
        )

    @property
    def common(self) -> int:
        """Number of numbers that describe a context."""
        return (self.contexts if self.contexts > 1 else 0) + self.covariates

    def contexts_of(self, contexts: Any, covariates: Any, rows: int) -> np.ndarray:
        """(rows, common): contexts one-hot, if there are several, and covariates."""
        parts = [np.zeros((rows, 0))]
        if self.contexts > 1:
            parts.append(np.eye(self.contexts)[np.asarray(contexts)])
        if self.covariates:
            parts.append(np.asarray(covariates, np.float64))
        return np.concatenate(parts, 1)

    def states_of(self, states: Any) -> np.ndarray:
        """(rows, agents, width): local states as numbers."""
        return np.eye(self.states)[states] if self.states else np.asarray(states, np.float64)

    def columns_of(self, log: Log) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Contexts (rows, common), local states and next local states (rows, agents, width)."""
        common = self.contexts_of(log.contexts, log.covariates, log.samples)
        if log.states is None:
            nothing = np.zeros((log.samples, log.agents, 0))
            return common, nothing, nothing
        return common, self.states_of(log.states), self.states_of(log.next_states)


class Scaling(eqx.Module):
    """Centres, scales and ranges of the numbers of a log.

    Scaled numbers are cut off at the range of the log, so that functions of them are constant
    where the log shows nothing.
    """

    #: (common,) and (agents, width): centres and scales.
    centres: tuple[Float[np.ndarray | Array, "_"], Float[np.ndarray | Array, "agents width"]]
    scales: tuple[Float[np.ndarray | Array, "_"], Float[np.ndarray | Array, "agents width"]]
    #: Smallest and largest scaled numbers of contexts and of local states.
    lows: tuple[Float[np.ndarray | Array, "_"], Float[np.ndarray | Array, "agents width"]]
    highs: tuple[Float[np.ndarray | Array, "_"], Float[np.ndarray | Array, "agents width"]]

    @classmethod
    def of(cls, common: np.ndarray, local: np.ndarray) -> "Scaling":
        """Return the scaling that gives all columns mean zero and variance one."""
        both = (common, local)
        found: list[list[np.ndarray]] = []
        for numbers in both:
            centre, spread = numbers.mean(0), numbers.std(0)
            scale = np.where(spread > 0.0, spread, 1.0)
            ends = [(of(numbers, 0) - centre) / scale for of in (np.min, np.max)]
            found.append([centre, scale, *ends])
        return cls(*((first, second) for first, second in zip(*found, strict=True)))

    def common(self, numbers: Array) -> Array:
        """Scale contexts (rows, common)."""
        return self._scaled(0, numbers)

    def local(self, numbers: Array) -> Array:
        """Scale local states (rows, agents, width)."""
        return self._scaled(1, numbers)

    def own(self, agent: Any, numbers: Array) -> Array:
        """Scale local states (rows, width) of one agent."""
        centre, scale, low, high = (
            jnp.asarray(x[1], numbers.dtype)[agent]
            for x in (self.centres, self.scales, self.lows, self.highs)
        )
        return jnp.clip((numbers - centre[None]) / scale[None], low[None], high[None])

    def _scaled(self, which: int, numbers: Array) -> Array:
        centre, scale, low, high = (
            jnp.asarray(x[which], numbers.dtype)[None]
            for x in (self.centres, self.scales, self.lows, self.highs)
        )
        return jnp.clip((numbers - centre) / scale, low, high)


def count_monomials(columns: int, degree: int) -> int:
    """Number of monomials of at most this degree.

    >>> count_monomials(2, 2)
    6
    """
    return comb(columns + degree, degree)


def monomials(numbers: Any, degree: int) -> Any:
    """(..., monomials): all products of at most `degree` of the numbers on the last axis.

    The first is the constant 1. NumPy arrays give a NumPy array and JAX arrays a JAX array.

    >>> monomials(np.array([2.0, 3.0]), 2).tolist()
    [1.0, 2.0, 3.0, 4.0, 6.0, 9.0]
    """
    xp: Any = np if isinstance(numbers, np.ndarray) else jnp
    made: dict[Sequence[int], Any] = {(): xp.ones(numbers.shape[:-1], numbers.dtype)}
    for order in range(1, degree + 1):
        for chosen in combinations_with_replacement(range(numbers.shape[-1]), order):
            made[chosen] = made[chosen[:-1]] * numbers[..., chosen[-1]]
    return xp.stack(list(made.values()), -1)


def check_features(name: str, degree: int, count: int) -> None:
    """Refuse polynomials that are too many to fit."""
    if count > MOST_FEATURES:
        found = f"{count:,} for degree {degree}"
        raise InputError(name, f"at most {MOST_FEATURES:,} polynomials of an agent", found)
