"""Whatever is wrong with the input: one line on the error stream, exit code 2, no traceback."""

import json
import subprocess
import sys

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main

GARBAGE = bytes(range(256)) * 8


def refused(capsys, *arguments):
    """The one line with which a command is refused."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert code == 2, (out, err)
    assert out == ""
    assert err.startswith("equipoise: error: ")
    assert err.count("\n") == 1
    return err


def test_a_name_that_is_nothing(capsys):
    error = refused(capsys, "solve", "no-such-game-anywhere")
    assert "GAME: expected a file or a named game, found neither: 'no-such" in error
    error = refused(capsys, "pretrain", "--family", "perturbed", "--base", "no-such")
    assert "--base: expected a file or a named game" in error
    error = refused(capsys, "pretrain", "--family", "perturbed", "--base", "chicken")
    assert "--base: expected a matrix game or a Markov game, found chicken, a game of" in error
    assert "did you mean colonel-blotto?" in refused(capsys, "solve", "colonel-bloto")
    assert "did you mean chicken?" in refused(capsys, "games", "chiken")


@pytest.mark.parametrize("suffix", [".nfg", ".npz", ".csv"])
def test_files_that_are_no_games(capsys, tmp_path, suffix):
    path = tmp_path / f"game{suffix}"
    assert "No such file" in refused(capsys, "solve", path)
    path.mkdir()
    assert "directory" in refused(capsys, "solve", path)
    path.rmdir()
    for content in (b"", GARBAGE, b"NFG 1 R", b"PK\x03\x04", b"nan, 1\n1, 2\n"):
        path.write_bytes(content)
        refused(capsys, "solve", path)
        refused(capsys, "certify", path, tmp_path / "policy.json")


def test_places_that_are_no_files(capsys, tmp_path):
    refused(capsys, "solve", tmp_path)
    refused(capsys, "solve", tmp_path / "game.txt")
    refused(capsys, "solve", "")
    refused(capsys, "solve", "a\0b.nfg")
    refused(capsys, "solve", "x" * 5000)
    refused(capsys, "solve", "x" * 5000 + ".nfg")


@pytest.mark.parametrize(
    "text", ["1, 2\n3\n", "1, x\n", "1, inf\n", "1, nan\n", "\n\n", "1; 2\n3; 4\n"]
)
def test_csv_that_is_no_matrix(capsys, tmp_path, text):
    path = tmp_path / "game.csv"
    path.write_text(text)
    refused(capsys, "solve", path)


def test_npz_that_is_no_game(capsys, tmp_path):
    path = tmp_path / "game.npz"
    np.savez(path, unknown=np.ones((2, 2)))
    refused(capsys, "solve", path)
    np.savez(path, payoff=np.array([[object()]], dtype=object))
    refused(capsys, "solve", path)
    with open(path, "wb") as file:
        np.save(file, np.ones((2, 2)))
    refused(capsys, "solve", path)


def test_options_that_a_game_does_not_have(capsys):
    wrong = refused(capsys, "solve", "chicken", "--option", "max_sweeps=3")
    assert "options of the solver of normal-form games" in wrong
    assert "--concept" in refused(capsys, "solve", "square-continuous", "--concept", "ce")


@pytest.mark.parametrize("tolerance", ["0", "-1", "nan", "inf"])
@pytest.mark.parametrize("game", ["oneill", "two-roads"])
def test_a_tolerance_that_is_none(capsys, tmp_path, game, tolerance):
    for arguments in (["solve", game], ["certify", game, tmp_path / "policy.json"]):
        error = refused(capsys, *arguments, "--tolerance", tolerance)
        assert "--tolerance: expected a finite number > 0" in error


@pytest.mark.parametrize(
    "setting",
    [
        *("size", "size=", "=3", "nope=3", "size=0", "size=few", "size=[1]", "size=null"),
        *("size=NaN", "size=" + "[" * 3000, "size=" + "9" * 400),
    ],
)
def test_settings_that_are_none(capsys, setting):
    refused(capsys, "games", "hide-and-seek", "--set", setting)


def test_settings_that_were_meant_are_named(capsys):
    error = refused(capsys, "games", "hide-and-seek", "--set", "sise=4")
    assert error.endswith(
        "--set: expected parameters of hide-and-seek, found 'sise'; did you mean size?\n"
    )
    assert "found 'size'; there are none" in refused(capsys, "solve", "oneill", "--set", "size=4")
    error = refused(capsys, "solve", "two-roads", "--option", "objektive=welfare")
    assert "did you mean objective?" in error


#: Command -> what its error begins with: what the user typed, and no name of Python's.
TYPED = {
    "games oneill --write a.txt": "--write: expected a name that ends in .nfg or .npz or .csv",
    "games chicken --write a.csv": "--write: expected a name that ends in .nfg or .npz, found",
    "games soccer --write a.nfg": "--write: expected a name that ends in .npz, found a.nfg",
    "games two-roads --write a.nfg": "--write: expected a game with a table of payoffs, found",
    "evaluate no-such": "PLAYERS: expected a folder with players.json in it",
    "pretrain --start no-such --run a": "--start: expected a folder with players.json in it",
    "pretrain --discount 2 --states 2 --run a": "--discount: expected a number in [0",
    "play --row v-learning": "--row: expected for matrix games one of",
    "play --column v-learning": "--column: expected for matrix games one of",
    "play --discount 2 --states 2": "--discount: expected a number in [0",
    "learn demand-response --spacing -1": "--spacing: expected a number in (0",
    "reproduce aggregative --figure x": "--figure: expected one of planning, learning, regret",
    "solve no.nfg": "no.nfg: No such file or directory",
    "certify oneill no.json": "no.json: No such file or directory",
    "offline no.npz": "no.npz: No such file or directory",
    "solve a --config no.toml": "no.toml: No such file or directory",
    "report no": "RUN: expected run folders, found none: no",
}


@pytest.mark.parametrize("line", TYPED)
def test_what_was_typed_is_named(capsys, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    error = refused(capsys, *line.split()).removeprefix("equipoise: error: ")
    assert error.startswith(TYPED[line])
    assert list(tmp_path.iterdir()) == []


def test_the_run_of_other_options_is_the_wrong_folder(capsys, tmp_path):
    for rounds, code in (("20", 0), ("30", 2)):
        arguments = ["play", "--row", "omd", "--rounds", rounds, "--run", str(tmp_path / "a")]
        assert main(arguments) == code
    assert "error: --run: expected the config of" in capsys.readouterr().err


def test_settings_belong_to_named_games(capsys, tmp_path):
    (tmp_path / "a.csv").write_text("1, 2\n")
    assert "named game" in refused(capsys, "solve", tmp_path / "a.csv", "--set", "size=3")
    assert "NAME" in refused(capsys, "games", "--set", "size=3")
    assert "NAME" in refused(capsys, "games", "--write", tmp_path / "a.nfg")


def test_outputs_that_cannot_be_written(capsys, tmp_path):
    assert ".json or .npz" in refused(capsys, "solve", "oneill", "--out", tmp_path / "a.txt")
    error = refused(capsys, "solve", "oneill", "--report", tmp_path / "a.txt")
    assert "--report: expected a name that ends in .html" in error
    refused(capsys, "games", "oneill", "--write", tmp_path / "a.xls")
    refused(capsys, "games", "soccer", "--write", tmp_path / "a.nfg")
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "file"
    file.touch()
    for arguments in (
        ("solve", "oneill", "--out", file / "a.json"),
        ("solve", "oneill", "--report", file / "deeper" / "a.html"),
        ("games", "oneill", "--write", file / "a.nfg"),
    ):
        error = refused(capsys, *arguments)
        assert f"error: {arguments[-1]}: expected a name in a folder, found a file" in error
    assert "--run: expected a folder, found the file" in refused(capsys, "demo", "--run", file)


POLICIES = {
    "not JSON": "policy",
    "empty": "",
    "no policy": '{"strategy": [[1, 0], [1, 0]]}',
    "a number": "3",
    "numbers": "[1, 0]",
    "a string": '{"policy": "uniform"}',
    "nothing": '{"policy": []}',
    "strings": '{"policy": [["a", "b"], [0, 1]]}',
    "null": '{"policy": [[null, 1], [0, 1]]}',
    "booleans": '{"policy": [[true, false], [0, 1]]}',
    "NaN": '{"policy": [[NaN, 1], [0, 1]]}',
    "infinite": '{"policy": [[1e999, 1], [0, 1]]}',
    "negative": '{"policy": [[-1, 2], [0, 1]]}',
    "sum": '{"policy": [[0.5, 0.6], [0, 1]]}',
    "one player": '{"policy": [[0.5, 0.5]]}',
    "three players": '{"policy": [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]}',
    "three actions": '{"policy": [[0.5, 0.5, 0], [0.5, 0.5]]}',
    "ragged": '{"policy": [[[0.5, 0.5], [1]], [0.5, 0.5]]}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("case", POLICIES)
def test_policies_that_are_none(capsys, tmp_path, case):
    path = tmp_path / "policy.json"
    path.write_text(POLICIES[case])
    refused(capsys, "certify", "matching-pennies", path)


def test_what_a_policy_holds_is_told_in_words(capsys, tmp_path):
    path = tmp_path / "policy.json"
    for case, found in {"strings": "'a'", "booleans": "'True'", "null": "'None'"}.items():
        path.write_text(POLICIES[case])
        error = refused(capsys, "certify", "matching-pennies", path)
        assert f"policy[0]: expected numbers, found {found}" in error


def test_policy_files_that_are_none(capsys, tmp_path):
    for suffix in (".json", ".npz"):
        path = tmp_path / f"policy{suffix}"
        assert "No such file" in refused(capsys, "certify", "oneill", path)
        path.mkdir()
        refused(capsys, "certify", "oneill", path)
        path.rmdir()
        for content in (b"", GARBAGE, b"PK\x03\x04"):
            path.write_bytes(content)
            refused(capsys, "certify", "oneill", path)
    assert ".json or .npz" in refused(capsys, "certify", "oneill", tmp_path / "policy.yaml")


def test_npz_policies_that_are_none(capsys, tmp_path):
    path = tmp_path / "policy.npz"
    half = np.array([0.5, 0.5])
    for arrays in (
        {"row": half, "column": half},
        {"policy_0": half, "policy_2": half},
        {"policy_0": half, "policy_1": half[:1]},
        {"policy_0": half, "policy_1": np.array(["a", "b"])},
        {"policy_0": half, "policy_1": np.array([object(), 1], dtype=object)},
    ):
        np.savez(path, **arrays)
        refused(capsys, "certify", "matching-pennies", path)
    with open(path, "wb") as file:
        np.save(file, half)
    refused(capsys, "certify", "matching-pennies", path)


def test_a_policy_of_another_batch(capsys, tmp_path):
    game, policy = tmp_path / "game.npz", tmp_path / "policy.json"
    np.savez(game, payoff=np.ones((5, 2, 2)))
    policy.write_text(json.dumps({"policy": [[[0.5, 0.5]] * 4, [[0.5, 0.5]] * 4]}))
    refused(capsys, "certify", game, policy)


@pytest.mark.parametrize("arguments", [["--games", "0"], ["--seed", "-1"]])
def test_demo_settings_that_are_none(capsys, tmp_path, arguments):
    refused(capsys, "demo", "--run", tmp_path / "demo", *arguments)


def test_a_demo_folder_that_is_none(capsys, tmp_path):
    (tmp_path / "file").touch()
    refused(capsys, "demo", "--run", tmp_path / "file")


def test_a_real_process_shows_no_traceback(tmp_path):
    path = tmp_path / "game.nfg"
    path.write_bytes(GARBAGE)
    command = [sys.executable, "-m", "equipoise", "solve", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("equipoise: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("solve two-roads --option spacing=-1", "--option spacing: expected"),
        ("solve two-roads --option objective=loss", "--option loss: expected an array"),
        ("solve two-roads --set agents=-4", "--set agents: expected"),
        ("pretrain --steps -1", "--steps: expected a whole number >= 1, found -1"),
        ("pretrain --actions 1000000", "--actions: expected arrays of at most half"),
    ],
)
def test_errors_name_what_the_user_typed(capsys, tmp_path, monkeypatch, words, named):
    monkeypatch.chdir(tmp_path)
    assert f"equipoise: error: {named}" in refused(capsys, *words.split())
    assert not list(tmp_path.iterdir())


def test_a_policy_of_another_game_is_the_policys_fault(capsys, tmp_path):
    path = tmp_path / "policy.json"
    eq.write_policy(path, eq.Profile([[1.0, 0.0, 0.0]] * 2))
    error = refused(capsys, "certify", "colonel-blotto", path)
    assert "policy.json: policy[0]: expected probabilities of shape (..., 5)" in error
