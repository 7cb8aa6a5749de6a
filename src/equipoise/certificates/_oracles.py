"""Use of resources against the oracle's best actions."""

import math
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.errors import InputError
from equipoise.core.network_results import NetworkCertificate
from equipoise.core.rounding import EPS
from equipoise.games import FlowPolicy, OracleGame

#: By how much use may be cheaper than the best actions at prices drawn at random.
_FEASIBLE = 1e-6
_PRICES = 6


def certify_oracle(game: OracleGame, policy: Any, concept: str) -> NetworkCertificate:
    """What an agent of each population gains by a best action, in the mean over the population."""
    if concept not in ("auto", "nash"):
        raise InputError("concept", '"nash" for an OracleGame', repr(concept))
    policy = policy if isinstance(policy, FlowPolicy) else FlowPolicy(policy)
    use = policy.flows
    shape = (game.players, game.resources)
    checks.check_shape("flows", use, shape, "populations and resources")
    _check_prices(game, use)
    costs = game.costs(use.sum(0))
    best = game.replies(costs)
    spent, least = use @ costs, best @ costs
    reach = (np.abs(use) + np.abs(best)) @ np.abs(costs)
    slack = 2.0 * EPS * (game.resources + 2) * reach
    gains = (spent - least) / game.sizes
    worst, nowhere = int(np.argmax(gains)), np.zeros(0, np.int64)
    return NetworkCertificate(
        gains=gains,
        upper=gains + slack / game.sizes,
        value=spent / game.sizes,
        method="use of resources against the oracle's cheapest actions",
        total_cost=math.fsum(spent),
        least_cost=math.fsum(least),
        gap_rounding=float(slack.sum()),
        travellers=float(game.sizes.sum()),
        largest_excess=float(gains.max()),
        worst_pair=worst,
        worst_path=nowhere,
        better_path=nowhere,
        rounding=slack / game.sizes,
    )


def _check_prices(game: OracleGame, use: np.ndarray) -> None:
    """Refuse what no mixture of actions uses, as far as some prices show."""
    rng = np.random.default_rng(0)
    for draw in range(_PRICES):
        prices = rng.exponential(size=game.resources) if draw else np.ones(game.resources)
        spent, least = use @ prices, game.replies(prices) @ prices
        wrong = spent < least - _FEASIBLE * np.abs(least)
        if wrong.any():
            k = int(np.argmax(wrong))
            found = f"less of population {game.labels.player(k)}"
            raise InputError("flows", "what mixtures of actions use", found)
