"""With `--json`, what goes wrong is a line of JSON too; exit codes are what they are without."""

import json
import subprocess
import sys

import pytest

from equipoise.cli import games, main


def told(capsys, *arguments):
    """The one line of JSON on the error stream, and the exit code."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return json.loads(err), code


def test_wrong_input_is_a_line_of_json(capsys):
    document, code = told(capsys, "solve", "colonel-bloto", "--json")
    assert code == 2
    assert list(document) == ["error"]
    assert document["error"].endswith("did you mean colonel-blotto?")
    assert main(["solve", "colonel-bloto"]) == 2
    assert capsys.readouterr().err == f"equipoise: error: {document['error']}\n"


def test_an_unknown_verb_is_a_line_of_json(capsys):
    document, code = told(capsys, "slove", "oneill", "--json")
    assert code == 2
    assert document["error"].endswith("did you mean solve?")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "oneill", "--nonsense", "--json"], "equipoise solve, found '--nonsense'"),
        (["play", "--rounds", "few", "--json"], "--rounds: expected a whole number, found 'few'"),
        (["solve", "--json"], "GAME"),
    ],
)
def test_wrong_usage_is_a_line_of_json(capsys, arguments, message):
    document, code = told(capsys, *arguments)
    assert code == 2
    assert message in document["error"]


def test_a_file_of_options_may_ask_for_json(capsys, tmp_path):
    path = tmp_path / "solve.toml"
    path.write_text('game = "colonel-bloto"\njson = true\n')
    document, code = told(capsys, "solve", "--config", path)
    assert code == 2
    assert "colonel-bloto" in document["error"]
    path.write_text('game = "oneill"\ntolerance = "few"\n')
    document, code = told(capsys, "solve", "--config", path, "--json")
    assert code == 2
    wrong = "tolerance: expected a value for --tolerance, found 'few'"
    assert document["error"] == f"--config: {path}: {wrong}"


def test_interruptions_and_help_keep_their_exit_codes(monkeypatch, capsys):
    assert main(["solve", "--json", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: equipoise solve")

    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(games.Games, "execute", interrupt)
    assert told(capsys, "games", "--json") == ({"error": "interrupted"}, 130)


def test_warnings_are_lines_of_json_too():
    script = (
        "import warnings; from equipoise.cli import games, main\n"
        "games.Games.execute = lambda self: warnings.warn('a checkpoint\\nis damaged') or 0\n"
        "raise SystemExit(main(['games', '--json']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr) == {"warning": "a checkpoint is damaged"}
