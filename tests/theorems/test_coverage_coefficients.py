"""Coefficients of coverage that the interaction-rank paper compares, computed by enumeration."""

from itertools import combinations, product

import numpy as np
import pytest

from equipoise.offline._moments import columns_of

#: The next state is the action of the first step; the first state is fixed.
STEPS, STATES, ACTIONS = 2, 2, 2
#: (steps, states): distribution of local states in the log, and its play (steps, states, actions).
SIGMA = np.array([[1.0, 0.0], [0.1, 0.9]])
NU = np.array([[[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.1, 0.9]]])


def visits(policy):
    """(steps, states): where a deterministic policy (steps, states) leads."""
    d = np.zeros((STEPS, STATES))
    d[0, 0] = d[1, policy[0][0]] = 1.0
    return d


def policies():
    flat = product(range(ACTIONS), repeat=STEPS * STATES)
    return [np.reshape(choice, (STEPS, STATES)) for choice in flat]


def test_single_agent_coverage_may_exceed_unilateral_coverage():
    """A second agent with one action adds a factor of one, so agent 1 alone decides C_uni.

    C_S and C_sin are each the largest ratio over all states. A state that the log rarely visits and
    another in which it rarely plays an action make their product larger than any single ratio.
    """
    of_states = of_actions = unilateral = 0.0
    for policy in policies():
        d = visits(policy)
        for h, s in product(range(STEPS), range(STATES)):
            if SIGMA[h, s] == 0:
                assert d[h, s] == 0
                continue
            play = np.eye(ACTIONS)[policy[h, s]]
            states, actions = d[h, s] / SIGMA[h, s], (play / NU[h, s]).max()
            of_states, of_actions = max(of_states, states), max(of_actions, actions)
            unilateral = max(unilateral, states * actions)
    assert (of_states, of_actions, unilateral) == pytest.approx((10.0, 10.0, 20.0))
    assert of_states * of_actions > unilateral


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_remark_3_classes_of_low_rank_have_few_parameters(rank):
    """Their dimension, by linear algebra, is that of the features; it is of the order W^(K-1)."""
    actions = 3
    for others in (2, 3, 4):
        plays = np.array(list(product(range(actions), repeat=others)))
        functions = [
            (plays[:, group] == moves).all(1)
            for size in range(min(rank, others + 1))
            for group in combinations(range(others), size)
            for moves in product(range(actions), repeat=size)
        ]
        dimension = np.linalg.matrix_rank(np.array(functions, float))
        assert columns_of(others, rank, actions) == dimension
    assert columns_of(200, rank, actions) <= rank * (200 * actions) ** (rank - 1)
