"""Lists of equilibria: nothing on them is none, and complete ones miss none, by the definition."""

from itertools import product

import numpy as np
import pytest
from soak.attacks.crowds import draw, gains_of

import equipoise as eq
from equipoise.aggregative import _map


@pytest.mark.parametrize("few", [False, True], ids=["enumerated", "searched"])
def test_lists_against_the_gains_of_all_profiles(few, monkeypatch):
    if few:
        monkeypatch.setattr(_map, "PROFILES", 0)
    listed = 0
    for case in range(24 if few else 48):
        game = draw(np.random.default_rng([3, case]), 1 + case % 4)
        gains = gains_of(game)
        listing = eq.aggregative.equilibria(game)
        listed += len(listing)
        plays = [one.policy.plays(game.types, game.actions[0]) for one in listing]
        keys = {tuple(map(int, one.ravel())) for one in plays}
        assert len(keys) == len(listing)
        assert all(gains[key] <= listing.tolerance for key in keys)
        assert listing.complete == listing.status.ok == (not few)
        if not few:
            assert {key for key, gain in gains.items() if gain <= 1e-12} <= keys
            if not keys:
                assert min(gains.values()) > listing.tolerance
    assert listed > (10 if few else 40)


def test_profiles_within_a_wide_tolerance_lead_to_listed_ones():
    game = draw(np.random.default_rng(16), 2)
    gains, actions = gains_of(game), game.actions[0]
    tolerance = 0.1 * max(gains.values())
    listing = eq.aggregative.equilibria(game, tolerance=tolerance)
    plays = [one.policy.plays(game.types, actions) for one in listing]
    keys = {tuple(map(int, one.ravel())) for one in plays}
    within = {key for key, gain in gains.items() if gain <= tolerance}
    assert keys < within

    def nearby(key):
        table = np.reshape(key, (-1, actions))
        for t, a, b in product(range(len(table)), *[range(actions)] * 2):
            near = table.copy()
            near[t, a] -= 1
            near[t, b] += 1
            yield tuple(map(int, near.ravel()))

    for key in within:
        while key not in keys:  # to the neighbour with the smallest gain
            best = min(nearby(key), key=lambda near: gains.get(near, np.inf))
            assert gains[best] <= gains[key]
            key = best


def test_lists_of_very_many_equilibria_say_how_many_there_are(monkeypatch):
    monkeypatch.setattr(_map, "_LISTED", 5)
    level = eq.AggregativeGame(
        [[[1.0], [0.0]]], lambda x: np.zeros((1, 2)) + 0.0 * x[..., :1], 0.0, counts=[20]
    )
    listing = eq.aggregative.equilibria(level, tolerance=1e-9)
    assert [len(listing), listing.complete] == [5, False]
    assert "the best for society of 21 that meet" in listing.status.message
