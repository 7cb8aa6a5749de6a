"""Gains where actions are numbers, against brute force, and bounds where rewards are functions."""

import itertools
from fractions import Fraction
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from games.continuous_samples import rich_game
from scipy.optimize import minimize_scalar

import equipoise as eq
from equipoise.certificates import _continuous
from equipoise.games import ContinuousPolicy, PolynomialTerms


def largest(function) -> float:
    """The maximum on [-1, 1] of a function: a grid, and a search around its best points."""
    grid = np.linspace(-1.0, 1.0, 41)
    values = np.array([function(a) for a in grid])
    best = values.max()
    for k in np.argsort(values)[-2:]:
        bounds = (grid[max(k - 1, 0)], grid[min(k + 1, 40)])
        found = minimize_scalar(
            lambda a: -function(a), bounds=bounds, method="bounded", options={"xatol": 1e-10}
        )
        best = max(best, -found.fun)
    return float(best)


def random_policy(rng, game, support=2) -> ContinuousPolicy:
    shape = (*game.policy_shape, support)
    return ContinuousPolicy(
        rng.uniform(-1, 1, shape), rng.dirichlet(np.ones(support), game.policy_shape)
    )


def reply(game, agent, context, profiles, chances, own, states=None) -> float:
    """Expected reward of an action `own` of one agent against listed profiles of all others."""
    actions = profiles.copy()
    actions[:, agent] = own
    contexts = np.full(len(actions), context)
    return float(chances @ game.terms.rewards(actions, contexts, states)[:, agent])


def test_gains_are_those_of_brute_force(rng):
    """Every profile of the others, every own action, in every context."""
    game = rich_game(rng)
    policy = random_policy(rng, game)
    choices = np.array(list(itertools.product(range(2), repeat=4)))
    gains, value = np.zeros(4), np.zeros(4)
    for c, i in itertools.product(range(2), range(4)):
        mine = choices[choices[:, i] == 0]  # once for each choice of the others
        profiles = policy.points[c, np.arange(4), mine]
        chances = np.delete(policy.weights[c, np.arange(4), mine], i, 1).prod(1)
        against = partial(reply, game, i, c, profiles, chances)
        mean = policy.weights[c, i] @ [against(a) for a in policy.points[c, i]]
        value[i] += game.context_probabilities[c] * mean
        gains[i] += game.context_probabilities[c] * (largest(against) - mean)
    certificate = eq.certify(game, policy)
    np.testing.assert_allclose(certificate.value, value, atol=1e-10)
    np.testing.assert_allclose(certificate.gains, gains, atol=1e-10)
    assert certificate.exact


def test_gains_with_local_states_are_those_of_brute_force(rng):
    """The joint chain of all agents for the value; a program of its own for each best reply."""
    game = rich_game(rng, states=2, horizon=2)
    policy = ContinuousPolicy(rng.uniform(-1, 1, game.policy_shape))
    joint, agents = np.array(list(itertools.product(range(2), repeat=4))), np.arange(4)
    value, best = np.zeros((2, 4)), np.zeros((2, 4))
    for c in range(2):
        chances = game.initial[c, agents, joint].prod(1)
        ahead, steps = np.zeros((4, 2)), []
        for h in range(2):
            actions = policy.points[c, h, agents, joint]
            steps.append((actions, chances))
            value[c] += chances @ game.terms.rewards(actions, np.full(16, c), joint)
            powers = actions[..., None, None] ** np.arange(3)
            rows = (game.transitions[c, agents, joint] * powers).sum(-1)  # (16, agents, next)
            chances = chances @ rows[:, agents, joint].prod(-1)
        for h, i in itertools.product((1, 0), range(4)):
            actions, chances = steps[h]
            new = np.zeros(2)
            for own in range(2):
                # The others, whatever state agent i was in itself.
                here = joint[:, i] == own
                twin = [
                    np.flatnonzero((joint == np.where(agents == i, 1 - s, s)).all(1))[0]
                    for s in joint[here]
                ]
                weights = chances[here] + chances[twin]
                against = partial(reply, game, i, c, actions[here], weights, states=joint[here])
                kernel = game.transitions[c, i, own]
                new[own] = largest(
                    lambda a, f=against, k=kernel, v=ahead[i]: f(a) + v @ (k @ a ** np.arange(3))
                )
            ahead[i] = new
        best[c] = (game.initial[c] * ahead).sum(-1)
    certificate, weights = eq.certify(game, policy), game.context_probabilities
    np.testing.assert_allclose(certificate.value, weights @ value, atol=1e-10)
    np.testing.assert_allclose(certificate.gains, weights @ (best - value), atol=1e-10)


def test_one_state_that_nothing_moves_is_a_game_without_states(rng):
    plain = rich_game(rng)
    still = eq.ContinuousGame(
        plain.terms, plain.context_probabilities, np.ones((1, 1, 1)), horizon=3
    )
    policy = random_policy(rng, plain)
    points, weights = (
        np.repeat(a[:, None, :, None], 3, 1) for a in (policy.points, policy.weights)
    )
    certificate = eq.certify(still, ContinuousPolicy(points, weights))
    expected = eq.certify(plain, policy)
    np.testing.assert_allclose(certificate.gains, 3 * expected.gains, rtol=1e-12)
    np.testing.assert_allclose(certificate.value, 3 * expected.value, rtol=1e-12)


class TestTheMetricOfThePaper:
    """Appendix B of the interaction-rank paper, in sqrt(N) times the units of rewards."""

    @staticmethod
    def printed(policy: np.ndarray) -> float:
        total = policy.sum()
        gaps = [max(a * (a + total - own) for a in (-1.0, 1.0)) - own * total for own in policy]
        return max(gaps)

    @pytest.mark.parametrize("agents", [2, 50])
    def test_it_is_the_largest_gain(self, rng, agents):
        game = eq.games.load("pairwise-continuous", agents=agents)
        consensus, split = np.ones(agents), np.repeat([1.0, -1.0], agents // 2)
        cases = [(consensus, 0.0), (-consensus, 0.0), (0 * consensus, 1.0), (split, 2.0)]
        for policy, known in cases:
            found = eq.certify(game, policy).max_gain * np.sqrt(agents)
            assert found == pytest.approx(known, abs=1e-12)
        for policy in rng.uniform(-1, 1, (5, agents)):
            found = eq.certify(game, policy).max_gain * np.sqrt(agents)
            assert found == pytest.approx(self.printed(policy), abs=1e-10)

    def test_a_laggard_and_a_dissenter(self):
        """One agent at 1 - d, all others at 1, gains N d - d + d^2 ... ; at -1, 2 (N - 2) + 2."""
        agents = 50
        game = eq.games.load("pairwise-continuous", agents=agents)
        policy = np.ones(agents)
        policy[7] = 0.9
        gains = eq.certify(game, policy).gains * np.sqrt(agents)
        assert gains[7] == pytest.approx(agents - 0.9 * (agents - 0.1), abs=1e-10)
        assert np.median(gains) == pytest.approx(0.0, abs=1e-10)
        policy[7] = -1.0
        gains = eq.certify(game, policy).gains * np.sqrt(agents)
        assert gains[7] == pytest.approx(agents + (agents - 2), abs=1e-10)


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("square-continuous", np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])),
        ("signed-continuous", np.stack([np.ones(6), np.zeros(6)])),
        ("communities-continuous", 1 - 2 * ((np.arange(6) >> np.arange(3)[:, None]) & 1)),
        ("triple-continuous", np.ones(6)),
    ],
)
def test_known_equilibria_of_named_games(name, points):
    game = eq.games.load(name, agents=6)
    assert eq.certify(game, points).max_gain == pytest.approx(0.0, abs=1e-12)
    assert eq.certify(game, 0.5 * np.asarray(points) - 0.1).max_gain > 0.01


def test_uniform_play_has_the_gains_of_very_many_points(rng):
    game = rich_game(rng, states=2, horizon=2)
    middles = (np.arange(2000) + 0.5) / 1000 - 1.0
    shape = (*game.policy_shape, 2000)
    many = ContinuousPolicy(np.broadcast_to(middles, shape), np.full(shape, 1 / 2000))
    exact, near = eq.certify(game, game.uniform_policy()), eq.certify(game, many)
    np.testing.assert_allclose(exact.gains, near.gains, atol=1e-4)
    np.testing.assert_allclose(exact.value, near.value, atol=1e-4)


def test_a_thousand_agents_do_not_take_long():
    game = eq.games.load("pairwise-continuous", agents=1000)
    policy = np.ones(1000)
    policy[0] = -1.0
    gains = eq.certify(game, policy).gains * np.sqrt(1000)
    assert gains[0] == pytest.approx(1998.0)
    assert gains[1] == pytest.approx(0.0, abs=1e-9)


class TestFunctions:
    @staticmethod
    def pair(rng, **known):
        """The same rewards as polynomial terms and as a function: -a_i^4 + x_i b_i + W."""
        weights, own = rng.normal(size=(3, 3)), rng.normal(size=(3, 5))
        exact = eq.ContinuousGame(PolynomialTerms(3, own, {(1, 1): weights}))

        def reward(a):
            return (own * a[:, None] ** np.arange(5)[None]).sum(1) + a * (weights @ a)

        return exact, eq.ContinuousGame.from_function(reward, 3, **known)

    @pytest.mark.parametrize("stochastic", [False, True])
    @pytest.mark.parametrize(
        ("known", "tolerance"), [({"curvature": 60.0}, 1e-8), ({"lipschitz": 40.0}, 1e-5)]
    )
    def test_stated_constants_give_upper_bounds(self, rng, known, tolerance, stochastic):
        exact, game = self.pair(rng, **known)
        policy = random_policy(rng, exact) if stochastic else rng.uniform(-1, 1, 3)
        certificate, expected = eq.certify(game, policy), eq.certify(exact, policy)
        assert "upper bounds from the declared" in certificate.method
        np.testing.assert_allclose(certificate.value, expected.value, atol=1e-12)
        assert (certificate.gains <= expected.upper).all()
        assert (certificate.upper >= expected.gains).all()
        np.testing.assert_allclose(certificate.upper, expected.gains, atol=tolerance)
        np.testing.assert_allclose(certificate.gains, expected.gains, atol=tolerance)

    @pytest.mark.parametrize("size", [2.0**20, 1e12])
    @pytest.mark.parametrize("weights", [(1 / 7, 2 / 7, 4 / 7), (0.2, 0.4, 0.4), (0.3, 0.6, 0.1)])
    def test_large_rewards_that_cancel_in_the_mean_are_rounded_as_large_ones(self, size, weights):
        """The mean of r = a / 4 + size b over b is near zero; its rounding is that of `size`."""
        other = (-1.0, 0.5, 0.0)

        def reward(a):
            return jnp.stack([0.25 * a[0] + size * a[1], 0.0 * a[1]])

        def mean(a):
            pairs = zip(weights, other, strict=True)
            means = [Fraction(w) * Fraction(0.25 * a + size * b) for w, b in pairs]
            return sum(means) / sum(map(Fraction, weights))

        game = eq.ContinuousGame.from_function(reward, 2, lipschitz=0.25)
        policy = ContinuousPolicy([[0.0] * 3, other], [[1.0, 0.0, 0.0], weights])
        certificate = eq.certify(game, policy)
        assert Fraction(float(certificate.upper[0])) >= mean(1.0) - mean(0.0)
        assert certificate.upper[0] <= 0.25 + 1e-13 * size

    def test_without_constants_they_are_what_was_found(self, rng):
        exact, game = self.pair(rng)
        policy = rng.uniform(-1, 1, 3)
        certificate, expected = eq.certify(game, policy), eq.certify(exact, policy)
        assert not certificate.exact
        assert "no Lipschitz constant or curvature" in certificate.method
        assert (certificate.gains <= expected.upper).all()
        assert np.isinf(certificate.upper).all()
        np.testing.assert_allclose(certificate.gains, expected.gains, atol=1e-6)

    def test_a_peak_between_the_points_of_the_grid_is_bounded_too(self):
        """A bump so narrow that the grid misses it: only the stated curvature reveals it."""
        width, place = 2e-3, 0.003

        def reward(a):
            return jnp.exp(-0.5 * ((a - place) / width) ** 2)

        blind = eq.ContinuousGame.from_function(reward, 2)
        told = eq.ContinuousGame.from_function(reward, 2, curvature=1 / width**2)
        policy = np.array([-0.5, -0.5])
        assert eq.certify(told, policy).max_gain == pytest.approx(1.0, abs=1e-6)
        assert eq.certify(blind, policy).max_gain <= 1.0

    def test_when_trials_run_out_the_bound_still_holds(self, rng, monkeypatch):
        monkeypatch.setattr(_continuous, "MOST_TRIALS", 200)
        exact, game = self.pair(rng, lipschitz=40.0)
        policy = rng.uniform(-1, 1, 3)
        certificate, expected = eq.certify(game, policy), eq.certify(exact, policy)
        assert (certificate.gains <= expected.upper).all()
        assert (certificate.upper >= expected.gains).all()
        assert certificate.upper.max() > expected.gains.max() + 1e-4
        assert not certificate.exact

    def test_contexts_have_their_own_best_replies(self):
        game = eq.ContinuousGame.from_function(
            lambda a, c: a * (2.0 * c - 1.0),
            agents=2,
            contexts=2,
            curvature=0.0,
            context_probabilities=[0.25, 0.75],
        )
        certificate = eq.certify(game, [[1.0, -1.0], [0.0, 1.0]])
        assert certificate.gains.tolist() == [0.25 * 2 + 0.75, 0.0]

    @pytest.mark.parametrize(
        ("known", "reached"),
        [
            ({"curvature": 5.0}, r"curvature: .*found 5, .*reach 8"),
            ({"lipschitz": 3.0}, "lipschitz"),
        ],
    )
    def test_a_stated_bound_that_rewards_break_is_refused(self, known, reached):
        game = eq.ContinuousGame.from_function(lambda a: -4.0 * a**2, 2, **known)
        with pytest.raises(ValueError, match=reached):
            eq.certify(game, np.zeros(2))

    def test_a_function_that_jax_cannot_compile_is_refused(self):
        game = eq.ContinuousGame.from_function(lambda a: np.asarray(a) * 2.0, 2)
        with pytest.raises(ValueError, match=r"reward: expected a function written with jax.numpy"):
            eq.certify(game, np.zeros(2))

    def test_too_many_joint_choices_are_refused(self):
        game = eq.ContinuousGame.from_function(lambda a: a, 20)
        policy = ContinuousPolicy(np.tile([-1.0, 1.0], (20, 1)), np.full((20, 2), 0.5))
        with pytest.raises(ValueError, match=r"policy: expected at most 4096 joint choices.*2\^20"):
            eq.certify(game, policy)


def test_other_concepts_are_refused():
    game = eq.games.load("square-continuous", agents=2)
    with pytest.raises(ValueError, match='concept: expected "nash" for a ContinuousGame'):
        eq.certify(game, [1.0, 1.0], concept="cce")
