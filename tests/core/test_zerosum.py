"""The batched zero-sum solver: every stage alone, the cascade, and what it reports."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from support import peer

from equipoise.core import kernels
from equipoise.core.precision import double_precision
from equipoise.core.zerosum import (
    STAGES,
    pivot_to_optimum,
    solve_batch,
    solve_with_highs,
    solve_with_rationals,
)


def duality_gap(payoff: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Written here again on purpose: nothing of the library is trusted."""
    best_row = np.einsum("gij,gj->gi", payoff, y).max(1)
    best_column = np.einsum("gij,gi->gj", payoff, x).min(1)
    return best_row - best_column


def silverman(actions: int, reach: int = 3) -> np.ndarray:
    step = np.subtract.outer(np.arange(actions), np.arange(actions))
    return np.sign(step) * np.where(np.abs(step) > reach, -2.0, 1.0)


RNG = np.random.default_rng(0)
HARD_GAMES = {
    "ties": RNG.integers(-2, 3, size=(300, 4, 4)),
    "zeros and ones": RNG.integers(0, 2, size=(300, 8, 8)),
    "antisymmetric": (lambda a: a - a.transpose(0, 2, 1))(RNG.integers(-3, 4, size=(300, 7, 7))),
    "large payoffs": 1e6 * RNG.normal(size=(300, 6, 6)),
    "small payoffs": 1e-6 * RNG.normal(size=(300, 6, 6)),
    "large offset": 1e6 + 1e-3 * RNG.normal(size=(300, 5, 5)),
    "all scales in one game": RNG.choice([1e-6, 1, 1e6], size=(300, 5, 5))
    * RNG.normal(size=(300, 5, 5)),
    "duplicate rows": np.tile(RNG.uniform(size=(200, 3, 4)), (1, 2, 1)),
    "duplicate rows and columns": np.tile(RNG.uniform(size=(200, 3, 3)), (1, 2, 2)),
    "dominated rows": np.concatenate([a := RNG.uniform(size=(200, 3, 4)), a - 1.0], 1),
    "constant": np.full((10, 3, 3), 3.7),
    "saddle point": np.add.outer(RNG.normal(size=(50, 4)), RNG.normal(size=5)),
    "one row": RNG.normal(size=(50, 1, 7)),
    "one column": RNG.normal(size=(50, 7, 1)),
    "one action each": RNG.normal(size=(5, 1, 1)),
    "wide": RNG.normal(size=(50, 3, 40)),
    "tall": RNG.normal(size=(50, 40, 3)),
    "nearly constant": 1 + 1e-9 * RNG.normal(size=(100, 5, 5)),
    "identity": np.eye(60)[None],
    "Silverman's game": silverman(100)[None],
    "heavy tails": RNG.standard_cauchy(size=(300, 7, 7)),
    "low rank": np.einsum("gik,gjk->gij", *RNG.normal(size=(2, 10, 60, 3))),
    "200 actions": RNG.uniform(size=(2, 200, 200)),
}


@pytest.fixture(params=["Numba", "JAX"])
def engine(request, monkeypatch) -> str:
    """What makes the pivots; JAX does where Numba is not installed."""
    use(monkeypatch, kernels.load("solve_games") if request.param == "Numba" else None)
    return request.param


def use(monkeypatch, kernel) -> None:
    engine = "JAX" if kernel is None else "Numba"
    monkeypatch.setattr(kernels, "choose", lambda name, seconds: (kernel, engine))


@pytest.mark.parametrize("name", HARD_GAMES)
def test_every_game_is_solved_to_its_tolerance(name: str, engine: str) -> None:
    payoff = np.asarray(HARD_GAMES[name], float)
    result = solve_batch(payoff, 1e-8)
    assert result.engine == engine
    assert duality_gap(payoff, result.x, result.y).max() <= 1e-8
    # Pivots alone do it, but for a few: later stages are for what rounding spoils.
    assert np.mean(result.stage == 0) > 0.9 or name == "all scales in one game"
    np.testing.assert_allclose(result.x.sum(1), 1.0, atol=1e-12)
    np.testing.assert_allclose(result.y.sum(1), 1.0, atol=1e-12)
    assert result.x.min() >= 0
    assert result.y.min() >= 0


def test_small_payoffs_are_solved_relative_to_their_spread(engine: str) -> None:
    payoff = 1e-6 * RNG.normal(size=(300, 6, 6))
    result = solve_batch(payoff)
    assert duality_gap(payoff, result.x, result.y).max() < 1e-18


def test_value_agrees_with_gambit_in_exact_rationals() -> None:
    gambit = peer("pygambit")
    payoff = np.random.default_rng(1).integers(-9, 10, size=(40, 4, 5))
    result = solve_batch(payoff.astype(float))
    for game, value in zip(payoff, result.value, strict=True):
        exact = gambit.StrategicGame.from_arrays(game.tolist(), (-game).tolist())
        theirs = gambit.nash.lp_solve(exact, rational=True).equilibrium.payoffs["1"]
        assert abs(theirs.numerator / theirs.denominator - value) < 1e-12


def test_batch_and_single_agree_whatever_the_chunks(engine: str) -> None:
    payoff = np.random.default_rng(2).uniform(size=(3000, 3, 4))
    batch = solve_batch(payoff)
    for part in (slice(0, 1), slice(5, 13), slice(2999, 3000)):
        alone = solve_batch(payoff[part])
        np.testing.assert_allclose(alone.value, batch.value[part], atol=1e-14)


def test_single_precision_pivots_are_refined_to_double() -> None:
    payoff = np.random.default_rng(3).uniform(size=(30, 25, 8))
    with double_precision():
        batch_last = jnp.asarray(np.moveaxis(payoff, 0, -1))
        single = jnp.dtype(jnp.float32)
        rough = pivot_to_optimum(batch_last, dtype=single)
        fine = pivot_to_optimum(batch_last, dtype=single, refinements=2)
    assert np.median(np.asarray(rough.gap)) > 1e-9
    assert np.median(np.asarray(fine.gap)) < 1e-14


def test_perturbation_is_forgotten_by_refinement() -> None:
    payoff = np.random.default_rng(4).integers(0, 2, size=(200, 6, 6)).astype(float)
    with double_precision():
        batch_last = jnp.asarray(np.moveaxis(payoff, 0, -1))
        kept = pivot_to_optimum(batch_last, perturbation=1e-4)
        forgotten = pivot_to_optimum(batch_last, perturbation=1e-4, refinements=2)
    assert np.asarray(kept.gap).max() > 1e-6
    assert np.asarray(forgotten.gap).max() < 1e-12


@pytest.mark.parametrize("solver", [solve_with_highs, solve_with_rationals])
def test_last_resorts_solve_alone(solver) -> None:
    for payoff in itertools.chain(
        np.random.default_rng(5).normal(size=(10, 4, 6)), [np.zeros((2, 3)), np.eye(5)]
    ):
        x, y = solver(payoff)
        assert duality_gap(payoff[None], x[None], y[None])[0] < 1e-9


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_games_that_need_more_are_handed_on_and_said_so(scale, engine: str, monkeypatch) -> None:
    """With the simplex stages sabotaged, HiGHS must step in, and be named."""
    from equipoise.core.zerosum import _pivot

    honest_stage, kernel = _pivot.solve_stage, kernels.load("solve_games")

    def sabotaged(payoff, *arguments):
        result = honest_stage(payoff, *arguments)
        uniform = np.full_like(result.x, 1 / result.x.shape[1])
        gap = duality_gap(payoff, uniform, result.y)
        return result._replace(x=uniform, gap=gap)

    def sabotaged_kernel(payoff, absolute, relative, x, y, measures, *rest):
        kernel(payoff, absolute, relative, x, y, measures, *rest)
        x[:] = 1 / x.shape[1]
        measures[1] = duality_gap(payoff, x, y)
        return len(x)

    monkeypatch.setattr(_pivot, "solve_stage", sabotaged)
    use(monkeypatch, sabotaged_kernel if engine == "Numba" else None)
    payoff = scale * np.random.default_rng(6).uniform(size=(5, 3, 3))
    result = solve_batch(payoff)
    assert result.engine == engine
    assert duality_gap(payoff, result.x, result.y).max() <= 1e-8 * scale
    np.testing.assert_allclose(result.value, solve_batch(payoff / scale).value * scale, rtol=1e-9)
    assert {STAGES[s] for s in result.stage} <= {"HiGHS", "exact rationals"}


def test_pivots_go_on_until_no_column_improves() -> None:
    """The second pivot brings less and less, and is made all the same down to rounding."""
    edges = 10.0 ** -np.linspace(1, 15, 29)
    payoff = np.stack([np.array([[0.0, 1.0], [1.0, 1.0 - edge]]) for edge in edges])
    with double_precision():
        optimum = pivot_to_optimum(jnp.asarray(np.moveaxis(payoff, 0, -1)))
    # A value of 1 / (1 + edge), less what is left.
    assert np.asarray(optimum.gap).max() < 2e-14
    np.testing.assert_allclose(optimum.value, 1 / (1 + edges), rtol=2e-14)
