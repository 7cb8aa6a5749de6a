"""Certificates: against brute force and other libraries, and what they refuse."""

import itertools

import numpy as np
import pytest
from support import peer

import equipoise as eq
from equipoise.core import kernels


def random_policy(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])


def test_gains_in_matrix_games_are_those_of_the_best_pure_reply(rng) -> None:
    payoff = rng.normal(size=(20, 3, 4))
    x, y = random_policy(rng, 20, 3), random_policy(rng, 20, 4)
    certificate = eq.certify(eq.MatrixGame(payoff), (x, y))
    for g in range(20):
        value = x[g] @ payoff[g] @ y[g]
        rows = [np.eye(3)[a] @ payoff[g] @ y[g] - value for a in range(3)]
        columns = [value - x[g] @ payoff[g] @ np.eye(4)[b] for b in range(4)]
        np.testing.assert_allclose(certificate.gains[g], [max(rows), max(columns)], atol=1e-12)
        np.testing.assert_allclose(certificate.value[g], [value, -value], atol=1e-12)
    assert certificate.exact


def test_many_policies_on_one_game_and_one_policy_on_many_games(rng) -> None:
    one, many = eq.MatrixGame(rng.normal(size=(3, 4))), eq.MatrixGame(rng.normal(size=(7, 3, 4)))
    x, y = random_policy(rng, 7, 3), random_policy(rng, 7, 4)
    wide = eq.certify(one, (x, y))
    deep = eq.certify(many, (x[0], y[0]))
    assert wide.gains.shape == deep.gains.shape == (7, 2)
    np.testing.assert_allclose(wide.gains[3], eq.certify(one, (x[3], y[3])).gains, atol=1e-14)
    np.testing.assert_allclose(deep.gains[3], eq.certify(many[3], (x[0], y[0])).gains, atol=1e-14)
    np.testing.assert_allclose(deep[3].gains, deep.gains[3])


def test_gains_in_markov_games_equal_brute_force_over_stationary_replies(rng) -> None:
    games = eq.games.families.uniform(actions=2, states=3, discount=0.8).sample(10, key=0)
    x, y = random_policy(rng, 10, 3, 2), random_policy(rng, 10, 3, 2)
    certificate = eq.certify(games, (x, y))

    def value(g: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        chain = np.einsum("sabt,sa,sb->st", games.transition[g], x, y)
        reward = np.einsum("sab,sa,sb->s", games.reward[g], x, y)
        return np.linalg.solve(np.eye(3) - 0.8 * chain, reward)

    replies = [np.eye(2)[list(actions)] for actions in itertools.product(range(2), repeat=3)]
    for g in range(10):
        base = value(g, x[g], y[g])
        rows = np.max([value(g, reply, y[g]) - base for reply in replies], 0)
        columns = np.max([base - value(g, x[g], reply) for reply in replies], 0)
        np.testing.assert_allclose(
            certificate.state_gains[g], np.stack([rows, columns], -1), atol=1e-10
        )
        np.testing.assert_allclose(certificate.gains[g], [rows.max(), columns.max()], atol=1e-10)


def test_markov_policies_broadcast_over_games(rng) -> None:
    games = eq.games.families.uniform(actions=2, states=3, discount=0.8).sample(5, key=0)
    uniform = np.full((3, 2), 0.5)
    wide = eq.certify(games, (uniform, uniform))
    np.testing.assert_allclose(wide.gains[2], eq.certify(games[2], (uniform, uniform)).gains)
    x = random_policy(rng, 4, 3, 2)
    many = eq.certify(games[0], (x, uniform))
    assert many.gains.shape == (4, 2)
    np.testing.assert_allclose(many.gains[1], eq.certify(games[0], (x[1], uniform)).gains)


def test_gains_are_never_negative_beyond_rounding(rng) -> None:
    games = eq.games.families.uniform(actions=3, states=4, discount=0.99).sample(50, key=1)
    solution = eq.solve(games)
    assert solution.certificate.state_gains.min() > -1e-10
    matrix = eq.MatrixGame(rng.normal(size=(1000, 3, 3)))
    assert eq.solve(matrix).certificate.gains.min() > -1e-14


def test_nash_conv_agrees_with_openspiel(rng) -> None:
    pyspiel = peer("pyspiel")
    policy_module = peer("open_spiel.python.policy")
    exploitability = peer("open_spiel.python.algorithms.exploitability")
    payoff = rng.normal(size=(3, 4))
    x, y = random_policy(rng, 3), random_policy(rng, 4)
    theirs = pyspiel.convert_to_turn_based(
        pyspiel.create_matrix_game(payoff.tolist(), (-payoff).tolist())
    )
    tabular = policy_module.TabularPolicy(theirs)
    for player, strategy in enumerate((x, y)):
        for state in tabular.states_per_player[player]:
            tabular.action_probability_array[tabular.state_lookup[state], : len(strategy)] = (
                strategy
            )
    certificate = eq.certify(eq.MatrixGame(payoff), (x, y))
    assert abs(exploitability.nash_conv(theirs, tabular) - certificate.nash_conv) < 1e-9
    assert abs(exploitability.exploitability(theirs, tabular) - certificate.exploitability) < 1e-9


def test_gains_of_three_players_agree_with_gambit(rng) -> None:
    gambit = peer("pygambit")
    payoffs = rng.integers(-9, 10, size=(3, 2, 3, 2)).astype(float)
    profile = [random_policy(rng, n) for n in (2, 3, 2)]
    certificate = eq.certify(eq.NormalFormGame(payoffs), profile)
    theirs = gambit.StrategicGame.from_arrays(*payoffs)
    mixed = theirs.mixed_strategy_profile(data=[p.tolist() for p in profile], rational=False)
    assert abs(mixed.max_regret() - certificate.max_gain) < 1e-9
    for player, value in zip(("1", "2", "3"), certificate.value, strict=True):
        assert abs(mixed.payoffs[player] - value) < 1e-9


def test_measures_have_one_meaning_each() -> None:
    certificate = eq.certify(eq.MatrixGame([[1, -1], [-1, 1]]), ([1, 0], [0, 1]))
    assert certificate.gains.tolist() == [2.0, 0.0]
    assert certificate.max_gain == 2.0
    assert certificate.nash_conv == 2.0
    assert certificate.exploitability == 1.0


@pytest.mark.parametrize(
    ("game", "policy"),
    [
        (eq.MatrixGame([[0.0]]), ([1.0], [1.0])),
        (eq.games.load("chicken"), ([1.0, 0.0], [0.0, 1.0])),
        (eq.games.families.uniform(2, states=2).sample(key=0), (np.eye(2), np.eye(2))),
        (eq.games.load("two-roads", agents=3), [0, 1, 1]),
        (eq.games.load("square-continuous", agents=2), [1.0, 1.0]),
        (eq.ContinuousGame.from_function(lambda a: a, 2), [1.0, 1.0]),
    ],
    ids=lambda part: type(part).__name__ if hasattr(part, "actions") else "",
)
def test_certificates_of_product_policies_are_of_nash(game, policy) -> None:
    assert eq.certify(game, policy).concept == "nash"


PENNIES = [[1, -1], [-1, 1]]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (([1, 0],), "policy: expected one array of probabilities per player, 2 in all; found 1"),
        (([1, 0], None), r"policy\[1\]: expected probabilities of shape \(2,\), found None"),
        (([1, 0], [1, 0, 0]), r"policy\[1\]: expected probabilities of shape \(..., 2\)"),
        (([0.7, 0.7], [1, 0]), r"policy\[0\]: expected probabilities that sum to 1.* 1.4"),
        (([1.5, -0.5], [1, 0]), r"policy\[0\]: expected probabilities >= 0, found -0.5 at \[1\]"),
        (([float("nan"), 1], [1, 0]), r"policy\[0\]: expected finite numbers, found nan at \[0\]"),
        ("uniform", r"path: expected a name that ends in \.json or \.npz, found uniform"),
        (np.eye(2), "policy: expected .* as a tuple or list; found ndarray"),
        ((["a", "b"], [1, 0]), r"policy\[0\]: expected real numbers"),
    ],
)
def test_what_is_not_a_profile_is_refused(policy, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        eq.certify(eq.MatrixGame(PENNIES), policy)


def test_batches_that_do_not_fit_are_refused(rng) -> None:
    game = eq.MatrixGame(rng.normal(size=(5, 2, 2)))
    with pytest.raises(ValueError, match="batch axes that broadcast"):
        eq.certify(game, (np.full((3, 2), 0.5), np.full((3, 2), 0.5)))


@pytest.mark.parametrize("offset", [0.0, 1e4, 2e6])
def test_gains_do_not_depend_on_a_constant_added_to_the_payoffs(offset: float) -> None:
    """Probabilities a little off, as float32 makes them, must not scale the value."""
    game = eq.MatrixGame(np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) + offset)
    uniform = np.full(3, 1 / 3)
    for scale in (1 - 9e-7, 1.0, 1 + 9e-7):
        gains = eq.certify(game, ([1, 0, 0], uniform * scale)).gains
        np.testing.assert_allclose(gains, [0.0, 1.0], atol=1e-8)
    slightly_negative = [1 + 5e-7, -5e-7, 0]
    gains = eq.certify(game, (slightly_negative, uniform)).gains
    np.testing.assert_allclose(gains, [0.0, 1.0], atol=1e-8)


def test_long_horizons_do_not_magnify_sums_that_are_a_little_off() -> None:
    stay = np.full((1, 1, 1, 1), 1 + 9e-7)
    game = eq.MarkovGame(np.ones((1, 1, 1)), stay, 0.999999)
    value = eq.certify(game, ([[1.0]], [[1 - 9e-7]])).value
    np.testing.assert_allclose(value, [[1e6, -1e6]], rtol=1e-6)


@pytest.mark.parametrize(
    "batches", [((), (9,), (9,)), ((9,), (), ()), ((9,), (9,), ()), ((2, 3), (2, 3), ())]
)
@pytest.mark.parametrize("shape", [(3, 3), (11, 20), (70, 65)])
def test_batches_that_broadcast_are_certified_alike(batches, shape, monkeypatch):
    """By kernels, eight columns at a time, and by products of matrices."""
    rng = np.random.default_rng(0)
    game_batch, *policy_batches = batches
    game = eq.MatrixGame(rng.normal(size=(*game_batch, *shape)))
    policy = [
        rng.dirichlet(np.ones(n), batch) for n, batch in zip(shape, policy_batches, strict=True)
    ]
    kernel = kernels.load("matrix_gains")
    monkeypatch.setattr(kernels, "choose", lambda name, seconds: (kernel, "Numba"))
    compiled = eq.certify(game, policy)
    monkeypatch.setattr(kernels, "choose", lambda name, seconds: (None, "JAX"))
    plain = eq.certify(game, policy)
    np.testing.assert_allclose(compiled.gains, plain.gains, atol=1e-12)
    np.testing.assert_allclose(compiled.value, plain.value, atol=1e-12)
    assert compiled.gains.shape == plain.gains.shape
    assert (compiled.upper >= plain.gains - 1e-15).all()
    assert compiled.exact
    assert plain.exact


@pytest.mark.parametrize("discount", [0.5, 0.9, 1.0 - 2.0**-20, 1.0 - 2.0**-35])
@pytest.mark.parametrize("level", [0.0, 7.0, -1e6])
def test_values_of_games_with_a_level_of_rewards(discount, level):
    """Rewards are moved and scaled for the computation; the value is that of the game as it is."""
    reward = np.array([[[level, level + 1.0], [level + 1.0, level]]])
    game = eq.MarkovGame(reward, np.ones((1, 2, 2, 1)), discount)
    half = np.full((1, 2), 0.5)
    certificate = eq.certify(game, (half, half))
    value = (level + 0.5) / (1.0 - discount)
    np.testing.assert_allclose(certificate.value, [[value, -value]], rtol=1e-9)
