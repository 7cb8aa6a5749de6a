"""Learners step by step, against the formulas of their docstrings worked out in NumPy."""

import numpy as np
import pytest

from equipoise import dynamics
from equipoise.core.precision import double_precision
from equipoise.core.schedules import Constant, Power, Rates
from equipoise.dynamics import OMD, Bandit, MarkovBandit, MarkovOMD, Spec

#: (action, reward) of each round.
PLAYED = [(0, 0.9), (1, 0.2), (1, 0.8), (2, 0.4), (0, 0.1)]


def projected(point, floor):
    """The Euclidean projection onto {p : sum p = 1, p >= floor}, by bisection."""
    low, high = point.min() - 1.0, point.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(point - middle, floor).sum() > 1 else (low, middle)
    return np.maximum(point - low, floor)


def rates(learner, t, actions=3):
    found = learner.rates
    return (
        float(found.step(t, actions)),
        float(found.beta(t)),
        float(found.strength(t, actions)),
        float(found.floor(t)) / actions,
    )


#: Steps so short that no policy reaches its floor: every term of an update is seen in it.
GENTLE = Rates(eta=Power(0.1, 0.5), beta=Power(0.25, 0.4), eps=Constant(0.25))


@pytest.mark.parametrize("options", [{}, {"rates": GENTLE}], ids=["default", "gentle"])
def test_mirror_descent_follows_its_anchor(options):
    """The anchor moves towards the policy just made, not towards the one before it."""
    learner = OMD(loss=dynamics.PlainLoss(), **options)
    x = z = np.full(3, 1 / 3)
    with double_precision():
        state = learner.init(Spec(3))
        for t, (action, reward) in enumerate(PLAYED, 1):
            step, beta, strength, floor = rates(learner, t)
            gradient = np.zeros(3)
            gradient[action] = (1.0 - reward) / (x[action] + beta)
            x = projected(x - step * (gradient + strength * (x - z)), floor)
            z = z + 2.0 / (t + 1.0) * (x - z)
            state = learner.update(state, Bandit(t, action, reward))
            np.testing.assert_allclose(state.policy, x, atol=1e-12)
            np.testing.assert_allclose(state.anchor, z, atol=1e-12)
    assert np.abs(x - 1 / 3).max() > 0.01


@pytest.mark.parametrize("options", [{}, {"rates": GENTLE}], ids=["default", "gentle"])
def test_mirror_descent_follows_its_anchor_at_every_state(options):
    learner = MarkovOMD(**options)
    discount = 0.5
    x, z = np.full((2, 3), 1 / 3), np.full((2, 3), 1 / 3)
    values, visits = np.full(2, 0.5 / (1 - discount)), np.zeros(2, int)
    places = [0, 1, 0, 0, 1, 1]
    with double_precision():
        state = learner.init(Spec(3, 2, discount))
        for t, (action, reward) in enumerate(PLAYED, 1):
            here, then = places[t - 1], places[t]
            visits[here] += 1
            step, beta, strength, floor = rates(learner, visits[here])
            target = reward + discount * values[then]
            gradient = np.zeros(3)
            gradient[action] = (values[here] - target) / (x[here, action] + beta)
            x[here] = projected(x[here] - step * (gradient + strength * (x[here] - z[here])), floor)
            z[here] += float(learner.anchor.weight(visits[here])) * (x[here] - z[here])
            values[here] += float(learner.value_step(visits[here])) * (target - values[here])
            state = learner.update(state, MarkovBandit(t, here, action, reward, then))
            np.testing.assert_allclose(state.policy, x, atol=1e-10)
            np.testing.assert_allclose(state.anchor, z, atol=1e-10)
            np.testing.assert_allclose(state.values, values, atol=1e-10)


@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_exp3_ix_weighs_its_losses(scale):
    learner, losses = dynamics.EXP3IX(scale=scale), np.zeros(3)
    with double_precision():
        state = learner.init(Spec(3))
        for t, (action, reward) in enumerate(PLAYED, 1):
            policy = np.asarray(state.policy)
            rate = scale * np.sqrt(2 * np.log(3) / (3 * t))
            losses[action] += (1 - reward) / (policy[action] + rate / 2)
            weights = np.exp(-scale * np.sqrt(2 * np.log(3) / (3 * (t + 1))) * losses)
            state = learner.update(state, Bandit(t, action, reward))
            np.testing.assert_allclose(state.policy, weights / weights.sum(), atol=1e-12)
