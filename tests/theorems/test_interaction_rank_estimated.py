"""The interaction-rank paper: Theorem 2 with rewards that are fitted to a log."""

from typing import Any

import numpy as np
import pytest

import equipoise as eq
from equipoise.offline import parameters, theory
from reproduction.interaction_rank_estimated import mean_squared_errors, reward_range


@pytest.mark.parametrize("samples", [300, 10_000])
@pytest.mark.parametrize("agents", [3, 8])
def test_theorem_2_with_estimated_rewards_is_within_its_bound(agents, samples):
    """Rewards are fitted; units are those in which rewards lie in [0, 1]."""
    game = eq.games.families.polymatrix(agents, 3, scale=0.25, noise=0.25).sample(key=agents)
    unit, uniform = reward_range(game.interactions), game.uniform_policy()
    log = eq.offline.collect(game, "uniform", samples=samples, key=1)
    model: Any = eq.offline.fit(log, 2, intervals=False)
    errors = mean_squared_errors(game.interactions, model.game.interactions, uniform)
    error = errors.max() / unit**2
    bound = theory.printed_gap(agents, 2, error, divergence=3.0)
    chosen = parameters.paper(agents, 2, error)
    gaps = []
    for step, strength, iterations in (
        (chosen.step, chosen.strength, chosen.iterations),
        (20.0, 1e-6, 1000),
    ):
        solution = eq.offline.solve(
            model, force=True, step=step / unit, strength=strength * unit, iterations=iterations
        )
        gaps.append(float(eq.certify(game, solution.policy).max_gain) / unit)
    assert max(gaps) <= bound
    assert gaps[1] < gaps[0] / 3  # what the theorem's regulariser costs


def test_the_error_and_the_range_of_rewards_are_those_of_all_joint_actions():
    first, second = eq.games.families.polymatrix(3, 3, 2, scale=0.3).sample(2, key=0)
    behaviour = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 3))
    dense = [game.interactions.to_dense() for game in (first, second)]
    chance = np.einsum("ca,cb,cd->cabd", *np.moveaxis(behaviour, 1, 0))
    expected = np.einsum("cabd,ciabd->ci", chance, (dense[0] - dense[1]) ** 2)
    found = mean_squared_errors(first.interactions, second.interactions, behaviour)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    spread = dense[0].max((0, 2, 3, 4)) - dense[0].min((0, 2, 3, 4))
    assert reward_range(first.interactions) == pytest.approx(spread.max())
