"""The demo plays, resumes, and tells the truth about how it was done."""

import contextlib
import io
import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import equipoise as eq
from equipoise.cli import main
from equipoise.demo import ACTS, Settings, Stage
from equipoise.report import certificate_of, format_value
from equipoise.runs import Record, Run

SMALL = ["--games", "16", "--seed", "1"]


def play(folder):
    return main(["demo", "--run", str(folder), *SMALL])


@pytest.fixture(scope="module")
def solved():
    """The kinds of the games that the demo of `played` solved, in order."""
    return []


@pytest.fixture(scope="module")
def told():
    """The steps that each act of `played` told."""
    return {act.name: [] for act in ACTS}


@pytest.fixture(scope="module")
def played(solved, told, tmp_path_factory):
    """The folder of a demo, and what it printed on a terminal that is none."""
    folder, said = tmp_path_factory.mktemp("demo") / "runs", io.StringIO()
    errors, solve = io.StringIO(), eq.solve

    def counted(game, **options):
        solved.append(type(game))
        return solve(game, **options)

    def listened(play):
        def heard(act, config, run, tell):
            return play(act, config, run, lambda step: (told[act.name].append(step), tell(step)))

        return heard

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("equipoise.solve", counted)
        for act in ACTS:
            patch.setattr(type(act), "play", listened(type(act).play))
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            assert play(folder) == 0
    assert errors.getvalue() == ""  # no bar but on a terminal
    return folder, said.getvalue()


@pytest.fixture(scope="module")
def folder(played):
    return played[0]


def test_there_are_three_acts_after_the_prologue():
    assert [act.name for act in ACTS] == ["prologue", "in-context", "log", "crowd"]
    assert [act.heading.split()[0] for act in ACTS] == ["Prologue:", "Act", "Act", "Act"]


def test_every_act_leaves_a_run_with_a_certificate(folder):
    largest = {"prologue": 1e-8, "in-context": 0.5, "log": 0.08, "crowd": 1e-9}
    for act in ACTS:
        record = Record.load(folder / act.name)
        assert record.config == act.config(Settings(games=16, seed=1))
        certificate = certificate_of(record)
        assert certificate.exact
        assert certificate.concept == ("cce" if act.name == "log" else "nash")
        assert record.scalars["as announced"]
        assert certificate.max_upper.max() < largest[act.name]
        assert eq.certificates.solution_from_plain(record.solution).certificate == certificate
        sessions = json.loads((folder / act.name / "environment.json").read_text())["sessions"]
        assert len(sessions) == 1


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.name)
def test_an_act_tells_the_steps_it_announces_and_its_outcome_in_a_sentence(folder, told, act):
    assert tuple(told[act.name]) == act.steps
    assert len(act.steps) >= 2
    said = act.outcome(Record.load(folder / act.name))
    assert said.endswith(".")
    assert "\n" not in said
    assert len(said) < 250


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.name)
def test_three_lines_do_what_the_act_did(folder, act, capsys):
    record = Record.load(folder / act.name)
    first, *lines = act.code(record.config).splitlines()
    assert first == "import equipoise as eq"
    assert len(lines) == 3
    exec(act.code(record.config), {})
    printed = float(capsys.readouterr().out.split()[-1])
    gains = certificate_of(record).gains
    certified = gains.sum(-1).mean() if act.name == "in-context" else gains.max()
    assert printed == pytest.approx(certified, rel=1e-9, abs=1e-12)


def test_what_was_done_once_has_no_second_time(folder, tmp_path):
    records = {act.name: Record.load(folder / act.name) for act in ACTS}
    table = Stage(tmp_path / "new", Settings()).summary(records)
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
    assert html.count("largest gain of any player") == 4
    assert html.count("Nash equilibrium") == 3
    assert html.count("coarse correlated equilibrium") == 1
    assert "sample(16, key=1)" in html
    assert "equipoise demo --run" in html
    assert html.count("<svg") == 6


def test_every_act_prints_its_outcome_and_of_what_its_certificate_is(played):
    folder, said = played
    for act in ACTS:
        record = Record.load(folder / act.name)
        assert act.outcome(record) in " ".join(said.split())
        for line in act.code(record.config).splitlines():
            assert f"   >>> {line}\n" in said
    assert said.count("Certificate of a Nash equilibrium: ") == 3
    assert said.count("Certificate of a coarse correlated equilibrium: largest gain") == 1


def test_the_outcomes_are_those_of_the_records(folder):
    said = {act.name: act.outcome(Record.load(folder / act.name)) for act in ACTS}
    gaps = Record.load(folder / "in-context").tables["gaps"]
    ours, *learners = (format_value(value, 2) for value in gaps.column("after 256"))
    best = min(zip(gaps.column("after 256")[1:], learners, strict=True))[1]
    assert f"mean NashConv is {ours}, and the best learner's (" in said["in-context"]
    assert f" is {best}; mirror descent needs" in said["in-context"]
    critics = Record.load(folder / "log").tables["critics"]
    for gain in critics.column("largest gain in the true game"):
        assert format_value(gain, 2) in said["log"]
    equilibria = Record.load(folder / "crowd").tables["equilibria"]
    for reward in equilibria.column("mean reward"):
        assert format_value(reward, 3) in said["crowd"]


def test_programs_are_told_the_same(folder, tmp_path, capsys):
    known = shutil.copytree(folder, tmp_path / "demo")
    (known / "report.html").unlink()  # nothing is played again
    assert main(["demo", "--run", str(known), *SMALL, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["solved"] is True
    assert document["report"] == str(known / "report.html")
    concepts = [act["concept"] for act in document["acts"]]
    assert [concept.split()[0] for concept in concepts] == ["Nash", "Nash", "coarse", "Nash"]
    for act, told in zip(ACTS, document["acts"], strict=True):
        assert told["outcome"] == act.outcome(Record.load(known / act.name))


def test_the_value_found_is_the_published_one(folder):
    record = Record.load(folder / "prologue")
    assert float(record.solution["value"]) == pytest.approx(14 / 9, abs=1e-12)
    assert record.tables["gains"].rows[1][-1] > 0.1  # the uniform policies are no equilibrium


def test_the_player_is_ahead_of_every_learner_at_equal_rounds(folder):
    gaps = Record.load(folder / "in-context").tables["gaps"]
    ours, *others = gaps.rows
    assert ours[0] == "in-context player"
    for other in others:
        assert ours[-1] < other[-1] / 2


def test_only_the_critic_of_pairs_beats_the_log(folder):
    gains = dict(row[:2] for row in Record.load(folder / "log").tables["critics"].rows)
    shown = gains.pop("none: the play in the log")
    assert gains.pop("pairs (rank 2)") < shown / 3
    assert min(gains.values()) > shown / 2
    log = eq.offline.Log.read(folder / "log" / "log.npz")
    assert (log.agents, log.samples) == (20, 3000)


def test_the_choice_of_the_equilibrium_of_the_city_matters(folder):
    record = Record.load(folder / "crowd")
    best, worst, found = record.tables["equilibria"].rows
    assert [row[0] for row in (best, worst)] == ["best for society", "worst for society"]
    promised = max(best[-1], worst[-1])
    assert best[1] - worst[1] > 50 * promised
    assert worst[1] <= found[1] <= best[1]
    assert best[1] == pytest.approx(float(record.solution["value"][0]))
    # The days add up to what the solver says of the whole, and the map is of that same game.
    assert -record.arrays["cost/best for society"].sum() == pytest.approx(best[1], abs=1e-9)
    game = eq.games.load(record.config["game"], agents=100_000)
    for x, worth in zip(record.arrays["map/aggregate"], record.arrays["map/welfare"], strict=True):
        rewards = game.rewards(0, 0, x)
        assert rewards.min() <= worth <= rewards.max()
    assert len(record.arrays["map/welfare"]) == 3
    assert np.ptp(record.arrays["map/welfare"]) > 0.2
    assert certificate_of(record).players == 100_000


def test_the_runs_of_a_demo_make_a_report(folder, tmp_path):
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0
    html = (tmp_path / "page.html").read_text()
    assert "Certificates" in html
    assert html.count("<svg") >= 5


def test_the_acts_solve_no_more_than_they_must(played, solved):
    """The prologue solves twice, the first act once, the city three times."""
    assert solved == [eq.MatrixGame] * 3 + [eq.AggregativeMarkovGame] * 3


def test_an_unfinished_demo_goes_on_and_a_complete_one_starts_anew(folder, tmp_path, monkeypatch):
    records = {act.name: Record.load(folder / act.name) for act in ACTS}
    folder, acts = shutil.copytree(folder, tmp_path / "demo"), []

    def replay(act, config, run, tell):
        acts.append(act.name)
        return records[act.name]

    for act in ACTS:
        monkeypatch.setattr(type(act), "play", replay)
    first = json.loads((folder / "prologue" / "environment.json").read_text())["sessions"][0]
    (folder / "report.html").unlink()
    (folder / "crowd" / "record.json").unlink()
    assert play(folder) == 0
    assert acts == ["crowd"]  # the others were read
    acts.clear()
    assert play(folder) == 0
    assert acts == [act.name for act in ACTS]
    sessions = json.loads((folder / "prologue" / "environment.json").read_text())["sessions"]
    assert len(sessions) == 1
    assert sessions[0] != first


def refused(folder, capsys):
    """The one line of a demo that is refused before any act is played."""
    before = sorted(str(place) for place in folder.rglob("*"))
    assert play(folder) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert sorted(str(place) for place in folder.rglob("*")) == before
    return error


def test_an_unfinished_demo_with_other_settings_is_refused(tmp_path, capsys):
    folder = tmp_path / "demo"
    Run.create(folder / "in-context", {"players": "iid3", "games": 100, "seed": 1}).close()
    Record("x").save(folder / "in-context")
    error = refused(folder, capsys)
    assert "error: --run: expected an unfinished demo of the same settings" in error
    assert f"games (100, now 16) in {folder / 'in-context'}; choose another folder" in error


def test_an_unfinished_demo_of_another_version_is_refused(tmp_path, capsys):
    folder = tmp_path / "demo"
    Run.create(folder / "crowd", {"game": "demand-response", "agents": 100, "more": 1}).close()
    error = refused(folder, capsys)
    assert "game ('demand-response', now 'bus-or-car')" in error
    assert error.rstrip().endswith(f"choose another folder, or remove {folder}")


def test_the_run_folder_of_another_command_is_refused(tmp_path, capsys):
    folder = tmp_path / "r1"
    Run.create(folder, {"rounds": 3}).close()
    error = refused(folder, capsys)
    assert "error: --run: expected a new or empty folder, or that of a demo" in error
    assert "found config.json, environment.json, lock and 1 more in" in error
    assert error.rstrip().endswith(f"{folder}; choose another folder")


@pytest.mark.parametrize("name", ["notes.txt", "crowd/notes.txt", "matrix/config.json"])
def test_a_folder_with_foreign_files_is_refused(tmp_path, capsys, name):
    file = tmp_path / "mine" / name
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    error = refused(tmp_path / "mine", capsys)
    assert error.startswith("equipoise: error: --run: expected")
    assert error.rstrip().endswith("choose another folder")


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


def test_two_writers_of_one_run_are_one_line(tmp_path, capsys):
    command = ["play", "--row", "omd", "--rounds", "20", "--run", str(tmp_path / "run")]
    with Run.create(tmp_path / "run", {}):
        assert main(command) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'run'} is being written by process" in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_ctrl_c_ends_a_real_demo_which_then_goes_on(folder, tmp_path):
    played, folder = folder, tmp_path / "demo"
    command = [sys.executable, "-m", "equipoise", "demo", "--run", str(folder), *SMALL]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    while not (folder / "prologue" / "record.json").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 130
    assert error.splitlines()[-1] == "equipoise: interrupted"
    before = (folder / "prologue" / "record.json").read_bytes()
    for act in ACTS[1:]:  # which take long, and are played elsewhere
        shutil.rmtree(folder / act.name, ignore_errors=True)
        shutil.copytree(played / act.name, folder / act.name)
    assert play(folder) == 0
    assert (folder / "prologue" / "record.json").read_bytes() == before
