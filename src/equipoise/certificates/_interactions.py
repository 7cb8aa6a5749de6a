"""Gains in games with interaction terms: contextual games and decoupled Markov games.

The others' states and actions do not depend on an agent's own actions. Against a mixture, the
agent's expected rewards in each step, state and action are therefore means over components,
computed through the others' occupancies and the interaction terms, never through the joint space.
In a contextual game a best response maximises these rewards; if agents have local states, a dynamic
program over the agent's own states gives it.

An agent that hears recommendations, and may deviate after each, learns from them which component
is being played: its best response depends on all recommendations so far. That problem is solved on
the tree of the agent's histories, if the tree fits into memory.

Everything is computed a second time with absolute payoffs, which bounds rounding; see
`core.rounding`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.results import TableCertificate
from equipoise.core.rounding import EPS, WEIGHTS, Normalised, nearest_to_zero, normalise
from equipoise.games import (
    ContextualGame,
    DecoupledMarkovGame,
    Interactions,
    MatrixGame,
    Mixture,
    NormalFormGame,
)

#: Number of expected rewards held at once.
_CHUNK = 4_000_000
#: Largest tree of histories of one agent, in numbers stored.
TREE_LIMIT = 20_000_000
#: The concepts for which gains can be computed, with the method of each.
CONCEPTS = ("nash", "cce", "ce")

_METHOD = {
    "nash": "best response in every context to the others' product",
    "cce": "best fixed deviation in every context from the mixture",
    "ce": "best response in every context to each recommended action",
}


def certify_contextual(game: ContextualGame, policy: Any, concept: str) -> TableCertificate:
    """Return the gains of every agent, averaged over contexts.

    - "nash", for a product policy, and "cce", for a mixture: the best action in each context,
      whatever is recommended (Definition 1 of the interaction-rank paper). For a mixture this
      gain can be negative: correlated play may be worth more than every fixed deviation.
    - "ce": the best action for each context and recommended action.
    """
    mixture: Mixture = game.policy(policy)
    concept = check_concept(concept, mixture)
    shape, mask = game.policy_shape, own_actions(game)
    terms = _prepare(game.interactions)
    value, value_size = np.zeros(shape[:2]), np.zeros(shape[:2])
    # [c, i, a, b]: reward of playing b whenever a is recommended; without swaps there is a single
    # a, which is always recommended.
    swapped = np.zeros((*shape[:2], shape[2] if concept == "ce" else 1, shape[2]))
    swapped_size = np.zeros_like(swapped)
    for weights, policies in parts(mixture):
        chances = policies if concept == "ce" else np.ones((*policies.shape[:-1], 1))
        for source, own, swaps in (
            (terms.payoffs, value, swapped),
            (terms.sizes, value_size, swapped_size),
        ):
            rewards = source.expected(policies)
            own += np.einsum("t,tcia,tcia->ci", weights, policies, rewards)
            swaps += np.einsum("t,tcia,tcib->ciab", weights, chances, rewards)
    operations = terms.operations + game.interactions.rank * WEIGHTS
    step = EPS * (operations + len(mixture) + 4 * WEIGHTS + 2 * shape[2] + shape[0])
    best = np.where(mask[:, None], swapped, -np.inf).max(-1).sum(-1)
    top = np.where(mask[:, None], swapped + step * swapped_size, -np.inf).max(-1).sum(-1)
    reach = np.where(mask[:, None], swapped_size, 0.0).max(-1).sum(-1)
    return _certificate(
        game, terms, value, best - value, top - value + step * value_size,
        step * (reach + value_size), method=_METHOD[concept], concept=concept,
    )  # fmt: skip


def certify_decoupled(game: DecoupledMarkovGame, policy: Any, concept: str) -> TableCertificate:
    """Return the gains of every agent over an episode, averaged over contexts and first states.

    - "nash", for a product policy, and "cce", for a mixture: the agent's best policy, whatever is
      recommended. For a mixture this gain can be negative.
    - "ce": the best response to recommendations, which may depend on the context, the step, own
      states and all recommendations so far. If the tree of histories is too large, `gains` are
      those of the best policy that ignores recommendations, and `upper` is the gain of an agent
      that is told the component.
    """
    mixture: Mixture = game.policy(policy)
    concept = check_concept(concept, mixture)
    swaps = concept == "ce" and len(mixture) > 1  # a single component recommends nothing new
    terms = _prepare(game.interactions)
    rewards, mean, value = _rewards(game, mixture, terms.payoffs, keep=swaps)
    sizes, mean_size, value_size = _rewards(game, mixture, terms.sizes, keep=swaps)
    moves = max(game.states) * max(game.actions)
    occupancy = game.horizon * (moves + 2 * WEIGHTS + 4)
    operations = terms.operations + (game.interactions.rank + 1) * occupancy
    step = EPS * (operations + len(mixture) + 4 * WEIGHTS + moves + game.contexts)
    if rewards is None or sizes is None:
        best, size = _best(game, mean), _best(game, mean_size)
        top, method = best, "best responses by dynamic programming"
    else:
        size, told = (
            sum(w * _best(game, own) for w, own in zip(mixture.weights, each, strict=True))
            for each in (sizes, rewards)
        )
        if _tree_size(game, mixture) <= TREE_LIMIT:
            best = top = _best_on_histories(game, mixture, rewards)
            method = "best responses to recommendations, on the tree of own histories"
        else:
            best, top = _best(game, mean), told
            method = (
                "between the best response that ignores recommendations and the best responses of "
                "an agent told the component"
            )
    slack = step * (size + value_size)
    return _certificate(
        game, terms, value, best - value, top - value + slack, slack,
        method=method, concept=concept,
    )  # fmt: skip


class _Terms(NamedTuple):
    """Interaction terms rescaled to ordinary size, and the same with absolute payoffs."""

    payoffs: Interactions
    sizes: Interactions
    #: (situations, agents): offset subtracted from the rewards.
    offset: np.ndarray
    table: Normalised
    #: Largest number of summands of one expected reward, and of factors of each.
    operations: int


def _prepare(terms: Interactions) -> _Terms:
    """Normalise terms; the offset of a term does not depend on anybody's actions."""
    tables = {order: np.asarray(table, np.float64) for order, table in terms.tables.items()}
    ends = np.array([[table.min(), table.max()] for table in tables.values()])
    frame = normalise(np.array([ends.min(), ends.max(), 0.0]), 1)
    offset = np.zeros((terms.situations, terms.agents))
    count = np.zeros(terms.agents)
    for order, scopes in terms.scopes.items():
        if not isinstance(frame.exponent, int):
            tables[order] = np.ldexp(tables[order], -frame.exponent)
        flat = tables[order].reshape(*tables[order].shape[:2], -1)
        far = nearest_to_zero(flat.min(-1), flat.max(-1))
        if far.any():
            tables[order] = tables[order] - far.reshape(*far.shape, *[1] * order)
            np.add.at(offset.T, scopes[:, 0], far.T)
        np.add.at(count, scopes[:, 0], float(terms.moves) ** (order - 1))
    payoffs = terms
    if offset.any() or not isinstance(frame.exponent, int):
        payoffs = Interactions(terms.scopes, tables, terms.agents)
    sizes = Interactions(terms.scopes, {k: np.abs(t) for k, t in tables.items()}, terms.agents)
    return _Terms(payoffs, sizes, offset, frame, int(count.max()) + 4 * terms.rank)


def _certificate(
    game: ContextualGame | DecoupledMarkovGame,
    terms: _Terms,
    value: np.ndarray,
    gains: np.ndarray,
    upper: np.ndarray,
    rounding: np.ndarray,
    *,
    method: str,
    concept: str,
) -> TableCertificate:
    """Average values, gains and bounds (contexts, agents) over contexts, in the game's units."""
    contexts, table = game.context_probabilities, terms.table
    offset = terms.offset.reshape(game.contexts, -1, value.shape[-1]).sum(1)
    largest = np.maximum(np.abs(gains), np.abs(upper)) + rounding
    slack = EPS * (WEIGHTS + game.contexts) * (contexts @ largest) + table.tiny
    gains, rounding = contexts @ gains, contexts @ rounding + slack
    upper = np.maximum(contexts @ upper + slack, gains)
    return TableCertificate(
        gains=table.restore(gains, 0),
        upper=table.restore(upper, 0, up=True),
        value=table.restore(contexts @ (value + offset), 0),
        method=method,
        concept=concept,
        rounding=table.restore(rounding + EPS * np.abs(upper), 0, up=True),
    )


def as_terms(game: MatrixGame | NormalFormGame) -> ContextualGame:
    """Convert a game of one payoff table to interaction terms, for which mixtures are defined."""
    if game.batch_shape:
        raise InputError("game", "a single game for a mixture", f"a batch of {game.batch_shape}")
    zero_sum = isinstance(game, MatrixGame)
    payoffs = (
        np.stack([payoff := np.asarray(game.payoff), -payoff])
        if zero_sum
        else np.asarray(game.payoffs)
    )
    # The padding is never read: the game states how many actions each player has.
    room = [(0, max(game.actions) - count) for count in game.actions]
    padded = np.pad(payoffs, [(0, 0), *room], mode="edge")
    return ContextualGame(Interactions.from_dense(padded[None]), actions=game.actions)


def own_actions(game: ContextualGame | DecoupledMarkovGame) -> np.ndarray:
    """Which actions each agent has; broadcasts against product policies."""
    mask = game.action_mask
    return mask if isinstance(game, ContextualGame) else mask[:, None]


def check_concept(concept: str, mixture: Mixture | None = None) -> str:
    """Return the requested concept, or the default for the policy (product or mixture)."""
    several = mixture is not None and len(mixture) > 1
    if concept == "auto":
        return "cce" if several else "nash"
    if concept not in CONCEPTS:
        raise InputError("concept", f"one of {('auto', *CONCEPTS)}", repr(concept))
    if concept == "nash" and several:
        found = '"nash", which applies to product policies'
        hint = "certify policy.marginal() for that"
        raise InputError("concept", '"cce" or "ce" for a mixture', found, hint)
    return concept


def parts(mixture: Mixture) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield weights and policies of a few components at a time."""
    size = max(1, _CHUNK // mixture.policies[0].size)
    for start in range(0, len(mixture), size):
        part = slice(start, start + size)
        yield mixture.weights[part], mixture.policies[part]


def _rewards(
    game: DecoupledMarkovGame, mixture: Mixture, terms: Interactions, *, keep: bool
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Expected rewards of own states and actions (of each component if kept, and their mean), and
    the value of the mixture (contexts, agents)."""
    shape = game.policy_shape
    situations = (shape[0] * shape[1], shape[2], shape[3] * shape[4])
    mean, value, kept = np.zeros(shape), np.zeros((shape[0], shape[2])), []
    for weights, policies in parts(mixture):
        chances = game.occupancies(policies)
        flat = chances.reshape(-1, *situations)
        rewards = terms.expected(flat).reshape(chances.shape)
        mean += np.tensordot(weights, rewards, 1)
        value += np.einsum("t,tchisa,tchisa->ci", weights, chances, rewards)
        if keep:
            kept.append(rewards)
    return (np.concatenate(kept) if keep else None), mean, value


def _best(game: DecoupledMarkovGame, rewards: np.ndarray) -> np.ndarray:
    """(contexts, agents): value of each agent's best policy."""
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
    """(contexts, agents): value of the best response to recommendations."""
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
    """(states,): largest value of one agent from each first state.

    `policies` and `rewards` are (components, horizon, states, actions), `transitions` (horizon,
    states, actions, states). A history consists of the states and recommendations so far. It
    carries, for each component, the probability that the component is played and has made these
    recommendations. Probabilities are not normalised: values are then linear in them and add up
    over recommendations.
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
