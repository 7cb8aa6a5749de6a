"""General-sum Markov games: backward induction, stationary and truncated policies."""

import dataclasses
import itertools

import numpy as np
import pytest

import equipoise as eq
from equipoise.core.deviations import joint_markov_values
from equipoise.solvers import _markov_general
from equipoise.solvers._markov_general import solve_discounted, solve_finite


def game(seed, states, actions):
    rng = np.random.default_rng(seed)
    reward = rng.random((len(actions), states, *actions))
    return reward, rng.dirichlet(np.ones(states), (states, *actions))


def best_by_enumeration(reward, transition, joint, player, concept):
    """The best deviation over all deterministic ones, by trying each in a game of two steps."""
    steps, states = joint.shape[:2]
    actions = reward.shape[2 + player]
    heard = actions if concept == "ce" else 1
    own = np.moveaxis(reward[player], 1 + player, 1).reshape(states, actions, -1)
    moves = np.moveaxis(transition, 1 + player, 1).reshape(states, actions, -1, states)
    chances = np.moveaxis(joint, 2 + player, 2).reshape(steps, states, actions, -1)
    best = np.full(states, -np.inf)
    for plan in itertools.product(range(actions), repeat=steps * states * heard):
        reply = np.array(plan).reshape(steps, states, heard)
        ahead = np.zeros(states)
        for t in reversed(range(steps)):
            worth = own + moves @ ahead
            now = np.zeros(states)
            for s, a in itertools.product(range(states), range(actions)):
                b = reply[t, s, a if concept == "ce" else 0]
                now[s] += chances[t, s, a] @ worth[s, b]
            ahead = now
        best = np.maximum(best, ahead)
    return best


@pytest.mark.parametrize("concept", ["cce", "ce"])
def test_best_deviations_are_those_of_enumeration(concept):
    reward, transition = game(0, 2, (2, 2))
    joint = np.random.default_rng(1).dirichlet(np.ones(4), (2, 2)).reshape(2, 2, 2, 2)
    value, gain, *_ = joint_markov_values(reward, transition, joint, concept=concept)
    for player in range(2):
        expected = best_by_enumeration(reward, transition, joint, player, concept)
        assert (value + gain)[:, player] == pytest.approx(expected)


@pytest.mark.parametrize("concept", ["nash", "cce", "ce"])
def test_for_ever_is_the_limit_of_long_horizons(concept):
    reward, transition = game(2, 3, (2, 3))
    joint = np.random.default_rng(3).dirichlet(np.ones(6), (1, 3)).reshape(1, 3, 2, 3)
    options = {"discount": 0.7, "concept": concept}
    short = joint_markov_values(reward, transition, joint, finite=False, **options)
    long = joint_markov_values(reward, transition, np.repeat(joint, 120, 0), **options)
    for ours, theirs in zip(short[:2], long[:2], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("concept", ["nash", "ce", "cce"])
@pytest.mark.parametrize("objective", [None, "welfare"])
@pytest.mark.parametrize("actions", [(2, 3), (2, 2, 2)])
def test_backward_induction(concept, objective, actions):
    reward, transition = game(4, 3, actions)
    found = solve_finite(reward, transition, 4, concept=concept, objective=objective)
    assert found.gain < 1e-9
    assert found.joint.shape == (4, 3, *actions)
    assert (found.profile is None) == (concept != "nash")
    assert found.ended == "solved"


def test_one_step_is_a_normal_form():
    reward, transition = game(5, 2, (3, 3))
    values = [
        solve_finite(reward, transition, 1, concept=c, objective="welfare").value.sum(1)
        for c in ("nash", "ce", "cce")
    ]
    assert (values[0] <= values[1] + 1e-9).all()
    assert (values[1] <= values[2] + 1e-9).all()


@pytest.mark.parametrize("concept", ["nash", "ce", "cce"])
def test_discounted(concept):
    reward, transition = game(6, 4, (3, 2))
    found = solve_discounted(reward, transition, 0.8, concept=concept, tolerance=1e-7)
    assert found.gain <= 1e-7
    _, gain, *_ = joint_markov_values(
        reward, transition, found.joint, discount=0.8, finite=False, concept=concept
    )
    assert gain.max() == pytest.approx(found.gain, abs=1e-12)


def test_a_truncated_horizon_keeps_its_promise():
    # Stage games of three players for which the stationary iteration goes round in circles.
    reward, transition = game(7, 3, (2, 2, 2))
    for seed in range(8, 20):
        found = solve_discounted(reward, transition, 0.6, tolerance=1e-6)
        if found.method == "truncated":
            break
        reward, transition = game(seed, 3, (2, 2, 2))
    assert found.gain <= 1e-6
    if found.method == "truncated":
        assert 0 < found.truncation <= 1e-6
        assert len(found.joint) > 1


def test_time_is_kept():
    reward, transition = game(9, 3, (2, 2, 2))
    found = solve_finite(reward, transition, 50, time_limit=0.0)
    assert found.ended == "out of time"
    assert found.joint.shape[0] == 50


def test_ctrl_c_in_a_stage_game_ends_the_whole_search(monkeypatch):
    asked, solve_table = [], _markov_general.solve_table

    def interrupted(*arguments, **options):
        asked.append(1)
        answer = solve_table(*arguments, **options)
        return dataclasses.replace(answer, ended="interrupted") if len(asked) == 5 else answer

    monkeypatch.setattr(_markov_general, "solve_table", interrupted)
    solution = eq.solve(eq.MarkovGame(*game(0, 2, (3, 3, 3)), horizon=6))
    assert solution.status.name == "interrupted"
    assert len(asked) == 5


def test_stage_games_that_run_out_of_time_are_told():
    solution = eq.solve(eq.MarkovGame(*game(0, 3, (6, 6, 6)), horizon=2), time_limit=0.0)
    assert solution.status.name == "out of time"
    assert "time_limit" in solution.status.message


def test_horizons_that_no_machine_can_hold_are_refused():
    with pytest.raises(ValueError, match=r"horizon: expected at most 100,000 steps, found 1e.308"):
        eq.MarkovGame(*game(0, 2, (3, 3, 3)), horizon=10**308)
