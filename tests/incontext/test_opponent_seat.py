"""One player alone, told what it did and got: the same player as in `play`."""

import numpy as np
import pytest
from sample_players import random_players

from equipoise import incontext
from equipoise.games import families
from equipoise.incontext import _opponent

PLAYERS = random_players()
MARKOV = random_players((2, 3), states=2)


def test_it_plays_as_in_play(monkeypatch):
    """Across a growth of its memory, in which it forgets nothing."""
    monkeypatch.setattr(_opponent, "FIRST_ROOM", 4)
    games = families.uniform(3).sample(2, key=0)
    history = incontext.play(PLAYERS, games, rounds=20, key=1, exploration=0.0).history
    for seat in (0, 1):
        opponent = incontext.Opponent(PLAYERS, ("row", "column")[seat])
        for t in range(8):
            np.testing.assert_allclose(opponent.policy(), history.policies[seat][1, t], atol=1e-5)
            reward = history.rewards[1, t]
            own = reward if seat == 0 else 1.0 - reward
            opponent.observe(history.actions[1, t, seat], own)
        assert opponent.rounds == 8


def test_it_plays_markov_games_as_in_play():
    games = families.uniform((2, 3), states=2).sample(2, key=0)
    episode = incontext.play(MARKOV, games, rounds=6, key=1, exploration=0.0, record=range(1, 7))
    history = episode.history
    opponent = incontext.Opponent(MARKOV, "column")
    assert opponent.policies.shape == (2, 3)
    for t in range(6):
        assert opponent.state == history.states[0, t]
        np.testing.assert_allclose(opponent.policy(), history.policies[1][0, t], atol=1e-5)
        opponent.observe(
            history.actions[0, t, 1], 1.0 - history.rewards[0, t], history.states[0, t + 1]
        )
        np.testing.assert_allclose(opponent.policies, episode.policies[1][t, 0], atol=1e-5)
        for state in (0, 1):
            np.testing.assert_array_equal(opponent.policy(state), opponent.policies[state])


def test_policies_can_be_drawn_from():
    opponent = incontext.Opponent(PLAYERS)
    rng = np.random.default_rng(0)
    for explored in (False, True):
        policy = opponent.policy(explored=explored)
        assert policy.dtype == np.float64
        assert abs(policy.sum() - 1.0) < 1e-15
        rng.choice(3, p=policy)
    share = PLAYERS.exploration
    assert share > 0
    mixed = (1 - share) * opponent.policy() + share / 3
    np.testing.assert_allclose(opponent.policy(explored=True), mixed, atol=1e-7)
    opponent.policy()[:] = 0.0  # what it gave out is not its own
    assert opponent.policy().sum() > 0.5


def test_rewards_are_scaled():
    one = incontext.Opponent(PLAYERS)
    two = incontext.Opponent(PLAYERS, reward_range=(-1, 1))
    one.observe(1, 0.75)
    two.observe(1, 0.5)
    np.testing.assert_allclose(one.policy(), two.policy(), atol=1e-6)


def test_what_cannot_be_is_refused():
    opponent = incontext.Opponent(PLAYERS)
    for arguments, complaint in (
        ((3, 0.5), r"action: expected a number in \[0, 2\], found 3"),
        ((0, 1.5), "reward: expected a number in"),
        ((0, 0.5, 1), "next_state: expected None in matrix games"),
    ):
        with pytest.raises(ValueError, match=complaint):
            opponent.observe(*arguments)
    assert opponent.rounds == 0
    with pytest.raises(ValueError, match="state: expected None in matrix games"):
        opponent.policy(0)
    markov = incontext.Opponent(MARKOV)
    with pytest.raises(ValueError, match="next_state: expected a state, found None"):
        markov.observe(0, 0.5)
    with pytest.raises(ValueError, match=r"next_state: expected a state in \[0, 1\], found 2"):
        markov.observe(0, 0.5, 2)
    with pytest.raises(ValueError, match="expected one pair, found 2 seeds"):
        incontext.Opponent(random_players(seeds=2))
    for ends in ((1, 0), (0, np.inf), (np.nan, 1)):
        with pytest.raises(ValueError, match="reward_range: expected"):
            incontext.Opponent(PLAYERS, reward_range=ends)


def test_hand_built_players_sit_down_for_as_long_as_they_were_built(monkeypatch):
    """Their tokens number the rounds, so that memory cannot grow beyond them."""
    monkeypatch.setattr(_opponent, "FIRST_ROOM", 2)
    built = incontext.construct.omd(actions=2, rounds=3, reciprocal_units=2).players
    opponent = incontext.Opponent(built)
    first = opponent.policy()
    for _ in range(3):
        opponent.observe(0, 1.0)
    assert opponent.policy()[0] > first[0]
    with pytest.raises(ValueError, match="rounds: expected at most 3, as built, found 4"):
        opponent.observe(0, 1.0)
    assert opponent.rounds == 3
