"""Families: reproducible whatever the batch, within [0, 1], and distributed as they say."""

import jax
import numpy as np
import pytest
from scipy import stats

from equipoise.games import MarkovGame, MatrixGame, families
from equipoise.games.families import BLOCK_GAMES, Family


def base_matrix() -> MatrixGame:
    return families.uniform(actions=(2, 3)).sample(key=5)


def base_markov() -> MarkovGame:
    return families.uniform(actions=(2, 3), states=4, discount=0.8).sample(key=5)


FAMILIES = {
    "uniform": families.uniform(actions=(2, 3)),
    "gaussian": families.gaussian(actions=3, mean=0.3, scale=0.4),
    "perturbed": families.perturbed(base_matrix(), scale=0.2),
    "uniform-markov": families.uniform(actions=2, states=3),
    "gaussian-markov": families.gaussian(actions=2, states=3, concentration=0.1),
    "perturbed-markov": families.perturbed(base_markov(), scale=0.2),
}


def same(first, second) -> bool:
    leaves = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


#: More than one block of draws, and not a whole number of them.
COUNT = BLOCK_GAMES + 40


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
class TestEveryFamily:
    def test_the_same_key_gives_the_same_games(self, family: Family):
        games = family.sample(COUNT, key=1)
        assert same(games, family.sample(COUNT, key=1))
        assert same(games, family.sample(COUNT, key=jax.random.key(1)))
        assert not same(games, family.sample(COUNT, key=2))

    def test_a_game_does_not_depend_on_how_many_were_asked_for(self, family: Family):
        many = family.sample(COUNT, key=3)
        assert same(family.sample(key=3), many[0])
        assert same(family.sample(1, key=3), many[:1])
        assert same(family.sample(5, key=3), many[:5])
        assert same(family.sample(BLOCK_GAMES, key=3), many[:BLOCK_GAMES])
        assert not same(many[0], many[1])
        assert not same(many[0], many[BLOCK_GAMES])

    def test_samples_are_games_of_the_right_shape(self, family: Family):
        games = family.sample(COUNT, key=0)
        assert games.batch_shape == (COUNT,)
        assert games.actions == family.actions
        assert isinstance(games, MarkovGame if family.states else MatrixGame)
        if isinstance(games, MarkovGame):
            assert games.states == family.states
            assert games.discount == family.discount
            np.testing.assert_allclose(games.transition.sum(-1), 1.0, atol=1e-12)
            assert games.transition.min() >= 0

    def test_rewards_are_float64_within_the_unit_interval(self, family: Family):
        games = family.sample(COUNT, key=0)
        rewards = games.payoff if isinstance(games, MatrixGame) else games.reward
        assert isinstance(rewards, np.ndarray)
        assert rewards.dtype == np.float64
        assert rewards.min() >= 0
        assert rewards.max() <= 1

    def test_one_game_can_be_drawn_in_a_compiled_function(self, family: Family):
        games = jax.eval_shape(jax.vmap(family.draw), jax.random.split(jax.random.key(0), 3))
        leaves = jax.tree.leaves(games)
        assert all(leaf.shape[0] == 3 for leaf in leaves)
        assert len(leaves) == (2 if family.states else 1)

    def test_a_count_is_a_positive_whole_number(self, family: Family):
        with pytest.raises(ValueError, match="games: expected a whole number >= 1, found 0"):
            family.sample(0, key=0)


class TestDistributions:
    def test_uniform_rewards_are_uniform(self):
        rewards = families.uniform(actions=4).sample(2000, key=0).payoff
        assert stats.kstest(rewards.ravel(), "uniform").pvalue > 1e-3
        # Entries of one game are independent of each other.
        correlation = np.corrcoef(rewards.reshape(2000, 16).T)
        assert np.abs(correlation - np.eye(16)).max() < 0.12

    @pytest.mark.parametrize(("mean", "scale"), [(0.5, 0.2), (0.1, 0.5)])
    def test_gaussian_rewards_are_truncated_and_not_clipped(self, mean, scale):
        family = families.gaussian(actions=4, mean=mean, scale=scale)
        rewards = family.sample(2000, key=0).payoff.ravel()
        law = stats.truncnorm(-mean / scale, (1 - mean) / scale, loc=mean, scale=scale)
        assert stats.kstest(rewards, law.cdf).pvalue > 1e-3
        assert not np.isin(rewards, [0.0, 1.0]).any()

    @pytest.mark.parametrize("concentration", [0.1, 1.0])
    def test_transitions_are_dirichlet(self, concentration):
        family = families.uniform(actions=2, states=4, concentration=concentration)
        p = family.sample(1000, key=0).transition.reshape(-1, 4)
        # Each coordinate is Beta(c, 3 c); its variance tells the concentrations apart.
        law = stats.beta(concentration, 3 * concentration)
        np.testing.assert_allclose(p.mean(0), 0.25, atol=0.01)
        np.testing.assert_allclose(p.var(0), law.var(), rtol=0.05)
        assert stats.kstest(p[:, 0], law.cdf).pvalue > 1e-3

    def test_rewards_and_transitions_are_independent(self):
        games = families.uniform(actions=2, states=3).sample(3000, key=0)
        first = np.corrcoef(games.reward[:, 0, 0, 0], games.transition[:, 0, 0, 0, 0])[0, 1]
        assert abs(first) < 0.08


class TestPerturbed:
    def test_rewards_are_the_base_plus_uniform_noise(self):
        base = MatrixGame(np.full((2, 2), 0.5))
        noise = families.perturbed(base, scale=0.25).sample(2000, key=0).payoff - 0.5
        assert stats.kstest(noise.ravel(), stats.uniform(-0.25, 0.5).cdf).pvalue > 1e-3

    def test_rewards_are_clipped(self):
        near = families.perturbed(MatrixGame([[0.0, 1.0]]), scale=0.5).sample(1000, key=0).payoff
        assert near.min() == 0.0
        assert near.max() == 1.0
        assert np.mean(near[:, 0, 0] == 0.0) == pytest.approx(0.5, abs=0.06)

    @pytest.mark.parametrize("base", [base_matrix(), base_markov()], ids=["matrix", "markov"])
    def test_scale_zero_is_the_base(self, base):
        family = families.perturbed(base, scale=0.0)
        assert family.base is base
        drawn = family.sample(key=0)
        for ours, theirs in zip(jax.tree.leaves(drawn), jax.tree.leaves(base), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-15)

    def test_transitions_mix_the_base_with_a_draw_from_the_simplex(self):
        base = base_markov()
        p = families.perturbed(base, scale=0.5).sample(3000, key=0).transition
        np.testing.assert_allclose(
            p.mean(0), (base.transition + 0.5 / base.states) / 1.5, atol=0.02
        )
        assert (p >= base.transition / 1.5 - 1e-12).all()

    @pytest.mark.parametrize(
        ("base", "scale", "message"),
        [
            (MatrixGame([[2.0, 0.0]]), 0.1, r"base: expected rewards in \[0, 1\], found \[0, 2\]"),
            (MatrixGame([[[0.5]]]), 0.1, "base: expected one MatrixGame or MarkovGame"),
            (MatrixGame([[0.5]]), -0.1, "scale: expected a number in"),
            (MatrixGame([[0.5]]), float("inf"), "scale: expected a number in"),
        ],
    )
    def test_refusals(self, base, scale, message):
        with pytest.raises(ValueError, match=message):
            families.perturbed(base, scale=scale)


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"actions": 0}, "actions: expected a whole number >= 1, found 0"),
            ({"actions": (2, -1)}, "actions: expected a whole number >= 1, found -1"),
            ({"states": 0}, "states: expected a whole number >= 1, found 0"),
            ({"states": 2, "discount": 1.0}, r"discount: expected a number in \[0.0, 1.0\)"),
            ({"states": 2, "discount": 1.0 - 2.0**-41}, r"discount: expected at most 1 - 2\*\*-40"),
            ({"states": 2, "concentration": 0.0}, "concentration: expected a number in"),
        ],
    )
    def test_uniform(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            families.uniform(**arguments)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"mean": 1.5}, r"mean: expected a number in \[0.0, 1.0\], found 1.5"),
            ({"scale": 0.0}, r"scale: expected a number in \(0.0, inf\), found 0.0"),
        ],
    )
    def test_gaussian(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            families.gaussian(**arguments)
