"""Gains in general-sum normal-form games of any number of players."""

from typing import Any

import numpy as np

from equipoise.certificates._policies import as_profile
from equipoise.core.results import Certificate
from equipoise.games import NormalFormGame


def certify_normal_form(game: NormalFormGame, policy: Any) -> Certificate:
    """Exact gains of every player against the product of the others' strategies."""
    players = game.players
    profile = as_profile(
        policy,
        [(actions,) for actions in game.actions],
        [f"player {i}'s" for i in range(players)],
    )
    for i, strategy in enumerate(profile):
        if strategy.ndim != 1:
            raise ValueError(f"policy[{i}]: expected one axis, found shape {strategy.shape}")
    payoffs = np.asarray(game.payoffs, np.float64)
    gains, values = np.zeros(players), np.zeros(players)
    for i in range(players):
        own = payoffs[i]
        for j in reversed(range(players)):
            if j != i:
                own = np.tensordot(own, profile[j], axes=(j, 0))
        values[i] = own @ profile[i]
        gains[i] = own.max() - values[i]
    return Certificate(
        gains=gains, value=values, method="best pure reply to the others' product", exact=True
    )
