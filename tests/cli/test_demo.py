"""The demo plays, resumes, and tells the truth about how it was done."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.cli._acts import ACTS, Settings
from equipoise.cli._errors import CommandError, refusing
from equipoise.runs import Record, Run

SMALL = ["--games", "200", "--seed", "1"]


def play(folder):
    return main(["demo", "--run", str(folder), *SMALL])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "runs"
    assert play(folder) == 0
    return folder


def test_every_act_leaves_a_run_with_a_certificate(folder):
    for act in ACTS:
        record = Record.load(folder / act.name)
        assert record.config == act.config(Settings(games=200, seed=1))
        assert record.scalars["exact"]
        assert record.arrays["solved"].all()
        loose = {"learning": 0.2, "in-context": 0.5, "log": 0.08, "crowd": 1e-4}
        tolerance = loose.get(act.name, 1e-8)
        assert record.arrays["gains"].max() < tolerance
        sessions = json.loads((folder / act.name / "environment.json").read_text())["sessions"]
        assert len(sessions) == 1


def test_the_page_shows_every_act_and_its_code(folder):
    html = (folder / "report.html").read_text()
    for act in ACTS:
        assert act.heading in html
    assert "sample(200, key=1)" in html
    assert "equipoise demo --run" in html
    assert html.count("<svg") == 10


@pytest.mark.parametrize("act", ACTS, ids=[act.name for act in ACTS])
def test_the_lines_shown_do_what_the_act_did(folder, act, capsys):
    record = Record.load(folder / act.name)
    names = {}
    exec(act.code(record.config), names)
    printed = float(capsys.readouterr().out.split()[-1])
    if act.name == "log":
        assert printed == pytest.approx(record.arrays["gains"].max(), abs=1e-6)
    elif "solution" in names:
        assert np.allclose(names["solution"].value, record.arrays["value"], atol=1e-7)
        assert printed == pytest.approx(record.arrays["gains"].max(), abs=1e-8)
    else:
        assert printed == pytest.approx(record.arrays["gains"].sum(-1).mean(), rel=1e-6)
    assert len(act.code(record.config).splitlines()) <= 6


def test_the_value_found_is_the_published_one(folder):
    record = Record.load(folder / "named")
    assert float(record.arrays["value"]) == pytest.approx(14 / 9, abs=1e-12)
    uniform = record.tables["gains"].rows[1]
    assert uniform[0] == "uniform"
    assert uniform[-1] > 0.1


@pytest.mark.slow
def test_an_unfinished_demo_goes_on_and_a_complete_one_starts_anew(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "demo"
    assert play(folder) == 0
    first = json.loads((folder / "named" / "environment.json").read_text())["sessions"][0]
    (folder / "report.html").unlink()
    (folder / "markov" / "record.json").unlink()
    solved = []
    solve = eq.solve
    monkeypatch.setattr(
        "equipoise.solve", lambda game, **options: (solved.append(game), solve(game, **options))[1]
    )
    assert play(folder) == 0
    assert {type(game) for game in solved} == {eq.MarkovGame}  # the others were read
    solved.clear()
    assert play(folder) == 0
    assert len(solved) == 10  # three acts solve twice, the crowd three times, learning once
    sessions = json.loads((folder / "named" / "environment.json").read_text())["sessions"]
    assert len(sessions) == 1
    assert sessions[0] != first


def test_an_unfinished_demo_with_other_settings_is_refused(tmp_path, capsys):
    folder = tmp_path / "demo"
    Run.create(folder / "batch", {"games": 100, "seed": 1}).close()
    Record("x").save(folder / "batch")
    assert play(folder) == 2
    error = capsys.readouterr().err
    assert "games (100, now 200); choose another folder" in error
    assert error.count("\n") == 1


def test_the_run_folder_of_another_command_is_refused(tmp_path, capsys):
    folder = tmp_path / "r1"
    Run.create(folder, {"rounds": 3}).close()
    before = sorted(p.name for p in folder.iterdir())
    assert play(folder) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "error: --run: expected a new folder" in err
    assert f"the run of another command in {folder}; choose another folder" in err
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize("name", ["config.json", "record.json", "environment.json"])
def test_a_broken_file_is_named_in_one_line(tmp_path, capsys, name):
    folder = tmp_path / "demo"
    with Run.create(folder / "named", {"game": "colonel-blotto"}) as run:
        run.finish(Record("x"))
    (folder / "named" / name).write_text("{")
    assert play(folder) == 2
    error = capsys.readouterr().err
    assert f"error: {folder / 'named' / name}: expected JSON" in error
    assert error.count("\n") == 1


def test_a_demo_that_another_process_plays_is_refused(tmp_path, capsys):
    folder = tmp_path / "demo"
    with Run.create(folder / "named", {"game": "colonel-blotto"}):
        assert play(folder) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"equipoise: error: {folder / 'named'} is being written by")
    assert error.count("\n") == 1


def test_two_writers_of_one_run_are_one_line_for_every_verb(tmp_path):
    with Run.create(tmp_path / "run", {}), pytest.raises(CommandError) as error, refusing():
        Run.open(tmp_path / "run")
    assert f"{tmp_path / 'run'} is being written by process" in str(error.value)


@pytest.mark.slow
def test_ctrl_c_ends_a_real_demo_which_then_goes_on(tmp_path):
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "equipoise", "demo", "--run", str(folder), *SMALL]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    deadline = time.monotonic() + 120
    while not (folder / "named" / "record.json").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130
    assert error.splitlines()[-1] == "equipoise: interrupted"
    before = (folder / "named" / "record.json").read_bytes()
    assert play(folder) == 0
    assert (folder / "named" / "record.json").read_bytes() == before
