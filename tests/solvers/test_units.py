"""General-sum games whose payoffs are very large, very small or far from zero."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.core.results import finish
from equipoise.solvers._units import by_player

RPS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
STAY = np.ones((1, 3, 3, 1))
UNITS = {"offset": (1e15, 0.125), "tiny": (0.0, 1e-310), "huge": (0.0, 1e308)}


@pytest.fixture(params=UNITS)
def payoff(request: pytest.FixtureRequest) -> tuple[np.ndarray, float]:
    offset, unit = UNITS[request.param]
    return offset + unit * RPS, unit


@pytest.mark.parametrize("concept", ["nash", "ce", "cce"])
def test_normal_forms_are_solved_in_any_units(payoff, concept):
    table, unit = payoff
    solution = eq.solve(eq.NormalFormGame(np.stack([table, -table])), concept=concept)
    assert solution.status.ok
    assert solution.tolerance / unit == pytest.approx(2e-8, rel=1e-3)
    assert solution.certificate.max_upper / unit <= 1e-11
    if concept == "nash":
        np.testing.assert_allclose(np.asarray(solution.policy), 1 / 3, atol=1e-9)


@pytest.mark.parametrize("horizon", [None, 2])
def test_markov_games_are_solved_in_any_units(payoff, horizon):
    table, unit = payoff
    game = eq.MarkovGame(np.stack([table[None], -table[None]]), STAY, 0.5, horizon=horizon)
    solution = eq.solve(game)
    assert solution.status.ok
    assert solution.certificate.exact
    assert solution.certificate.max_upper / unit <= 1e-10


def test_an_offset_costs_no_digits_of_a_gain():
    table = 1e15 + 0.125 * RPS
    game = eq.MarkovGame(np.stack([table[None], -table[None]]), STAY, horizon=2)
    policy = np.array([[1.0, 0.0, 0.0]]), np.array([[0.25, 0.25, 0.5]])
    certificate = eq.certify(game, policy)
    # The row player's replies earn 0.25, -0.25 and 0 eighths; rock earns 0.25 of them already.
    np.testing.assert_allclose(certificate.gains, [0.0, 2 * 0.125 * 1.25], atol=1e-12)
    assert certificate.exact


@pytest.mark.parametrize("unit", [1e-310, 1e-100, 1.0, 1e100, 1e307])
@pytest.mark.parametrize(("objective", "best"), [("welfare", 9.0), ("egalitarian", 4.0)])
def test_objectives_are_in_the_units_of_the_game(unit, objective, best):
    payoffs = np.array([[[5.0, 0.0], [0.0, 1.0]], [[4.0, 0.0], [0.0, 2.0]]])
    for concept in ("nash", "ce"):
        game = eq.NormalFormGame(unit * payoffs)
        solution = eq.solve(game, concept=concept, objective=objective)
        assert solution.status.ok
        assert solution.objective.lower / unit == pytest.approx(best, rel=1e-9)
        assert solution.objective.upper / unit >= best * (1 - 1e-9)


def test_players_may_have_units_of_their_own():
    payoffs = np.stack([1e-310 * RPS, -1e200 * RPS])
    solution = eq.solve(eq.NormalFormGame(payoffs))
    assert solution.status.ok
    np.testing.assert_allclose(np.asarray(solution.policy), 1 / 3, atol=1e-9)
    assert solution.certificate.upper[0] <= 1e-320


def test_batches_are_solved_in_any_units(rng):
    payoffs = rng.normal(size=(6, 2, 3, 3)) * 10.0 ** np.array([-305, -200, 0, 7, 200, 305])[
        :, None, None, None
    ]  # fmt: skip
    solution = eq.solve(eq.NormalFormGame(payoffs, players=2))
    assert solution.status.ok
    assert solution.solved.all()
    assert (solution.certificate.upper <= solution.stats["tolerances"]).all()


def test_rationality_is_in_units_of_one_over_payoff():
    payoffs = np.array([[[4.0, 0.0], [3.0, 3.0]], [[4.0, 3.0], [0.0, 3.0]]])
    plain = eq.solve(eq.NormalFormGame(payoffs), concept="logit", rationality=2.0)
    assert np.abs(np.asarray(plain.policy) - 0.5).max() > 0.1
    scaled = eq.NormalFormGame(payoffs * 2.0**500)
    again = eq.solve(scaled, concept="logit", rationality=2.0 * 2.0**-500)
    np.testing.assert_allclose(np.asarray(again.policy), np.asarray(plain.policy), atol=1e-9)


def test_small_polynomial_rewards_are_not_solved_by_their_size():
    own = np.array([0.0, 1.0, -1.0])
    for unit in (1e-100, 1e-9, 1.0):
        game = eq.ContinuousGame(eq.games.PolynomialTerms(2, unit * own))
        solution = eq.solve(game)
        assert solution.status.ok
        assert solution.tolerance <= 2e-6 * unit
        np.testing.assert_allclose(solution.policy.points, 0.5, atol=1e-2)
    with pytest.raises(ValueError, match="tolerance: expected"):
        eq.solve(eq.NormalFormGame(np.stack([1e-310 * RPS] * 2)), tolerance="small")


@pytest.mark.parametrize("players", [2, 3])
@pytest.mark.parametrize("options", [{}, {"method": "logit"}, {"concept": "cce"}])
def test_players_with_very_different_units_are_all_held_to_their_own(players, options):
    units = 10.0 ** -np.arange(0, 6 * players, 6)
    payoffs = np.random.default_rng(1).random((players, *[3] * players))
    ranges = units * np.ptp(payoffs.reshape(players, -1), 1)
    game = eq.NormalFormGame(units.reshape(-1, *[1] * players) * payoffs)
    solution = eq.solve(game, **options)
    assert solution.status.ok
    tolerances = solution.stats["tolerances"]
    np.testing.assert_allclose(tolerances, 1e-8 * ranges)
    assert (np.asarray(solution.certificate.upper) <= tolerances).all()
    assert solution.tolerance == tolerances.min()


def test_a_player_of_small_units_who_could_gain_keeps_a_game_from_being_solved():
    table = np.stack([RPS, -1e-9 * RPS])
    rough = eq.solve(eq.NormalFormGame(table), tolerance=1e-6)
    assert rough.status.ok  # that was asked for
    game = eq.NormalFormGame(table)
    policy = (np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0]))
    certificate = eq.certify(game, policy)
    allowed = by_player(game, np.asarray(1.0))
    assert (np.asarray(certificate.upper) <= allowed).tolist() == [False, True]
    status = finish(policy, certificate, allowed).status
    assert (status.ok, status.name) == (False, "not solved")
    assert "(tolerances 1e-09 to 1)" in status.message


def test_markov_games_whose_players_have_different_units():
    rng, units = np.random.default_rng(3), np.array([1.0, 1e-10])
    reward = units[:, None, None, None] * rng.random((2, 3, 3, 3))
    game = eq.MarkovGame(reward, rng.dirichlet(np.ones(3), (3, 3, 3)), 0.8)
    solution = eq.solve(game)
    assert solution.status.ok
    assert (np.asarray(solution.certificate.upper) <= 1e-7 * units).all()
