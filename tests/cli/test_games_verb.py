"""`equipoise games`: the catalogue on the command line."""

import json

import pytest

import equipoise as eq
from equipoise.cli import main


def test_all_games_are_listed(capsys):
    assert main(["games"]) == 0
    out = capsys.readouterr().out
    for name in eq.games.names():
        assert f"{name} " in out
    assert main(["games", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == list(eq.games.names())
    assert all(entry["source"] for entry in listed)


@pytest.mark.parametrize("name", eq.games.names())
def test_every_game_can_be_shown(capsys, name):
    assert main(["games", name]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert eq.games.describe(name).title in out
    assert main(["games", name, "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert tuple(document["actions"]) == eq.games.load(name).actions


def test_exact_values_are_texts_of_fractions(capsys):
    assert main(["games", "--json"]) == 0
    exact = {e["name"]: e["value_exact"] for e in json.loads(capsys.readouterr().out)}
    assert exact["colonel-blotto"] == "14/9"
    assert exact["big-match"] == ["5", "10", "0"]
    assert exact["hide-or-run"] == ["2/3", "0"]
    assert exact["chicken"] is None


def test_the_name_is_optional_and_said_to_be(capsys):
    assert main(["games", "--help"]) == 0
    assert "equipoise games [NAME] [options]" in capsys.readouterr().out


def test_what_is_shown_is_true(capsys):
    assert main(["games", "colonel-blotto"]) == 0
    out = capsys.readouterr().out
    for expected in ("14/9", "0-4: 4/9, 1-3: 0, 2-2: 1/9", "Borel", "3-0", "first=4"):
        assert expected in out


def test_changed_parameters_have_no_known_value(capsys):
    assert main(["games", "hide-and-seek", "--set", "size=4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["actions"] == [8, 16]
    assert document["value"] is None
    assert document["equilibrium"] is None
    assert main(["games", "hide-and-seek", "--set", "size=4"]) == 0
    assert "An equilibrium" not in capsys.readouterr().out


def test_a_game_is_written(capsys, tmp_path):
    path = tmp_path / "blotto.nfg"
    assert main(["games", "colonel-blotto", "--write", str(path)]) == 0
    assert capsys.readouterr().out == f"Written: {path} (zero-sum matrix game, 5 x 4)\n"
    assert (eq.games.read(path).payoff == eq.games.load("colonel-blotto").payoff).all()
    path = tmp_path / "two" / "new folders" / "blotto.npz"
    assert main(["games", "colonel-blotto", "--write", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == str(path)
    assert path.exists()


def test_a_game_is_shown_with_its_labels(capsys):
    assert main(["games", "rock-paper-scissors"]) == 0
    out = capsys.readouterr().out
    for expected in ("row \\ column", "rock: 1/3, paper: 1/3, scissors: 1/3"):
        assert expected in out
    assert "row 0" not in out
    assert "player 0" not in out
