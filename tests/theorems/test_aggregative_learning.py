"""The guarantees of learning in docs/theory/aggregative-learning.md, on runs with fixed keys."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import equipoise as eq
from equipoise.aggregative import Simulator, Spec, learn, theory
from equipoise.aggregative._subroutine import Options
from equipoise.aggregative.learning._printed import Classes, PrintedPlanner, printed_grids
from equipoise.aggregative.learning._samples import Samples
from reproduction.aggregative_learning import Config, small_game

CONFIG = Config()


def covered(game, run):
    """Whether all that was claimed of all policies played is true."""
    for _, policy, bounds in run.history:
        exact = eq.certify(game, policy)
        value = exact.class_value.T
        if (bounds.lower > value + 1e-9).any() or (value > bounds.upper + 1e-9).any():
            return False
        if (bounds.gain + 1e-9 < exact.class_gains.T).any():
            return False
    return True


@pytest.mark.parametrize(
    "options",
    [{}, {"objective": "welfare"}, {"rewards": "unknown"}, {"rewards": "unknown", "noise": 0.3}],
    ids=["known", "welfare", "unknown", "noise"],
)
def test_theorem_1_covers_every_policy_played(options):
    """Property: lower <= V <= upper, and gains below their bounds; failure at most 0.05."""
    failed = 0
    for seed in range(4):
        game = small_game(CONFIG, seed)
        env = Simulator(game, seed, noise=options.get("noise", 0.0))
        run = learn(env, 30, history=True, **options)
        failed += not covered(game, run)
    assert failed == 0


def test_radii_are_not_wider_than_need_be():
    """A quarter of them would not do: the intervals are honest, not vacuous."""
    failed = 0
    for seed in range(3):
        game = small_game(CONFIG, seed)
        run = learn(Simulator(game, seed), 30, history=True, bonus=0.1)
        failed += not covered(game, run)
    assert failed >= 2


def test_theorem_2_bounds_the_sum_of_certificates():
    game = small_game(CONFIG, 0)
    run = learn(Simulator(game, 0), 200, history=True)
    began = [k for k, _, _ in run.history]
    widths = np.array([bounds.width for _, _, bounds in run.history])
    lasted = np.diff([*began, 200])
    bound = theory.learning_certificates(
        horizon=3,
        states=3,
        cells=run.stats["cells"],
        episodes=200,
        transition_lipschitz=game.transition_lipschitz,
        diameter=run.stats["spacing"] + 4 * game.delta,
    )
    assert widths @ lasted <= bound


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_theorem_3_bounds_the_sum_of_gaps(noise):
    """And so does what the learner itself says of its regret, much more tightly."""
    game = small_game(CONFIG, 1)
    run = learn(Simulator(game, 1, noise=noise), 100, rewards="unknown", noise=noise, history=True)
    began = [k for k, _, _ in run.history]
    gaps = np.array([float(eq.certify(game, policy).max_gain) for _, policy, _ in run.history])
    total = gaps @ np.diff([*began, 100])
    bound = theory.learning_regret(
        planning=run.stats["planning_bound"],
        lipschitz=game.lipschitz,
        horizon=3,
        states=3,
        cells=run.stats["cells"],
        types=5,
        actions=3,
        agents=50,
        episodes=100,
        diameter=run.stats["spacing"] + 4 * game.delta,
        noise=noise,
    )
    assert total <= run.regret[-1] + 1e-9
    assert run.regret[-1] <= bound


@pytest.mark.parametrize(
    ("options", "largest"),
    [
        ({}, 0.02),
        ({"scouts": 0}, 0.06),
        ({"pool": False, "scouts": 0}, 0.06),
        ({"noise": 0.3}, 0.08),
    ],
    ids=["scouts", "pooled", "alone", "noise"],
)
def test_unknown_rewards_of_the_small_game(options, largest):
    """Mean exact gap after 100 episodes (eight seeds are in docs/reproduction)."""
    gaps = []
    for seed in range(2):
        game = small_game(CONFIG, seed)
        env = Simulator(game, seed, noise=options.get("noise", 0.0))
        run = learn(env, 100, rewards="unknown", **options)
        gaps.append(float(eq.certify(game, run.policy).max_gain))
    assert np.mean(gaps) <= largest


def test_what_algorithm_3_printed_would_do():
    """Its lower bound is wrong for rewards below zero, and its gap many times ours."""
    game = small_game(Config(agents=12, types=3), 0)
    printed = learn(Simulator(game, 0), 6, form="printed", history=True)
    ours = learn(Simulator(game, 0), 6)
    assert not covered(game, printed)
    gap = eq.certify(game, printed.policy).max_gain
    assert gap > 5 * eq.certify(game, ours.policy).max_gain + 0.1
    assert printed.confidence == 0.0
    assert printed.stats["plans"] >= 6  # one for every episode


@pytest.mark.parametrize("seed", range(2))
def test_algorithm_3_with_rewards_between_0_and_1_claims_nothing_false(seed):
    """The printed form claims false bounds for all of the same policies."""
    game = small_game(Config(agents=20, types=3), seed)
    run = learn(Simulator(game, seed), 10, form="printed-rescaled", history=True)
    assert covered(game, run)
    assert len(run.history) == 11
    assert run.confidence == 0.0
    assert "the paper does not state the constants" in run.status.message
    printed = learn(Simulator(game, seed), 10, form="printed", history=True)
    for one in printed.history:
        assert not covered(game, replace(printed, history=(one,)))


def test_the_bonus_of_the_rescaled_form_is_not_valid_at_every_size():
    game = small_game(Config(agents=20, types=3), 0)
    run = learn(Simulator(game, 0), 40, form="printed-rescaled", history=True, bonus=0.002)
    assert not covered(game, run)


def test_the_rescaled_form_treats_agents_of_a_type_alike():
    """Agents one by one get the values of agents by type."""
    game = small_game(Config(agents=9, types=3, states=2, horizon=2), 0)
    one_by_one = Spec.of(game).one_by_one()
    run = learn(Simulator(game, 0), 5, form="printed-rescaled")
    same = learn(Simulator(game, 0), 5, form="printed-rescaled", spec=one_by_one)
    assert run.width == pytest.approx(same.width, abs=1e-12)
    assert run.policy.counts.sum() == same.policy.counts.sum() == 9
    assert (eq.certify(game, run.policy).class_rows < 3).all()


def test_theorem_5_1_bounds_the_regret_of_the_rescaled_form():
    """With constants of 1. With 10,000 agents the bound is below 2H from some K on."""
    game = small_game(Config(agents=10_000, states=2, horizon=2), 0)
    run = learn(Simulator(game, 0), 10, form="printed-rescaled", spacing=0.1, history=True)
    gaps = [float(eq.certify(game, policy).max_gain) for _, policy, _ in run.history[:10]]
    given = {
        "lipschitz": game.lipschitz,
        "transition_lipschitz": game.transition_lipschitz,
        "spacing": 0.1,
        "delta": game.delta,
        "agents": 10_000,
        "actions": 3,
        "horizon": 2,
        "states": 2,
        "cells": run.stats["cells"],
        "spread": 2.0,
    }
    assert sum(gaps) <= theory.printed_regret(episodes=10, **given)
    assert theory.printed_regret(episodes=10, **given) > 10 * 4  # vacuous
    assert theory.printed_regret(episodes=10**5, **given) < 10**5 * 4
    planning = {n: given[n] for n in given if n not in ("states", "cells", "spread", "lipschitz")}
    least = 2 * theory.printed_gap(lipschitz=game.lipschitz / 2, **planning)
    large = theory.printed_regret(episodes=10**12, **given) / 10**12
    cutting = 2 * game.transition_lipschitz * 0.1 * 4
    assert large == pytest.approx(least + cutting, rel=1e-3)


LARGE = Config(agents=10_000, types=10, states=10, horizon=5)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(Config(agents=1_000, types=3, states=3, horizon=5), id="a thousand"),
        pytest.param(LARGE, id="ten thousand", marks=pytest.mark.soak),
    ],
)
def test_many_agents(config):
    """The exact gap is below the planning bound."""
    game = small_game(config, 1)
    planning = theory.markov_gap(
        lipschitz=game.lipschitz,
        transition_lipschitz=game.transition_lipschitz,
        spacing=0.05,
        delta=game.delta,
        dimensions=1,
        horizon=5,
    )
    run = learn(Simulator(game, 0), 60, rewards="unknown")
    exact = eq.certify(game, run.policy)
    assert exact.max_gain <= min(run.bound, planning)


#: Settings of the printed form, with a bonus so small that its bounds are not clipped.
PRINTED = {"form": "printed", "bonus": 0.01, "key": 0, "episodes": 10, "failure": 0.05}


@pytest.mark.parametrize("seed", range(3))
def test_lemma_d_1_the_printed_envelope_is_lipschitz(seed):
    """Upper bounds on Q on the printed grid, from arbitrary counts and values ahead."""
    rng = np.random.default_rng(seed)
    spec = Simulator(small_game(Config(agents=12, types=3), seed), seed).spec
    grids, settings = printed_grids(spec, 0.1), SimpleNamespace(**PRINTED)
    planner = PrintedPlanner(spec, grids, Options(spacing=0.1), None, settings)
    grid, samples = grids[0, 0], Samples(spec, rewards=False)
    for cell in rng.choice(grid.cells, 3, replace=False).tolist():
        for following in rng.integers(0, spec.states, 40).tolist():
            samples.add((0, 0, cell), grid.centre(cell), following)
    values = np.sort(rng.uniform(0, 2, (2, spec.types, spec.states)), 0)[::-1]
    everyone, kinds = np.repeat(np.arange(spec.types), spec.counts), np.arange(spec.types)
    classes = Classes(everyone, np.searchsorted(everyone, kinds), kinds, values)
    sheet = planner.sheet(samples, (0, 0), classes, np.zeros(spec.states))
    upper, away = sheet.upper(), np.abs(grid.centres[:, None] - grid.centres[None]).max(-1)
    assert np.ptp(upper) > 0.1
    assert (np.abs(upper[:, None] - upper) <= sheet.slope * away[..., None, None] + 1e-12).all()
