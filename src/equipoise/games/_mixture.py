"""Mixtures of product policies: correlated play that a learner's iterates make."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import numpy as np

from equipoise.core import checks


class Mixture(eqx.Module):
    """A mixture of product policies: one component is drawn for all agents, and then played.

    Within a component the agents choose independently; across components their choices are
    correlated. `policies` has the components on its first axis, then the axes of a product
    policy of the game: (components, contexts, agents, actions) in a contextual game,
    (components, contexts, horizon, agents, states, actions) in a Markov game with decoupled
    transitions. `weights` are the chances of the components, uniform when not given.

    **Example**

    Two drivers who take turns at a crossing, by a traffic light:

    >>> import equipoise as eq
    >>> light = eq.games.Mixture([[[[1, 0], [0, 1]]], [[[0, 1], [1, 0]]]])
    >>> light.weights.tolist(), light.marginal().tolist()
    ([0.5, 0.5], [[[0.5, 0.5], [0.5, 0.5]]])
    """

    policies: np.ndarray
    weights: np.ndarray

    def __init__(self, policies: Any, weights: Any = None):
        policies = checks.as_float_array("policies", policies, copy=False)
        checks.check_ndim("policies", policies, 3, "(components, ..., agents, actions)")
        self.policies = checks.check_probabilities("policies", policies)
        if weights is None:
            weights = np.full(len(policies), 1.0 / len(policies))
        weights = checks.as_float_array("weights", weights)
        checks.check_shape("weights", weights, (len(policies),), "one for each component")
        self.weights = checks.check_probabilities("weights", weights)

    @property
    def policy_shape(self) -> tuple[int, ...]:
        """The shape of one component."""
        return tuple(self.policies.shape[1:])

    def marginal(self) -> np.ndarray:
        """The mean policy of each agent for itself: the product policy without the correlation.

        In a contextual game each agent does exactly this, seen alone. In a Markov game the mean
        is that of the chances in each state, whoever of the components leads there more often.
        """
        return np.tensordot(self.weights, self.policies, 1)

    def __len__(self) -> int:
        return len(self.policies)

    def __getitem__(self, index: int) -> np.ndarray:
        """One component, a product policy."""
        return self.policies[index]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.policies)
