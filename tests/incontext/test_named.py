"""Players by name: sizes and lengths that they can play."""

import pytest

from equipoise import incontext
from equipoise.core import InputError


def make(name, **match):
    return incontext.make_players(name, **{"actions": 3, "rounds": 10, "argument": "row"} | match)


@pytest.mark.parametrize("name", incontext.shipped())
def test_shipped_players_play_their_family_as_long_as_in_training(name):
    family = incontext.family_of(name)
    size = {"actions": family.actions, "states": family.states}
    config = incontext.Config.from_plain(incontext.description(name)["config"])
    longest = 1 + max(stage.rounds for stage in config.staged())
    assert isinstance(make(name, **size, rounds=longest), incontext.Players)
    with pytest.raises(InputError, match=f"row: expected .* at most {longest:,}; use "):
        make(name, **size, rounds=longest + 1)
    if family.states is None:
        guarded = make(f"guarded:{name}", **size, rounds=10**9)
        assert isinstance(guarded, incontext.Guarded)
        assert guarded.rounds == longest


@pytest.mark.parametrize(
    ("name", "match", "complaint"),
    [
        ("any", {"actions": (2, 7)}, "row: expected players for 2 x 7 actions, found"),
        ("iid3", {"actions": 2}, "found 'iid3', which is for 3 x 3 actions"),
        ("markov", {"states": 6}, "which is for Markov games of at most 5 states"),
        ("guarded:markov", {"states": 3}, "row: expected players without a guard"),
        ("nobody", {}, "row: expected a folder with players.json"),
        ("any", {"rounds": 0}, "rounds: expected a whole number"),
    ],
)
def test_players_that_cannot_play_are_refused(name, match, complaint):
    with pytest.raises(InputError, match=complaint):
        make(name, **match)
