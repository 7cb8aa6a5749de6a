"""`equipoise offline --critic`: logs of actions that are numbers."""

import json
import os
import signal

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.runs import Record

GAME = ("pairwise-continuous", "agents=3")


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A log and the folder of a run on it, by polynomials."""
    place = tmp_path_factory.mktemp("continuous")
    game = eq.games.load(GAME[0], agents=3)
    eq.offline.collect(game, "uniform", samples=300, key=0).write(place / "log.npz")
    arguments = ["offline", str(place / "log.npz"), "--critic", "linear", "--iterations", "400"]
    arguments += ["--run", str(place / "run")]
    assert main(arguments) == 0
    return game, place, arguments


def test_a_run_folder_with_policies_and_report(learned, capsys):
    game, place, arguments = learned
    solution = Record.load(place / "run").solution
    policy = eq.games.policy_from_plain(solution["policy"])
    assert policy.points.shape == (1, 3)
    assert solution["stats"]["gap"]["gap"] == solution["certificate"]["gains"].max()
    assert eq.certify(game, policy).max_gain < solution["stats"]["own_gap"] / 2
    page = (place / "run" / "report.html").read_text()
    assert "Nash, in the fitted model" in page
    for part in ("critics", "actors"):
        assert (place / "run" / part / "record.json").exists()
    # Given again, it is read and not done again.
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["read_from_disk"] is True
    assert [row["agent"] for row in document["tables"]["agents"]] == ["0", "1", "2"]
    assert main(arguments) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "in the fitted model, by search" in out
    assert "finished earlier; read from disk" in out


def test_what_was_learned_is_certified_in_the_game(learned, capsys):
    game, place, _ = learned
    command = ["certify", GAME[0], str(place / "run"), "--set", GAME[1], "--json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    plain = Record.load(place / "run").solution["policy"]
    policy = eq.games.policy_from_plain(plain)
    assert found["gains"] == eq.certify(game, policy).gains.tolist()
    assert main(["certify", GAME[0], str(place / "run" / "critics")]) == 2
    assert "POLICY: expected a run folder with a policy" in capsys.readouterr().err
    assert main(["certify", "chicken", str(place / "run")]) == 2
    assert "expected" in capsys.readouterr().err


def test_ctrl_c_keeps_what_was_done(learned, tmp_path, capsys, monkeypatch):
    """Interrupted between critics and actors, and then gone on with."""
    _, place, arguments = learned
    command = [*arguments[:-1], str(tmp_path / "run")]
    fit = eq.offline.deep.fit

    def interrupted(*given, **options):
        critics = fit(*given, **options)
        os.kill(os.getpid(), signal.SIGINT)
        return critics

    with monkeypatch.context() as patch:
        patch.setattr(eq.offline.deep, "fit", interrupted)
        assert main([*command, "--json"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "run the same command again" in json.loads(err)["error"]
    assert main(command) == 0
    whole, cut = (Record.load(folder).solution for folder in (place / "run", tmp_path / "run"))
    np.testing.assert_array_equal(whole["policy"]["points"], cut["policy"]["points"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--critic", "2-IR-65"], "--critic: expected one of kernel, linear"),
        (["--critic", "linear", "--rank", "2"], "--rank: expected auto for continuous actions"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(arguments, message, tmp_path, capsys):
    path = tmp_path / "log.npz"
    np.savez(path, actions=np.full((40, 2), 0.5), rewards=np.zeros((40, 2)))
    command = ["offline", str(path), *arguments, "--run", str(tmp_path / "run")]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()
