"""Every agent is a judge: odd agents, drift of one agent and coupled transitions are seen."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.offline._carried import carried
from equipoise.offline._play import terms_of
from equipoise.offline._scores import Residuals, coupled, drifts, missing_terms

QUICK = {"iterations": 100}
ODD = 1


def odd_log(seed, agents, rows, others, strength=0.7):
    """Agents with own effects; the odd one's action pays against a product of others' signs."""
    rng = np.random.default_rng(seed)
    play = rng.integers(0, 2, (rows, agents))
    sign = 2.0 * play - 1.0
    means = sign * rng.uniform(0.3, 0.6, agents)
    means[:, ODD] = sign[:, ODD] * (0.3 - strength * sign[:, others].prod(1))
    return eq.offline.Log(None, play, means + rng.normal(0, 0.3, means.shape))


def odd_gain(policies, others, strength=0.7):
    """What the odd agent gains at most, by the expectation of the product of signs."""
    sign = 2.0 * policies[:, 0, :, 1] - 1.0
    effect = 0.3 - strength * sign[:, others].prod(1)
    return abs(effect.mean()) - (effect * sign[:, ODD]).mean()


def test_one_odd_agent_of_many_is_seen():
    others = [3, 6]
    advice = eq.advise(odd_log(5, 10, 700, others), **QUICK)
    policies = advice.policy.policies
    assert odd_gain(policies, others) <= advice.bound
    assert advice.status.ok
    assert f"the reward of {ODD} depends on" in advice.structure.warnings[0]


def test_an_odd_agent_that_no_class_contains_is_refused_by_name():
    # Triples of 30 agents have 436 features, more than are compared.
    log = odd_log(6, 30, 1200, [20, 25])
    refusal = eq.offline.discover(log, ranks=(1,)).refusal
    assert f"the reward of {ODD} depends on 20 and 25 together in a way that own action" in refusal


def test_many_weak_pairs_are_seen_together_though_none_is_alone():
    rng = np.random.default_rng(7)
    play = rng.integers(0, 2, (600, 20))
    sign, pairs = 2.0 * play - 1.0, rng.normal(0, 1.2 / np.sqrt(600), (20, 20))
    np.fill_diagonal(pairs, 0.0)
    rewards = sign * (0.3 + sign @ pairs.T) + rng.normal(size=play.shape)
    log = eq.offline.Log(None, play, rewards)
    data = Residuals(log, terms_of(eq.offline.fit(log, 1)))
    found = missing_terms(data, [set()] * 20, 1)
    assert [(one.agent, one.size) for one in found] == [(None, 1)]
    # Together they explain 19 * 1.44 / 600 of a variance of one, and of the rewards' a bit less.
    assert found[0].share == pytest.approx(0.04, abs=0.015)


def drifting_log(kind, seed=8, agents=12, rows=1500):
    """One agent's game changes after three fifths of the rows; the others' stays as it is."""
    rng = np.random.default_rng(seed)
    play, late = rng.integers(0, 2, (rows, agents)), np.arange(rows) >= 0.6 * rows
    turn = np.where(late, -1.0, 1.0)
    if kind == "level":  # play changes with the level, so the action seems to pay
        play[:, ODD] = rng.random(rows) < np.where(late, 0.15, 0.85)
    sign = 2.0 * play - 1.0
    means = sign * rng.choice([-1, 1], agents) * rng.uniform(0.2, 0.6, agents)
    changed = {"own": turn * sign[:, ODD], "pair": turn * sign[:, ODD] * sign[:, 4], "level": turn}
    means[:, ODD] = -0.2 * sign[:, ODD] + changed[kind]
    return eq.offline.Log(None, play, means + rng.normal(0, 0.3, means.shape))


@pytest.mark.parametrize("kind", ["own", "pair", "level"])
def test_drift_of_one_agent_of_twelve_is_refused_by_name(kind):
    structure = eq.offline.discover(drifting_log(kind), ranks=(1,))
    words = {"pair": "own and 4's action"}.get(kind, "own action")
    assert f"rewards drift: what {ODD} earns by its {words}" in structure.refusal
    assert structure.drift > 0.05


def test_a_level_that_moves_without_the_actions_is_no_drift():
    rng = np.random.default_rng(9)
    play = rng.integers(0, 2, (1000, 4))
    rewards = 0.3 * play + np.linspace(0, 1, 1000)[:, None] + rng.normal(0, 0.3, play.shape)
    structure = eq.offline.discover(eq.offline.Log(None, play, rewards), ranks=(1, 2))
    assert "drift" not in structure.refusal


@pytest.mark.parametrize("lasts", [0.0, 0.8])
def test_an_action_that_follows_rewards_is_refused_only_where_noise_lasts(lasts):
    rng = np.random.default_rng(13)
    rows, noise = 1000, np.zeros((1000, 3))
    play = rng.integers(0, 2, (rows, 3))
    for row in range(1, rows):
        noise[row] = lasts * noise[row - 1] + rng.normal(0, 0.4, 3)
        if rng.random() < 0.5:
            play[row, ODD] = noise[row - 1, ODD] > 0
    structure = eq.offline.discover(eq.offline.Log(None, play, 0.3 * play + noise), ranks=(1, 2))
    told = f"the action of {ODD} follows its last reward"
    assert (told in structure.refusal) == (lasts > 0)


def markov_log(coupling, seed=10, episodes=400, horizon=3):
    """Three agents with two states; agent 2's next state follows agent 0's action a little."""
    rng = np.random.default_rng(seed)
    states, rows = rng.integers(0, 2, (episodes, 3)), []
    for step in range(horizon):
        play = rng.integers(0, 2, (episodes, 3))
        chance = 0.3 + 0.2 * states + 0.2 * play
        chance[:, 2] += coupling * (2 * play[:, 0] - 1)
        after = (rng.random(play.shape) < chance).astype(int)
        rewards = states + 0.3 * play + rng.normal(0, 0.2, play.shape)
        rows.append((play, rewards, states, after, np.full(episodes, step)))
        states = after
    play, rewards, before, after, steps = (np.concatenate(part) for part in zip(*rows, strict=True))
    numbers = np.tile(np.arange(episodes), horizon)
    return eq.offline.Log(None, play, rewards, before, after, steps, numbers)


def test_coupled_transitions_are_refused_by_name():
    told = eq.advise(markov_log(0.15), **QUICK).status
    assert told.name == "refused"
    assert "the next state of 2 depends on what 0 did" in str(told)


def test_tests_of_logs_with_nothing_to_find_find_nothing():
    """Three tests of 40 logs at 0.2%: four findings have a chance of one in 10,000."""
    count = 0
    for seed in range(40):
        rng = np.random.default_rng([11, seed])
        play = rng.integers(0, 3, (500, 4))
        noise = rng.standard_t(5, play.shape)
        log = eq.offline.Log(None, play, 0.5 * play + noise)
        data = Residuals(log, terms_of(eq.offline.fit(log, 1)))
        count += bool(missing_terms(data, [set()] * 4, 1)) + bool(drifts(data))
        count += coupled(markov_log(0.0, seed, 60)) is not None
    assert count < 4


def test_the_promise_names_hidden_variables():
    """A hidden variable of one agent alone leaves no trace: the promise must name it."""
    rng = np.random.default_rng(12)
    demand = rng.normal(size=1500)
    play = rng.integers(0, 2, (1500, 3))
    play[:, 0] = rng.random(1500) < 1 / (1 + np.exp(-2 * demand))
    rewards = -0.2 * (2 * play - 1) + rng.normal(0, 0.3, play.shape)
    rewards[:, 0] += demand
    advice = eq.advise(eq.offline.Log(None, play, rewards), **QUICK)
    assert advice.status.ok
    assert advice.bound < 0.4 * advice.policy.policies[0, 0, 0, 1]  # raising it costs .4
    assert "no unrecorded variable drives both actions and rewards" in str(advice.status)


def carried_log(kind, seed=14, rows=1000, agents=4):
    """Rewards that also depend on the actions of the row before, of the agent or of all others."""
    rng = np.random.default_rng(seed)
    play = rng.integers(0, 2, (rows, agents))
    last = np.vstack([np.zeros((1, agents), int), play[:-1]])
    others = (last.sum(1, keepdims=True) - last) / (agents - 1)
    effects = {"own": 0.5 * play - last, "others": play * (0.6 - others), "none": 0.5 * play}
    return eq.offline.Log(None, play, effects[kind] + rng.normal(0, 0.2, play.shape))


@pytest.mark.parametrize(("kind", "told"), [("own", "its own action"), ("others", "others did")])
def test_rewards_that_depend_on_the_row_before_are_refused_by_name(kind, told):
    refusal = eq.offline.discover(carried_log(kind), ranks=(1, 2)).refusal
    assert f"{told} in the row before (z = " in refusal
    assert "add the action of the row before as a context" in refusal


def test_the_one_whose_last_action_counts_is_named():
    log = carried_log("none")
    rewards = np.array(log.rewards)
    rewards[1:, 2] -= 0.3 * log.actions[:-1, 0]
    refusal = eq.offline.discover(eq.offline.Log(None, log.actions, rewards), ranks=(1,)).refusal
    assert "what 2 earns depends on what 0 did in the row before" in refusal


def test_habits_and_lasting_noise_are_not_taken_for_effects_of_the_row_before():
    """One test of 40 logs at 0.2%: three findings have a chance of one in 10,000."""
    count = 0
    for seed in range(40):
        rng = np.random.default_rng([15, seed])
        play, noise = rng.integers(0, 2, (500, 3)), rng.normal(0, 0.4, (500, 3))
        for row in range(1, 500):  # agents keep their action for a while
            play[row] = np.where(rng.random(3) < 0.7, play[row - 1], play[row])
            noise[row] += 0.8 * noise[row - 1]
        slow = np.sin(np.arange(500) / 80)[:, None]
        log = eq.offline.Log(None, play, 0.5 * play + slow + noise)
        count += bool(carried(log, terms_of(eq.offline.fit(log, 1))))
    assert count < 3


def test_the_promise_names_earlier_rows_and_missing_rows():
    message = eq.advise(carried_log("none"), **QUICK).status.message
    assert "rewards depend on actions of the same row only" in message
    assert "no row is missing because of what was earned" in message
