"""One player alone in a user's program, told what it did and got: the same player as in `play`."""

import numpy as np
import pytest
from sample_players import random_players

import equipoise as eq
from equipoise import incontext
from equipoise.dynamics import _online
from equipoise.games import families

PLAYERS = random_players()
MARKOV = random_players((2, 3), states=2)
Online = eq.Online


def test_it_plays_as_in_play(monkeypatch, tmp_path):
    """Across a growth of its memory, in which it forgets nothing, and across a file."""
    monkeypatch.setattr(_online, "FIRST_ROOM", 4)
    games = families.uniform(3).sample(2, key=0)
    history = incontext.play(games, PLAYERS, rounds=20, key=1, exploration=0.0).history
    for seat in (0, 1):
        online = Online(PLAYERS, seat=("row", "column")[seat], reward_range=(0, 1))
        for t in range(8):
            np.testing.assert_allclose(online.policies, history.held[seat][1, t], atol=1e-5)
            reward = history.rewards[1, t]
            own = reward if seat == 0 else 1.0 - reward
            online.tell(own, action=history.actions[1, t, seat])
            if t == 5:
                online.save(tmp_path / "online.npz")
                with pytest.raises(ValueError, match="learner: expected the players"):
                    Online.load(tmp_path / "online.npz")
                name = ("row", "column")[seat]
                online = Online.load(tmp_path / "online.npz", PLAYERS, seat=name)
        assert online.rounds == 8


def test_it_plays_markov_games_as_in_play():
    games = families.uniform((2, 3), states=2).sample(2, key=0)
    trace = incontext.play(games, MARKOV, rounds=6, key=1, exploration=0.0, record=range(1, 7))
    history = trace.history
    online = Online(MARKOV, seat="column", reward_range=(0, 1))
    assert online.policies.shape == (2, 3)
    for t in range(6):
        assert online.state == history.states[0, t]
        here = online.policies[online.state]
        np.testing.assert_allclose(here, history.held[1][0, t], atol=1e-5)
        online.tell(
            1.0 - history.rewards[0, t],
            action=history.actions[0, t, 1],
            next_state=history.states[0, t + 1],
        )
        np.testing.assert_allclose(online.policies, trace.recorded.last[1][t, 0], atol=1e-5)


def test_exploration_is_in_what_is_asked_for():
    online = Online(PLAYERS)
    share = PLAYERS.exploration
    assert share > 0
    mixed = (1 - share) * online.policies + share / 3
    np.testing.assert_allclose(online.policy, mixed, atol=1e-7)
    assert online.ask() in range(3)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="actions: expected 3, as the player has, found 4"):
        Online(PLAYERS, actions=4)
    with pytest.raises(ValueError, match="expected one pair, found 2 seeds"):
        Online(random_players(seeds=2))
    markov = Online(MARKOV)
    markov.ask()
    with pytest.raises(ValueError, match="next_state: expected a state, found None"):
        markov.tell(0.5)
    with pytest.raises(ValueError, match=r"next_state: expected a state in \[0, 1\], found 2"):
        markov.tell(0.5, next_state=2)


def test_hand_built_players_sit_down_for_as_long_as_they_were_built(monkeypatch):
    """Their tokens number the rounds, so that memory cannot grow beyond them."""
    monkeypatch.setattr(_online, "FIRST_ROOM", 2)
    built = incontext.construct.omd(actions=2, rounds=3, reciprocal_units=2).players
    online = Online(built, reward_range=(0, 1))
    first = online.policy
    for _ in range(3):
        online.tell(1.0, action=0)
    assert online.policy[0] > first[0]
    with pytest.raises(ValueError, match=r"rounds: expected at most 3 \(the built size\), found 4"):
        online.tell(1.0, action=0)
    assert online.rounds == 3
