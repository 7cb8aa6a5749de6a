"""Players of a file play as many rounds as they were trained for, and say what to do for more."""

import pytest

import equipoise as eq


def test_more_rounds_than_the_training_had_are_refused_before_play():
    players = eq.incontext.load("iid3")
    game = eq.games.load("rock-paper-scissors")
    assert players.rounds == 1025
    with pytest.raises(eq.core.InputError, match=r"at most 1,025 rounds.*guarded") as raised:
        eq.play(game, players, rounds=5000, key=0)
    assert raised.value.argument == "rounds"
    family = eq.games.families.uniform(actions=3)
    config = eq.incontext.Config(rounds=8, layers=1, width=8, hidden=8)
    fresh = eq.incontext.initial_players(family, config, key=0)
    with pytest.raises(eq.core.InputError, match="at most 1,025 rounds"):
        eq.play(game, fresh, players, rounds=5000, key=0)
