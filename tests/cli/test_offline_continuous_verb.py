"""`equipoise offline --critic`: logs of actions that are numbers."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.runs import Record, Run

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
    record = Record.load(place / "run")
    assert record.arrays["points"].shape == (1, 3)
    assert record.scalars["gap in the fitted model"] == record.arrays["gains"].max()
    assert record.scalars["exact"] is False
    before = record.scalars["gap of the log's mean actions in the fitted model"]
    policy = eq.games.ContinuousPolicy(record.arrays["points"])
    assert eq.certify(game, policy).max_gain < before / 2
    page = (place / "run" / "report.html").read_text()
    assert "Nash, in the fitted model" in page
    for part in ("critics", "actors"):
        assert (place / "run" / part / "record.json").exists()
    # Given again, it is read and not done again.
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["read_from_disk"] is True
    assert [row["agent"] for row in document["tables"]["agents"]] == [0, 1, 2]
    assert main(arguments) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "in the fitted model, by search" in out
    assert "read, not done again" in out


def test_what_was_learned_is_certified_in_the_game(learned, capsys):
    game, place, _ = learned
    command = ["certify", GAME[0], str(place / "run"), "--set", GAME[1], "--json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    points = Record.load(place / "run").arrays["points"]
    assert found["gains"] == eq.certify(game, eq.games.ContinuousPolicy(points)).gains.tolist()
    assert main(["certify", GAME[0], str(place / "run" / "critics")]) == 2
    assert "expected points, as a run of" in capsys.readouterr().err
    assert main(["certify", "chicken", str(place / "run")]) == 2
    assert "expected policies, as a run of" in capsys.readouterr().err


def test_a_run_that_was_stopped_goes_on(learned, tmp_path, capsys, monkeypatch):
    _, place, arguments = learned
    command = [*arguments[:-1], str(tmp_path / "run")]

    def interrupted(*_, **__):  # as `improve` returns after Ctrl-C: without a record
        return None

    with monkeypatch.context() as patch:
        patch.setattr(eq.offline.deep, "improve", interrupted)
        assert main([*command, "--json"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "give the same command again" in json.loads(err)["error"]
    assert main(command) == 0
    whole, cut = (Record.load(folder) for folder in (place / "run", tmp_path / "run"))
    np.testing.assert_array_equal(whole.arrays["points"], cut.arrays["points"])


def test_logs_with_states_have_policies_and_no_gap(tmp_path, capsys, monkeypatch):
    """Nothing is trained here, which would compile for half a minute."""
    game = eq.games.load("stamina-continuous", agents=2)
    log = eq.offline.collect(game, "uniform", samples=40, key=0)
    log.write(tmp_path / "log.npz")
    critics = SimpleNamespace(explained=np.full((1, 2), -0.5), parameters=1)
    points = np.zeros((1, 1, log.horizon, 2, log.states_count))

    def trained(result):
        def train(*_, run, **__):
            with Run.create(run, {}) as folder:
                folder.finish(Record("trained"))
            return result

        return train

    monkeypatch.setattr(eq.offline.deep, "fit", trained(critics))
    actors = SimpleNamespace(points=points, steps=2)
    monkeypatch.setattr(eq.offline.deep, "improve", trained(actors))
    command = ["offline", str(tmp_path / "log.npz"), "--critic", "1-IR-128"]
    assert main([*command, "--run", str(tmp_path / "run")]) == 1  # critics explain nothing
    out = " ".join(capsys.readouterr().out.split())
    assert "gap not estimated" in out
    assert "status nothing learned" in out
    record = Record.load(tmp_path / "run")
    assert record.arrays["points"].shape == points.shape[1:]
    assert "gains" not in record.arrays


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--critic", "2-IR-65"], "did you mean 2-IR-64?"),
        (["--critic", "linear", "--rank", "2"], "--rank: expected a log of actions that can be"),
        (["--critic", "linear", "--bootstrap", "0"], "--bootstrap: expected a log of actions"),
        ([], "--critic"),
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
