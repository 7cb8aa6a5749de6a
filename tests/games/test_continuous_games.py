"""Games of continuous actions: rewards, policies, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from games.continuous_samples import rich_game, rich_terms, written_out
from support import refuses

import equipoise as eq
from equipoise.games import ContinuousPolicy, PolynomialTerms, RewardFunction

NAMES = [name for name in eq.games.names() if eq.games.describe(name).kind == "continuous"]


@pytest.mark.parametrize("states", [1, 3])
def test_rewards_are_the_sum_of_the_terms(rng, states):
    terms = rich_terms(rng, states=states)
    actions = rng.uniform(-1, 1, (6, 4))
    contexts, places = rng.integers(0, 2, 6), rng.integers(0, states, (6, 4))
    expected = [written_out(terms, *row) for row in zip(actions, contexts, places, strict=True)]
    np.testing.assert_allclose(terms.rewards(actions, contexts, places), expected, atol=1e-12)
    assert terms.rank == 4


def test_numpy_and_jax_give_the_same(rng):
    game = rich_game(rng, states=3, horizon=2)
    actions = rng.uniform(-1, 1, (5, 2, 4))
    contexts, states = rng.integers(0, 2, (5, 2)), rng.integers(0, 3, (5, 2, 4))
    expected = game.rewards(actions, contexts, states)
    inside = jax.jit(lambda a, c, s: game.rewards(a, c, s))(jnp.asarray(actions), contexts, states)
    np.testing.assert_allclose(inside, expected, rtol=2e-4, atol=2e-4)
    # The game itself as an argument, and one sample at a time.
    each = jax.jit(lambda game, *rest: jax.vmap(game.rewards)(*rest))
    found = each(game, *(jnp.asarray(given[0]) for given in (actions, contexts, states)))
    np.testing.assert_allclose(found, expected[0], rtol=2e-4, atol=2e-4)


def test_rewards_have_gradients_inside_jit(rng):
    game = eq.games.load("pairwise-continuous", agents=4)
    actions = rng.uniform(-1, 1, 4)
    slope = jax.jit(jax.jacobian(lambda a: game.rewards(a)))(jnp.asarray(actions))
    expected = (actions[:, None] + np.diag(np.full(4, actions.sum()))) / 2
    np.testing.assert_allclose(slope, expected, atol=1e-6)


def test_weights_may_be_traced(rng):
    """The gradient of rewards in the weights of a game that is built inside of it."""
    actions = rng.uniform(-1, 1, (5, 3))

    def total(weights):
        terms = PolynomialTerms(3, pairs={(1, 1): weights})
        return eq.ContinuousGame(terms).rewards(actions).sum()

    found = jax.grad(total)(jnp.ones((3, 3)))
    np.testing.assert_allclose(found, actions.T @ actions, atol=1e-5)


def test_single_precision_is_kept(rng):
    terms = rich_terms(rng)
    actions = rng.uniform(-1, 1, (50, 4)).astype(np.float32)
    rewards = terms.rewards(actions, np.zeros(50, int))
    assert rewards.dtype == np.float32
    exact = terms.rewards(actions.astype(np.float64), np.zeros(50, int))
    np.testing.assert_allclose(rewards, exact, atol=1e-4)


def test_groups_are_evaluated_in_parts(rng, monkeypatch):
    from equipoise.games import _continuous_terms

    terms = rich_terms(rng)
    actions = rng.uniform(-1, 1, (50, 4))
    whole = terms.rewards(actions, np.ones(50, int))
    monkeypatch.setattr(_continuous_terms, "_CHUNK", 12)
    np.testing.assert_allclose(terms.rewards(actions, np.ones(50, int)), whole, atol=1e-13)


def test_expected_rewards_are_polynomials_of_own_actions(rng):
    """Moments and polynomials, against the mean over all profiles."""
    terms = rich_terms(rng, contexts=1)
    points = rng.uniform(-1, 1, (1, 4, 1, 3))
    weights = rng.dirichlet(np.ones(3), (1, 4, 1))
    replies = terms.own_polynomials(terms.moments(points, weights))
    for i in range(4):
        for own in (-1.0, 0.3, 1.0):
            mean = 0.0
            for choice in np.ndindex(3, 3, 3, 3):
                if choice[i]:
                    continue
                chosen = np.array(choice)[:, None]
                actions = np.take_along_axis(points[0, :, 0], chosen, 1)[:, 0]
                chances = np.take_along_axis(weights[0, :, 0], chosen, 1)[:, 0]
                actions[i], chances[i] = own, 1.0
                mean += chances.prod() * written_out(terms, actions)[i]
            assert np.polyval(replies[0, i, 0][::-1], own) == pytest.approx(mean, abs=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_named_games(name):
    game = eq.games.load(name, agents=7)
    assert game.agents == 7
    assert game.rank == {"square-continuous": 1, "triple-continuous": 3}.get(name, 2)
    assert game.noise == 1.0
    assert "paper" not in eq.games.describe(name).source
    refuses(lambda: eq.games.load(name, agents=0), "agents")
    refuses(lambda: eq.games.load(name, noise=-1.0), "noise")
    policy = game.uniform_policy()
    certificate = eq.certify(game, policy)
    assert certificate.exact
    assert certificate.gains.min() >= -1e-12


def test_pairwise_rewards_are_those_printed(rng):
    actions = rng.uniform(-1, 1, (3, 50))
    rewards = eq.games.load("pairwise-continuous").rewards(actions)
    for i in (0, 17):
        printed = sum(actions[:, i] * actions[:, j] / np.sqrt(50) for j in range(50))
        np.testing.assert_allclose(rewards[:, i], printed, atol=1e-12)


def test_triples_are_those_of_the_ring(rng):
    actions = rng.uniform(-1, 1, 6)
    a, b, c, d = actions[[4, 5, 0, 1]]
    rewards = eq.games.load("triple-continuous", agents=6, neighbours=3).rewards(actions)
    assert rewards[4] == pytest.approx(a * (b * c + b * d + c * d) / np.sqrt(3))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("triple-continuous", {"neighbours": 20}, "neighbours: expected fewer than the 20 agents"),
        ("communities-continuous", {"agents": 4, "contexts": 4}, "contexts: expected a number"),
        ("stamina-continuous", {"states": 1}, "states: expected a whole number >= 2"),
    ],
)
def test_parameters_are_checked(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        eq.games.load(name, **parameters)


class TestFunctions:
    def test_a_function_is_evaluated_in_double_precision(self, rng):
        game = eq.ContinuousGame.from_function(lambda a: a * a.sum(), agents=5)
        actions = rng.uniform(-1, 1, (3, 2, 5))
        expected = actions * actions.sum(-1, keepdims=True)
        np.testing.assert_allclose(game.rewards(actions), expected, atol=1e-15)
        assert game.rank == 5
        inside = jax.jit(lambda a: game.rewards(a))(jnp.asarray(actions))
        np.testing.assert_allclose(inside, expected, atol=1e-5)

    def test_contexts_are_handed_over(self, rng):
        game = eq.ContinuousGame.from_function(lambda a, c: a * (c - 1), agents=2, contexts=3)
        actions, contexts = rng.uniform(-1, 1, (9, 2)), np.arange(9) % 3
        expected = actions * (contexts - 1)[:, None]
        np.testing.assert_allclose(game.rewards(actions, contexts), expected)

    def test_what_a_function_may_not_be(self):
        make = eq.ContinuousGame.from_function
        refuses(lambda: RewardFunction(3, 2), "reward")
        refuses(lambda: make(lambda a: a.sum(), agents=2), "reward")
        refuses(lambda: make(lambda a: a, agents=2, rank=3), "rank")
        refuses(lambda: make(lambda a: a, agents=2, curvature=-1.0), "curvature")
        game = make(lambda a: jnp.log(a), agents=2)
        refuses(lambda: game.rewards(np.array([[0.5, -0.5]])), "reward")
        refuses(lambda: game.uniform_policy(), "game")


class TestPolicies:
    @pytest.mark.parametrize(
        ("shape", "kept"),
        [
            ((3,), (1, 3)),
            ((2, 3), (2, 3)),
            ((4, 3, 2), (1, 4, 3, 2)),
            ((2, 4, 3, 2), (2, 4, 3, 2)),
        ],
    )
    def test_the_axis_of_one_context_may_be_left_out(self, rng, shape, kept):
        points = rng.uniform(-1, 1, shape)
        policy = ContinuousPolicy(points)
        assert policy.points.shape == policy.policy_shape == kept
        mixed = ContinuousPolicy(np.stack([points, -points], -1), np.full((*shape, 2), 0.5))
        assert mixed.policy_shape == kept
        np.testing.assert_allclose(mixed.mean(), 0.0, atol=1e-15)
        assert mixed.support()[0].shape == (*kept, 2)

    def test_what_a_policy_may_not_be(self):
        refuses(lambda: ContinuousPolicy([0.0, 1.5]), "points")
        refuses(lambda: ContinuousPolicy([0.0, float("nan")]), "points")
        refuses(lambda: ContinuousPolicy([[0.0, 1.0]], [[0.5, 0.6]]), "weights")
        refuses(lambda: ContinuousPolicy([[0.0, 1.0]], [0.5, 0.5]), "weights")
        refuses(lambda: ContinuousPolicy(0.5), "points")
        assert ContinuousPolicy([1.0 + 1e-7]).points.max() == 1.0  # rounding is put right

    def test_a_policy_belongs_to_a_game(self):
        game = eq.games.load("signed-continuous", agents=3)
        assert game.policy(np.zeros((2, 3))).policy_shape == (2, 3)
        refuses(lambda: game.policy(np.zeros(3)), "policy")
        refuses(lambda: game.policy(ContinuousPolicy(np.zeros(3))), "policy")
        refuses(lambda: game.policy("uniform"), "path")


class TestWhatIsRefused:
    def test_terms(self):
        ones = np.ones((2, 2))
        scopes, powers = np.array([[0, 1, 2]]), np.array([[1, 1, 1]])
        cases = [
            ({}, "own: expected at least one of"),
            ({"own": np.ones((5, 1))}, r"own: expected shape \(powers,\), \(2, powers\)"),
            ({"own": [0.0, np.inf]}, "own: expected finite numbers"),
            ({"pairs": {(1, 1): np.ones((3, 3))}}, r"pairs\[\(1, 1\)\]: expected shape \(2, 2\)"),
            ({"pairs": {(1, -1): ones}}, "pairs: expected pairs of powers"),
            ({"pairs": {1: ones}}, "pairs: expected pairs of powers"),
            ({"groups": {2: (scopes, powers, [1.0])}}, "groups: expected orders >= 3, found 2"),
            ({"groups": {3: (scopes, powers, [1.0])}}, r"groups\[3\]: expected agents from 0 to 1"),
            ({"own": [1.0], "effects": [1.0, 2.0]}, "effects: expected shape"),
        ]
        for arguments, message in cases:
            with pytest.raises(ValueError, match=message):
                PolynomialTerms(2, **arguments)
        refuses(lambda: PolynomialTerms(3, groups={3: ([[0, 1, 1]], powers, [1.0])}), "groups[3]")
        refuses(
            lambda: PolynomialTerms(2, np.ones((2, 2, 1)), {(1, 1): np.ones((3, 2, 2))}), "weights"
        )

    def test_transitions(self):
        terms = PolynomialTerms(2, effects=[[0, 1], [0, 2]], pairs={(1, 1): np.ones((2, 2))})
        refuses(lambda: eq.ContinuousGame(terms), "transitions")
        flip = np.zeros((2, 2, 2))
        flip[:, 0], flip[:, 1] = [0.5, 0.5], [0.5, -0.5]
        assert eq.ContinuousGame(terms, transitions=flip, horizon=3).states == 2
        refuses(lambda: eq.ContinuousGame(terms, transitions=flip * 0.9), "transitions")
        refuses(lambda: eq.ContinuousGame(terms, transitions=flip * [1.0, 1.2]), "transitions")
        refuses(lambda: eq.ContinuousGame(terms, transitions=flip[:1]), "transitions")
        refuses(lambda: eq.ContinuousGame(terms, transitions=flip, initial=[1.0]), "initial")
        refuses(lambda: eq.ContinuousGame(terms, transitions=flip, initial=[0.5, 0.6]), "initial")

    def test_rewards_are_asked_for_with_what_they_need(self, rng):
        game = rich_game(rng, states=3, horizon=2)
        zeros = np.zeros((5, 4))
        refuses(lambda: game.rewards(np.zeros((5, 3))), "actions")
        refuses(lambda: game.rewards(zeros), "contexts")
        refuses(lambda: game.rewards(zeros, 0), "states")
        refuses(lambda: game.rewards(zeros, 0, np.full(4, 3)), "states")
        refuses(lambda: game.rewards(zeros + 2.0, 0, np.zeros(4, int)), "actions")
        refuses(lambda: game.rewards(zeros, np.zeros(3, int), np.zeros(4, int)), "contexts")

    def test_other_things_are_no_terms(self):
        refuses(lambda: eq.ContinuousGame(lambda a: a), "terms")
