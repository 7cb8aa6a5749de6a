"""Games whose payoffs are on an accelerator are solved and certified there.

A CPU stands in for one: the only difference is that its arrays are no longer read in place.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equipoise as eq
from equipoise.core import devices
from equipoise.core.precision import double_precision
from equipoise.core.zerosum import _cascade, _pivot


@pytest.fixture(autouse=True)
def accelerator(monkeypatch):
    monkeypatch.setattr(devices, "_HOSTS", set())


def on_device(array: np.ndarray) -> jax.Array:
    with double_precision():
        return jnp.asarray(array)


def on_host(payoff: np.ndarray) -> eq.MatrixGame:
    return eq.MatrixGame(np.asarray(payoff))


def unusual_games() -> np.ndarray:
    rng = np.random.default_rng(1)
    payoff = rng.random((40, 3, 3))
    payoff[3] = 0.0
    payoff[4] *= 1e200
    payoff[5] *= 1e-200
    payoff[6] = rng.integers(-1, 2, (3, 3))
    payoff[7] += 1e9
    return payoff


def test_everything_stays_on_the_device():
    payoff = np.random.default_rng(0).random((40, 3, 3))
    solution = eq.solve(eq.MatrixGame(on_device(payoff)))
    certificate = solution.certificate
    arrays = [*solution.policy, solution.value, solution.tolerance, solution.stats["pivots"]]
    arrays += [certificate.gains, certificate.upper, certificate.value, certificate.rounding]
    arrays += [solution.status.solved, certificate.max_upper, certificate.nash_conv]
    assert all(isinstance(array, jax.Array) for array in arrays)
    assert all(array.dtype == np.float64 for array in arrays if array.dtype.kind == "f")
    assert solution.stats["engine"] == "JAX"
    assert solution.stats["device"] == jax.devices()[0].device_kind
    assert solution.status.ok
    host = eq.solve(on_host(payoff))
    np.testing.assert_allclose(solution.value, host.value, rtol=1e-12)
    assert solution.to_plain()["certificate"]["gains"].tolist() == certificate.gains.tolist()


def test_games_of_any_size_are_solved_as_on_the_host():
    payoff = unusual_games()
    solution, host = eq.solve(eq.MatrixGame(on_device(payoff))), eq.solve(on_host(payoff))
    assert solution.status.ok
    np.testing.assert_allclose(solution.value, host.value, rtol=1e-9)
    np.testing.assert_allclose(solution.tolerance, host.tolerance, rtol=1e-12)
    assert solution.stats["stages"] == host.stats["stages"]


def test_a_certificate_on_the_device_is_that_of_the_host():
    payoff = unusual_games()
    rng = np.random.default_rng(2)
    x, y = rng.dirichlet(np.ones(3), (2, 40))
    x[8] = [0.5, 0.5, 1e-9]  # put right by both
    there = eq.certify(eq.MatrixGame(on_device(payoff)), (on_device(x), on_device(y)))
    host = eq.certify(on_host(payoff), (x, y))
    assert isinstance(there.gains, jax.Array)
    for name in ("gains", "upper", "value"):
        found, expected = np.asarray(getattr(there, name)), getattr(host, name)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=0)
    assert there.exact
    assert float(there.exploitability[0]) == pytest.approx(host.exploitability[0])


def test_a_policy_that_is_no_distribution_is_refused():
    game = eq.MatrixGame(on_device(np.eye(3)))
    with pytest.raises(ValueError, match=r"policy\[0\]: expected probabilities that sum to 1"):
        eq.certify(game, (on_device(np.ones(3)), on_device(np.full(3, 1 / 3))))


def test_other_policies_are_certified_on_the_host():
    certificate = eq.certify(eq.MatrixGame(on_device(np.eye(2))), ([1.0, 0.0], [0.5, 0.5]))
    assert isinstance(certificate.gains, np.ndarray)
    assert certificate.gains.tolist() == [0.0, 0.5]


def test_pieces_make_no_difference(monkeypatch):
    payoff = on_device(np.random.default_rng(3).random((70, 3, 3)))
    whole = eq.solve(eq.MatrixGame(payoff))
    monkeypatch.setattr(_pivot, "_ACCELERATOR_BYTES", 8 * 9 * 7)
    monkeypatch.setattr("equipoise.certificates._tables._MOST_THERE", 9 * 7)
    parts = eq.solve(eq.MatrixGame(payoff))
    np.testing.assert_array_equal(parts.value, whole.value)
    np.testing.assert_array_equal(parts.certificate.upper, whole.certificate.upper)


def test_what_pivots_miss_is_solved_by_the_rest_of_the_cascade(monkeypatch):
    honest, solve_batch = _pivot._solve_piece, _cascade.solve_batch

    def sabotaged(payoff, *numbers, **options):
        met, *rest = honest(payoff, *numbers, **options)
        return met.at[5].set(False), *rest

    monkeypatch.setattr(_pivot, "_solve_piece", sabotaged)
    monkeypatch.setattr(
        _cascade,
        "solve_batch",
        lambda *a: solve_batch(*a)._replace(stage=np.full(1, 2, np.int32)),
    )
    solution = eq.solve(eq.MatrixGame(on_device(np.random.default_rng(4).random((40, 3, 3)))))
    assert solution.stats["stages"]["HiGHS"] == 1
    assert solution.status.message.endswith("1 by HiGHS)")


def test_one_game_and_a_tolerance_of_the_users():
    solution = eq.solve(eq.MatrixGame(on_device(np.diag([1.0, 2, 4]))), tolerance=1e-3)
    assert float(solution.value) == pytest.approx(4 / 7)
    assert float(solution.tolerance) == 1e-3
    assert solution.status.ok


def test_what_is_not_finite_is_named():
    with pytest.raises(ValueError, match=r"payoff: expected finite numbers, found nan at \[0, 1\]"):
        eq.MatrixGame(on_device(np.array([[0.0, np.nan]])))
    with pytest.raises(ValueError, match="payoff: expected real numbers"):
        eq.MatrixGame(jnp.ones((2, 2), jnp.complex64))


def test_single_precision_becomes_double():
    game = eq.MatrixGame(jnp.ones((2, 2), jnp.float32))
    assert game.payoff.dtype == np.float64
    assert game[()].batch_shape == ()


def test_on_a_cpu_arrays_are_read_in_place(monkeypatch):
    monkeypatch.setattr(devices, "_HOSTS", {"cpu"})
    solution = eq.solve(eq.MatrixGame(jnp.eye(2)))
    assert isinstance(solution.policy[0], np.ndarray)
    assert solution.stats["engine"] != "JAX"
