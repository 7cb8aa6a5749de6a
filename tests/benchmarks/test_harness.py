"""The harness survives every kind of contender, and each workload runs for our own rows."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import fake_workload
import pytest
from rich.console import Console

from benchmarks.__main__ import main, workloads
from benchmarks.harness import Contender, worker
from benchmarks.harness.pin import available_cores, environment, pinned
from benchmarks.harness.runner import run_case
from benchmarks.harness.table import case_table, duration

ROOT = Path(__file__).resolve().parents[2]

#: Largest accuracy figure that a row of ours may show.
ALLOWED = {"nash": 1e-9, "certificates": 1e-12, "markov": 1e-6, "gpu": 1e-9, "aggregative": 1e-7}


@pytest.fixture(scope="module")
def fake_case():
    return fake_workload.cases(True)[0]


@pytest.fixture(scope="module")
def fake_rows(fake_case):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        rows = run_case("fake_workload", fake_case, quick=True, passes=3)
    return {row.contender: row for row in rows}


@pytest.mark.parametrize(
    ("contender", "status", "detail"),
    [
        ("ours", "ok", ""),
        ("lazy", "ok", ""),
        ("pinned", "ok", ""),
        ("hangs", "timed out", "after 2 s"),
        ("raises", "failed", "ZeroDivisionError: on purpose"),
        ("declines", "not run", "not today"),
        ("absent", "not installed", "no_such_module"),
        ("passed over", "not run", "too large"),
        ("one player", "wrong", "y: off the simplex by 1.0e+00"),
    ],
)
def test_every_contender_has_a_row_that_says_what_happened(fake_rows, contender, status, detail):
    row = fake_rows[contender]
    assert (row.status, row.detail) == (status, detail)


def test_no_contender_is_dropped(fake_rows, fake_case):
    assert list(fake_rows) == [contender.name for contender in fake_case.contenders]
    assert fake_rows["ours"].ratio == 1.0


def test_accuracy_is_measured_by_the_harness(fake_rows):
    assert fake_rows["ours"].accuracy == 0.0
    assert fake_rows["pure"].accuracy == 1.0


def test_time_is_apart_from_the_answer(fake_rows):
    assert len(fake_rows["ours"].passes) == 3
    assert fake_rows["ours"].seconds >= 0.001
    assert fake_rows["lazy"].seconds >= 0.002
    assert fake_rows["lazy"].items == 40
    assert fake_rows["half the work"].seconds >= 0.002


@pytest.mark.parametrize("batched", [True, False])
def test_time_is_per_item(monkeypatch, fake_case, batched):
    clock = [0.0]
    monkeypatch.setattr(worker.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(worker.time, "process_time", lambda: clock[0])

    def prepare(data):
        def run(count):
            clock[0] += 0.25 * count
            return {}

        return run

    passes = worker.Passes(fake_case, Contender("steady", prepare, batched=batched), 3.0)
    assert passes.count > 1
    assert passes.one() == {"seconds": 0.25, "load": 1.0}


def test_table_shows_every_row_and_reason(fake_rows, fake_case):
    console = Console(width=200, file=io.StringIO())
    with console.capture() as captured:
        console.print(case_table(fake_case, list(fake_rows.values()), "fake"))
    text = captured.get()
    for part in ("max NashConv", "timed out: after 2 s", "not installed: no_such_module", "wrong"):
        assert part in text
    for name in fake_rows:
        assert name in text


def test_fewer_than_three_passes_are_refused(fake_case):
    with pytest.raises(ValueError, match="passes: expected at least 3, found 1"):
        run_case("fake_workload", fake_case, passes=1)


def test_pinning_is_undone(fake_case):
    before = available_cores()
    with pinned(1):
        assert len(available_cores()) == 1 or not hasattr(os, "sched_setaffinity")
    assert available_cores() == before
    assert environment(1)["NUMBA_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (6.54e-7, "654 ns"),
        (1.5e-6, "1.5 us"),
        (0.0123, "12.3 ms"),
        (61.0, "61 s"),
        (5000, "5000 s"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_workloads_are_found():
    assert set(ALLOWED) <= set(workloads())


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_our_rows_are_right_in_quick_mode(name):
    for case in workloads()[name].cases(quick=True):
        ours = [contender for contender in case.contenders if "ours" in contender.name]
        assert ours
        for contender in ours:
            passes = worker.Passes(case, contender, 1e-6)
            accuracy = case.measure(case.data(), worker.as_arrays(passes.answer))
            assert accuracy <= ALLOWED[name], (case.name, contender.name)


@pytest.mark.slow
def test_the_command_writes_what_it_measured(tmp_path):
    out, case = tmp_path / "out.json", workloads()["certificates"].cases(quick=True)[0].name
    command = [sys.executable, "-m", "benchmarks", "certificates", "--quick", "--only", "ours"]
    command += ["--case", case, "--passes", "3", "--json", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(out.read_text())
    assert record["versions"]["equipoise"]
    assert record["machine"]["cores"] >= 1
    rows = [row for case in record["cases"] for row in case["rows"]]
    assert rows
    for row in rows:
        assert row["status"] == "ok", row
        assert row["accuracy"] <= ALLOWED["certificates"], row
        assert row["seconds"] > 0


def test_unknown_workload_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "chess"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "found ['chess']" in capsys.readouterr().err
