"""Brackets of gains against exact rationals, and the cases that once fooled them."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from soak.certificates import KINDS, cases, check
from soak.exact import exact
from soak.processes import markov_gains
from soak.tables import matrix_gains

import equipoise as eq


@pytest.mark.parametrize("kind", KINDS)
def test_no_gain_is_under_reported(kind: str) -> None:
    for name, seed, awkward in cases(300, 200, seed=10**6):
        if name == kind:
            assert check(kind, seed, awkward)[0] <= 1.0


def idle_matrix(rng: np.random.Generator, unit: float = 1.0) -> tuple:
    """A player whose action earns nothing, and whose others earn next to nothing on average."""
    y, others = rng.dirichlet(np.ones(4)), rng.normal(size=(3, 4))
    others -= (others @ y)[:, None]
    return unit * np.vstack([np.zeros(4), others]), np.eye(4)[0], y


def idle_markov(rng: np.random.Generator, discount: float) -> tuple:
    reward, x, y = (
        np.stack(parts) for parts in zip(*(idle_matrix(rng) for _ in range(2)), strict=True)
    )
    return eq.MarkovGame(reward, rng.dirichlet(np.ones(2), size=(2, 4, 4)), discount), x, y


def idle(kind: str, rng: np.random.Generator) -> tuple:
    """A certificate and the exact gains of all players."""
    if kind.startswith("markov"):
        game, x, y = idle_markov(rng, 0.9 if kind == "markov" else 0.999)
        return eq.certify(game, (x, y)), markov_gains(game, x, y)
    if kind == "continuous":
        weights, points = np.zeros((6, 6)), rng.uniform(0.1, 1.0, size=6)
        weights[0, 1:], points[0] = rng.normal(size=5), 0.0
        weights[0, 5] -= weights[0] @ points / points[5]
        slope = abs(sum(exact(weights[0]) * exact(points)))
        terms = eq.games.PolynomialTerms(6, pairs={(1, 1): weights})
        return eq.certify(eq.ContinuousGame(terms), points), [slope, *[Fraction(0)] * 5]
    payoff, x, y = idle_matrix(rng, 1e150 if kind == "matrix of large numbers" else 1.0)
    both = np.stack([payoff, -payoff])
    truth = matrix_gains(payoff, x, y)
    if kind.startswith("matrix"):
        return eq.certify(eq.MatrixGame(payoff), (x, y)), truth
    if kind == "normal-form":
        return eq.certify(eq.NormalFormGame(both), (x, y)), truth
    if kind == "joint":
        joint = eq.JointPolicy(np.outer(x, y), 2)
        return eq.certify(eq.NormalFormGame(both), joint, concept="cce"), truth
    if kind == "steps":
        game = eq.MarkovGame(both[:, None], np.ones((1, 4, 4, 1)), horizon=1)
        return eq.certify(game, (x[None], y[None])), truth
    terms = eq.games.Interactions.from_dense(both[None])
    if kind == "contextual":
        return eq.certify(eq.ContextualGame(terms), np.stack([x, y])), truth
    game = eq.DecoupledMarkovGame(terms, np.ones((1, 2, 1, 4, 1)), np.ones((2, 1)))
    return eq.certify(game, np.stack([x, y])[None, None, :, None]), truth


@pytest.mark.parametrize(
    "kind",
    [
        *("matrix", "matrix of large numbers", "normal-form", "joint", "contextual", "decoupled"),
        *("markov", "markov, patient", "steps", "continuous"),
    ],
)
def test_the_rounding_of_a_deviation_counts_where_the_policy_earns_nothing(kind: str) -> None:
    for seed in range(12):
        certificate, truth = idle(kind, np.random.default_rng(seed))
        for upper, true in zip(certificate.upper, truth, strict=True):
            assert true <= Fraction(float(upper))


def slow_leak(discount: float, d: float, e: float, far: float) -> tuple[eq.MarkovGame, tuple]:
    """Going round two states earns a little more than staying; a third state earns far more."""
    reward, transition = np.zeros((3, 2, 1)), np.zeros((3, 2, 1, 3))
    reward[0, 0], reward[1], reward[2] = d, 2 * d + e, far
    transition[0, 0, 0, 0] = transition[0, 1, 0, 1] = 1
    transition[1, ..., 0] = transition[2, ..., 2] = 1
    policy = np.array([[1.0, 0.0]] * 3), np.ones((3, 1))
    return eq.MarkovGame(reward, transition, discount), policy


def test_small_advantages_that_compound_are_seen() -> None:
    game, policy = slow_leak(0.9999, 1e-4, 6e-5, 1e6)
    certificate = eq.certify(game, policy)
    assert certificate.gains[0] == pytest.approx(0.299935, abs=1e-6)
    assert 0 <= certificate.upper[0] - certificate.gains[0] < 1e-10


def test_rewards_that_are_almost_never_met_count() -> None:
    """Their products with probabilities vanish in float64, and not in the bound."""
    reward, transition = np.zeros((1, 2, 2)), np.ones((1, 2, 2, 1))
    reward[0, 1, 1] = 0.25
    game, policy = eq.MarkovGame(reward, transition, 0.0), (np.eye(2)[:1], [[1.0, 5e-324]])
    truth = markov_gains(game, policy[0], np.array(policy[1]))
    assert 0 < truth[0] <= Fraction(float(eq.certify(game, policy).upper[0]))


def test_values_beyond_the_largest_float_give_no_warning() -> None:
    own = 1.7e308 * np.array([[[1.0, -1.0], [-1.0, 1.0]]])
    game = eq.MarkovGame(np.stack([own, own]), np.ones((1, 2, 2, 1)), 0.9)
    certificate = eq.certify(game, (np.eye(2)[:1], np.eye(2)[1:]))
    assert np.isfinite(certificate.gains).all()
    assert np.isinf(certificate.upper).all()
    near = eq.solve(eq.MarkovGame(1e308 + 0.1 * own, np.ones((1, 2, 2, 1)), 0.9))
    assert near.status.ok
    assert np.isfinite(near.value).all()


@pytest.mark.parametrize("discount", [0.9999, 1 - 1e-5, 1 - 1e-6])
@pytest.mark.parametrize("edge", [1e-3, 1e-7, 1e-11, 1e-15])
def test_rewards_of_at_most_one_hide_nothing(discount: float, edge: float) -> None:
    game, policy = slow_leak(discount, 0.25, edge, 1.0)
    certificate = eq.certify(game, policy)
    truth = markov_gains(game, *policy)
    for gain, upper, true in zip(certificate.gains, certificate.upper, truth, strict=True):
        assert true <= Fraction(float(upper))
        assert float(upper) - float(gain) <= 1e-12 / (1 - discount)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("concentration", [0.05, 1.0])
def test_brackets_are_tight(discount: float, concentration: float) -> None:
    family = eq.games.families.uniform(
        actions=3, states=6, discount=discount, concentration=concentration
    )
    games = family.sample(20, key=3)
    rng = np.random.default_rng(0)
    policy = tuple(rng.dirichlet(np.ones(3), size=(20, 6)) for _ in range(2))
    certificate = eq.certify(games, policy)
    width = (certificate.state_upper - certificate.state_gains).max((1, 2))
    reach = np.ptp(np.asarray(games.reward), (1, 2, 3)) / (1 - discount)
    assert (width <= 1e-9 * reach).all()
    assert certificate.exact


@pytest.mark.parametrize("scale", [1e-310, 1e-150, 1e-16, 1.0, 1e16, 1e150, 1e300])
def test_gains_scale_with_the_rewards(scale: float) -> None:
    games = eq.games.families.uniform(actions=3, states=4, discount=0.99).sample(5, key=1)
    rng = np.random.default_rng(1)
    policy = tuple(rng.dirichlet(np.ones(3), size=(5, 4)) for _ in range(2))
    scaled = eq.certify(eq.MarkovGame(games.reward * scale, games.transition, 0.99), policy)
    plain = eq.certify(games, policy)
    np.testing.assert_allclose(scaled.gains / scale, plain.gains, rtol=1e-9)
    np.testing.assert_allclose(scaled.upper / scale, plain.upper, rtol=1e-9)


def test_bounds_in_very_small_units_are_rounded_up() -> None:
    """The gain is a fraction of the smallest float, or of a few of them."""
    for count, share in itertools.product((1, 3, 7, 1001), (0.25, 0.5, 0.875)):
        payoffs = np.zeros((3, 2, 1, 1))
        payoffs[0, 0] = count * 5e-324
        policy = [share, 1.0 - share], [1.0], [1.0]
        upper = eq.certify(eq.NormalFormGame(payoffs, players=3), policy).upper[0]
        assert Fraction(count * 5e-324) * (1 - Fraction(share)) <= Fraction(float(upper))


RPS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    ("payoff", "unit"),
    [(1e15 + 0.125 * RPS, 0.125), (1e-310 * RPS, 1e-310), (1e308 * RPS, 1e308)],
)
def test_offsets_and_units_of_a_matrix_game(payoff: np.ndarray, unit: float) -> None:
    policy = [0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]
    certificate = eq.certify(eq.MatrixGame(payoff), policy)
    np.testing.assert_allclose(certificate.gains / unit, [0.0, 0.25], atol=1e-12)
    assert (certificate.upper >= certificate.gains).all()
    assert certificate.exact


def test_payoffs_out_of_reach_do_not_widen_the_bracket() -> None:
    payoff = np.array([[1.0, 2.0, 1e15], [2.0, 1.0, -1e15]])
    certificate = eq.certify(eq.MatrixGame(payoff), ([0.5, 0.5], [0.6, 0.4, 0.0]))
    assert certificate.gains[0] == pytest.approx(0.1)
    assert certificate.upper[0] - certificate.gains[0] < 1


def test_a_constant_game_has_no_gains_at_all() -> None:
    for payoff in (np.zeros((2, 3)), np.full((2, 3), 0.1), np.full((2, 3), 1e300)):
        certificate = eq.certify(eq.MatrixGame(payoff), ([0.3, 0.7], [0.2, 0.3, 0.5]))
        assert certificate.upper.tolist() == [0.0, 0.0]
        assert certificate.exact


def test_crowds_and_polynomials_have_brackets_too() -> None:
    town = eq.games.load("two-roads", agents=50)
    crowd = eq.certify(town, np.arange(50) % 2)
    assert (crowd.upper >= crowd.gains).all()
    assert crowd.exact
    pairs = eq.games.load("pairwise-continuous", agents=6)
    points = np.linspace(-1, 1, 6)
    certificate = eq.certify(pairs, points)
    assert (certificate.upper >= certificate.gains).all()
    assert certificate.exact
    grid = np.linspace(-1, 1, 2001)
    for agent in range(6):
        tried = np.repeat(points[None], len(grid), 0)
        tried[:, agent] = grid
        best = max(pairs.terms.rewards(tried)[:, agent])
        value = pairs.terms.rewards(points[None])[0, agent]
        assert best - value <= certificate.upper[agent]
