"""Gains in Markov games with decoupled transitions: one decision process for each agent.

The others' states and actions do not depend on what an agent does. Against a mixture, its
expected rewards in each step, state and action are therefore means over components, taken
through the others' occupancies and the interaction terms; with them one dynamic program over its
own states gives the best reply.

An agent that hears recommendations, and may deviate upon each, learns from them which component
is being played: its best reply depends on all that was recommended so far. That is solved
exactly on the tree of its histories, where the tree is small enough to hold.
"""

from typing import Any

import numpy as np

from equipoise.certificates._mixtures import as_concept, as_mixture, own_actions, parts
from equipoise.core.results import Certificate
from equipoise.games import DecoupledMarkovGame, Mixture

#: The largest tree of histories of one agent, in numbers.
TREE_LIMIT = 20_000_000


def certify_decoupled(game: DecoupledMarkovGame, policy: Any, concept: str | None) -> Certificate:
    """Gains of every agent over an episode, expected over contexts and first states.

    - "nash", for a product policy, and "cce", for a mixture: the best policy of its own,
      whatever is recommended. Of a mixture this can be negative.
    - "ce": the best reply to recommendations, which may depend on the context, the step, own
      states and all recommendations so far. Where the tree of these is too large, the gains are
      those of an agent that is told the component: upper bounds, with `exact=False`.
    """
    mixture = as_mixture(game, policy)
    concept = as_concept(concept, mixture)
    swaps = concept == "ce" and len(mixture) > 1  # alone, a component recommends nothing new
    rewards, mean, value = _rewards(game, mixture, keep=swaps)
    if rewards is None:
        best, method, exact = _best(game, mean), "best replies by dynamic programming", True
    elif _tree_size(game, mixture) <= TREE_LIMIT:
        best, exact = _best_on_histories(game, mixture, rewards), True
        method = "best replies to recommendations, on the tree of own histories"
    else:
        best = sum(w * _best(game, own) for w, own in zip(mixture.weights, rewards, strict=True))
        method, exact = "upper bounds: best replies of an agent told the component", False
    contexts = game.context_probabilities
    return Certificate(
        gains=contexts @ (best - value),
        value=contexts @ value,
        method=method,
        exact=exact,
        concept=concept,
    )


def _rewards(
    game: DecoupledMarkovGame, mixture: Mixture, *, keep: bool
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Expected rewards of own states and actions: of each component if kept, and their mean;
    and (contexts, agents) the value of the mixture."""
    shape = game.policy_shape
    situations = (shape[0] * shape[1], shape[2], shape[3] * shape[4])
    mean, value, kept = np.zeros(shape), np.zeros((shape[0], shape[2])), []
    for weights, policies in parts(mixture):
        chances = game.occupancies(policies)
        flat = chances.reshape(-1, *situations)
        rewards = game.interactions.expected(flat).reshape(chances.shape)
        mean += np.tensordot(weights, rewards, 1)
        value += np.einsum("t,tchisa,tchisa->ci", weights, chances, rewards)
        if keep:
            kept.append(rewards)
    return (np.concatenate(kept) if keep else None), mean, value


def _best(game: DecoupledMarkovGame, rewards: np.ndarray) -> np.ndarray:
    """(contexts, agents): the value of the best policy of each agent for itself."""
    mask = own_actions(game)
    ahead = np.zeros(game.initial.shape)
    for h in reversed(range(game.horizon)):
        replies = (
            rewards[:, h] + np.matmul(game.transitions[:, h], ahead[:, :, None, :, None])[..., 0]
        )
        ahead = np.where(mask, replies, -np.inf).max(-1)
    return (game.initial * ahead).sum(-1)


def _tree_size(game: DecoupledMarkovGame, mixture: Mixture) -> float:
    places = max(game.states) * max(game.actions)
    return float(places) ** game.horizon * len(mixture)


def _best_on_histories(
    game: DecoupledMarkovGame, mixture: Mixture, rewards: np.ndarray
) -> np.ndarray:
    """(contexts, agents): the value of the best reply to recommendations."""
    best = np.zeros((game.contexts, game.agents))
    for c in range(game.contexts):
        for i in range(game.agents):
            best[c, i] = game.initial[c, i] @ _tree_value(
                mixture.weights,
                mixture.policies[:, c, :, i],
                rewards[:, c, :, i],
                game.transitions[c, :, i],
                game.actions[i],
            )
    return best


def _tree_value(
    weights: np.ndarray,
    policies: np.ndarray,
    rewards: np.ndarray,
    transitions: np.ndarray,
    actions: int,
) -> np.ndarray:
    """(states,): the best one agent can do from each first state.

    `policies` and `rewards` are (components, horizon, states, actions), `transitions` (horizon,
    states, actions, states). A history is the states and recommendations so far; with it goes
    the chance, for each component, that this is played and has recommended all that. Chances
    are not normalised: values are then linear in them, and add up over recommendations.
    """
    components, horizon, states, width = policies.shape
    levels = [weights[None, :]]
    for h in range(horizon):
        heard = levels[-1][:, None, None, :] * np.moveaxis(policies[:, h], 0, -1)
        levels.append(heard.reshape(-1, components))
    ahead = np.zeros((len(levels[-1]), states))
    for h in reversed(range(horizon)):
        heard = levels[h + 1].reshape(-1, states, width, components)
        # [history, state, recommended, played]
        now = np.einsum("psat,tsb->psab", heard, rewards[:, h], optimize=True)
        later = np.einsum(
            "psaz,sbz->psab",
            ahead.reshape(-1, states, width, states),
            transitions[h],
            optimize=True,
        )
        ahead = (now + later)[..., :actions].max(-1).sum(-1)
    return ahead[0]
