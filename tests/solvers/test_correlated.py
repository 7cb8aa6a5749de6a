"""Correlated equilibria: against brute force, other concepts, and programs of every size."""

import itertools

import numpy as np
import pytest
import scipy.optimize

from equipoise.solvers import _correlated
from equipoise.solvers._bimatrix import extreme_equilibria
from equipoise.solvers._correlated import correlated, gains, largest_gain, possible_cells
from equipoise.solvers._entropy import deviation_rows

CHICKEN = np.array([[[6.0, 2], [7, 0]], [[6, 7], [2, 0]]])
DILEMMA = np.array([[[3.0, 0], [5, 1]], [[3, 5], [0, 1]]])


def best_vertex(payoffs: np.ndarray, concept: str, worth: np.ndarray) -> float:
    """The optimum over all vertices of the polytope, found by trying all bases."""
    rows = deviation_rows(payoffs, concept)
    cells = rows.shape[1]
    system = np.vstack([rows, -np.eye(cells)])  # system x <= 0, sum x = 1
    best = -np.inf
    for tight in itertools.combinations(range(len(system)), cells - 1):
        matrix = np.vstack([system[list(tight)], np.ones(cells)])
        if abs(np.linalg.det(matrix)) < 1e-9:
            continue
        x = np.linalg.solve(matrix, np.append(np.zeros(cells - 1), 1.0))
        if (system @ x <= 1e-9).all():
            best = max(best, float(worth.reshape(-1) @ x))
    return best


@pytest.mark.parametrize("concept", ["ce", "cce"])
@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_is_that_of_all_vertices(concept, seed):
    payoffs = np.random.default_rng(seed).integers(-4, 5, (2, 2, 2)).astype(float)
    worth = np.random.default_rng(seed + 100).random((2, 2))
    for objective in (payoffs.sum(0), worth):
        found = correlated(payoffs, concept, objective)
        assert found.objective == pytest.approx(best_vertex(payoffs, concept, objective), abs=1e-9)
        assert found.bound == pytest.approx(found.objective, abs=1e-9)


def test_the_textbook_games():
    found = correlated(CHICKEN, "ce", "welfare")
    assert found.joint == pytest.approx(np.array([[0.5, 0.25], [0.25, 0.0]]), abs=1e-9)
    for objective in (None, "welfare", "egalitarian", "entropy", [1.0, 2.0]):
        only = correlated(DILEMMA, "ce", objective)
        assert only.joint[1, 1] == pytest.approx(1.0, abs=1e-6)
        assert only.gain < 1e-9


@pytest.mark.parametrize("temptation", [1e-12, 3e-8, 1e-7, 2e-6])
@pytest.mark.parametrize("concept", ["ce", "cce"])
@pytest.mark.parametrize("objective", [None, "welfare", "egalitarian"])
def test_a_dominated_action_is_never_played_however_small_the_temptation(
    temptation, concept, objective
):
    t = 1.0 + temptation
    for tolerance in (1e-9, 1e-12):
        dilemma = np.array([[[1.0, -2], [t, 0]], [[1, t], [-2, 0]]])
        found = correlated(dilemma, concept, objective, tolerance=tolerance)
        assert found.joint.tolist() == [[0.0, 0.0], [0.0, 1.0]]
        assert found.bound == found.objective == 0.0


@pytest.mark.parametrize("concept", ["ce", "cce"])
@pytest.mark.parametrize("whole", [True, False])
def test_actions_that_a_mixture_barely_dominates_are_not_played(concept, whole, monkeypatch):
    """Without the middle row, matching pennies is left, whose only equilibrium is worth 2.5."""
    monkeypatch.setattr(_correlated, "WHOLE", _correlated.WHOLE if whole else 0)
    middle = 2.0 - 1e-7  # half of each other row earns 2
    row, column = [[4.0, 0], [middle, middle], [0, 4]], [[0.0, 1], [10, 10], [1, 0]]
    payoffs = np.array([row, column])
    found = correlated(payoffs, concept, "welfare")
    assert found.gain < 1e-8
    assert found.objective == pytest.approx(2.5, abs=0.1)
    assert found.bound >= 2.5 - 1e-9


@pytest.mark.parametrize("concept", ["ce", "cce"])
def test_cells_that_are_excluded_are_in_no_equilibrium(concept):
    """The most that any equilibrium plays a cell, from all vertices of the polytope."""
    rng = np.random.default_rng(3)
    excluded = 0
    for payoffs in rng.integers(-1, 2, (40, 2, 2, 2)).astype(float):
        for cell in np.argwhere(~possible_cells(payoffs, concept)):
            worth = np.zeros((2, 2))
            worth[tuple(cell)] = 1.0
            assert best_vertex(payoffs, concept, worth) < 1e-9
            excluded += 1
    assert excluded > 20


@pytest.mark.parametrize("concept", ["ce", "cce"])
@pytest.mark.parametrize("objective", [None, "welfare", "egalitarian", "entropy"])
def test_no_deviation_gains(concept, objective):
    rng = np.random.default_rng(0)
    for shape in ((3, 4), (2, 3, 2), (2, 2, 2, 2)):
        payoffs = rng.normal(size=(len(shape), *shape)) * 10
        found = correlated(payoffs, concept, objective)
        spread = np.ptp(payoffs, axis=tuple(range(1, payoffs.ndim))).max()
        assert found.gain < 1e-9 * spread
        assert found.joint.sum() == pytest.approx(1.0)
        assert found.objective <= found.bound + 1e-9 * spread


def test_gains_are_what_deviations_earn():
    rng = np.random.default_rng(1)
    payoffs, joint = rng.random((3, 2, 3, 2)), rng.dirichlet(np.ones(12)).reshape(2, 3, 2)
    rows = deviation_rows(payoffs, "cce") @ joint.reshape(-1)
    assert np.concatenate(gains(payoffs, joint, "cce")) == pytest.approx(rows)
    assert largest_gain(payoffs, joint, "ce") >= largest_gain(payoffs, joint, "cce") - 1e-12


def test_concepts_are_nested():
    rng = np.random.default_rng(2)
    for _ in range(10):
        payoffs = rng.random((2, 3, 3))
        best = [correlated(payoffs, concept, "welfare").objective for concept in ("ce", "cce")]
        nash = extreme_equilibria(*payoffs)
        welfare = max(x @ payoffs.sum(0) @ y for x, y in zip(nash.x, nash.y, strict=True))
        assert welfare <= best[0] + 1e-9 <= best[1] + 2e-9


def test_entropy_is_larger_than_that_of_other_equilibria():
    payoffs = np.random.default_rng(3).random((2, 4, 4))
    found = correlated(payoffs, "ce", "entropy")
    assert found.bound - found.objective < 1e-8
    for weight in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0]):
        other = correlated(payoffs, "ce", weight).joint
        mixed = 0.999 * found.joint + 0.001 * other  # an equilibrium too
        used = mixed[mixed > 0]
        assert -(used * np.log(used)).sum() <= found.objective + 1e-9


def degenerate_games() -> list[np.ndarray]:
    """Games in which some cells have chance zero in every correlated equilibrium."""
    first = np.array([[7, 8, 1], [1, 4, 5], [7, 3, 0]]), np.array([[2, 4, 3], [9, 4, 6], [6, 0, 7]])
    found = [np.random.default_rng(seed).random((2, 4, 5)) for seed in range(12)]
    cube = [np.random.default_rng(seed).random((3, 2, 3, 2)) for seed in range(6)]
    return [np.array(first, float), DILEMMA, *found, *cube]


@pytest.mark.parametrize("concept", ["ce", "cce"])
def test_the_largest_entropy_where_equilibria_leave_cells_out(concept):
    for payoffs in degenerate_games():
        found = correlated(payoffs, concept, "entropy")
        assert found.gain < 1e-9
        assert found.bound - found.objective < 1e-7


def test_a_program_that_takes_too_long_is_given_to_another_method(monkeypatch):
    asked, linprog = [], scipy.optimize.linprog

    def slow(*arguments, method, **options):
        asked.append(method)
        result = linprog(*arguments, method=method, **options)
        return result if method == "highs-ipm" else type(result)({**result, "status": 1})

    monkeypatch.setattr(scipy.optimize, "linprog", slow)
    found = correlated(np.random.default_rng(0).random((3, 4, 4, 4)), "ce", "welfare")
    assert found.ended == "optimal"
    assert asked[:2] == ["highs", "highs-ipm"]
    assert "highs" not in asked[2:]  # what was of use is tried first from then on


def test_weights_that_no_program_can_hold_are_refused():
    with pytest.raises(ValueError, match=r"objective: expected numbers of at most 1e.100"):
        correlated(CHICKEN, "ce", [1e308, 1e308])


@pytest.mark.parametrize("concept", ["ce", "cce"])
@pytest.mark.parametrize("objective", ["welfare", "egalitarian"])
def test_generated_programs_agree_with_whole_ones(concept, objective, monkeypatch):
    payoffs = np.random.default_rng(4).random((3, 4, 5, 4))
    whole = correlated(payoffs, concept, objective)
    monkeypatch.setattr(_correlated, "WHOLE", 0)
    grown = correlated(payoffs, concept, objective)
    assert grown.objective == pytest.approx(whole.objective, abs=1e-8)
    assert grown.bound == pytest.approx(whole.bound, abs=1e-8)
    assert grown.columns < payoffs[0].size
    assert grown.gain < 1e-8


def test_a_nash_equilibrium_steps_in(monkeypatch):
    monkeypatch.setattr(_correlated, "WHOLE", 0)
    monkeypatch.setattr(_correlated, "PATIENCE", -1.0)
    payoffs = np.random.default_rng(5).random((3, 4, 4, 4))
    found = correlated(payoffs, "ce", None, tolerance=1e-9)
    assert found.gain < 1e-9


def test_large_tables_within_seconds():
    payoffs = np.random.default_rng(6).random((3, 20, 20, 20))
    for concept in ("cce", "ce"):
        found = correlated(payoffs, concept, "welfare", time_limit=60)
        assert found.ended == "optimal"
        assert found.gain < 1e-8
        assert found.bound - found.objective < 1e-6


def test_time_and_progress(monkeypatch):
    monkeypatch.setattr(_correlated, "WHOLE", 0)
    payoffs = np.random.default_rng(7).random((3, 8, 8, 8))
    told = []
    assert correlated(payoffs, "ce", "welfare", progress=told.append).ended == "optimal"
    assert told[-1]["bound"] <= told[0]["bound"]

    def interrupt(state):
        if state["round"] == 2:
            raise KeyboardInterrupt

    early = correlated(payoffs, "ce", "welfare", progress=interrupt)
    assert early.ended == "interrupted"
    assert early.joint.sum() == pytest.approx(1.0)


def test_wrong_input():
    with pytest.raises(ValueError, match="concept: expected one of"):
        correlated(DILEMMA, "nash")
    with pytest.raises(ValueError, match="objective: expected welfare"):
        correlated(DILEMMA, "ce", "happiness")
    with pytest.raises(ValueError, match="objective: expected one weight for each of 2 players"):
        correlated(DILEMMA, "ce", [1.0, 2.0, 3.0])
