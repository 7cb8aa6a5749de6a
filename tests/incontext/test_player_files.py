"""Players on disk: what is written is what is read, and damage is told."""

import json
import shutil

import equinox as eqx
import jax
import numpy as np
import pytest
from sample_players import TINY, random_players

from equipoise import incontext
from equipoise.games import families
from equipoise.incontext._files import describe_family, find, restore_family

CONFIG = incontext.Config(**TINY)

#: Games, rounds, and what the mean gap after them may be at most, by `make test` and `make soak`.
#: Shipped players without a row here fail the test.
BOUNDS = {
    "any": [(16, 64, 0.06), (32, 128, 0.05)],
    "iid3": [(16, 64, 0.03), (96, 256, 0.012)],
    "iid5": [(16, 64, 0.16), (96, 256, 0.08)],
    "markov": [(16, 64, 1.8), (64, 256, 0.8)],
    "markov3": [(16, 64, 1.8), (64, 256, 1.0)],
}


def test_weights_come_back_bit_for_bit(tmp_path):
    players = random_players(seeds=2, shared=False)
    config = incontext.Config(**{**TINY, "seeds": 2, "shared": False})
    incontext.save(players, tmp_path / "p", config, families.uniform(3), {"note": 1})
    loaded = incontext.load(tmp_path / "p")
    assert (loaded.seeds, loaded.seats, loaded.exploration) == (2, 2, players.exploration)
    assert loaded.tokens == players.tokens
    for a, b in zip(jax.tree.leaves(players.models), jax.tree.leaves(loaded.models), strict=True):
        np.testing.assert_array_equal(a, b)
    assert incontext.description(tmp_path / "p")["results"] == {"note": 1}
    assert json.loads((tmp_path / "p" / "players.json").read_text())["format"] == 1


FAMILIES = [
    families.uniform((2, 3)),
    families.uniform(3, states=2, discount=0.8, concentration=0.1),
    families.gaussian(2, mean=0.4, scale=0.1),
    families.perturbed(families.uniform(3).sample(key=1), scale=0.3),
    families.mixture(2, kinds=["uniform", "binary"], fewest=2, states=2, discount=0.8),
    families.perturbed(families.uniform(2, states=2).sample(key=1), scale=0.3),
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f"{f.name}-{f.states}")
def test_a_family_comes_back(family):
    again = restore_family(json.loads(json.dumps(describe_family(family))))
    mine, theirs = family.sample(3, key=0), again.sample(3, key=0)
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.symmetric == family.symmetric


def test_damage_is_told(tmp_path):
    players = random_players()
    incontext.save(players, tmp_path, CONFIG, families.uniform(3))
    file = tmp_path / "players.json"
    content = json.loads(file.read_text())
    for change, complaint in (
        ({"format": 2}, "expected format 1, found 2"),
        ({"config": {**content["config"], "width": 32}}, "expected shape"),
        ({"config": {**content["config"], "layers": 2}}, "expected the weights of its config"),
        ({"config": {**content["config"], "colour": 2}}, "expected fields of Config"),
        ({"config": {**content["config"], "layers": 10**15}}, "layers: expected at most"),
        ({"family": {"name": "uniform"}}, r"players\.json: expected .* with 'actions', found no"),
        ({"family": {**content["family"], "actions": 3}}, r"players\.json: expected a valid"),
        ({"config": 3}, r"players\.json: expected a valid description"),
    ):
        file.write_text(json.dumps({**content, **change}))
        with pytest.raises(ValueError, match=complaint):
            incontext.load(tmp_path)
    for text, complaint in (
        ('{"format": 1', "players.json: expected JSON"),
        ("[1]", "expected a JSON object, found list"),
        ('{"format": 1}', "players.json: expected the key 'family'"),
    ):
        file.write_text(text)
        for read in (incontext.load, incontext.description, incontext.family_of):
            with pytest.raises(ValueError, match=complaint):
                read(tmp_path)


def test_weights_that_are_not_finite_are_refused(tmp_path):
    players = random_players()
    broken = eqx.tree_at(lambda p: p.models.readout, players, players.models.readout * np.nan)
    incontext.save(broken, tmp_path, CONFIG, families.uniform(3))
    with pytest.raises(ValueError, match=r"safetensors: \.readout: expected finite numbers"):
        incontext.load(tmp_path)


def test_damaged_weights_are_told(tmp_path):
    incontext.save(random_players(), tmp_path, CONFIG, families.uniform(3))
    weights = tmp_path / "players.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"players\.safetensors: expected a safetensors file"):
        incontext.load(tmp_path)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="iid3"):
        incontext.load("nobody")
    with pytest.raises(ValueError, match=r"name: expected a folder or one of .*; found NoneType"):
        find(None)


def test_a_run_that_has_not_finished_is_not_loaded(tmp_path):
    config = {"family": {}, "config": {}, "key": [0, 0], "start": None}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"unfinished run .* pretrain again"):
        incontext.load(tmp_path)


def test_the_folder_of_another_run_is_not_taken_for_one_that_has_not_finished(tmp_path):
    (tmp_path / "config.json").write_text('{"rounds": 100}')
    with pytest.raises(ValueError, match=r"expected a folder with players.json"):
        incontext.load(tmp_path)


@pytest.mark.parametrize("size", [0, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", incontext.shipped())
def test_shipped_players_are_as_good_as_they_were(name, size):
    count, rounds, bound = BOUNDS[name][size]
    players, family = incontext.load(name), incontext.family_of(name)
    if players.any_size:  # their family has games of all sizes on one canvas
        markov = {} if family.states is None else {"states": 3, "concentration": 0.3}
        family = families.uniform(3, **markov)
    games = family.sample(count, key=2024)
    episode = incontext.play(games, players, rounds=rounds, key=7, record=(16, rounds))
    first, last = episode.mean_curve.value
    assert last < bound
    assert last < (0.7, 0.6)[size] * first


@pytest.mark.parametrize("name", ["exploration", "heads", "rounds"])
def test_a_description_without_a_setting_is_refused(tmp_path, name):
    shutil.copytree(find("iid3"), tmp_path / "p")
    file = tmp_path / "p" / "players.json"
    content = json.loads(file.read_text())
    del content["config"][name]
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"expected a description with '{name}', found none"):
        incontext.load(tmp_path / "p")
