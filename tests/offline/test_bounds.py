"""Bounds belong to what agents are told to do, and cover what the log shows."""

import csv

import numpy as np
import pytest

import equipoise as eq
from equipoise.offline import _combinations, _discrete
from equipoise.offline._aggregate import Aggregate
from equipoise.offline._combinations import Shown
from equipoise.offline._play import averaged, occupancies

QUICK = {"iterations": 100}


def joint_gains(rewards_of, policy, agents, actions):
    """(agents, actions): what always playing an action gains, by all joint actions."""
    joint = np.stack(np.meshgrid(*[np.arange(actions)] * agents, indexing="ij"), -1)
    joint = joint.reshape(-1, agents)
    rewards, found = rewards_of(joint), np.zeros((agents, actions))
    for weight, play in zip(policy.weights, policy.policies[:, 0], strict=True):
        chances = play[np.arange(agents), joint]
        for i in range(agents):
            others = np.delete(chances, i, 1).prod(1) * rewards[:, i]
            earned = np.bincount(joint[:, i], others, actions)
            found[i] += weight * (earned - play[i] @ earned)
    return found


def lane(actions):
    """A lane for one: whoever takes it alone earns 1, and all who meet there lose 4."""
    return actions * np.where(actions.sum(1, keepdims=True) <= 1, 1.0, -4.0)


def log_of(rewards_of, seed, agents, samples=1000, noise=0.1):
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 2, (samples, agents))
    rewards = rewards_of(actions)
    return eq.offline.Log(None, actions, rewards + rng.normal(0, noise, rewards.shape))


@pytest.mark.parametrize(("agents", "seed"), [(2, 850), (4, 851), (4, 852)])
def test_agents_may_follow_the_advice_each_on_its_own(agents, seed, tmp_path):
    """Taking turns in a lane is worth nothing to agents who cannot see whose turn it is."""
    log = log_of(lane, seed, agents)
    advice = eq.advise(log, run=tmp_path, **QUICK)
    assert advice.status.ok
    assert len(advice.policy) == 1
    gap = joint_gains(lane, advice.policy, agents, 2).max()
    low, high = advice.interval
    assert low <= gap <= high == advice.bound < 0.02
    with open(tmp_path / "policy.csv") as stream:
        rows = list(csv.DictReader(stream))
    told = np.array([float(row["probability"]) for row in rows]).reshape(agents, 2)
    np.testing.assert_allclose(told, advice.policy.policies[0, 0], atol=1e-6)


def test_a_mixture_lists_its_draws_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(_discrete, "products", lambda *given: iter(()))
    advice = eq.advise(log_of(lane, 853, 2), run=tmp_path, **QUICK)
    assert advice.status.ok
    assert len(advice.policy) == 100
    assert "a coordinator draws one of the 100 policies" in advice.status.message
    with open(tmp_path / "policy.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0])[:3] == ["draw", "weight", "agent"]
    told = np.array([float(row["probability"]) for row in rows]).reshape(100, 2, 2)
    np.testing.assert_allclose(told, advice.policy.policies[:, 0], atol=1e-6)
    assert {row["weight"] for row in rows} == {"0.01"}
    low, high = advice.interval
    assert low <= joint_gains(lane, advice.policy, 2, 2).max() <= high
    table = eq.report.tables_of(eq.runs.Record.load(tmp_path))["advice"]
    assert "one draw for all agents" in table.columns[1]


@pytest.mark.parametrize("seed", range(860, 866))
def test_actions_that_were_hardly_tried_are_unknown_and_not_advised(seed):
    rng = np.random.default_rng(seed)
    agents, times = 4, (1, 2, 5)[seed % 3]
    tables = rng.normal(0, 0.3, (agents, agents, 3, 3))

    def pairs(a):
        return np.stack(
            [
                sum(tables[i, j, a[:, i], a[:, j]] for j in range(agents) if j != i)
                for i in range(agents)
            ],
            1,
        )

    actions = rng.integers(0, 3, (1000, agents))
    actions[:, :2] = np.minimum(actions[:, :2], 1)
    for i in range(2):
        actions[rng.choice(1000, times, replace=False), i] = 2
    log = eq.offline.Log(None, actions, pairs(actions) + rng.normal(0, 0.2, actions.shape))
    advice = eq.advise(log, iterations=60)
    assert advice.stats["unknown"] == ["0: 2", "1: 2"]
    assert advice.stats["warnings"][-1].startswith(
        "gains are unknown for 2 deviations that the log shows"
    )
    gains = joint_gains(pairs, advice.policy, agents, 3)
    gains[:2, 2] = -np.inf
    low, high = advice.interval
    assert low <= gains.max() <= high
    assert np.isnan(advice.stats["deviations"]["gain"][:2, 2]).all()
    if advice.status.ok:
        assert (advice.policy.policies[:, 0, :2, 2] == 0).all()
        assert "Not counted: 2 deviations" in advice.status.message


@pytest.mark.parametrize(("seed", "share"), [(880, 0.1), (881, 0.3)])
def test_a_crowd_that_the_log_never_shows_is_not_advised_as_learned(seed, share):
    """All go to a bar for six that was hardly ever seen full: going paid in every row."""
    rng = np.random.default_rng(seed)
    agents, room = 10, 6
    go = (rng.random((800, agents)) < share).astype(int)
    pay = go * np.where(go.sum(1, keepdims=True) <= room, 1.0, -1.0)
    log = eq.offline.Log(None, go, pay + rng.normal(0, 0.15, pay.shape))
    advice = eq.advise(log, iterations=30)
    table = np.zeros((1, agents, 2, agents))
    table[..., 1, :] = np.where(np.arange(agents) < room, 1.0, -1.0)
    rewards = Aggregate(table, ((0,), (1,)), (agents,)).expected(advice.policy.policies)
    value = (rewards * advice.policy.policies).sum(-1).mean(0)
    gap = (rewards.mean(0).max(-1) - value).max()
    assert gap <= advice.bound or not advice.status.ok
    assert advice.policy.policies[..., 1].mean() < 0.8


def test_combinations_that_a_log_avoids_are_counted():
    rng = np.random.default_rng(882)
    actions = (rng.random((1000, 3)) < 0.03).astype(int)
    log = eq.offline.Log(None, actions, rng.normal(size=actions.shape))
    sets = [[1, 2], [0, 2], [0, 1]]
    played = np.stack([1 - actions.mean(0), actions.mean(0)], -1)[None]
    pairs = Shown(log, sets, 2, None)
    np.testing.assert_array_equal(pairs.missing(played[None], played), 0.0)
    bold = np.array([[[0.5, 0.5], [1.0, 0.0], [1.0, 0.0]]])[None]
    missing = pairs.missing(bold, played)[0]
    assert missing[0].tolist() == [0.0, 0.0]
    both = (actions[:, [1, 2]] * actions[:, :1]).sum(0)
    assert (both < 5).all()  # the first agent plays 1 with each of the others' 1
    np.testing.assert_allclose(missing[1:, 1], 0.5 - actions[:, 0].mean(), atol=0.01)
    np.testing.assert_allclose(missing[1:, 0], 0.0, atol=1e-12)
    even = eq.offline.Log(None, rng.integers(0, 2, (1000, 3)), rng.normal(size=(1000, 3)))
    played = np.full((1, 3, 2), 0.5)
    pure = np.eye(2)[[1, 1, 1]][None, None]
    for order in (1, 2, 3):
        none = Shown(even, sets, order, None).missing(pure, played)
        np.testing.assert_allclose(none, 0.0, atol=1e-12)


def test_crowds_are_counted_alike_one_by_one_and_as_many(monkeypatch):
    rng = np.random.default_rng(883)
    actions = (rng.random((2000, 40)) < 0.2).astype(int)
    shown = Shown(eq.offline.Log(None, actions, np.zeros((2000, 40))), [[]] * 40, 1, None)
    play = rng.uniform(0.2, 0.5, (3, 1, 40, 1))
    occupied = np.concatenate([1 - play, play], -1)
    exact = shown._crowded(occupied)
    assert 0.1 < exact[0].mean() < 0.9
    assert (exact[1] >= exact[0]).all()
    monkeypatch.setattr(_combinations, "LARGEST", 0)
    np.testing.assert_allclose(shown._crowded(occupied), exact, atol=0.02)


def test_crowds_end_where_rewards_visibly_change():
    rng = np.random.default_rng(884)
    played = rng.integers(0, 2, (2000, 10))
    others = played.sum(1, keepdims=True) - played
    left = rng.normal(size=played.shape)
    given = (played, 2, 10)
    np.testing.assert_array_equal(_combinations._edge(others, left, *given), 10)
    full = (others >= 8) & (played == 1)
    assert 10 < full.any(1).sum() < 50  # few rows, that all who play 1 share
    changed = _combinations._edge(others, left - 3 * full, *given)
    np.testing.assert_array_equal(changed, [10, 7])


def test_a_promise_about_more_agents_than_were_seen_says_so():
    rng = np.random.default_rng(885)
    for agents, told in ((4, False), (16, True)):
        actions = rng.integers(0, 2, (800, agents))
        log = eq.offline.Log(None, actions, actions + rng.normal(0, 0.2, actions.shape))
        advice = eq.advise(log, iterations=30)
        assert advice.status.ok
        assert advice.policy.policies[..., 1].min() > 0.9
        assert ("that the log does not show" in advice.status.message) == told


def test_triples_outside_of_the_class_count_where_most_were_never_shown():
    rng = np.random.default_rng(886)
    sets = [[] for _ in range(5)]
    pure = np.eye(2)[[1] * 5][None, None]
    for share, missing in ((0.05, True), (0.25, False)):
        actions = (rng.random((1000, 5)) < share).astype(int)
        shown = Shown(eq.offline.Log(None, actions, np.zeros((1000, 5))), sets, 1, None)
        assert any(size == 2 for _, size in shown.rare) == missing
        shown.crowds = None  # what is said about triples alone
        played = np.stack([1 - actions.mean(0), actions.mean(0)], -1)[None]
        assert (shown.missing(pure, played)[..., 1] > 0.9).all() == missing


def test_nothing_is_bounded_where_no_deviation_is_known():
    few = log_of(lane, 870, 2, samples=16)
    actions = (np.arange(60)[:, None] % 10 == [0, 5]).astype(int)
    rewards = actions + np.random.default_rng(0).normal(0, 0.1, actions.shape)
    rare = eq.offline.Log(None, actions, rewards)
    reasons = {
        "16 different rows are too few": few,
        "for 2 of 2 agents, the log does not show two actions 10 times each": rare,
    }
    for reason, log in reasons.items():
        advice = eq.advise(log, iterations=10)
        assert advice.status.name == "refused"
        assert advice.status.message.startswith(reason)
        assert advice.bound == np.inf


def test_the_average_of_policies_leads_to_the_average_chances():
    family = eq.games.families.polymatrix(agents=3, actions=2, states=2, horizon=3)
    dynamics = eq.solvers.no_regret.Dynamics.of(family.sample(key=871))
    rng = np.random.default_rng(872)
    policies = rng.dirichlet(np.ones(2), (5, 1, 3, 3, 2))
    found = occupancies(dynamics, averaged(dynamics, policies)[None])[0]
    np.testing.assert_allclose(found, occupancies(dynamics, policies).mean(0), atol=1e-12)


def test_bounds_hold_where_rewards_change_at_a_rare_number_of_others():
    """The own action pays unless three of five others do the same, in a fortieth of the rows."""
    for seed in range(3):
        rng = np.random.default_rng([16, seed])
        play = (rng.random((3000, 6)) < 0.15).astype(int)
        means = play * (0.3 - 4.0 * (play.sum(1, keepdims=True) >= 4))
        log = eq.offline.Log(None, play, means + rng.normal(0, 0.2, play.shape))
        advice = eq.advise(log, iterations=100, key=0)
        assert advice.status.ok
        gains = np.zeros(6)
        for policy in advice.policy.policies[:, 0, :, 1]:
            for i in range(6):
                many = np.ones(1)
                for chance in np.delete(policy, i):
                    many = np.convolve(many, [1.0 - chance, chance])
                effect = 0.3 - 4.0 * many[3:].sum()
                gains[i] += (max(effect, 0.0) - policy[i] * effect) / len(advice.policy)
        assert gains.max() <= advice.bound
