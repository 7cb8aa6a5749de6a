"""`equipoise evaluate`: the tables, the folder, and wrong input."""

import json

import pytest

from equipoise import incontext
from equipoise.cli import main
from equipoise.games import families
from equipoise.runs import Record

SMALL = ["--games", "4", "--rounds", "16", "--search", "20", "--opponent-games", "2"]


@pytest.fixture(scope="module")
def players(tmp_path_factory):
    folder = tmp_path_factory.mktemp("players")
    config = incontext.Config(rounds=8, layers=1, heads=2, width=8, hidden=8)
    family = families.uniform(2)
    made = incontext.initial_players(family, config, key=0)
    incontext.save(made, folder, config, family)
    return folder


def test_tables_are_printed_and_kept(capsys, tmp_path, players, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    folder = tmp_path / "run"
    command = ["evaluate", str(players), *SMALL, "--run", str(folder)]
    assert main(command) == 0
    out = capsys.readouterr().out
    for words in ("in-context players", "EXP3-IX, average", "best responder", "more than 20"):
        assert words in out
    record = Record.load(folder)
    assert record.config["rounds"] == 16
    assert record.arrays["gap/players"].shape == (1, 1, 4)
    page = (folder / "report.html").read_text()
    assert "In-context players, evaluated" in page
    assert f"--run {folder}" in page
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["scalars"]["gap"] == record.scalars["gap"]
    assert document["tables"]["gap"]["columns"] == ["who", "16"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nobody"], "expected a folder with players.json"),
        (["PLAYERS", "--search", "0.5"], "--search: expected a whole number"),
        (["PLAYERS", "--seed", "-1"], "--seed: expected a number"),
        (["PLAYERS", "--games", "0"], "games: expected a whole number"),
    ],
)
def test_wrong_input_is_told_in_a_line(capsys, players, arguments, complaint):
    arguments = [str(players) if word == "PLAYERS" else word for word in arguments]
    assert main(["evaluate", *arguments]) == 2
    message = capsys.readouterr().err
    assert complaint in message
    assert message.count("\n") == 1
