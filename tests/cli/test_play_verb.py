"""`equipoise play`: the table, the run folder, going on, and wrong input."""

import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import equipoise as eq
from equipoise import dynamics
from equipoise.cli import main
from equipoise.cli._parsing import parse
from equipoise.cli.play import names
from equipoise.report import certificate_of
from equipoise.report._pictures import pictures_of
from equipoise.runs import Record

SMALL = ["--rounds", "300", "--games", "4", "--row", "omd"]


def play(folder, *arguments):
    return main(["play", "--run", str(folder), *SMALL, *arguments])


def test_the_table_is_printed_and_the_run_written(capsys, tmp_path):
    assert play(tmp_path / "run", "--row", "omd", "--column", "exp3-ix") == 0
    out = capsys.readouterr().out
    assert "omd against exp3-ix" in out
    assert "col. regret" in out
    record = Record.load(tmp_path / "run")
    assert record.arrays["rounds"].tolist() == [100, 177, 300]
    assert (record.arrays["gap"] < record.scalars["uniform"] * 1.5).all()
    rows = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["step"] for row in rows] == [100, 177, 300]


def test_the_run_folder_has_a_page_which_is_not_made_again(capsys, tmp_path):
    page = tmp_path / "run" / "report.html"
    assert play(tmp_path / "run") == 0
    assert str(page) in "".join(capsys.readouterr().out.split())
    assert "Curves of NashConv" in page.read_text()
    page.write_text("mine")
    assert play(tmp_path / "run") == 0
    assert page.read_text() == "mine"
    page.unlink()  # as a folder of an older version has none
    assert play(tmp_path / "run") == 0
    assert "Curves of NashConv" in page.read_text()


def test_the_drawn_path_begins_at_the_first_round_and_says_of_which_game(capsys, tmp_path):
    assert play(tmp_path / "run", "--column", "uniform") == 0
    record = Record.load(tmp_path / "run")
    rounds, path = record.arrays["path_rounds"], record.arrays["path"]
    assert rounds[0] == 1
    assert rounds[-3:].tolist() == [100, 177, 300]
    assert len(rounds) == len(path) >= 15
    assert (np.diff(rounds) > 0).all()
    np.testing.assert_allclose(path.sum(1), 1.0)
    gap = record.scalars["drawn"]["gap"]
    assert gap == pytest.approx(certificate_of(record).gains[0].sum())
    (picture,) = pictures_of(Record.load(tmp_path / "run"))
    for text in (picture.alt, picture.caption):
        assert "row (omd) against uniform in game 0 of 4" in text
        assert f"{gap:.3g}" in text
    games = dynamics.SelfPlay(games=4).sample()
    assert record.arrays["nash"] == pytest.approx(eq.solve(games[0]).policy[0])


def test_the_early_path_is_that_of_the_same_play(tmp_path):
    short = dynamics.self_play(dynamics.SelfPlay(rounds=13, games=4), tmp_path / "short")
    long = dynamics.self_play(dynamics.SelfPlay(rounds=100, games=4), tmp_path / "long")
    place = long.arrays["path_rounds"].tolist().index(13)
    np.testing.assert_array_equal(short.arrays["path"][-1], long.arrays["path"][place])


def test_a_stopped_run_goes_on_to_the_same_result(capsys, tmp_path):
    """Cut back to its last checkpoint, as if it had been killed after it."""
    assert play(tmp_path / "whole") == 0
    assert play(tmp_path / "cut") == 0
    folder = tmp_path / "cut"
    for name in ("record.json", "record.npz"):
        (folder / name).unlink()
    assert play(folder) == 0
    whole, cut = Record.load(tmp_path / "whole"), Record.load(folder)
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(array, cut.arrays[name])
    capsys.readouterr()


def test_markov_games_are_played(capsys, tmp_path):
    assert play(tmp_path / "run", "--states", "2", "--column", "uniform") == 0
    assert "regret" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        *((["--rounds", r], "--rounds: expected a whole") for r in ("0", "3e9", "1e20")),
        (["--discount", "0.5"], "--discount: expected this option only with --states"),
        (["--concentration", "0.1"], "--concentration: expected this option only with --states"),
        (["--row", "best-responder"], "column: expected a learner"),
        (["--states", "2", "--row", "exp3-ix"], "--row: expected for Markov games"),
        (["--games", "0"], "games: expected a whole number"),
        (
            ["--row", "any", "--rounds", "1e5"],
            "found 'any', which plays at most 1,024; use 'guarded",
        ),
        (["--row", "any", "--actions", "7"], "--row: expected players for 7 x 7 actions"),
        (["--row", "any", "--states", "2"], "found 'any', which is for matrix games with 2 to 6"),
        (["--column", "markov"], "--column: expected players for 3 x 3 actions, found"),
        (["--states", "2", "--row", "markov", "--rounds", "2e9"], "use a learner such as 'omd' or"),
        (["--states", "2", "--row", "guarded:markov"], "--row: expected players without a guard"),
        (["--row", "anny"], "did you mean any?"),
        (["--row", "guarded:omd"], "--row: expected a folder with players.json in it"),
    ],
)
def test_wrong_input_is_told_in_a_line(capsys, tmp_path, arguments, complaint):
    assert main(["play", "--run", str(tmp_path / "run"), *arguments]) == 2
    message = capsys.readouterr().err
    assert complaint in message
    assert message.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("rounds", ["1.5", "nan", "inf", "few", ""])  # an optional count
def test_counts_are_whole_numbers(capsys, tmp_path, rounds):
    assert main(["play", "--run", str(tmp_path / "run"), f"--rounds={rounds}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"Error parsing --rounds: expected a whole number, found {rounds!r}" in err
    assert not (tmp_path / "run").exists()


def test_a_finished_run_is_read_and_said_to_be(capsys, tmp_path):
    assert play(tmp_path / "run") == 0
    assert "finished earlier" not in " ".join(capsys.readouterr().out.split())
    assert play(tmp_path / "run") == 0
    assert "finished earlier" in " ".join(capsys.readouterr().out.split())


def strict(text):
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(constant):
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


def test_json_is_strict_and_alone(capsys, tmp_path):
    assert play(tmp_path / "run", "--json") == 0
    first = strict(capsys.readouterr().out)
    assert (first["finished"], first["read_from_disk"], first["rounds"]) == (True, False, 300)
    assert first["curve"]["rounds"] == [100, 177, 300]
    assert first["curve"]["gap"] == Record.load(tmp_path / "run").arrays["gap"].tolist()
    assert play(tmp_path / "run", "--json") == 0
    again = strict(capsys.readouterr().out)
    assert again == first | {"read_from_disk": True}


@pytest.mark.parametrize("arguments", [[], ["--states", "2"]])
def test_the_last_policies_are_certified(capsys, tmp_path, arguments):
    folder, page = tmp_path / "run", tmp_path / "page.html"
    assert play(folder, "--json", *arguments) == 0
    document = strict(capsys.readouterr().out)
    certificate = document["certificate"]
    assert certificate["exact"]
    assert np.shape(certificate["gains"]) == (4, 2)
    assert "gains" not in document["curve"]
    if not arguments:  # a Markov gap is that of one state, and gains are those of the worst
        assert np.mean(certificate["nash_conv"]) == pytest.approx(document["curve"]["gap"][-1])
    assert play(folder, *arguments) == 0
    assert "largest gain, certified" in capsys.readouterr().out
    assert main(["report", str(folder), "--out", str(page)]) == 0
    shown = page.read_text()
    assert "Certificates" in shown
    assert certificate["method"] in shown


def test_discount_and_concentration_reach_the_games(capsys, tmp_path):
    options = ["--states", "2", "--discount", "0.5", "--concentration", "0.1", "--json"]
    assert play(tmp_path / "run", *options) == 0
    config = strict(capsys.readouterr().out)["config"]
    assert (config["discount"], config["concentration"]) == (0.5, 0.1)


@pytest.mark.parametrize(("flag", "names"), [("--row", names()), ("--noise", dynamics.NOISES)])
def test_learners_and_noises_are_called_as_in_python(capsys, flag, names):
    for name in names:
        assert main(["play", flag, name, "--print-config"]) == 0
        assert f'{flag[2:]} = "{name}"' in capsys.readouterr().out
    assert main(["play", flag, "nobody"]) == 2
    said = capsys.readouterr().err
    assert all(name in said for name in names)


def test_ctrl_c_keeps_what_was_played(tmp_path):
    """A run of hours ends soon after Ctrl-C, says how far it came, and left a checkpoint."""
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "equipoise", "play", "--run", str(folder)]
    process = subprocess.Popen(
        [*command, "--rounds", "2e9", "--games", "64"],  # too many rounds for pre-trained players
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = folder / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text().count("\n") >= 6):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "omd against omd" in out
    assert "562" in out
    assert "of 2,000,000,000 rounds, now saved" in err
    assert "same command again" in err
    kept = max(int(file.stem) for file in (folder / "checkpoints").glob("*.npz"))
    assert f"interrupted after {kept:,} of" in err


def test_ctrl_c_before_the_first_game_says_that_nothing_is_finished(
    capsys, tmp_path, trained, monkeypatch
):
    def at_once(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("equipoise.dynamics._self_play.play", at_once)
    words = ["play", *TINY, "--row", trained, "--rounds", "16", "--run", str(tmp_path / "run")]
    assert main(words) == 130
    out, err = capsys.readouterr()
    assert "against" not in out
    assert "interrupted before any of the 3 games was finished; to resume" in err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder of players of 2 x 2 games, who were trained for matches of 16 rounds."""
    folder = tmp_path_factory.mktemp("players")
    config = eq.incontext.Config(rounds=16, layers=1, width=8, hidden=8, seeds=2)
    family = eq.games.families.uniform(actions=2)
    eq.incontext.save(eq.incontext.initial_players(family, config, key=0), folder, config, family)
    return str(folder)


TINY = ["--actions", "2", "--games", "3"]


def test_players_of_a_folder_are_seated_beside_mirror_descent(capsys, tmp_path, trained):
    folder = tmp_path / "run"
    words = ["play", *TINY, "--row", trained, "--column", "omd", "--rounds", "16"]
    assert main([*words, "--run", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "against omd" in " ".join(out.split())
    assert "of OMD" in out
    record = Record.load(folder)
    games = dynamics.SelfPlay(actions=2, games=3).sample()
    players, omd = eq.incontext.load(trained)[0], dynamics.OMD()
    expected = dynamics.play(games, players, omd, rounds=16, key=1)
    np.testing.assert_array_equal(certificate_of(record).nash_conv, expected.curve[-1])
    assert record.arrays["gap"] == pytest.approx(expected.curve.mean(1))
    alone = dynamics.play(games, omd, omd, rounds=16, key=1)
    assert record.arrays["omd_gap"] == pytest.approx(alone.curve.mean(1))
    assert (folder / "report.html").exists()
    assert main([*words, "--run", str(folder), "--json"]) == 0
    document = strict(capsys.readouterr().out)
    assert (document["finished"], document["read_from_disk"], document["games"]) == (True, True, 3)


def test_guarded_players_play_on(capsys, tmp_path, trained):
    words = ["play", *TINY, "--run", str(tmp_path / "run"), "--rounds", "200"]
    assert main([*words, "--row", trained]) == 2
    assert f"use 'guarded:{trained}'" in capsys.readouterr().err
    assert main([*words, "--row", f"guarded:{trained}", "--json"]) == 0
    assert strict(capsys.readouterr().out)["curve"]["rounds"] == [100, 177, 200]


def test_other_players_in_the_same_folder_are_another_run(capsys, tmp_path, trained, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["play", *TINY, "--row", "players", "--rounds", "4", "--json"]
    shutil.copytree(trained, "players")
    assert main(words) == 0
    config = eq.incontext.Config(rounds=16, layers=1, width=8, hidden=8)
    family = eq.games.families.uniform(actions=2)
    other = eq.incontext.initial_players(family, config, key=1)
    eq.incontext.save(other, "players", config, family)
    capsys.readouterr()
    assert main(words) == 0
    document = strict(capsys.readouterr().out)
    assert (document["read_from_disk"], document["folder"]) == (False, "runs/play-2")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ("any", "any", 1000, 32)),
        ("--states 3", ("markov", "markov", 1000, 32)),
        ("--column omd", ("any", "omd", 1000, 32)),
        ("--rounds 1e5", ("omd", "omd", 100_000, 256)),
        ("--actions 7", ("omd", "omd", 100_000, 256)),
        ("--row exp3-ix", ("exp3-ix", "exp3-ix", 100_000, 256)),
        ("--row guarded:any", ("guarded:any", "guarded:any", 100_000, 32)),
        ("--actions 5 --row iid5", ("iid5", "iid5", 256, 32)),
    ],
)
def test_the_defaults_are_those_of_the_help(words, expected):
    config, players = parse("play", words.split())._seated()
    assert (config.row, config.column, config.rounds, config.games) == expected
    assert set(players) == set(expected[:2]) - set(dynamics.LEARNERS)


def test_players_of_a_folder_play_as_long_as_they_were_trained(trained):
    config, _ = parse("play", ["--actions", "2", "--row", trained, "--column", "omd"])._seated()
    assert config.rounds == 16
