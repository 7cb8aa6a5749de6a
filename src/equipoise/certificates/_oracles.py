"""Certificates for the use of resources, from the oracle's best actions."""

import math

import numpy as np

from equipoise.core.errors import InputError
from equipoise.core.network_results import NetworkCertificate
from equipoise.core.rounding import EPS
from equipoise.games import FlowPolicy, OracleGame

#: How much cheaper than the best actions use may be, at prices drawn at random.
_FEASIBLE = 1e-6
_PRICES = 6


def certify_oracle(game: OracleGame, policy: FlowPolicy, concept: str) -> NetworkCertificate:
    """Return the mean gain from a best action, for each population."""
    if concept not in ("auto", "nash"):
        raise InputError("concept", '"nash" for an OracleGame', repr(concept))
    use = policy.flows
    _check_prices(game, use)
    costs = game.costs(use.sum(0))
    best = game.replies(costs)
    spent, least = use @ costs, best @ costs
    reach = (np.abs(use) + np.abs(best)) @ np.abs(costs)
    slack = 2.0 * EPS * (game.resources + 2) * reach
    gains = (spent - least) / game.sizes
    # No mixture of actions costs less than the cheapest action: a shortfall is added to the bound.
    lacking = np.maximum(least - spent, 0.0)
    if (short := lacking > _FEASIBLE * np.abs(least) + slack).any():
        found = f"too little use by population {game.labels.player(int(np.argmax(short)))}"
        raise InputError("flows", "the use of some mixture of actions", found)
    slack = slack + 2.0 * lacking
    worst, nowhere = int(np.argmax(gains)), np.zeros(0, np.int64)
    return NetworkCertificate(
        gains=gains,
        upper=np.maximum(gains, 0.0) + slack / game.sizes,
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
    """Reject use that no mixture of actions produces, as far as random prices reveal it."""
    rng = np.random.default_rng(0)
    for draw in range(_PRICES):
        prices = rng.exponential(size=game.resources) if draw else np.ones(game.resources)
        spent, least = use @ prices, game.replies(prices) @ prices
        wrong = spent < least - _FEASIBLE * np.abs(least)
        if wrong.any():
            k = int(np.argmax(wrong))
            found = f"too little use by population {game.labels.player(k)}"
            raise InputError("flows", "the use of some mixture of actions", found)
