"""Prices are intervals that hold the truth at every time limit; samples prove nothing."""

import time

import numpy as np
import pytest
from aggregative.crowd_games import crowd
from soak.attacks.crowds import draw, profiles_of, truth_of

import equipoise as eq
from equipoise.aggregative import _planner
from equipoise.aggregative._solve import price
from equipoise.aggregative._subroutine import Options
from equipoise.core.results import Interval


def one(number):
    return Interval(number, number)


@pytest.mark.parametrize(("optimum", "welfare", "expected"), [
    (one(3.0), one(2.0), (1.5, 1.5)),
    (one(-2.0), one(-3.0), (1.5, 1.5)),
    (one(0.0), one(0.0), (1.0, 1.0)),
    (one(1.0), one(-1.0), None),
    (one(1.0), one(0.0), (np.inf, np.inf)),
    (one(1.0), one(-1e-5), (np.inf, np.inf)),  # zero within the tolerance
    (Interval(2.0, 3.0), Interval(1.0, 1.5), (4 / 3, 3.0)),
    (Interval(2.0, np.inf), Interval(-np.inf, 1.0), (2.0, np.inf)),
    (Interval(-2.0, -1.0), Interval(-5.0, -4.0), (2.0, 5.0)),
    (Interval(-2.0, 1.0), Interval(-5.0, -4.0), (2.0, np.inf)),
    (Interval(-2.0, 1.0), Interval(-5.0, 1.0), (1.0, np.inf)),
])  # fmt: skip
def test_prices_of_intervals(optimum, welfare, expected):
    found = price(optimum, welfare, 1e-4)
    if expected is None:
        assert found is None
        return
    assert [found.lower, found.upper] == pytest.approx(expected, rel=1e-9)
    assert found.lower <= expected[0] * (1 + 1e-15)
    assert found.upper >= expected[1]


@pytest.mark.parametrize("limit", [0.0, 0.02, 60.0])
@pytest.mark.parametrize("enumerated", [False, True])
def test_prices_hold_the_truth_at_every_time_limit(limit, enumerated, monkeypatch):
    if not enumerated:
        monkeypatch.setattr(_planner, "PROFILES", 0)
        monkeypatch.setattr(Options, "profiles", 0)
    narrow = 0
    for case in range(3 if enumerated else 2):
        game = draw(np.random.default_rng([5, case]), 1 + case % 2)
        tolerance = 0.01
        anarchy, stability = truth_of(game, tolerance)
        if np.isnan(anarchy):
            continue
        prices = eq.prices(game, tolerance=tolerance, time_limit=limit)
        for found, truth in ((prices.anarchy, anarchy), (prices.stability, stability)):
            if found is not None:
                assert found.lower <= truth <= found.upper
                narrow += found.upper <= 1.001 * found.lower
    assert narrow >= (4 if enumerated and limit > 1.0 else 0)


def test_a_search_that_ran_out_of_time_says_so():
    game = eq.games.load("parallel-roads", agents=2000, roads=5, types=3)
    solution = eq.solve(game, objective="welfare", time_limit=0.0)
    assert "the time limit ended the search" in solution.status.message
    prices = eq.prices(game, time_limit=0.0)
    assert (prices.best, prices.anarchy, prices.stability) == (None, None, None)
    assert (
        str(prices.status) == "out of time: no equilibrium was found: allow a longer `time_limit`"
    )
    solution = eq.solve(game, objective="welfare", time_limit=0.0, tolerance=1.0)
    assert "the time limit ended the search" in solution.status.message
    prices = eq.prices(game, time_limit=0.0, tolerance=1.0)
    assert prices.stability is not None
    assert prices.stability.upper > 1.04
    assert prices.status.name == "out of time"


def bump(x):
    """Rewards that peak in a window of width 0.0008, which samples miss."""
    s = x[..., 0]
    peak = 0.5 * np.maximum(0.0, 1.0 - np.abs(s - 0.30371) / 0.0004)
    return np.stack([0.2 - 0.3 * s + peak, 0.1 + 0.0 * s + peak], -1)[..., None, :]


def test_sampled_constants_prove_nothing():
    """At 30,371 of 100,000 agents on the first action the mean reward is 0.6027."""
    x = np.array([0.30371])
    truth = float(np.array([0.30371, 0.69629]) @ bump(x)[0])
    game = eq.AggregativeGame([[[1.0], [0.0]]], bump, counts=[100_000])
    optimum = eq.solve(game, concept="optimum")
    assert not optimum.status.ok
    assert "no profile exceeds 0.10834, if rewards change no faster than" in optimum.status.message
    choice = eq.solve(game, objective="welfare")
    assert choice.status.ok  # it is an equilibrium
    assert ", if rewards change no faster than at the aggregates" in choice.status.message
    prices = eq.prices(game)
    assert prices.best is not None
    assert prices.stability is not None
    assert prices.stability.upper >= truth / prices.best.lower
    assert not prices.status.ok
    assert "declare `lipschitz`" in prices.status.message
    declared = eq.AggregativeGame([[[1.0], [0.0]]], bump, 0.3 + 0.5 / 0.0004, counts=[100_000])
    proven = eq.solve(declared, concept="optimum")
    assert proven.stats["best_possible"] >= truth - 1e-12
    assert "declare `lipschitz`" not in proven.status.message
    small = eq.AggregativeGame([[[1.0], [0.0]]], bump, counts=[1000])  # all profiles are compared
    assert eq.solve(small, concept="optimum").status.ok
    worth = np.array([[1.0, 0.0]])  # rewards do not matter
    assert eq.solve(game, concept="optimum", objective="welfare", welfare=worth).status.ok


def test_answers_do_not_depend_on_the_time_of_a_call():
    """A pause in the middle of the box, where the search used to time one call."""
    quick, answers = crowd(9, d=3, seed=4, counts=[60] * 9), []
    low, high = quick.box
    for pause in (0.0, 0.1):

        def reward(x, pause=pause):
            time.sleep(pause * bool(np.ndim(x) == 1 and np.array_equal(x, (low + high) / 2)))
            return quick.field.function(x)

        game = eq.AggregativeGame(
            quick.influence, reward, quick.lipschitz, counts=quick.counts, elementwise=True
        )
        solution = eq.solve(game, objective="welfare", tolerance=0.02)
        answers.append([solution.stats[n] for n in ("cells", "best_possible", "objective")])
    assert answers[0] == answers[1]
    assert answers[0][0] > 0


def test_enumeration_does_not_depend_on_the_time_of_a_call():
    """The last block of profiles is small, and was taken for the pace of all."""
    answers = []
    for pause in (0.0, 0.05):

        def reward(x, pause=pause):
            time.sleep(pause * (np.ndim(x) == 4))
            return np.array([[0.1, 0.0]]) + 0.2 * np.cos(9.0 * x[..., 0])

        game = eq.AggregativeGame([[[1.0], [0.0]]], reward, 1.8, counts=[1300], elementwise=True)
        answers.append(eq.solve(game, objective="welfare", time_limit=8.0).stats["method"])
    assert answers == ["enumeration"] * 2


def test_profiles_of_a_crowd_are_all_drawn():
    game = draw(np.random.default_rng(0), 1)
    assert all((plays.sum(1) == game.counts).all() for plays in profiles_of(game))
