"""Maps of equilibria, mean fields and envelopes."""

import numpy as np
import pytest
from aggregative.crowd_games import city, crowd

import equipoise as eq
from equipoise.aggregative import (
    equilibria,
    from_mean_field,
    lipschitz_envelope,
    mean_field,
    sampled_gain,
)


class TestMap:
    def test_all_three_equilibria_of_the_common_good(self):
        good = eq.games.load("public-good", agents=3000, gain=0.8, cost=0.2)
        assert [float(e.aggregate[0]) for e in equilibria(good)] == [1.0, 0.0]
        found = equilibria(good, tolerance=1e-3)  # one of a quarter gains 0.0001 by joining
        assert sorted(round(float(e.aggregate[0]), 3) for e in found) == [0.0, 0.25, 1.0]
        assert found[0].aggregate == pytest.approx(1.0)
        for equilibrium in found:
            low, high = equilibrium.region
            assert low - 1e-9 <= equilibrium.aggregate <= high + 1e-9
            assert equilibrium.gain <= 1e-3

    def test_welfare_orders_them(self):
        game = eq.games.load("public-good", agents=100)
        found = equilibria(game, welfare=np.array([[1.0, 0.0]]))
        assert found[0].aggregate == pytest.approx(0.0)
        assert [e.welfare for e in found] == sorted((e.welfare for e in found), reverse=True)

    @pytest.mark.parametrize("seed", range(4))
    def test_every_pure_equilibrium_is_in_a_region(self, seed):
        """Brute force: no pure Nash profile of a tiny game lies outside the map."""
        from itertools import product

        game = crowd(5, actions=2, seed=seed, slope=0.9)
        stage_regions = [e.region for e in equilibria(game, spacing=0.02)]
        for profile in product(range(2), repeat=5):
            if eq.certify(game, np.array(profile)).max_gain > 0:
                continue
            x = game.influence[np.arange(5), profile].mean(0)
            near = [
                (x >= low - game.delta - 1e-9).all() and (x <= high + game.delta + 1e-9).all()
                for low, high in stage_regions
            ]
            assert any(near)

    def test_markov_games_stage_by_stage(self):
        game = city(3, states=2, horizon=2, counts=[30, 20, 50])
        found = equilibria(game)
        assert {e.stage for e in found} == {(0, 0), (0, 1), (1, 0), (1, 1)}
        assert max(e.gain for e in found) <= 4 * game.lipschitz * game.delta

    def test_spacing_is_checked(self):
        with pytest.raises(ValueError, match="spacing: expected a number in"):
            equilibria(crowd(3), spacing=0.0)


class TestMeanField:
    def test_the_limit_is_an_equilibrium_and_agents_come_near(self):
        for agents in (10, 1000, 100_000):
            game = eq.games.load("parallel-roads", agents=agents, roads=2, types=3)
            limit = mean_field(game)
            assert limit.gain <= 1e-4
            pure = from_mean_field(game, limit.policy)
            gain = float(eq.certify(game, pure).max_gain)
            # Numbers are off by less than one for each type and action.
            assert gain <= limit.gain + 2 * game.lipschitz * game.delta * (1 + 3 * 2)

    @pytest.mark.parametrize("roads", [4, 5, 8])
    def test_many_coordinates_are_solved_by_replies(self, roads):
        """The flow on roads with linear delays, each its own coordinate, in closed form."""
        free, jam = np.linspace(0.1, 0.3, roads), np.linspace(1.0, 0.5, roads)

        def reward(x):
            loads = np.broadcast_to(x, (*np.broadcast_shapes(x.shape[:-1], (1, roads)), roads))
            return -(free + jam * loads[..., range(roads), range(roads)])

        game = eq.AggregativeGame(np.eye(roads)[None], reward, 1.0, counts=[7], bounds=(-2, 0))
        limit = mean_field(game)
        delay = (1 + (free / jam).sum()) / (1 / jam).sum()  # equal on all roads, which all are used
        np.testing.assert_allclose(limit.policy[0], (delay - free) / jam, atol=1e-5)
        assert limit.gain <= 2e-6

    def test_replies_that_cycle_in_too_many_coordinates_are_named(self):
        rng = np.random.default_rng(4)
        d, types, actions = (int(rng.integers(*ends)) for ends in ((4, 9), (1, 6), (2, 6)))
        assert (d, types, actions) == (7, 5, 5)
        influence = rng.random((5, 5, 7))
        base, slopes = rng.uniform(-0.1, 0.1, (5, 5)), 3 * rng.uniform(-1, 1, (5, 5, 7))
        game = eq.AggregativeGame(
            influence,
            lambda x: base + np.sin((slopes * x).sum(-1)),
            float(np.abs(slopes).sum(-1).max()),
            counts=[50] * 5,
            bounds=(-2, 2),
        )
        with pytest.raises(ValueError, match=r"precision: expected a precision .* 7 coordinates"):
            mean_field(game)
        assert mean_field(game, precision=0.01).gain <= 0.02 * game.lipschitz * 5

    def test_markov_policies_are_brought_to_n_agents(self):
        game = eq.games.load("epidemic", agents=10_000)
        limit = mean_field(game)
        assert limit.policy.shape == (10, 4, 3, 3)
        certificate = eq.certify(game, from_mean_field(game, limit.policy))
        assert certificate.max_gain < 0.02

    def test_one_mix_for_all(self, rng):
        game = city(4, states=2, horizon=3, counts=[10, 20, 30, 40])
        mixed = rng.dirichlet(np.ones(3), (3, 2))
        pure = from_mean_field(game, mixed)
        for h, s in np.ndindex(3, 2):
            plays = pure.plays(4, 3, h, s)
            assert (plays.sum(1) == game.counts).all()
            assert np.abs(plays - mixed[h, s] * game.counts[:, None]).max() < 1

    def test_no_numbers_of_agents_are_nearer_to_a_mix(self, rng):
        game = crowd(1, counts=[7])
        for mixed in rng.dirichlet(np.ones(3), 20):
            plays = from_mean_field(game, mixed).plays(1, 3)[0]
            exact = mixed * 7
            splits = (np.array([a, b, 7 - a - b]) for a in range(8) for b in range(8 - a))
            nearest = min(np.abs(split - exact).sum() for split in splits)
            assert np.abs(plays - exact).sum() == pytest.approx(nearest)

    def test_agents_one_by_one_share_a_mix(self):
        game = crowd(100)
        pure = from_mean_field(game, [0.25, 0.25, 0.5])
        assert np.bincount(pure.per_agent()).tolist() == [25, 25, 50]

    def test_wrong_policies_are_refused(self):
        game = crowd(4)
        with pytest.raises(ValueError, match="policy: expected shape"):
            from_mean_field(game, np.ones((2, 3)) / 3)
        with pytest.raises(ValueError, match="sum to 1"):
            from_mean_field(game, [0.5, 0.1, 0.1])

    def test_drawing_alone_is_noisier_than_ranks(self):
        bar = eq.games.load("el-farol", agents=50)
        gain, error = sampled_gain(bar, [0.4, 0.6], draws=2000)
        # At the mixed equilibrium of the limit, others' mean share is 0.6 without me: my going
        # moves it by my own weight, so that staying is better by 0.9/50 times what I add.
        assert gain == pytest.approx(0.9 * 0.6 * 0.4 / 50, abs=4 * error)
        assert error < 0.002


class TestEnvelope:
    @pytest.mark.parametrize("shape", [(1,), (23,), (9, 12), (5, 4, 6)])
    @pytest.mark.parametrize("upper", [True, False])
    def test_it_is_the_naive_one(self, shape, upper, rng):
        values, slope, spacing = rng.uniform(-5, 5, shape), 3.0, 0.25
        points = np.argwhere(np.ones(shape))
        far = spacing * np.abs(points[:, None] - points[None]).max(-1)
        if upper:
            naive = (values.ravel()[None] + slope * far).min(1).reshape(shape)
        else:
            naive = (values.ravel()[None] - slope * far).max(1).reshape(shape)
        envelope = lipschitz_envelope(values, slope, spacing, upper=upper)
        np.testing.assert_allclose(envelope, naive, atol=1e-12)
        np.testing.assert_allclose(
            lipschitz_envelope(envelope, slope, spacing, upper=upper), envelope, atol=1e-12
        )
        for axis in range(len(shape)):
            assert np.abs(np.diff(envelope, axis=axis)).max(initial=0) <= slope * spacing + 1e-12


@pytest.mark.parametrize("lipschitz", [None, 30.0, 150.0])
def test_stability_is_local(lipschitz):
    """Going pays sin(30 x + 2), which crosses zero ten times: downwards at stable points."""

    def reward(x):
        share = x[..., 0]
        return np.stack([np.sin(30.0 * share + 2.0), 0.0 * share], -1)[..., None, :]

    game = eq.AggregativeGame([[[1.0], [0.0]]], reward, lipschitz, counts=[2000])
    stable = [one.aggregate[0] for one in eq.aggregative.equilibria(game)]
    found = eq.aggregative.equilibria(game, tolerance=0.02)  # single agents overshoot the others
    found = sorted(found, key=lambda one: one.aggregate[0])
    crossings = [(np.pi * k - 2.0) / 30.0 for k in range(1, 11)]
    np.testing.assert_allclose(
        [one.aggregate[0] for one in found], [*crossings, 1.0], rtol=0, atol=2e-3
    )
    assert [one.stable for one in found] == [k % 2 == 0 for k in range(10)] + [True]
    assert sorted(stable) == [one.aggregate[0] for one in found if one.stable]
