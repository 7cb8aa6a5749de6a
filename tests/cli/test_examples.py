"""The examples run, and what they print is true."""

import runpy
import sys
from pathlib import Path

import pytest

from equipoise.cli import main
from equipoise.runs import Record

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(monkeypatch, name, *arguments):
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def test_solve_and_certify(monkeypatch, capsys):
    run_example(monkeypatch, "solve_and_certify")
    out = capsys.readouterr().out
    assert "0.083333 (1/12)" in out
    assert "0.583333 (7/12)" in out


def test_many_games(monkeypatch, capsys):
    run_example(monkeypatch, "many_games")
    out = capsys.readouterr().out
    # n! m! / (n + m - 1)! of random n x m games have a saddle point: 6 * 6 / 120.
    assert "30." in out.splitlines()[-1] or "29." in out.splitlines()[-1]


def test_growing_crowds(monkeypatch, capsys, tmp_path):
    report = tmp_path / "crowds.html"
    run_example(monkeypatch, "growing_crowds", 10_000, report)
    assert "10,000 agents" in capsys.readouterr().out
    assert "<svg" in report.read_text()


@pytest.mark.slow
def test_a_run_and_its_report(monkeypatch, capsys, tmp_path):
    folder = tmp_path / "weights"
    run_example(monkeypatch, "resumable_run", folder)
    gaps = Record.load(folder).arrays["nash_conv"]
    assert gaps[-1] < gaps[0] / 5
    run_example(monkeypatch, "resumable_run", folder)
    assert "is finished" in capsys.readouterr().out
    run_example(monkeypatch, "own_report", folder)
    assert (folder / "report.html").read_text().count("<svg") == 2


@pytest.mark.parametrize(
    ("game", "policy"),
    [("rock-paper-scissors", "always-rock"), ("colonel-blotto", "blotto-uniform")],
)
def test_policies_belong_to_their_games(capsys, game, policy):
    assert main(["certify", game, str(EXAMPLES / "policies" / f"{policy}.json")]) == 0


def test_every_example_is_listed():
    listed = (EXAMPLES / "README.md").read_text()
    for file in [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("policies/*")]:
        assert file.name in listed
