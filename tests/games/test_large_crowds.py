"""Crowds at the limits of whole numbers, and with very many steps and states."""

import numpy as np
import pytest

import equipoise as eq


def test_more_agents_than_float64_counts_are_refused():
    """1,025 types of 2^53 agents: their number is beyond int64."""
    influence = np.zeros((1025, 2, 1))
    with pytest.raises(eq.core.InputError, match=r"counts: expected at most 2\^53 agents in all"):
        eq.AggregativeGame(
            influence, lambda x: np.zeros((1025, 2)), 0.0, counts=np.full(1025, 2**53)
        )
    most = eq.AggregativeGame(
        influence[:2], lambda x: np.zeros((2, 2)), 0.0, counts=[2**53 - 1, 1], elementwise=False
    )
    assert most.agents == 2**53
    assert most.scale == 2.0**-53


def test_constants_are_sampled_when_they_are_asked_for():
    calls = []

    def reward(h, s, x):
        calls.append((h, s))
        return np.array([[0.1, 0.0]]) - 0.5 * x[..., 0]

    def transition(h, s, x):
        calls.append((h, s))
        return np.stack([1.0 - 0.2 * x[..., 0], 0.2 * x[..., 0]], -1)

    game = eq.AggregativeMarkovGame(
        [[[1.0], [0.0]]], reward, transition, 10, 2, [100], transition_lipschitz=0.2
    )
    made = len(calls)
    assert made <= 10 * len({*calls})  # a few values of each stage are checked
    assert game.lipschitz_estimated
    assert game.lipschitz == pytest.approx(0.55)
    sampled = len(calls)
    assert sampled > made
    assert game.lipschitz == pytest.approx(0.55)
    assert game.transition_lipschitz == 0.2
    assert len(calls) == sampled
