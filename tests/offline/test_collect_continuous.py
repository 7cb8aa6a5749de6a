"""Logs of games with continuous actions."""

import numpy as np
import pytest
from games.continuous_samples import rich_game
from scipy.stats import kstest
from support import peer

import equipoise as eq
from equipoise.games import ContinuousPolicy
from equipoise.offline import _collect, collect


def stamina(**sizes) -> eq.ContinuousGame:
    return eq.games.load("stamina-continuous", **{"agents": 4, "horizon": 3, **sizes})


def test_uniform_play_is_uniform_and_noise_too():
    game = eq.games.load("pairwise-continuous", agents=5, noise=0.5)
    log = collect(game, samples=20_000, key=0)
    assert log.continuous
    assert log.actions.shape == log.rewards.shape == (20_000, 5)
    noise = log.rewards - game.rewards(log.actions)
    # 1.95 / sqrt(samples): the distance that a sample exceeds once in a thousand times.
    for sample, scale in ((log.actions, 1.0), (noise, 0.5)):
        assert np.abs(sample).max() <= scale * (1 + 1e-12)
        for agent in range(5):
            assert kstest(sample[:, agent] / scale, "uniform", (-1, 2)).statistic < 0.0138
    together = np.corrcoef(np.hstack([log.actions, noise]).T) - np.eye(10)
    assert np.abs(together).max() < 0.035


def test_rewards_without_noise_are_those_of_the_game(rng):
    game = rich_game(rng)
    log = collect(game, samples=500, key=0)
    np.testing.assert_array_equal(log.rewards, game.rewards(log.actions, log.contexts))
    assert log.contexts_count == 2
    share = np.mean(log.contexts == 0)
    assert abs(share - game.context_probabilities[0]) < 0.08


@pytest.mark.parametrize("behaviour", ["uniform", "policy"])
@pytest.mark.parametrize("name", ["signed-continuous", "stamina-continuous"])
def test_a_longer_log_begins_with_the_shorter_one(name, behaviour, monkeypatch):
    monkeypatch.setattr(_collect, "_BLOCK", 16)
    game = eq.games.load(name, agents=3)
    play = "uniform" if behaviour == "uniform" else game.uniform_policy()
    short, long = (collect(game, play, samples=n, key=3) for n in (20, 50))
    for field in ("contexts", "actions", "rewards", "states", "next_states"):
        if getattr(short, field) is not None:
            np.testing.assert_array_equal(
                getattr(short, field), getattr(long, field)[: short.samples], field
            )
    assert (collect(game, play, samples=20, key=4).rewards != short.rewards).any()


def test_a_policy_of_points_is_played(rng):
    game = eq.games.load("signed-continuous", agents=3)
    points = rng.uniform(-1, 1, (2, 3))
    log = collect(game, points, samples=300, key=0)
    np.testing.assert_array_equal(log.actions, points[log.contexts])
    coin = ContinuousPolicy(np.stack([points, -points], -1), np.tile([0.25, 0.75], (2, 3, 1)))
    log = collect(game, coin, samples=20_000, key=0)
    first = log.actions == points[log.contexts]
    np.testing.assert_array_equal(np.abs(log.actions), np.abs(points[log.contexts]))
    np.testing.assert_allclose(first.mean(0), 0.25, atol=0.02)


def test_episodes_follow_the_transitions():
    game = stamina()
    log = collect(game, samples=8_000, key=0)  # a Log checks that episodes hang together
    assert (log.samples, log.horizon, log.states_count) == (24_000, 3, 3)
    noise = log.rewards - game.rewards(log.actions, states=log.states)
    assert np.abs(noise).max() <= 1.0 + 1e-12
    np.testing.assert_allclose(
        [np.mean(log.states[log.steps == 0] == s) for s in range(3)], 1 / 3, atol=0.02
    )
    # From the middle state: down with 0.3 (1 + a), up with 0.3 (1 - a).
    middle = log.states == 1
    for low, high in ((-1.0, -0.5), (0.5, 1.0)):
        chosen = middle & (log.actions > low) & (log.actions < high)
        for state, slope in ((0, 0.3), (2, -0.3)):
            expected = 0.3 + slope * (low + high) / 2
            found = np.mean(log.next_states[chosen] == state)
            assert found == pytest.approx(expected, abs=0.02)


def test_what_an_episode_earns_is_what_the_certificate_says(rng):
    game = rich_game(rng, states=2, horizon=3)
    points = rng.uniform(-1, 1, (*game.policy_shape, 2))
    policy = ContinuousPolicy(points, rng.dirichlet([1.0, 1.0], game.policy_shape))
    log = collect(game, policy, samples=20_000, key=0)
    earned = log.rewards.reshape(-1, 3, 4).sum(1)
    error = earned.std(0) / np.sqrt(len(earned))
    assert (np.abs(earned.mean(0) - eq.certify(game, policy).value) < 4 * error).all()


def test_large_logs_are_kept_in_single_precision(monkeypatch):
    game = eq.games.load("pairwise-continuous", agents=5)
    small = collect(game, samples=100, key=0)
    assert small.actions.dtype == np.float64
    monkeypatch.setattr(_collect, "LARGE", 100)
    large = collect(game, samples=100, key=0)
    assert large.actions.dtype == large.rewards.dtype == np.float32
    np.testing.assert_allclose(large.rewards, small.rewards, atol=1e-5)
    assert collect(stamina(), samples=50, key=0).rewards.dtype == np.float32


def test_a_function_is_logged_too():
    game = eq.ContinuousGame.from_function(lambda a, c: a * c, 3, 2, noise=0.1)
    log = collect(game, samples=200, key=0)
    noise = log.rewards - log.actions * log.contexts[:, None]
    assert 0.05 < np.abs(noise).max() <= 0.1 + 1e-12


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_logs_go_to_files_and_back(tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    log = collect(stamina(), samples=20, key=0)
    log.write(tmp_path / f"log.{suffix}")
    back = eq.offline.Log.read(tmp_path / f"log.{suffix}")
    assert back.continuous
    for field in ("contexts", "actions", "rewards", "states", "next_states", "steps"):
        np.testing.assert_array_equal(getattr(back, field), getattr(log, field))


@pytest.mark.parametrize("learn", ["select_rank", "fit", "coverage", "estimate_behaviour"])
def test_what_counts_actions_says_that_it_cannot(learn):
    log = collect(eq.games.load("square-continuous", agents=2), samples=50, key=0)
    rank = {"rank": 1} if learn == "fit" else {}
    with pytest.raises(ValueError, match=r"log: expected .*, found continuous actions"):
        getattr(eq.offline, learn)(log, **rank)


@pytest.mark.parametrize("learn", ["select_rank", "fit"])
def test_who_learns_from_continuous_actions_is_said(learn):
    log = collect(eq.games.load("square-continuous", agents=2), samples=50, key=0)
    with pytest.raises(ValueError, match=r"equipoise\.offline\.deep"):
        getattr(eq.offline, learn)(log)


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_real_numbers_in_a_file_are_declared_continuous(suffix, tmp_path):
    path = tmp_path / f"log.{suffix}"
    if suffix == "npz":
        np.savez(path, actions=[[0.25], [-1.0]], rewards=[[1.0], [0.0]])
    else:
        pyarrow, parquet = peer("pyarrow"), peer("pyarrow.parquet")
        columns = {"action_0": [0.25, -1.0], "reward_0": [1.0, 0.0]}
        parquet.write_table(pyarrow.table(columns), path)
    with pytest.raises(ValueError, match=r"found 0.25 in row 0; declare continuous actions"):
        eq.offline.Log.read(path)
    assert eq.offline.Log.read(path, continuous=True).continuous


def test_other_behaviour_is_refused():
    game = eq.games.load("square-continuous", agents=2)
    with pytest.raises(ValueError, match='behaviour: expected "uniform", a ContinuousPolicy'):
        collect(game, "greedy", samples=3, key=0)
    with pytest.raises(ValueError, match=r"policy: expected shape \(1, 2\)"):
        collect(game, [0.0, 0.0, 0.0], samples=3, key=0)
