"""Gains of many agents against loops over agents, deviations and whole policies."""

from itertools import product

import numpy as np
import pytest
from aggregative.crowd_games import city, crowd

import equipoise as eq


@pytest.mark.parametrize("d", [1, 2])
def test_gains_are_those_of_a_loop(d, rng):
    game = crowd(12, d)
    profile = rng.integers(0, 3, 12)

    def payoff(i, played):
        x = game.scale * game.influence[np.arange(12), played].sum(0)
        return game.rewards(x)[i, played[i]]

    expected = []
    for i in range(12):
        changed = [np.where(np.arange(12) == i, a, profile) for a in range(3)]
        expected.append(max(payoff(i, p) for p in changed) - payoff(i, profile))
    certificate = eq.certify(game, profile)
    np.testing.assert_allclose(certificate.gains, expected, atol=1e-12)
    np.testing.assert_allclose(certificate.value, [payoff(i, profile) for i in range(12)])
    assert certificate.exact
    assert certificate.max_gain == certificate.gains.max()
    assert certificate.nash_conv == pytest.approx(certificate.gains.sum())
    assert certificate.exploitability == pytest.approx(certificate.gains.mean())
    assert certificate.players == 12


def test_markov_gains_are_those_of_all_policies(rng):
    """Every deterministic policy of one agent, while the others keep to theirs."""
    game = city(3, states=2, horizon=2, actions=2)
    policy = rng.integers(0, 2, (3, 2, 2))

    def value(i, played):
        ahead = np.zeros(2)
        for h in (1, 0):
            now = np.empty(2)
            for s in range(2):
                x = game.scale * game.influence[np.arange(3), played[:, h, s]].sum(0)
                now[s] = game.rewards(h, s, x)[i, played[i, h, s]]
                now[s] += game.transitions(h, s, x) @ ahead
            ahead = now
        return ahead

    certificate = eq.certify(game, policy)
    for i in range(3):
        best = np.full(2, -np.inf)
        for own in product(range(2), repeat=4):
            played = policy.copy()
            played[i] = np.reshape(own, (2, 2))
            best = np.maximum(best, value(i, played))
        np.testing.assert_allclose(certificate.value[:, i], value(i, policy), atol=1e-12)
        np.testing.assert_allclose(
            certificate.state_gains[:, i], best - value(i, policy), atol=1e-12
        )
        assert certificate.gains[i] == pytest.approx((best - value(i, policy)).max(), abs=1e-12)


def test_classes_are_as_good_as_agents(rng):
    """Types with counts, and the same agents one by one."""
    kinds = crowd(4, counts=[5, 1, 9, 6])
    profile = rng.integers(0, 3, 21)
    order = np.repeat(np.arange(4), kinds.counts)
    each = eq.AggregativeGame(
        kinds.influence[order], lambda x: kinds.rewards(x)[order], kinds.lipschitz
    )
    assert not each.field.elementwise
    ours, theirs = eq.certify(kinds, profile), eq.certify(each, profile)
    np.testing.assert_allclose(ours.gains, theirs.gains, atol=1e-12)
    np.testing.assert_allclose(ours.value, theirs.value, atol=1e-12)
    assert len(ours.class_counts) <= 12
    # Listed agents keep their order; classes are in the order of the rows.
    assert ours.gains[::-1].tolist() != ours.gains.tolist()


def test_listed_agents_of_a_markov_game_keep_their_order(rng):
    kinds = city(2, states=2, horizon=2, counts=[4, 5])
    order = np.repeat(np.arange(2), kinds.counts)
    each = eq.AggregativeMarkovGame(
        kinds.influence[order],
        lambda h, s, x: kinds.rewards(h, s, x)[order],
        kinds.transition,
        2,
        2,
        lipschitz=0.5,
        transition_lipschitz=1.0,
    )
    policy = rng.integers(0, 3, (9, 2, 2))
    ours, theirs = eq.certify(kinds, policy), eq.certify(each, policy)
    np.testing.assert_allclose(ours.gains, theirs.gains, atol=1e-12)
    np.testing.assert_allclose(ours.value, theirs.value, atol=1e-12)
    np.testing.assert_allclose(ours.state_gains, theirs.state_gains, atol=1e-12)


def test_point_by_point_is_the_same_as_elementwise(rng):
    game = crowd(6)
    plain = eq.AggregativeGame(game.influence, game.field.function, 1.0, elementwise=False)
    profile = rng.integers(0, 3, 6)
    assert game.field.elementwise
    np.testing.assert_allclose(
        eq.certify(game, profile).gains, eq.certify(plain, profile).gains, atol=1e-14
    )


def test_rewards_in_jax_are_certified_in_double_precision():
    import jax.numpy as jnp

    game = crowd(6)
    base, slope = game.rewards([0.0]), game.rewards([1.0]) - game.rewards([0.0])
    same = eq.AggregativeGame(
        game.influence, lambda x: jnp.asarray(base) + jnp.asarray(slope) * x[..., 0], 1.0
    )
    profile = np.zeros(6, int)
    np.testing.assert_allclose(
        eq.certify(game, profile).value, eq.certify(same, profile).value, atol=1e-14
    )


def test_a_million_agents_are_certified():
    town = eq.games.load("two-roads", agents=1_000_000)
    policy = eq.games.AggregativePolicy([0, 0], [500_001, 499_999], [0, 1])
    certificate = eq.certify(town, policy)
    # Who goes back to the even split saves two steps of 1e-6 in each direction, less its own.
    assert certificate.gains.shape == (1_000_000,)
    assert 0 <= certificate.max_gain <= 2e-6


def test_wrong_policies_are_refused():
    game, markov = crowd(3), city(3, states=2, horizon=2)
    for policy, message in (
        ([0, 0], r"policy: expected shape \(3,\)"),
        ([0.0, 1.0, 0.0], "policy: expected whole numbers"),
        ([0, 1, 3], "policy: expected actions from 0 to 2, found 0 to 3"),
        (eq.games.AggregativePolicy([0, 1], [1, 1], [0, 0]), "expected 1 agents of row 2, found 0"),
        (eq.games.AggregativePolicy([0, 7], [1, 1], [0, 0]), "expected rows below 3, found 7"),
    ):
        with pytest.raises(ValueError, match=message):
            eq.certify(game, policy)
    with pytest.raises(ValueError, match="one action for each agent, step and state"):
        eq.certify(markov, [0, 0, 0])
    with pytest.raises(ValueError, match="expected actions of shape"):
        eq.certify(markov, eq.games.AggregativePolicy([0, 1, 2], [1, 1, 1], [0, 0, 0]))
