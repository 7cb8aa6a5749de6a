"""V-learning's output policy: what is sampled is what is evaluated, and bounds are bounds."""

import numpy as np
import pytest

from equipoise import dynamics, games
from equipoise.dynamics import VLearning, _output, certified_output
from equipoise.dynamics._markov import mixing_weight

GAME = games.families.uniform(actions=2, states=2, discount=0.6).sample(key=5)


@pytest.fixture(scope="module")
def output():
    return certified_output(GAME, rounds=3_000, key=1)


def test_sampled_and_evaluated_values_agree(output):
    for state in range(2):
        returns = output.sample(episodes=4_000, length=25, key=3, state=state)
        error = returns.std() / np.sqrt(len(returns))
        assert abs(returns.mean() - output.value[state]) < 4 * error + 1e-4


def test_values_are_those_of_the_definition():
    """The nested mixture written out as it is defined, on a short history."""
    short = certified_output(GAME, rounds=12, key=2)
    visited = short.history.states[:-1]
    x, y = short.history.policies

    def uniform_value(state, depth=60):
        if depth == 0:
            return 0.0
        ahead = np.array([uniform_values[s] for s in range(2)])
        return float(np.mean(GAME.reward[state] + GAME.discount * GAME.transition[state] @ ahead))

    uniform_values = np.zeros(2)
    for _ in range(200):
        uniform_values = np.array([uniform_value(s) for s in range(2)])

    def value(state, memory):
        times = np.flatnonzero(visited[:memory] == state)
        if len(times) == 0:
            return uniform_values[state]
        worth = 0.0
        for i, time in enumerate(times, start=1):
            weight = mixing_weight(i, GAME.discount) * np.prod(
                [1 - mixing_weight(j, GAME.discount) for j in range(i + 1, len(times) + 1)]
            )
            ahead = np.array([value(s, time) for s in range(2)])
            stage = GAME.reward[state] + GAME.discount * GAME.transition[state] @ ahead
            worth += weight * (x[time] @ stage @ y[time])
        return worth

    np.testing.assert_allclose(short.value, [value(s, 12) for s in range(2)], atol=1e-6)


def test_no_stationary_opponent_breaks_a_guarantee(output):
    rng = np.random.default_rng(0)
    for _ in range(20):
        policy = rng.dirichlet(np.full(2, 0.3), size=2)
        assert (output.value_against(column=policy) >= output.guarantee - 1e-9).all()
        assert (output.value_against(row=policy) <= output.concession + 1e-9).all()


def test_the_value_of_the_game_lies_between_the_bounds(output):
    rng = np.random.default_rng(1)
    assert (output.gap >= 0).all()
    # Any pair of policies certifies an interval that meets the one of the output.
    x, y = rng.dirichlet(np.ones(2), size=(2, 2))
    assert (output.value_against(row=x) <= output.concession + 1e-9).all()
    assert (output.value_against(column=y) >= output.guarantee - 1e-9).all()


def test_the_gap_falls_with_the_number_of_rounds():
    """In a game of one state and discount zero, where V-learning is a bandit algorithm."""
    payoff = np.array([[0.9, 0.1], [0.2, 0.8]])
    one = games.MarkovGame(payoff[None], np.ones((1, 2, 2, 1)), 0.0)
    few, many = (
        np.mean([certified_output(one, rounds=t, key=k).gap.max() for k in range(6)])
        for t in (50, 20_000)
    )
    assert many < 0.3 * few
    assert many < 0.05


def test_optimism_is_added_to_the_values():
    batch = games.families.uniform(actions=2, states=2).sample(4, key=0)
    plain, hopeful = (
        dynamics.play(batch, VLearning(bonus=b), VLearning(bonus=b), rounds=2_000, key=0)
        for b in (0.0, 0.2)
    )
    values = [trace.state.loop.learners[0].values for trace in (plain, hopeful)]
    assert (values[1] > values[0]).all()


def test_wrong_input_is_refused(output):
    with pytest.raises(ValueError, match="expected one of them"):
        output.value_against()
    with pytest.raises(ValueError, match="row: expected shape"):
        output.value_against(row=[[1.0, 0.0]])
    batch = games.families.uniform(actions=2, states=2).sample(2, key=0)
    with pytest.raises(ValueError, match="game: expected one MarkovGame"):
        certified_output(batch, rounds=10, key=0)
    with pytest.raises(ValueError, match=r"state: expected a state in \[0, 1\], found 2"):
        output.sample(episodes=1, length=1, key=0, state=2)


def test_rewards_of_another_range_are_scaled():
    """Stretched rewards: the same play, values stretched alike."""
    wide = games.MarkovGame(GAME.reward * 6.0 - 2.0, GAME.transition, GAME.discount)
    with pytest.raises(ValueError, match="reward_range"):
        certified_output(wide, rounds=50, key=1)
    stretched = certified_output(wide, rounds=200, key=1, reward_range=(-2.0, 4.0))
    plain = certified_output(GAME, rounds=200, key=1)
    shift = -2.0 / (1.0 - GAME.discount)
    np.testing.assert_allclose(stretched.value, 6.0 * plain.value + shift, atol=1e-3)
    np.testing.assert_allclose(stretched.gap, 6.0 * plain.gap, atol=1e-3)


def test_a_pass_is_compiled_once():
    """Outputs of one size share a compilation."""
    certified_output(GAME, rounds=70, key=1).guarantee  # noqa: B018
    before = _output._recur._cache_size()
    certified_output(GAME, rounds=70, key=2).guarantee  # noqa: B018
    assert _output._recur._cache_size() == before
