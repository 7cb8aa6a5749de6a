"""`equipoise learn`: what it prints, keeps and refuses."""

import json

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main


def learn(tmp_path, *arguments):
    folder = ["--run", str(tmp_path / "run")]
    return main(["learn", *arguments, "--episodes", "15", *folder])


def test_a_scenario_is_learnt_and_certified(tmp_path, capsys):
    scenario = tmp_path / "city.toml"
    scenario.write_text('kind = "demand-response"\nagents = 60\nhorizon = 3\n')
    out = tmp_path / "new" / "policy.json"
    assert learn(tmp_path, str(scenario), "--rewards", "unknown", "--out", str(out)) == 0
    shown = capsys.readouterr().out
    assert "gains of 60 agents" in shown
    assert (tmp_path / "run" / "record.json").exists()
    assert main(["certify", str(scenario), str(out)]) in (0, 1)


def test_the_table_ends_with_what_is_returned(tmp_path, capsys):
    arguments = ("epidemic", "--set", "agents=50", "--rewards", "unknown")
    assert learn(tmp_path, *arguments, "--objective", "welfare") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    (returned,) = [line[1:] for line in lines if line[:1] == ["returned"]]
    below = [line[-1] for line in lines if line[:2] in (["upper", "minus"], ["bound", "on"])]
    assert returned == below[:2]


def test_a_report_names_the_game_and_the_exact_gain(tmp_path, capsys):
    arguments = ("demand-response", "--set", "agents=60", "--set", "horizon=3")
    page = tmp_path / "page.html"
    for _ in range(2):  # also when the run is only read again
        assert learn(tmp_path, *arguments, "--json") == 0
        exact = json.loads(capsys.readouterr().out)["certificate"]["max_gain"]
        assert main(["report", str(tmp_path / "run"), "--out", str(page)]) == 0
        html = page.read_text()
        assert "<td>demand-response, agents=60, horizon=3</td>" in html
        exact_row = f">{exact:.3g}</td>"
        assert exact_row in html
        assert "best responses by backward induction" in html
        assert "simulator: fingerprint of the game" in html
        assert exact_row in (tmp_path / "run" / "report.html").read_text()
        capsys.readouterr()


def test_the_result_as_json(tmp_path, capsys):
    arguments = ("demand-response", "--set", "agents=60", "--set", "horizon=3", "--json")
    assert learn(tmp_path, *arguments, "--objective", "welfare") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["episodes"] == 15
    assert document["status"]["name"] == "learned"
    assert len(document["curve"]["width"]) == 15
    game = eq.games.load("demand-response", agents=60, horizon=3)
    policy = eq.games.AggregativePolicy(
        *(np.asarray(document["policy"][part]) for part in ("rows", "counts", "actions"))
    )
    exact = eq.certify(game, policy).max_gain
    assert document["certificate"]["max_gain"] == pytest.approx(float(exact))
    assert exact <= document["learner"]["bound"]
    assert learn(tmp_path, *arguments, "--objective", "welfare") == 0  # read, not learnt again
    assert json.loads(capsys.readouterr().out)["learner"] == document["learner"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rock-paper-scissors"], "expected a game with an aggregate"),
        (["demand-response", "--time-limit", "-1"], "--time-limit: expected a number"),
        (["demand-response", "--noise", "-1"], "noise: expected a number"),
        (["demand-response", "--noise", "0.3"], "--noise: expected only with --rewards unknown"),
        (["demand-response", "--scouts", "3"], "--scouts: expected only with --rewards unknown"),
        (["demand-response", "--alone"], "--alone: expected only with --rewards unknown"),
        (
            ["demand-response", "--rewards", "unknown", "--alone", "--scouts", "3"],
            "--scouts: expected no value together with --alone",
        ),
        (["demand-response", "--spacing", "1e-30"], "spacing: expected at most 5e+18 cells"),
        (
            ["demand-response", "--spacing", "1e-9", "--objective", "welfare"],
            "spacing: expected at most 4,000,000 cells",
        ),
        (["demand-response", "--seed", "-1"], "--seed: expected a number"),
        (["demand-response", "--out", "policy.txt"], "policy.txt"),
    ],
)
def test_wrong_input_is_told_in_one_line(tmp_path, capsys, arguments, message):
    assert learn(tmp_path, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_run_out_of_time_is_resumed(tmp_path, capsys):
    arguments = ("two-roads", "--set", "agents=60", "--json")
    assert learn(tmp_path, *arguments, "--time-limit", "0") == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["episodes"], document["status"]["name"]) == (0, "out of time")
    assert learn(tmp_path, *arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["episodes"], document["status"]["name"]) == (15, "learned")


def test_another_run_is_not_resumed(tmp_path, capsys):
    arguments = ("demand-response", "--set", "agents=60", "--set", "horizon=3")
    assert learn(tmp_path, *arguments) == 0
    assert learn(tmp_path, *arguments, "--seed", "3") == 2
    assert "env.key" in capsys.readouterr().err


def test_the_papers_algorithm_runs_as_printed(tmp_path, capsys):
    small = ("demand-response", "--set", "agents=4", "--set", "horizon=2", "--json")
    assert learn(tmp_path, *small, "--form", "printed") in (0, 1)
    document = json.loads(capsys.readouterr().out)
    assert "the bounds of the printed form do not hold" in document["status"]["message"]
    assert document["learner"]["confidence"] == 0
    assert learn(tmp_path, *small, "--form", "printed", "--rewards", "unknown") == 2
    assert "--form: expected corrected with --rewards unknown" in capsys.readouterr().err
