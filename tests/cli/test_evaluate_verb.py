"""`equipoise evaluate`: the tables, the folder, and wrong input."""

import json

import numpy as np
import pytest

from equipoise import incontext
from equipoise.cli import main
from equipoise.games import families
from equipoise.incontext import _evaluated, evaluation
from equipoise.runs import Record

SMALL = ["--games", "4", "--rounds", "32", "--search", "20", "--opponent-games", "2"]


@pytest.fixture(scope="module")
def players(tmp_path_factory):
    folder = tmp_path_factory.mktemp("players")
    config = incontext.Config(rounds=8, layers=1, heads=2, width=8, hidden=8)
    family = families.uniform(2)
    made = incontext.initial_players(family, config, key=0)
    incontext.save(made, folder, config, family)
    return folder


def measured(players, games, rounds, key, **more):
    """What an evaluation finds, made up."""
    stops, count = np.array(sorted({min(16, rounds), rounds})), len(games)
    gaps = {name: np.full((1, len(stops), count), gap) for name, gap in CURVES.items()}
    return _evaluated.record_of(
        {"rounds": rounds, "games": count, "seeds": 1, "search": more["search"]},
        stops,
        gaps,
        {"uniform": np.full(count, 0.3), "best static": np.full(count, 0.29)},
        {"OMD": (None, np.array([[more["search"], 0.2]]))},
        {"OMD": np.full((count, rounds), 0.25)},
        {("best responder", "row"): 2 * [np.full((count, rounds), -0.01)]},
    )


CURVES = {"in-context players": 0.1, "OMD": 0.2, "EXP3-IX, average": 0.25}


def test_tables_are_printed_and_kept(capsys, tmp_path, players, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("equipoise.incontext.evaluation.evaluate", measured)
    folder = tmp_path / "run"
    command = ["evaluate", str(players), *SMALL, "--run", str(folder)]
    assert main(command) == 0
    out = capsys.readouterr().out
    for words in ("in-context players", "EXP3-IX, average", "best responder", "more than 20"):
        assert words in out
    record = Record.load(folder)
    assert record.config["rounds"] == 32
    assert record.arrays["gap/players"].shape == (1, 2, 4)
    page = (folder / "report.html").read_text()
    assert "Evaluation of in-context players" in page
    assert "To reproduce this page" in page
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["scalars"]["gap"] == pytest.approx(0.1)
    assert document["scalars"]["beaten_at_every_round"] == [
        *("OMD", "EXP3-IX, average", "uniform", "best static")
    ]
    assert list(document["tables"]["gap"][0]) == ["who", "16", "32"]


def test_what_was_done_before_an_interruption_is_kept(capsys, tmp_path, players, monkeypatch):
    def interrupted(*_, run, **more):
        if run is not None:
            run.checkpoint(1, {"found": 0.5})
        raise KeyboardInterrupt

    folder = tmp_path / "run"
    command = ["evaluate", str(players), *SMALL, "--run", str(folder)]
    with monkeypatch.context() as patch:
        patch.setattr("equipoise.incontext.evaluation.evaluate", interrupted)
        assert main(command) == 130
        assert f"saved in {folder}; to resume, run the same command" in capsys.readouterr().err
        assert main(command[:-2]) == 130
        assert capsys.readouterr().err == "equipoise: interrupted\n"

    def goes_on(*given, run, **more):
        assert run.restore({"found": 0.0}) == {"found": 0.5}
        return measured(*given, **more)

    monkeypatch.setattr("equipoise.incontext.evaluation.evaluate", goes_on)
    assert main(command) == 0
    assert (folder / "report.html").exists()


def test_the_unit_of_markov_gaps_is_told(capsys, monkeypatch):
    monkeypatch.setattr("equipoise.incontext.evaluation.evaluate", measured)
    for name, told in (("markov3", True), ("iid3", False)):
        assert main(["evaluate", name, "--games", "2"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert ("gains are discounted sums, each player's from its worst state" in shown) == told


@pytest.mark.parametrize(("name", "rounds"), [(None, 8), ("iid3", 256)])
def test_rounds_are_those_of_training_but_not_too_many(capsys, monkeypatch, players, name, rounds):
    monkeypatch.setattr("equipoise.incontext.evaluation.evaluate", measured)
    assert main(["evaluate", name or str(players), "--games", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["rounds"] == rounds


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nobody"], "expected a folder with players.json"),
        (["PLAYERS", "--search", "0"], "--search: expected a whole number"),
        (["PLAYERS", "--seed", "-1"], "--seed: expected a number"),
        (["PLAYERS", "--games", "0"], "games: expected a whole number"),
    ],
)
def test_wrong_input_is_told_in_a_line(capsys, players, arguments, complaint):
    arguments = [str(players) if word == "PLAYERS" else word for word in arguments]
    assert main(["evaluate", *arguments]) == 2
    message = capsys.readouterr().err
    assert complaint in message
    assert message.count("\n") == 1


def test_ctrl_c_without_a_folder_shows_what_is_finished(capsys, players, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    measure, done = evaluation._Evaluation.advance, []

    def until_static(work, found, step, until):
        if work.parts[step][0] == work._certify_static:
            raise KeyboardInterrupt
        done.append(step)
        return measure(work, found, step, until)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation._Evaluation, "advance", until_static)
        assert main(["evaluate", str(players), *SMALL]) == 130
        assert main(["evaluate", str(players), *SMALL, "--json"]) == 130
    first = len(done) // 2
    out, err = capsys.readouterr()
    assert first == 1 + len(evaluation.bandit_learners(families.uniform(2).sample(key=0), 8))
    assert err.splitlines()[0] == (
        "equipoise: interrupted; the tables show what was finished, 4 games"
    )
    assert out.count("Mean NashConv of the last policies") == 1  # nothing on stdout with --json
    for words in ("in-context players", "EXP3-IX, average", "final NashConv"):
        assert words in out
    for words in ("uniform", "best responder", "Rounds that mirror descent needs"):
        assert words not in out

    def before_the_learners(work, found, step, until):
        if step:
            raise KeyboardInterrupt
        return measure(work, found, step, until)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation._Evaluation, "advance", before_the_learners)
        assert main(["evaluate", str(players), *SMALL]) == 130
    out, _ = capsys.readouterr()
    assert "final NashConv" in out
    assert "larger NashConv at every round" not in out

    def at_once(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation._Evaluation, "advance", at_once)
    assert main(["evaluate", str(players), *SMALL]) == 130
    assert capsys.readouterr() == ("", "equipoise: interrupted\n")
