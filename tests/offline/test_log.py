"""What a log must satisfy, and how its errors read."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.offline import Log


def episodes(**changes):
    """Two episodes of three steps, one agent who always moves on."""
    fields = {
        "contexts": np.array([0, 0, 0, 1, 1, 1]),
        "actions": np.zeros((6, 1), int),
        "rewards": np.zeros((6, 1)),
        "states": np.array([[0], [1], [2], [0], [1], [2]]),
        "next_states": np.array([[1], [2], [3], [1], [2], [3]]),
        "steps": np.array([0, 1, 2, 0, 1, 2]),
        "episodes": np.array([5, 5, 5, 9, 9, 9]),
    }
    return {**fields, **changes}


def test_a_log_of_episodes():
    log = Log(**episodes())
    assert (log.horizon, log.states_count, log.contexts_count) == (3, 4, 2)
    assert log.policy_shape == (2, 3, 1, 4, 1)
    assert log.situations.tolist() == [0, 1, 2, 3, 4, 5]
    assert log.moves.ravel().tolist() == [0, 1, 2, 0, 1, 2]


def test_rows_of_episodes_may_come_in_any_order(rng):
    order = rng.permutation(6)
    log = Log(**{name: value[order] for name, value in episodes().items()})
    assert log.horizon == 3


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"steps": [0, 1, 1, 0, 1, 2]},
            r"steps 0 to 2 once each in episode 5, found 0, 1, 1 .row 2",
        ),
        ({"steps": [1, 2, 3, 0, 1, 2]}, "steps 0 to 3 once each in episode 5, found 1, 2, 3"),
        ({"episodes": [5, 5, 5, 9, 9, 8]}, "in episode 8, found 2 .row 5"),
        ({"horizon": 4}, "steps 0 to 3 once each in episode 5, found 0, 1, 2"),
        ({"contexts": [0, 0, 1, 1, 1, 1]}, "one context in episode 5, found 0 and then 1 in row 2"),
        (
            {"states": [[0], [1], [1], [0], [1], [2]]},
            "agent 0 in state 2, the next state of the step before in episode 5; found 1 in row 2",
        ),
        ({"next_states": None}, "next_states: expected values, since states are given"),
        ({"steps": None}, "steps: expected values, since states are given"),
        (
            {"states_count": 3},
            "next_states: expected whole numbers from 0 to 2 .* found 3 in row 2",
        ),
        ({"states": None}, "next_states: expected states to be given as well"),
        ({"states": np.full((6, 1), -1)}, "states: expected whole numbers from 0 .* in row 0"),
        ({"steps": [0, 1, 2, 0, 1, -2]}, "steps: .* found -2 in row 5"),
        ({"episodes": [5, 5, 5, 9, 9, np.nan]}, "episodes: .* found nan in row 5"),
    ],
)
def test_broken_episodes_are_refused(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        Log(**episodes(**changes))


def test_rows_that_stand_alone_need_no_whole_episodes():
    log = Log(**episodes(episodes=None, steps=[0, 1, 1, 0, 1, 2]))
    assert log.horizon == 3


@pytest.mark.parametrize(
    ("arguments", "declared", "complaint"),
    [
        (([0], [[0, 1]], [[1.0]]), {}, "rewards: expected 2 agents, as in actions, found 1"),
        (([0, 0], [[0, 1]], [[1.0, 1.0]]), {}, "contexts: expected 1 rows"),
        (([], np.zeros((0, 2)), np.zeros((0, 2))), {}, "at least one row and agent"),
        (([0], [0], [0]), {}, r"actions: expected shape \(samples, agents\)"),
        (([0], [["a"]], [[0.0]]), {}, "actions: expected numbers"),
        (([0, 0], [[0], [0, 1]], [[0.0]]), {}, "rows of different lengths"),
        (([0], [[0]], [[np.inf]]), {}, "finite numbers for agent 0, found inf in row 0"),
        (([0], [[0]], [[0.5]]), {"reward_range": (1, 0)}, "expected low <= high"),
        (([0], [[0]], [[0.5]]), {"reward_range": (0, np.nan)}, "two finite numbers"),
        (([0], [[0]], [[0.5]]), {"contexts_count": 0}, "contexts_count: expected a whole number"),
        (([0], [[0]], [[0.5]]), {"contexts_count": 2**40}, "contexts_count: expected at most"),
        (([1], [[0]], [[0.5]]), {"contexts_count": 1}, "contexts: .* 0 to 0, found 1 in row 0"),
        (([0], [[0]], [[0.5]]), {"behaviour": [[[0.5]]]}, "behaviour: .* sum to 1"),
        (([0], [[0]], [[0.5]]), {"actions_per_agent": (1, 2)}, "for each of 1 agents, found 2"),
        (([0], [[1.5]], [[0.5]]), {"continuous": True}, "from -1 to 1 for agent 0, found 1.5"),
        (([0], [[0.5]], [[0.5]]), {"continuous": True, "behaviour": [[[1.0]]]}, "expected none"),
        (([2**63], [[0]], [[0.5]]), {}, "contexts: expected 64-bit whole numbers"),
    ],
)
def test_wrong_logs_are_refused(arguments, declared, complaint):
    with pytest.raises(ValueError, match=complaint):
        Log(*arguments, **declared)


def test_numbers_take_as_few_bytes_as_they_need():
    actions = np.array([[0, 127], [1, 3]])
    log = Log([0, 300], actions, np.ones((2, 2), np.float32))
    assert log.actions.dtype == np.int8
    assert log.contexts.dtype == np.int16
    assert log.rewards.dtype == np.float32
    assert Log([0], [[200]], [[1]]).actions.dtype == np.int16
    assert Log([0], [[1.0]], [[1]]).rewards.dtype == np.float64
    assert Log([True], [[1]], [[1]]).contexts_count == 2


def test_large_tables_are_not_copied():
    actions, rewards = np.zeros((10, 3), np.int8), np.zeros((10, 3), np.float32)
    log = Log(np.zeros(10, np.int8), actions, rewards, actions_per_agent=4)
    assert np.shares_memory(log.actions, actions)
    assert np.shares_memory(log.rewards, rewards)


def test_moves_do_not_overflow():
    """States and actions each fit a byte, together they do not."""
    states = np.full((1, 1), 100)
    log = Log([0], [[9]], [[0.0]], states, states)
    assert log.moves.tolist() == [[1009]]


def test_rows_of_a_log():
    log = Log(**episodes())
    part = log.take(np.array([1, 4]))
    assert part.samples == 2
    assert part.policy_shape == log.policy_shape
    assert part.episodes is None
    assert part.states.tolist() == [[1], [1]]
    with pytest.raises(ValueError, match="expected at least one"):
        log.take(slice(0, 0))


def test_one_step_with_states_needs_no_steps():
    log = Log([0], [[1]], [[0.0]], [[1]], [[0]])
    assert log.policy_shape == (1, 1, 1, 2, 2)
    assert eq.offline.coverage(log).counts[0, 0, 0].tolist() == [[0, 0], [0, 1]]


def test_contexts_may_be_left_out():
    log = Log(None, [[0, 1], [1, 1], [0, 0]], np.zeros((3, 2)))
    assert log.contexts.tolist() == [0, 0, 0]
    assert log.contexts_count == 1


def test_a_log_is_shown_in_a_line():
    many = Log(None, np.arange(4000).reshape(40, 100) % 7, np.zeros((40, 100)))
    assert repr(many) == "Log(samples=40, agents=100, contexts=1, actions=7)"
    assert repr(Log(**episodes())) == (
        "Log(samples=6, agents=1, contexts=2, actions=1, states=4, horizon=3)"
    )
    points = Log(None, [[0.5], [0.25]], [[1.0], [2.0]], continuous=True)
    assert repr(points) == "Log(samples=2, agents=1, contexts=1, continuous=True)"
