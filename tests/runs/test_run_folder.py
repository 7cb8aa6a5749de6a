"""Creating, resuming and reading run folders, within one process."""

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pytest

from equipoise.core.machine import cores
from equipoise.runs import Record, Run, Table, read_metrics


@dataclass
class Config:
    steps: int = 3
    learner: dict[str, float] | None = None


def test_a_run_writes_what_it_promises(tmp_path):
    folder = tmp_path / "deep" / "run"
    with Run.create(folder, Config()) as run:
        run.log(1, gap=0.5, note="first")
        run.checkpoint(1, {"x": np.ones(2)})
        run.finish(Record("test", run.config, {"gap": 0.5}))
    names = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert names == {
        "config.json",
        "metrics.jsonl",
        "record.json",
        "record.npz",
        "environment.json",
        "lock",
    }
    assert json.loads((folder / "config.json").read_text()) == {"steps": 3, "learner": None}
    assert read_metrics(folder) == [{"step": 1, "gap": 0.5, "note": "first"}]
    environment = json.loads((folder / "environment.json").read_text())
    (session,) = environment["sessions"]
    assert session["versions"]["numpy"] == np.__version__
    assert session["devices"] == ["cpu"]
    assert session["machine"]["cores"] == cores()  # those it may use, not those there are
    assert environment["seconds"] >= 0


def test_who_only_reads_a_finished_run_leaves_no_trace(tmp_path):
    with Run.create(tmp_path / "run", {}):
        pass
    with Run.open(tmp_path / "run") as run:  # goes on, and is a session of it
        run.finish(Record("test"))
    file = tmp_path / "run" / "environment.json"
    before = file.read_bytes()
    assert len(json.loads(before)["sessions"]) == 2
    with Run.open(tmp_path / "run") as run:
        assert run.seconds == pytest.approx(json.loads(before)["seconds"])
    assert file.read_bytes() == before


def test_a_finished_record_can_be_added_to(tmp_path):
    with Run.create(tmp_path / "run", {}) as run:
        with pytest.raises(FileNotFoundError, match="expected a finished run"):
            run.add_to_record({"exact": True})
        run.finish(Record("test", {}, {"gap": 0.5}, {"policy": [1.0]}))
    with Run.open(tmp_path / "run") as run:
        run.add_to_record({"exact": True}, {"gains": [0.0]})
        with pytest.raises(ValueError, match="scalars: expected new names, found gap"):
            run.add_to_record({"gap": 0.1})
    record = Record.load(tmp_path / "run")
    assert record.scalars == {"gap": 0.5, "exact": True}
    assert set(record.arrays) == {"policy", "gains"}


def test_work_before_the_folder_is_counted(tmp_path):
    with Run.create(tmp_path / "run", {}) as run:
        run.finish(Record("test"), seconds_before=100.0)
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    (session,) = environment["sessions"]
    assert 100 <= environment["seconds"] == session["seconds"] < 160
    ago = datetime.now(UTC) - datetime.fromisoformat(session["started"])
    assert 99 <= ago.total_seconds() < 160
    with Run.create(tmp_path / "other", {}) as run, pytest.raises(ValueError, match="seconds_befo"):
        run.finish(Record("test"), seconds_before=-1.0)


def test_create_refuses_a_folder_in_use(tmp_path):
    Run.create(tmp_path / "run", {}).close()
    with pytest.raises(FileExistsError, match=r"already holds a run.*Run\.open"):
        Run.create(tmp_path / "run", {})
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match="new or empty folder"):
        Run.create(tmp_path, {})


def test_open_refuses_a_folder_without_a_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no config\.json"):
        Run.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_open_refuses_another_config_and_names_the_keys(tmp_path):
    Run.create(tmp_path / "run", Config(learner={"step": 0.1})).close()
    with pytest.raises(
        ValueError, match=r"steps \(3, now 4\), learner\.step \(0\.1, now 0\.2\); choose"
    ):
        Run.open(tmp_path / "run", Config(steps=4, learner={"step": 0.2}))
    Run.open(tmp_path / "run", Config(learner={"step": 0.1})).close()  # the lock was released


def test_a_config_that_is_not_plain_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match=r"config\.f: expected"):
        Run.create(tmp_path / "run", {"f": print})
    with pytest.raises(ValueError, match="config: expected a dict or a dataclass"):
        Run.create(tmp_path / "run", [1])
    assert not (tmp_path / "run").exists()


def test_rows_after_the_checkpoint_are_cut(tmp_path):
    with Run.create(tmp_path / "run", {}) as run:
        for step in range(1, 6):
            run.log(step, x=step)
            if step % 2 == 0:
                run.checkpoint(step, {"x": step})
    with Run.open(tmp_path / "run") as run:
        assert run.step == 4
        assert [row["step"] for row in run.metrics()] == [1, 2, 3, 4]
        assert run.restore({"x": 0}) == {"x": 4}


def test_without_a_checkpoint_a_run_starts_over(tmp_path):
    with Run.create(tmp_path / "run", {}) as run:
        run.log(1, x=1)
    with Run.open(tmp_path / "run") as run:
        assert run.step == 0
        assert run.restore("initial") == "initial"
        assert run.metrics() == []


def test_a_torn_line_is_left_out_and_repaired(tmp_path):
    with Run.create(tmp_path / "run", {}) as run:
        run.log(1, x=1)
        run.checkpoint(1, 0)
        run.finish(Record("test"))
    with open(tmp_path / "run" / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 2, "x"')
    assert read_metrics(tmp_path / "run") == [{"step": 1, "x": 1}]
    with Run.open(tmp_path / "run"):
        pass
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == b'{"step": 1, "x": 1}\n'


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(ValueError, match="line 2: expected JSON"):
        read_metrics(tmp_path)


def test_metrics_shorter_than_the_checkpoint_knows_are_refused(tmp_path):
    with Run.create(tmp_path / "run", {}) as run:
        run.log(1, x=1)
        run.checkpoint(1, 0)
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match="found 0"):
        Run.open(tmp_path / "run")


def test_only_the_last_checkpoints_are_kept(tmp_path):
    with Run.create(tmp_path / "run", {}, keep=2) as run:
        for step in (9, 10, 100, 1000):
            run.checkpoint(step, step)
    names = sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["000000000100.npz", "000000001000.npz"]


def test_leftovers_of_killed_writes_are_removed(tmp_path):
    Run.create(tmp_path / "run", {}).close()
    (tmp_path / "run" / "checkpoints").mkdir()
    (tmp_path / "run" / ".record.0123456789abcdef.npz").touch()
    (tmp_path / "run" / "checkpoints" / ".000000000002.0123456789abcdef.npz").touch()
    (tmp_path / "run" / ".mine").touch()
    Run.open(tmp_path / "run").close()
    hidden = sorted(p.name for p in (tmp_path / "run").rglob(".*"))
    assert hidden == [".mine"]


def test_two_processes_cannot_write_one_folder(tmp_path):
    script = (
        "import sys; from equipoise.runs import FolderInUse, Run\n"
        "try: Run.open(sys.argv[1])\n"
        "except FolderInUse as error: print(error)\n"
    )
    with Run.create(tmp_path / "run", {}):
        command = [sys.executable, "-c", script, str(tmp_path / "run")]
        other = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "is being written by process" in other.stdout
    other = subprocess.run(command, capture_output=True, text=True, check=True)
    assert other.stdout == ""  # free again


def test_a_finished_run_takes_nothing_more(tmp_path):
    with Run.create(tmp_path / "run", {}) as run:
        run.log(1, x=1)
        run.finish(Record("test", scalars={"x": 1}))
    with Run.open(tmp_path / "run") as run:
        assert run.finished
        assert run.record().scalars == {"x": 1}
        assert run.metrics() == [{"step": 1, "x": 1}]  # nothing is cut from a finished run
        with pytest.raises(RuntimeError, match="cannot log, the run is finished"):
            run.log(2, x=2)


def test_records_survive(tmp_path):
    record = Record(
        "test",
        Config(),
        {"gap": float("inf"), "games": 3, "name": "x", "ok": True},
        {"policy": np.array([0.1, 0.9]), "count": np.arange(3, dtype=np.int8), "zero": 0.5},
        {"rows": Table(("a", "b"), [(1, float("nan")), ("x", None)])},
    )
    record.save(tmp_path)
    again = Record.load(tmp_path)
    assert again.name == "test"
    assert again.config == {"steps": 3, "learner": None}
    assert again.scalars == record.scalars
    for name, array in record.arrays.items():
        assert again.arrays[name].dtype == array.dtype
        assert np.array_equal(again.arrays[name], array)
    assert repr(again.tables) == repr(record.tables)


def test_a_record_of_two_halves_is_refused(tmp_path):
    Record("test", arrays={"x": [1.0]}).save(tmp_path)
    half = (tmp_path / "record.npz").read_bytes()
    Record("test", arrays={"x": [2.0]}).save(tmp_path)
    (tmp_path / "record.npz").write_bytes(half)
    with pytest.raises(ValueError, match="do not belong to one record"):
        Record.load(tmp_path)


def test_tables_are_checked():
    with pytest.raises(ValueError, match=r"rows\[1\]: expected 2 entries"):
        Table(("a", "b"), [(1, 2), (1,)])
    with pytest.raises(ValueError, match="name: expected one of"):
        Table(("a",), []).column("b")


def test_restart_begins_anew_and_spares_other_files(tmp_path):
    folder = tmp_path / "run"
    with Run.create(folder, {"a": 1}) as run:
        run.log(1, x=1)
        run.checkpoint(1, 0)
        run.finish(Record("old"))
    (folder / "report.html").write_text("mine")
    with Run.restart(folder, {"a": 2}) as run:
        assert not run.finished
        assert run.step == 0
        assert run.config == {"a": 2}
        assert run.metrics() == []
    assert (folder / "report.html").read_text() == "mine"
    with Run.restart(tmp_path / "new", {}) as run:
        assert run.step == 0


def test_times_are_kept_outside_the_record(tmp_path):
    scalars = {"gap": 0.5, "seconds": 1.5, "stats": {"sweeps": 3, "plan_seconds": 0.1}}
    columns = ("a", "CPU seconds each", "b", "seconds")
    for name, seconds in (("run", 1.5), ("other", 2.5)):
        table = Table(columns, [(1, seconds, 2, seconds), (3, float("inf"), 4, None)])
        with Run.create(tmp_path / name, {}) as run:
            run.finish(Record("test", {}, {**scalars, "seconds": seconds}, {}, {"t": table}))
    assert Record.load(tmp_path / "run").scalars == scalars
    assert Record.load(tmp_path / "other").tables == {"t": table}
    assert Record.load(tmp_path / "other").scalars == {**scalars, "seconds": 2.5}
    files = [(tmp_path / name / "record.json").read_bytes() for name in ("run", "other")]
    assert files[0] == files[1]
    assert b"seconds" not in files[0]
    with Run.open(tmp_path / "run") as run:
        run.add_to_record({"exact": True})
        assert run.record().scalars == {**scalars, "exact": True}


SOLUTION = {
    "version": 1,
    "policy": {"kind": "profile", "strategies": {"0": np.array([0.5, 0.5]), "1": np.ones(1)}},
    "certificate": {"kind": "table", "gains": np.zeros(2), "upper": np.full(2, 1e-16)},
    "status": {"name": "solved", "message": "", "solved": np.asarray(True)},
    "value": np.asarray(0.25),
    "tolerance": float("inf"),
    "stats": {"sweeps": 3, "seconds": 0.5, "plan_seconds": 0.1, "curve": [np.arange(2), 1.5]},
}


def test_a_solution_survives_without_its_times(tmp_path):
    record = Record("test", arrays={"x": [1.0]}, solution=SOLUTION)
    record.save(tmp_path)
    again = Record.load(tmp_path)
    for found in (record, again):
        assert set(found.arrays) == {"x"}
        assert set(found.solution) == set(SOLUTION)
        assert set(found.solution["stats"]) == {"sweeps", "curve"}
        assert found.solution["tolerance"] == float("inf")
        strategies = found.solution["policy"]["strategies"]
        np.testing.assert_array_equal(strategies["0"], [0.5, 0.5])
        np.testing.assert_array_equal(found.solution["stats"]["curve"][0], [0, 1])
        assert found.solution["status"]["solved"].dtype == bool
    other = tmp_path / "other"
    other.mkdir()
    again.save(other)
    for name in ("record.json", "record.npz"):
        assert (other / name).read_bytes() == (tmp_path / name).read_bytes()
    with pytest.raises(ValueError, match=r"solution: expected version 1 .* found 2"):
        Record("test", solution={**SOLUTION, "version": 2})


def as_old(folder, record):
    """Write a record as version 0.1 did."""
    record.save(folder)
    file = folder / "record.json"
    content = json.loads(file.read_text())
    del content["solution"], content["sha256"]
    file.write_text(json.dumps(content))
    return Record.load(folder)


def test_records_of_version_0_1_are_given_a_solution(tmp_path):
    said = {"method": "enumeration", "exact": True, "status": "solved: all of it"}
    arrays = {"gains": [0.0, 1e-9], "certified_value": [1.0, -1.0], "policy_0": [1.0]}
    solution = as_old(tmp_path, Record("old", {}, said, arrays | {"policy_1": [0.5, 0.5]})).solution
    np.testing.assert_array_equal(solution["certificate"]["upper"], [0.0, 1e-9])
    np.testing.assert_array_equal(solution["certificate"]["value"], [1.0, -1.0])
    np.testing.assert_array_equal(solution["policy"]["strategies"]["1"], [0.5, 0.5])
    assert (solution["status"]["name"], solution["status"]["message"]) == ("solved", "all of it")
    # A log's: the values stand under another name, and nothing is exact.
    said = {"method": "in the fitted model", "exact": False, "learned": True, "concept": "cce"}
    arrays = {"gains": np.ones(3), "value": np.zeros(3), "policies": np.ones((1, 1, 3, 1))}
    solution = as_old(tmp_path, Record("old", {}, said, arrays | {"weights": [1.0]})).solution
    assert solution["policy"]["kind"] == "mixture"
    assert solution["certificate"]["concept"] == "cce"
    assert np.isinf(solution["certificate"]["upper"]).all()
    np.testing.assert_array_equal(solution["certificate"]["value"], np.zeros(3))
    assert as_old(tmp_path, Record("figure", {}, {"key": 1}, {"x": [1.0]})).solution is None
    crowd = {f"policy/{part}": [1] for part in ("rows", "counts", "actions")}
    status = {"name": "finished", "message": "100 episodes"}
    solution = as_old(tmp_path, Record("old", {}, {"status": status}, crowd)).solution
    assert solution["policy"]["kind"] == "aggregative"
    assert solution["status"]["name"] == "learned"


@pytest.mark.parametrize(
    "change",
    [
        {"name": 3},
        {"scalars": []},
        {"arrays": {"y": "<f8"}},
        {"arrays": {"x": "nonsense"}},
        {"tables": {"t": 1}},
        {"tables": {"t": {"columns": ["a"]}}},
        {"tables": {"t": {"columns": ["a"], "rows": [[1, 2]]}}},
        {"tables": {"t": {"columns": ["a"], "rows": [1]}}},
        {"solution": []},
        {"solution": {"version": 1, "value": {"$array": "none"}}},
        {"solution": {"value": 1}},
    ],
)
def test_a_record_that_makes_no_sense_is_refused(tmp_path, change):
    Record("test", arrays={"x": [1.0]}).save(tmp_path)
    file = tmp_path / "record.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ValueError, match="expected"):
        Record.load(tmp_path)
