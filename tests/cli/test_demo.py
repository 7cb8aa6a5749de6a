"""The demo plays, resumes, and tells the truth about how it was done."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.cli._acts import ACTS, Settings
from equipoise.cli._errors import CommandError, refusing
from equipoise.cli._stage import _summary
from equipoise.runs import Record, Run

SMALL = ["--games", "16", "--seed", "1"]


def play(folder):
    return main(["demo", "--run", str(folder), *SMALL])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "runs"
    assert play(folder) == 0
    return folder


def test_there_are_three_acts_after_the_prologue():
    assert [act.name for act in ACTS] == ["prologue", "in-context", "log", "crowd"]
    assert [act.heading.split()[0] for act in ACTS] == ["Prologue:", "Act", "Act", "Act"]


def test_every_act_leaves_a_run_with_a_certificate(folder):
    largest = {"prologue": 1e-8, "in-context": 0.5, "log": 0.08, "crowd": 2e-3}
    for act in ACTS:
        record = Record.load(folder / act.name)
        assert record.config == act.config(Settings(games=16, seed=1))
        assert record.scalars["exact"]
        assert record.scalars["concept"] == ("cce" if act.name == "log" else "nash")
        assert record.arrays["solved"].all()
        assert record.arrays["gains"].max() < largest[act.name]
        sessions = json.loads((folder / act.name / "environment.json").read_text())["sessions"]
        assert len(sessions) == 1


def test_what_was_done_once_has_no_second_time(folder):
    records = {act.name: Record.load(folder / act.name) for act in ACTS}
    table = _summary(records)
    again = dict(zip(table.column("act"), table.column("again, s"), strict=True))
    assert (again["Act two"], again["Act three"]) == (None, None)
    assert again["Prologue"] == records["prologue"].scalars["seconds"]
    assert table.column("first call, s")[2] == records["log"].scalars["seconds"]
    assert table.column("first call, s")[0] == records["prologue"].scalars["first_seconds"]
    assert "None" not in (folder / "report.html").read_text()


def test_the_page_tells_the_story_with_certificates_and_code(folder):
    html = (folder / "report.html").read_text()
    for act in ACTS:
        assert act.heading in html
    assert html.count("largest gain of anybody") == 4
    assert "sample(16, key=1)" in html
    assert "equipoise demo --run" in html
    assert html.count("<svg") == 6


@pytest.mark.parametrize("act", ACTS, ids=[act.name for act in ACTS])
def test_the_lines_shown_do_what_the_act_did(folder, act, capsys):
    record = Record.load(folder / act.name)
    exec(act.code(record.config), {})
    printed = float(capsys.readouterr().out.split()[-1])
    gains = record.arrays["gains"]
    certified = gains.sum(-1).mean() if act.name == "in-context" else gains.max()
    assert printed == pytest.approx(certified, rel=1e-6, abs=1e-8)
    assert len(act.code(record.config).splitlines()) <= 5


def test_the_value_found_is_the_published_one(folder):
    record = Record.load(folder / "prologue")
    assert float(record.arrays["value"]) == pytest.approx(14 / 9, abs=1e-12)
    assert record.tables["gains"].rows[1][-1] > 0.1  # playing everything alike is no equilibrium


def test_the_player_is_ahead_of_every_learner_at_equal_rounds(folder):
    gaps = Record.load(folder / "in-context").tables["gaps"]
    ours, *others = gaps.rows
    assert ours[0] == "in-context player"
    for other in others:
        assert ours[-1] < other[-1] / 2


def test_only_the_critic_of_pairs_beats_the_log(folder):
    gains = dict(row[:2] for row in Record.load(folder / "log").tables["critics"].rows)
    shown = gains.pop("none: what the log shows")
    assert gains.pop("pairs (rank 2)") < shown / 3
    assert min(gains.values()) > shown / 2
    log = eq.offline.Log.read(folder / "log" / "log.npz")
    assert (log.agents, log.samples) == (20, 3000)


def test_the_best_equilibrium_of_the_city_is_the_best(folder):
    record = Record.load(folder / "crowd")
    welfare = dict(row[:2] for row in record.tables["equilibria"].rows)
    assert welfare["worst for society"] < welfare["least regret"] < welfare["best for society"]
    assert len(record.arrays["gains"]) == 100_000
    assert len(record.arrays["map/welfare"]) == 3


def test_the_runs_of_a_demo_make_a_report(folder, tmp_path):
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0
    html = (tmp_path / "page.html").read_text()
    assert "Certificates" in html
    assert html.count("<svg") >= 5


@pytest.mark.slow
def test_an_unfinished_demo_goes_on_and_a_complete_one_starts_anew(folder, tmp_path, monkeypatch):
    folder = shutil.copytree(folder, tmp_path / "demo")
    first = json.loads((folder / "prologue" / "environment.json").read_text())["sessions"][0]
    (folder / "report.html").unlink()
    (folder / "crowd" / "record.json").unlink()
    solved = []
    solve = eq.solve
    monkeypatch.setattr(
        "equipoise.solve", lambda game, **options: (solved.append(game), solve(game, **options))[1]
    )
    assert play(folder) == 0
    assert {type(game) for game in solved} == {eq.AggregativeMarkovGame}  # the others were read
    solved.clear()
    assert play(folder) == 0
    assert len(solved) == 6  # the prologue solves twice, the first act once, the city three times
    sessions = json.loads((folder / "prologue" / "environment.json").read_text())["sessions"]
    assert len(sessions) == 1
    assert sessions[0] != first


def test_an_unfinished_demo_with_other_settings_is_refused(tmp_path, capsys):
    folder = tmp_path / "demo"
    Run.create(folder / "in-context", {"players": "iid3", "games": 100, "seed": 1}).close()
    Record("x").save(folder / "in-context")
    assert play(folder) == 2
    error = capsys.readouterr().err
    assert "games (100, now 16); choose another folder" in error
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
    with Run.create(folder / "prologue", {"game": "colonel-blotto"}) as run:
        run.finish(Record("x"))
    (folder / "prologue" / name).write_text("{")
    assert play(folder) == 2
    error = capsys.readouterr().err
    assert f"error: {folder / 'prologue' / name}: expected JSON" in error
    assert error.count("\n") == 1


def test_a_demo_that_another_process_plays_is_refused(tmp_path, capsys):
    folder = tmp_path / "demo"
    with Run.create(folder / "prologue", {"game": "colonel-blotto"}):
        assert play(folder) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"equipoise: error: {folder / 'prologue'} is being written by")
    assert error.count("\n") == 1


def test_two_writers_of_one_run_are_one_line_for_every_verb(tmp_path):
    with Run.create(tmp_path / "run", {}), pytest.raises(CommandError) as error, refusing():
        Run.open(tmp_path / "run")
    assert f"{tmp_path / 'run'} is being written by process" in str(error.value)


@pytest.mark.slow
def test_ctrl_c_ends_a_real_demo_which_then_goes_on(folder, tmp_path):
    played, folder = folder, tmp_path / "demo"
    command = [sys.executable, "-m", "equipoise", "demo", "--run", str(folder), *SMALL]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    deadline = time.monotonic() + 120
    while not (folder / "prologue" / "record.json").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130
    assert error.splitlines()[-1] == "equipoise: interrupted"
    before = (folder / "prologue" / "record.json").read_bytes()
    for act in ACTS[1:]:  # which take long, and are played elsewhere
        shutil.rmtree(folder / act.name, ignore_errors=True)
        shutil.copytree(played / act.name, folder / act.name)
    assert play(folder) == 0
    assert (folder / "prologue" / "record.json").read_bytes() == before
