"""The table that a run of all benchmarks ends with."""

import json

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks.harness.model import Case
from benchmarks.harness.runner import Row
from benchmarks.harness.summary import skipped, summarise, summary_table


def row(name, seconds=None, *, status="ok", detail="", **more):
    made = Row(name, more.pop("ours", False), status=status, detail=detail, **more)
    made.seconds = seconds
    return made


def case(goal=1.0):
    return Case("3x3", "game", 1, dict, (), lambda data, answer: None, goal=goal)


ROWS = [
    row("ours", 2e-6, ours=True),
    row("ours, two cores", 1e-6, ours=True, cores=2),
    row("the limit", 1e-7, limit=True),
    row("slow", 8e-6),
    row("best", 4e-6),
    row("best, two cores", 3e-6, cores=2),
    row("cheat", 1e-9, status="wrong", detail="off the simplex"),
    row("absent", status="not installed", detail="absent"),
]


def test_the_best_right_answer_on_as_many_cores_counts():
    line = summarise("nash", case(), ROWS)
    assert (line.ours, line.peer, line.peer_seconds) == (2e-6, "best", 4e-6)
    assert line.ratio == pytest.approx(2.0)
    assert line.met is True
    assert summarise("nash", case(goal=3.0), ROWS).met is False
    two = summarise("nash", case(), [r for r in ROWS if r.contender not in ("slow", "best")])
    assert two.peer == "best, two cores"  # better than nobody


def test_cases_without_others_or_without_ours():
    alone = summarise("offline", case(), ROWS[:2])
    assert (alone.peer, alone.ratio, alone.goal, alone.met) == (None, None, None, None)
    missing = summarise("nash", case(), ROWS[3:])
    assert (missing.ours, missing.ratio, missing.peer) == (None, None, "best, two cores")


def test_the_table_and_who_was_left_out(capsys):
    lines = [summarise("nash", case(), ROWS), summarise("offline", case(), ROWS[:2])]
    console = Console(width=140)
    console.print(summary_table(lines))
    shown = capsys.readouterr().out
    assert "2 us per game" in shown
    assert "best" in shown
    assert "none" in shown
    assert skipped(lines) == [
        "cheat: wrong: off the simplex (3x3)",
        "absent: not installed: absent (3x3)",
    ]
    assert json.loads(json.dumps(lines[0].as_dict()))["met"] is True


def test_the_command_as_data(monkeypatch, capsys):
    made = case()

    class Workload:
        __doc__ = "A workload."

        @staticmethod
        def cases(quick):
            return [made]

    monkeypatch.setattr(command, "workloads", lambda: {"fake": Workload})
    monkeypatch.setattr(command, "run_case", lambda *args, **options: ROWS)
    monkeypatch.setattr("sys.argv", ["benchmarks", "--quick", "--json"])
    assert command.main() == 0
    document = json.loads(capsys.readouterr().out)
    assert document["summary"][0]["ratio"] == pytest.approx(2.0)
    assert document["summary"][0]["skipped"]["absent"] == "not installed: absent"
    assert len(document["cases"][0]["rows"]) == len(ROWS)
    monkeypatch.setattr("sys.argv", ["benchmarks", "--quick"])
    assert command.main() == 0
    assert "Left out: absent" in capsys.readouterr().out
