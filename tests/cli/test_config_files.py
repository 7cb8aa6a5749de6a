"""Options in files: what is printed is read back, for every verb, and what is wrong is refused."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

from equipoise.cli import VERBS, main
from equipoise.cli._parsing import command_kind, options, parse, read_config, write_config

#: A command for every verb, with options of all kinds that are not the defaults.
COMMANDS = {
    "solve": 'a"b.nfg --tolerance 1e-6 --set size=3 --set b=x --option key=2 --out p.json',
    "certify": "oneill policy.json --tolerance 0.5 --json",
    "toll": "net.tntp trips.tntp --links 3 --most 2.5 --out tolls.tntp",
    "design": "two-roads --charge motorway=[0,0.4] --objective egalitarian --rounds 2",
    "games": "oneill --write game.nfg",
    "play": "--states 2 --discount 0.5 --rounds 1e4 --row exp3-ix --noise bernoulli",
    "duel": "iid3 pennies.nfg --seat column --rounds 5 --guarded",
    "learn": "demand-response --set agents=60 --scouts 3 --alone --noise 0.25 --run runs/town",
    "discover": "bids.npz --json",
    "offline": "bids.npz --rank 2 --neighbours screen --strength 0.1 --force --seed 7",
    "pretrain": "--layers 3 --shared None --no-layer-norm --learners omd exp3-ix --clip 2",
    "evaluate": "iid3 --games 10 --rounds 20 --search 1e3",
    "reproduce": "aggregative --figure planning --figure learning --scale full --seed 3",
    "sweep": "sweep.toml --on ray --workers 4 --address 127.0.0.1:6379 --run runs/large",
    "report": "runs/a runs/b --out page.html --title Two",
    "studio": "runs --port 8123 --no-browser",
    "demo": "--run runs/small --games 10 --seed 2",
}


def words(verb):
    return COMMANDS[verb].split()


def test_every_verb_is_here():
    assert set(COMMANDS) == set(VERBS) - {"completion"}


@pytest.mark.parametrize("verb", COMMANDS)
def test_what_is_printed_is_read_back(verb, tmp_path, capsys):
    assert main([verb, *words(verb), "--print-config"]) == 0
    printed = capsys.readouterr().out
    path = tmp_path / "options.toml"
    path.write_text(printed)
    assert main([verb, "--config", str(path), "--print-config"]) == 0
    assert capsys.readouterr().out == printed
    given, read = parse(verb, words(verb)), parse(verb, [f"--config={path}"])
    same = {field.name for field in dataclasses.fields(given)} - {"common"}
    assert {n: getattr(given, n) for n in same} == {n: getattr(read, n) for n in same}
    assert given.common.json == read.common.json


@pytest.mark.parametrize("verb", COMMANDS)
def test_keys_are_flags(verb, capsys):
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    for option in options(command_kind(verb)):
        assert option.flag.lower() in shown.lower()


def test_the_command_line_goes_first(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('game = "oneill"\ntolerance = 0.5\nset = ["a=1"]\njson = true\n')
    command = parse("solve", ["morra", "--config", str(path), "--tolerance", "0.1"])
    assert (command.game, command.tolerance, command.common.json) == ("morra", 0.1, True)
    assert parse("solve", ["--config", str(path), "--set", "b=2"]).set == ("a=1", "b=2")
    assert parse("solve", ["--config", str(path), "--no-json"]).common.json is False
    assert parse("solve", ["--config", str(path), "--json"]).common.json is True


def test_what_is_required_may_be_in_either_place(tmp_path, capsys):
    path = tmp_path / "a.toml"
    path.write_text("tolerance = 0.5\n")
    assert parse("certify", ["oneill", "p.json", "--config", str(path)]).policy == Path("p.json")
    assert main(["certify", "oneill", "--config", str(path)]) == 2
    assert "POLICY" in capsys.readouterr().err
    path.write_text('policy = "p.json"\n')
    assert main(["certify", "--config", str(path)]) == 2
    assert "GAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tolerence = 1", "did you mean tolerance?"),
        ("quite-other = 1", "there are game, trips, tolerance"),
        ("tolerance = ", "expected TOML"),
        ("tolerance = " + "[" * 3000, "expected TOML"),
        ("tolerance = " + "9" * 400, "beyond float64"),
        ("tolerance = true", "tolerance: expected a value for --tolerance, found True"),
        ("tolerance = [1]", "tolerance: expected a value for --tolerance, found [1]"),
        ('set = "a=1"', "set: expected a list, found 'a=1'"),
        ("json = 1", "json: expected a value for --json, found 1"),
        ("[solve]", "found 'solve'"),
        ("print-config = true", "found 'print-config'"),
    ],
)
def test_files_that_are_refused(text, message, tmp_path, capsys):
    path = tmp_path / "a.toml"
    path.write_text(text)
    assert main(["solve", "oneill", "--config", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("equipoise: error: --config: ")
    assert str(path) in err
    assert message in err
    assert err.count("\n") == 1


def test_a_wrong_value_is_said_to_come_from_the_file(tmp_path, capsys):
    path = tmp_path / "a.toml"
    path.write_text('tolerance = "few"')
    assert main(["solve", "oneill", "--config", str(path)]) == 2
    err = capsys.readouterr().err
    assert "expected a value for --tolerance, found 'few'" in err
    assert err.startswith(f"equipoise: error: --config: {path}: tolerance: ")
    assert err.count("\n") == 1


def test_files_that_are_not_there(tmp_path, capsys):
    for path in (tmp_path / "none.toml", tmp_path):
        assert main(["solve", "oneill", "--config", str(path)]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"equipoise: error: {path}: ")
    (tmp_path / "bytes.toml").write_bytes(bytes(range(256)))
    assert main(["solve", "oneill", "--config", str(tmp_path / "bytes.toml")]) == 2
    assert "expected TOML" in capsys.readouterr().err


def test_odd_strings_survive():
    kind = command_kind("solve")
    command = kind('a"b\\c\n\x7f é', set=("=\t",))
    found = tomllib.loads(write_config(command))
    assert found["game"] == command.game
    assert found["set"] == ["=\t"]


def test_a_file_runs_a_command(tmp_path, capsys):
    path = tmp_path / "a.toml"
    path.write_text('game = "rock-paper-scissors"\njson = true\n')
    assert main(["solve", "--config", str(path)]) == 0
    assert '"status"' in capsys.readouterr().out
    assert read_config(command_kind("solve"), path) == {
        "game": "rock-paper-scissors",
        "json": True,
    }
