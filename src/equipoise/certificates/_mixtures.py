"""Product policies and mixtures of them, checked against the game they are for."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.games import ContextualGame, DecoupledMarkovGame, Mixture

#: How many expected rewards are held at once.
_CHUNK = 4_000_000
#: The concepts that gains are known of, and what an agent may do in each.
CONCEPTS = ("nash", "cce", "ce")


def as_mixture(game: ContextualGame | DecoupledMarkovGame, policy: Any) -> Mixture:
    """A product policy as a mixture of one; a mixture as it is; in the shape of the game."""
    shape, name = game.policy_shape, "policy"
    if isinstance(policy, Mixture):
        policies, weights, name = policy.policies, policy.weights, "policy.policies"
    else:
        policies = checks.as_float_array(name, policy, copy=False)
        policies, weights = policies[None], None
    if game.contexts == 1 and policies.shape[1:] == shape[1:]:
        policies = policies[:, None]
    if policies.shape[1:] != shape:
        axes = "(contexts, agents, actions)"
        if isinstance(game, DecoupledMarkovGame):
            axes = "(contexts, horizon, agents, states, actions)"
        raise ValueError(
            f"{name}: expected a product policy of shape {shape}, {axes}; "
            f"found {tuple(policies.shape[1:])}"
        )
    policies = checks.check_probabilities(name, policies)
    extra = policies * ~own_actions(game)
    if extra.any():
        where = list(checks.first_index(extra > 0))
        raise ValueError(f"{name}: expected no chance of actions an agent lacks, found at {where}")
    return Mixture(policies, weights)


def own_actions(game: ContextualGame | DecoupledMarkovGame) -> np.ndarray:
    """Which actions each agent has; broadcasts against product policies."""
    mask = game.action_mask
    return mask if isinstance(game, ContextualGame) else mask[:, None]


def as_concept(concept: str | None, mixture: Mixture) -> str:
    """The concept asked for, or the one that fits the policy."""
    if concept is None:
        return "nash" if len(mixture) == 1 else "cce"
    if concept not in CONCEPTS:
        raise ValueError(f"concept: expected one of {', '.join(CONCEPTS)}, found {concept!r}")
    if concept == "nash" and len(mixture) > 1:
        raise ValueError(
            'concept: expected "cce" or "ce" for a mixture, found "nash", which is said of '
            "product policies; certify policy.marginal() for that"
        )
    return concept


def parts(mixture: Mixture) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Weights and policies of some components at a time."""
    size = max(1, _CHUNK // mixture.policies[0].size)
    for start in range(0, len(mixture), size):
        part = slice(start, start + size)
        yield mixture.weights[part], mixture.policies[part]
