"""Gains in contextual games: best replies to what all others do together.

Under a mixture an agent that deviates once and for all faces the mean, over components, of its
expected rewards: the others' actions do not depend on it. The expectations go through the
interaction terms, never through the joint space of actions.
"""

from typing import Any

import numpy as np

from equipoise.certificates._mixtures import as_concept, as_mixture, own_actions, parts
from equipoise.core.results import Certificate
from equipoise.games import ContextualGame

_METHOD = {
    "nash": "best reply in every context to the others' product",
    "cce": "best fixed reply in every context to the mixture",
    "ce": "best reply in every context to each recommended action",
}


def certify_contextual(game: ContextualGame, policy: Any, concept: str | None) -> Certificate:
    """Exact gains of every agent, expected over contexts.

    - "nash", for a product policy, and "cce", for a mixture: the best action in each context,
      whatever is recommended (Definition 1 of the interaction-rank paper). Of a mixture this
      can be negative: correlated play may be worth more than every fixed reply.
    - "ce": the best action for each context and recommended action.
    """
    mixture = as_mixture(game, policy)
    concept = as_concept(concept, mixture)
    shape, mask = game.policy_shape, own_actions(game)
    value = np.zeros(shape[:2])
    # [c, i, a, b]: what is earned by playing b whenever a is recommended; without swaps there
    # is one a, which is recommended always.
    swapped = np.zeros((*shape[:2], shape[2] if concept == "ce" else 1, shape[2]))
    for weights, policies in parts(mixture):
        rewards = game.interactions.expected(policies)
        value += np.einsum("t,tcia,tcia->ci", weights, policies, rewards)
        chances = policies if concept == "ce" else np.ones((*policies.shape[:-1], 1))
        swapped += np.einsum("t,tcia,tcib->ciab", weights, chances, rewards)
    best = np.where(mask[:, None], swapped, -np.inf).max(-1).sum(-1)
    contexts = game.context_probabilities
    return Certificate(
        gains=contexts @ (best - value),
        value=contexts @ value,
        method=_METHOD[concept],
        exact=True,
        concept=concept,
    )
