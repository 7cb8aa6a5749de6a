"""Transitions by maximum likelihood, compared with closed forms and with the truth."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.offline import transitions


def numeric_log(following, rng, *, rows=800, agents=2, horizon=1, width=1, covariates=0, actions=2):
    """A log of independent rows whose next states are `following(covariates, states, actions)`."""
    count = rows * horizon
    states = rng.normal(size=(count, agents, width))
    acted = rng.integers(0, actions, (count, agents))
    common = rng.normal(size=(count, covariates)) if covariates else None
    led = following(common, states, acted)
    steps = np.repeat(np.arange(horizon), rows)
    rewards = np.zeros((count, agents))
    return eq.offline.Log(None, acted, rewards, states, led, steps, covariates=common)


def linear(rng, width, noise):
    matrix = rng.normal(size=(width, width)) / 2

    def following(common, states, acted):
        mean = states @ matrix + acted[..., None] * 0.7 + 0.3
        mean = mean if common is None else mean + common[:, None, :1]
        return mean + rng.normal(size=states.shape) @ noise.T

    return matrix, following


def test_the_linear_class_is_least_squares_and_its_likelihood_the_closed_form(rng):
    noise = np.array([[0.3, 0.0], [0.2, 0.1]])
    _, following = linear(rng, 2, noise)
    log = numeric_log(following, rng, width=2, covariates=1, horizon=2)
    fitted = transitions.fit(log, "linear")
    for h in range(2):
        rows = log.steps == h
        for i in range(2):
            ones, acted = np.ones((rows.sum(), 1)), log.actions[rows, i : i + 1]
            x = np.concatenate([ones, log.covariates[rows], log.states[rows, i], acted], 1)
            y = log.next_states[rows, i]
            weights = np.linalg.solve(x.T @ x, x.T @ y)
            np.testing.assert_allclose(fitted.weights[i, h], weights, atol=1e-9)
            covariance = np.cov((y - x @ weights).T, bias=True)
            root = fitted.root[i, h]
            np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-6)
            # At its maximum the likelihood depends on the determinant alone.
            best = -0.5 * (2 * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + 2)
            own = fitted.densities(log)[rows, i].mean()
            assert own == pytest.approx(best, abs=1e-6)


def test_the_truth_is_recovered_and_sampled(rng):
    noise = np.array([[0.3, 0.0], [0.2, 0.1]])
    matrix, following = linear(rng, 2, noise)
    log = numeric_log(following, rng, width=2, rows=20_000, agents=1)
    fitted = transitions.fit(log, "linear", stationary=True)
    assert fitted.weights.shape == (1, 1, 4, 2)
    np.testing.assert_allclose(fitted.weights[0, 0, 1:3], matrix, atol=0.01)
    drawn = fitted.sample(log, key=1)
    left = (drawn - following(None, log.states, log.actions))[:, 0]
    np.testing.assert_allclose(np.cov(left.T), 2 * noise @ noise.T, atol=0.01)


def test_a_table_has_the_frequencies_of_the_log(rng):
    game = eq.games.families.polymatrix(agents=3, actions=2, states=3, horizon=2, contexts=2)
    log = eq.offline.collect(game.sample(key=0), samples=400, key=0)
    fitted = transitions.fit(log)
    assert fitted.kind == "table"
    kernel = eq.offline.fit(log, 1).game.transitions  # contexts, horizon, agents, states, actions
    mine = fitted.chances.reshape(3, 2, 2, 3, 2, 3)  # agents, horizon, contexts, ...
    np.testing.assert_allclose(np.moveaxis(kernel, (0, 1, 2), (2, 1, 0)), mine, atol=1e-12)
    place = (log.contexts[:, None], log.steps[:, None], np.arange(3)[None])
    chances = kernel[(*place, log.states, log.actions, log.next_states)]
    np.testing.assert_allclose(fitted.densities(log), np.log(chances), atol=1e-12)
    drawn = fitted.sample(log, key=0)
    assert drawn.shape == log.next_states.shape
    rows = (
        (log.contexts == 0) & (log.steps == 1) & (log.states[:, 0] == 0) & (log.actions[:, 0] == 1)
    )
    share = np.bincount(drawn[rows, 0], minlength=3) / rows.sum()
    assert np.abs(share - kernel[0, 1, 0, 0, 1]).max() < 4 * np.sqrt(0.25 / rows.sum())


def test_a_table_of_numbers_is_a_density(rng):
    log = numeric_log(lambda c, s, a: np.abs(s) % 1.0, rng, agents=1, covariates=1)
    fitted = transitions.fit(log, "table", cells=4)
    low, high = fitted.ends[0, -1]
    points = np.linspace(low, high, 401)[:-1] + (high - low) / 800
    many = len(points)
    grid = eq.offline.Log(
        *(None, np.ones((many, 1), int), np.zeros((many, 1)), np.full((many, 1, 1), 0.3)),
        *(points[:, None, None], np.zeros(many, int)),
        covariates=np.full((many, 1), 0.1),
    )
    integral = np.exp(fitted.densities(grid)).mean() * (high - low)
    assert integral == pytest.approx(1.0, abs=1e-9)
    drawn = fitted.sample(log, key=0)
    assert low <= drawn.min() <= drawn.max() <= high
    # Beyond what the log shows, the density is zero.
    outside = eq.offline.Log(None, [[0]], [[0.0]], [[[0.0]]], [[[9.0]]], covariates=[[0.0]])
    assert np.isneginf(
        fitted.densities(
            eq.offline.Log(
                None, [[1]], [[0.0]], outside.states, outside.next_states, covariates=[[0.0]]
            )
        )[0, 0]
    )


def kinds_of_dynamics(rng):
    def jumps(c, s, a):  # two likely next states, which no Gaussian describes
        return np.sign(rng.normal(size=s.shape)) + 0.05 * rng.normal(size=s.shape)

    def bent(c, s, a):
        return np.tanh(2.0 * s + a[..., None]) + 0.1 * rng.normal(size=s.shape)

    def straight(c, s, a):
        return 0.8 * s + a[..., None] + 0.2 * rng.normal(size=s.shape)

    return {"table": jumps, "network": bent, "linear": straight}


@pytest.mark.parametrize("kind", ["table", "linear", "network"])
def test_the_held_out_likelihood_chooses_the_right_class(kind, rng):
    log = numeric_log(kinds_of_dynamics(rng)[kind], rng, rows=1_500)
    fitted = transitions.fit(log, key=1)
    scores = dict(fitted.held_out)
    assert fitted.kind == kind == max(scores, key=scores.__getitem__)
    assert set(scores) == set(transitions.KINDS)


def test_a_network_is_at_least_as_likely_as_the_linear_class(rng):
    log = numeric_log(kinds_of_dynamics(rng)["network"], rng, width=2)
    straight, bent = (
        transitions.fit(log, kind).log_likelihood(log) for kind in ("linear", "network")
    )
    assert (bent > straight + 0.5).all()


def test_continuous_actions_enter_as_numbers(rng):
    acted = rng.uniform(-1, 1, (400, 2))
    states = rng.normal(size=(400, 2, 1))
    following = states * 0.5 + 2.0 * acted[..., None]
    log = eq.offline.Log(None, acted, np.zeros((400, 2)), states, following, continuous=True)
    fitted = transitions.fit(log, "linear")
    np.testing.assert_allclose(fitted.weights[:, 0, :, 0], [[0.0, 0.5, 2.0]] * 2, atol=1e-9)
    np.testing.assert_allclose(fitted.sample(log, key=0), following, atol=1e-4)


def test_refusals(rng):
    log = numeric_log(lambda c, s, a: s, rng, rows=50, horizon=2)
    counted = eq.offline.Log(None, [[0]], [[0.0]], [[0]], [[1]])
    first = log.take(log.steps == 0)
    for what, given, options in (
        ("log: expected a log with local states", eq.offline.Log(None, [[0]], [[0.0]]), {}),
        ("kind: expected 'auto', 'table', 'linear', 'network'", log, {"kind": "magic"}),
        ("kind: expected 'table' for local states that are counted", counted, {"kind": "linear"}),
        (
            "log: expected rows of every step, found none of step 1",
            first,
            {"kind": "linear"},
        ),
        ("cells: expected a table of at most", log, {"kind": "table", "cells": 3000}),
    ):
        with pytest.raises(ValueError, match=what):
            transitions.fit(given, **options)
    with pytest.raises(ValueError, match="log: expected a log with Layout"):
        transitions.fit(log, "linear").log_likelihood(counted)
