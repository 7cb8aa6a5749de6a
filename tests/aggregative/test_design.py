"""Tolls and subsidies whose equilibria are the best for an objective."""

import signal

import numpy as np
import pytest

import equipoise as eq
from equipoise.aggregative import design


@pytest.fixture(scope="module")
def town():
    return eq.games.load("two-roads", agents=400)


def test_a_toll_makes_the_optimum_an_equilibrium(town):
    """Pigou: the best toll is what a driver costs the others at the optimum."""
    found = design(town, {"motorway": (0.0, 0.4)})
    share = 0.375  # of least total time
    optimum = -(share * (0.1 + 0.6 * share) + (1 - share) * (0.3 + 0.2 * (1 - share)))
    assert found.outcome == pytest.approx(optimum, abs=1e-5)
    assert found.parameters["motorway"] == pytest.approx(0.6 * share - 0.2 * (1 - share), abs=5e-3)
    assert found.status.ok
    assert found.solution.certificate.max_upper <= found.solution.tolerance
    assert max(outcome for _, outcome, _, met in found.tried if met) == found.outcome


def test_two_charges_and_a_function_of_the_solution(town):
    found = design(
        town,
        {0: (0.0, 0.3), "town": (0.0, 0.3)},
        objective=lambda solution: -abs(float(solution.stats["aggregate"][0]) - 0.3),
        rounds=1,
    )
    assert found.outcome > -0.02
    assert set(found.parameters) == {"0", "town"}
    assert found.parameters["0"] > found.parameters["town"]


def test_a_function_makes_the_games():
    found = design(
        lambda capacity: eq.games.load("el-farol", agents=100, capacity=capacity),
        {"capacity": (0.2, 0.8)},
        objective=lambda solution: float(solution.stats["aggregate"][0]),
        rounds=0,
    )
    assert found.parameters == {"capacity": pytest.approx(0.8)}
    fair = design(
        lambda capacity: eq.games.load("el-farol", agents=100, capacity=capacity),
        {"capacity": (0.2, 0.8)},
        "egalitarian",
        rounds=0,
    )
    assert fair.outcome == max(outcome for _, outcome, _, _ in fair.tried)


def test_the_page_draws_outcome_against_parameter(town):
    found = design(town, {"motorway": (0.0, 0.4)}, rounds=0)
    record = found.record()
    assert len(record.arrays["design/motorway"]) == len(record.arrays["design/outcome"]) == 17
    page = eq.report.page_of(record).html()
    assert "outcome against motorway" in page
    assert "The best parameters tried" in page


def test_wrong_designs_are_refused(town):
    for arguments, message in (
        ((town, {}), "parameters: expected one to 3 parameters"),
        ((town, {"train": (0, 1)}), "parameters: expected actions among"),
        ((town, {"town": (1, 0)}), r"parameters\['town'\]: expected \(low, high\)"),
        ((town, {"town": (0, np.inf)}), r"parameters\['town'\]: expected \(low, high\)"),
        ((town, {"town": (0, 1)}, "fun"), "objective: expected"),
        ((3, {"town": (0, 1)}), "game: expected an AggregativeGame"),
    ):
        with pytest.raises(ValueError, match=message):
            design(*arguments)


class Stopped:
    """Press Ctrl-C at the k-th call of a function."""

    def __init__(self, function, at):
        self.function, self.left = function, at

    def __call__(self, *arguments, **named):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
        return self.function(*arguments, **named)


@pytest.fixture
def _heard():
    """Python hears Ctrl-C, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_heard")
def test_ctrl_c_keeps_the_points_tried_so_far():
    make = Stopped(lambda agents: eq.games.load("two-roads", agents=round(agents)), 4)
    found = design(make, {"agents": (100.0, 400.0)})
    assert found.status.name == "interrupted"
    assert len(found.tried) == 4
    assert found.solution.certificate.max_upper <= found.solution.tolerance
    with pytest.raises(KeyboardInterrupt):  # the earlier behaviour is back
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize("solve", [eq.solve, lambda game: eq.aggregative.study(game).solution])
def test_ctrl_c_keeps_the_best_profile_so_far(solve):
    """Rewards that jump, so that no profile is found at once."""
    influence = np.random.default_rng(0).uniform(0.0, 1.0, (40, 3, 2))

    def reward(x):
        waves = np.sin(40.0 * x.sum(-1)[..., None, None] + np.arange(120.0).reshape(40, 3))
        return 0.5 + 0.5 * np.sign(waves)

    calls = Stopped(reward, 60)
    game = eq.AggregativeGame(influence, calls, 1000.0, bounds=(0.0, 1.0))
    calls.left = 60
    solution = solve(game)
    assert calls.left < 0
    assert solution.status.name == "interrupted"
    assert solution.certificate.max_gain <= solution.certificate.max_upper
