"""`solve` on matrix games: against other libraries, on random games and on the catalogue."""

import itertools
from fractions import Fraction

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from scipy.optimize import linprog
from support import peer

import equipoise as eq


def value_by_scipy(payoff: np.ndarray) -> float:
    """Value of one game by one linear program, written independently of the library."""
    rows, columns = payoff.shape
    low, scale = payoff.min(), max(np.ptp(payoff), 1e-300)
    scaled = (payoff - low) / scale
    result = linprog(
        [0.0] * rows + [-1.0],
        A_ub=np.hstack([-scaled.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=[[1.0] * rows + [0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return -result.fun * scale + low


def solve_exactly(matrix: list[list[Fraction]]) -> list[Fraction] | None:
    """Solution of `matrix z = (0, ..., 0, 1)` by elimination; None if it is singular."""
    size = len(matrix)
    rows = [[*row, Fraction(int(i == size - 1))] for i, row in enumerate(matrix)]
    for i in range(size):
        pivot = next((r for r in range(i, size) if rows[r][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [a / rows[i][i] for a in rows[i]]
        for r in range(size):
            if r != i and rows[r][i]:
                rows[r] = [a - rows[r][i] * b for a, b in zip(rows[r], rows[i], strict=True)]
    return [row[-1] for row in rows]


def strategy_on(matrix: list[list[Fraction]]) -> list[Fraction] | None:
    """Weights that make every row of a square game earn the same, if they are unique."""
    bordered = [[*row, Fraction(-1)] for row in matrix]
    solution = solve_exactly([*bordered, [Fraction(1)] * len(matrix) + [Fraction(0)]])
    return None if solution is None else solution[:-1]


def exact_value(payoff: np.ndarray) -> Fraction:
    """Value of a small game in rationals, by Shapley and Snow's theorem (1950).

    Some square sub-game has strategies that equalise it and are optimal in the whole game.
    """
    game = [[Fraction(float(a)) for a in row] for row in payoff]
    rows, columns = payoff.shape
    for size in range(1, min(rows, columns) + 1):
        for chosen in itertools.product(
            itertools.combinations(range(rows), size), itertools.combinations(range(columns), size)
        ):
            kernel = [[game[i][j] for j in chosen[1]] for i in chosen[0]]
            y = strategy_on(kernel)
            x = strategy_on([list(line) for line in zip(*kernel, strict=True)])
            if x is None or y is None or min(x) < 0 or min(y) < 0:
                continue
            best = max(sum(row[j] * q for j, q in zip(chosen[1], y, strict=True)) for row in game)
            worst = min(
                sum(game[i][j] * p for i, p in zip(chosen[0], x, strict=True))
                for j in range(columns)
            )
            if best == worst:
                return best
    raise AssertionError("every game has such a sub-game")


payoffs = st.one_of(st.integers(-5, 5), st.floats(-1, 1, allow_nan=False))


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (3, 5), (5, 2)])
def test_value_is_exact_on_any_game(shape: tuple[int, int]) -> None:
    @hypothesis.settings(max_examples=300)
    @hypothesis.given(arrays.arrays(float, shape, elements=payoffs))
    def check(payoff: np.ndarray) -> None:
        solution = eq.solve(eq.MatrixGame(payoff))
        assert solution.status.ok
        assert abs(float(solution.value) - exact_value(payoff)) < 1e-9
        assert solution.certificate.gains.min() > -1e-12
        assert solution.certificate.nash_conv < 1e-9

    check()


def test_values_agree_with_scipy_on_a_batch() -> None:
    games = eq.games.families.uniform(actions=(6, 4)).sample(200, key=3)
    solution = eq.solve(games)
    theirs = [value_by_scipy(payoff) for payoff in games.payoff]
    np.testing.assert_allclose(solution.value, theirs, atol=1e-9)


def test_values_agree_with_openspiel() -> None:
    pyspiel = peer("pyspiel")
    pytest.importorskip("ecos", reason="its solver, which has no wheels from Python 3.13 on")
    lp_solver = peer("open_spiel.python.algorithms.lp_solver")
    games = eq.games.families.uniform(actions=3).sample(5, key=4)
    solution = eq.solve(games)
    for payoff, value in zip(games.payoff, solution.value, strict=True):
        theirs = pyspiel.create_matrix_game(payoff.tolist(), (-payoff).tolist())
        _, _, first, _ = lp_solver.solve_zero_sum_matrix_game(theirs)
        assert abs(first - value) < 1e-6  # its own accuracy


def test_known_equilibrium_of_a_game_with_a_mixed_solution() -> None:
    solution = eq.solve(eq.MatrixGame([[3, -1], [-2, 1]]))
    np.testing.assert_allclose(solution.policy[0], [3 / 7, 4 / 7], atol=1e-12)
    np.testing.assert_allclose(solution.policy[1], [2 / 7, 5 / 7], atol=1e-12)
    np.testing.assert_allclose(solution.value, 1 / 7, atol=1e-12)


def test_a_hundred_thousand_games_at_once() -> None:
    many = eq.MatrixGame(np.random.default_rng(0).uniform(size=(100_000, 3, 3)))
    solution = eq.solve(many)
    assert (solution.certificate.max_upper <= solution.tolerance).all()
    assert solution.status.ok
    assert solution.stats["stages"]["simplex"] == 100_000


def test_batch_axes_are_kept() -> None:
    games = eq.MatrixGame(np.random.default_rng(0).uniform(size=(2, 3, 4, 5)))
    solution = eq.solve(games)
    assert solution.policy[0].shape == (2, 3, 4)
    assert solution.policy[1].shape == (2, 3, 5)
    assert solution.value.shape == (2, 3)
    assert solution.certificate.gains.shape == (2, 3, 2)


def test_catalogue_values() -> None:
    checked = 0
    for name in eq.games.names():
        entry, game = eq.games.describe(name), eq.games.load(name)
        if isinstance(game, eq.NormalFormGame) or entry.value is None:
            continue
        solution = eq.solve(game)
        assert solution.status.ok, name
        known = np.asarray(entry.value, float)
        np.testing.assert_allclose(solution.value, known, atol=1e-9, err_msg=name)
        checked += 1
    assert checked >= 20


def test_zero_sum_normal_forms_are_solved() -> None:
    pennies = np.array([[1.0, -1.0], [-1.0, 1.0]])
    solution = eq.solve(eq.NormalFormGame([pennies, -pennies]))
    np.testing.assert_allclose(solution.value, 0.0, atol=1e-12)


def test_what_is_not_a_game_is_refused() -> None:
    with pytest.raises(ValueError, match=r"game: expected one of MatrixGame, .*; found list"):
        eq.solve([[1, 2], [3, 4]])


def test_inside_of_jax_transformations_one_line_says_so() -> None:
    @jax.jit
    def solved(payoff):
        return eq.solve(eq.MatrixGame(payoff)).value

    with pytest.raises(ValueError, match=r"use `equipoise.pure.zero_sum`"):
        solved(np.eye(2))

    def certified(payoff):
        return eq.certify(eq.MatrixGame(payoff), ([1.0, 0.0], [1.0, 0.0])).max_gain

    with pytest.raises(ValueError, match=r"use `equipoise.pure.gains`"):
        jax.grad(certified)(np.eye(2))

    def by_kind(payoffs):
        return eq.certify(eq.NormalFormGame(payoffs), ([1.0, 0.0], [1.0, 0.0])).max_gain

    with pytest.raises(ValueError, match=r"use `equipoise.pure.normal_form_gains`"):
        jax.jit(by_kind)(np.ones((2, 2, 2)))

    def without(demand):
        return eq.certify(eq.games.load("braess-network"), demand).max_gain

    with pytest.raises(ValueError, match=r"call it outside of them"):
        jax.jit(without)(np.ones(5))

    def network(demand):
        return eq.NetworkGame([0], [1], [0], [1], demand).demand

    with pytest.raises(ValueError, match=r"demand and costs: expected .*, found a traced value"):
        jax.jit(network)(np.ones(1))


RPS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    "payoff",
    [
        1e15 + 0.125 * RPS,
        1e-310 * RPS,
        1e308 * RPS,
        1e-150 * RPS,
        1e150 + 0.0 * RPS,
        5e307 * (RPS + 2),
    ],
)
def test_units_and_offsets_change_nothing(payoff: np.ndarray) -> None:
    solution = eq.solve(eq.MatrixGame(payoff))
    assert solution.status.ok
    assert solution.certificate.max_upper <= solution.tolerance <= 1e-8 * np.ptp(payoff / 4) * 4.1
    if np.ptp(payoff / 4):
        np.testing.assert_allclose(solution.policy, np.full((2, 3), 1 / 3), atol=1e-9)


def test_a_batch_of_all_scales_is_solved_game_by_game() -> None:
    scales = np.array([1e-310, 1e-200, 1.0, 1e200, 1e307])
    solution = eq.solve(eq.MatrixGame(scales[:, None, None] * RPS))
    assert solution.status.ok
    np.testing.assert_allclose(solution.tolerance / scales, 2e-8, rtol=1e-4)
    np.testing.assert_allclose(solution.policy[0], 1 / 3, atol=1e-9)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("nan")])
def test_bad_tolerances_are_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        eq.solve(eq.MatrixGame([[1.0]]), tolerance=tolerance)


def test_unknown_options_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="found 'tol'; did you mean tolerance"):
        eq.solve(eq.MatrixGame([[1.0]]), tol=1e-3)


def test_small_payoffs_are_judged_by_their_spread(monkeypatch) -> None:
    """A useless policy must not pass for a solution because the payoffs are tiny."""
    from equipoise.solvers import _matrix

    honest = _matrix.solve_batch

    def sabotaged(payoff, tolerance):
        result = honest(payoff, tolerance)
        return result._replace(x=np.full_like(result.x, 1 / result.x.shape[1]))

    monkeypatch.setattr(_matrix, "solve_batch", sabotaged)
    game = eq.MatrixGame(1e-10 * np.random.default_rng(0).normal(size=(4, 4)))
    assert not eq.solve(game).status.ok
