"""Gains of very many agents in a Markov game: each class solves its own decision process.

While all others keep to the policy, one agent faces a finite-horizon decision process in which
its action moves the aggregate by its own influence, and with it rewards and transitions.
Backward induction solves it exactly.
"""

from typing import Any

import numpy as np

from equipoise.certificates._aggregative import (
    AggregativeCertificate,
    aggregate_of,
    as_given,
    is_plain,
    own_points,
)
from equipoise.core.results import Certificate
from equipoise.games import AggregativeMarkovGame, AggregativePolicy

#: How many chances of next states are held at once.
_CHUNK = 20_000_000


def certify_aggregative_markov(game: AggregativeMarkovGame, policy: Any) -> Certificate:
    """Exact gains of all agents from every starting state, and of the worst for each."""
    given = as_given(game, policy, (game.horizon, game.states))
    policy = given.policy
    value = np.zeros((policy.classes, game.states))
    best = np.zeros((policy.classes, game.states))
    for h in reversed(range(game.horizon)):
        new_value, new_best = np.empty_like(value), np.empty_like(best)
        for s in range(game.states):
            new_value[:, s], new_best[:, s] = _step(game, policy, h, s, value, best)
        value, best = new_value, new_best
    method = "best responses by backward induction, each deviation at its own aggregate"
    return AggregativeCertificate(given, (best - value).T, value.T, method)


def _step(
    game: AggregativeMarkovGame,
    policy: AggregativePolicy,
    h: int,
    s: int,
    value: np.ndarray,
    best: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Value of the policy, and of the best response, to each class in one step and state."""
    played = policy.actions[:, h, s].astype(np.int64)
    influence = game.influences(h, s)
    x = aggregate_of(influence, game.scale, policy, played)
    own = own_points(influence, game.scale, x, policy.rows, played)
    plain = is_plain(policy.rows, game.types)
    rewards = game.own_rewards(h, s, own)
    rewards = rewards if plain else rewards[played, policy.rows]
    stay = np.take_along_axis(rewards, played[:, None], 1)[:, 0]
    stay = stay + value @ game.transitions(h, s, x)
    if h == game.horizon - 1:
        return stay, rewards.max(1)
    replies = np.empty_like(rewards)
    size = max(1, _CHUNK // (rewards.shape[1] * game.states))
    table = None if plain else game.transitions(h, s, own)
    for start in range(0, len(rewards), size):
        part = slice(start, start + size)
        if table is None:
            chances = game.transitions(h, s, own[part])
        else:
            chances = table[played[part], policy.rows[part]]
        ahead = np.einsum("cas,cs->ca", chances, best[part])
        replies[part] = rewards[part] + ahead
    # Keeping to the action now and deviating later is one of the replies.
    return stay, replies.max(1)
