"""Players of families of one's own: lists of games, and distributions written by the user."""

from typing import Any

import numpy as np
import pytest

from equipoise import incontext
from equipoise.core.errors import InputError
from equipoise.games import MatrixGame, families
from equipoise.incontext import _files


def tables():
    return np.random.default_rng(0).integers(-3, 6, size=(10, 2, 3)).astype(float)


def test_the_unit_of_a_base_game_is_part_of_the_description(tmp_path):
    base = MatrixGame([[0.0, 3.0], [2.0, -1.0]])
    family = families.perturbed(base, 0.0, scale_rewards=True)
    config = incontext.Config(rounds=4, layers=1, width=8, hidden=8)
    players = incontext.initial_players(family, config, key=0)
    incontext.save(players, tmp_path, config, family)
    again = incontext.family_of(tmp_path)
    assert again.reward_range == (-1.0, 3.0)
    np.testing.assert_array_equal(again.sample(key=0).payoff, (base.payoff + 1.0) / 4.0)


@pytest.mark.parametrize("size", ["few", "many"])
def test_the_description_of_players_contains_few_games(size, tmp_path, monkeypatch):
    monkeypatch.setattr("equipoise.games._listed_games.DESCRIBED", 100 if size == "few" else 10)
    family = families.of(MatrixGame(tables()))
    config = incontext.Config(rounds=4, layers=1, width=8, hidden=8)
    players = incontext.initial_players(family, config, key=0)
    incontext.save(players, tmp_path, config, family)
    assert incontext.load(tmp_path).actions == (2, 3)
    if size == "many":
        with pytest.raises(InputError, match=r"^family: .* found 'listed' \(ListedGames\); pass"):
            incontext.family_of(tmp_path)
        return
    again = incontext.family_of(tmp_path)
    assert _files.describe_family(again) == _files.describe_family(family)
    for one, two in ((family, again), (family.held_out, again.held_out)):
        np.testing.assert_array_equal(one.sample(4, key=0).payoff, two.sample(4, key=0).payoff)


TINY: dict[str, Any] = {
    "layers": 1,
    "width": 8,
    "hidden": 8,
    "steps": 2,
    "batch": 2,
    "play_ahead": 2,
    "warmup": 0,
}


def test_training_never_sees_the_games_that_are_held_out(tmp_path):
    family = families.of(MatrixGame(tables()))
    config = incontext.Config(rounds=4, held_out=64, **TINY)
    incontext.pretrain(family, config, key=0, run=tmp_path)
    measure = incontext.description(tmp_path)["results"]["measure"]
    assert measure == "mean gap after the last round on 2 games that selected the weights"
    record = incontext.evaluate_saved(tmp_path, games=2, rounds=8, search=16, opponent_games=2)
    assert record.scalars["gap"] > 0.0
    with pytest.raises(InputError, match=r"^family: expected a family with held-out games"):
        incontext.pretrain(families.of(MatrixGame(tables()), held_out=0.0), config, key=0)


class Doubled(families.Draw):
    """Rewards that are not in [0, 1]."""

    factor: float
    inner: Any

    def __call__(self, key, shape):
        return self.factor * self.inner(key, shape)


def test_a_family_of_ones_own_is_trained_on_and_loaded(tmp_path):
    inner = families.uniform(2).rewards
    config = incontext.Config(rounds=4, held_out=4, **TINY)
    family = families.Family("mine", (2, 2), Doubled(0.5, inner))
    players = incontext.pretrain(family, config, key=0, run=tmp_path)
    assert incontext.load(tmp_path).parameters == players.parameters
    kind = incontext.description(tmp_path)["family"]["rewards"]
    assert kind == {"kind": "Doubled", "factor": 0.5, "inner": {"kind": "UniformRewards"}}
    with pytest.raises(InputError, match=r"^family: .* 'mine' \(Doubled\); pass it to evalu"):
        incontext.family_of(tmp_path)
    record = incontext.evaluate_saved(
        tmp_path, family=family, games=2, rounds=8, search=16, opponent_games=2
    )
    again = incontext.evaluate(players, family.sample(2, key=1), 8, 2, search=16, opponent_games=2)
    np.testing.assert_array_equal(record.arrays["gap/players"], again.arrays["gap/players"])
    with pytest.raises(InputError, match=r"^family: expected 2 x 2 actions, found 3 x 3 actions"):
        incontext.evaluate_saved(tmp_path, family=families.uniform(3))
    with pytest.raises(InputError, match=r"^kind: expected None for these players or this family"):
        incontext.evaluate_saved(family=families.uniform(3), name="any", kind="binary")
    with pytest.raises(InputError, match=r"^family: expected rewards in \[0, 1\], found \["):
        incontext.pretrain(families.Family("mine", (2, 2), Doubled(2.0, inner)), config, key=0)
