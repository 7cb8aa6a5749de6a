"""`equipoise play`: the table, the run folder, going on, and wrong input."""

import json

import numpy as np
import pytest

from equipoise.cli import main
from equipoise.runs import Record

SMALL = ["--rounds", "300", "--games", "4"]


def play(folder, *arguments):
    return main(["play", "--out", str(folder), *SMALL, *arguments])


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


def test_a_stopped_run_goes_on_to_the_same_result(capsys, tmp_path):
    """Cut back to its second checkpoint, as if it had been killed after it."""
    assert play(tmp_path / "whole") == 0
    assert play(tmp_path / "cut") == 0
    folder = tmp_path / "cut"
    for name in ("record.json", "record.npz", "checkpoints/000000000300.npz"):
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
        (["--rounds", "1.5"], "--rounds: expected a whole number"),
        (["--states", "2", "--row", "exp3-ix"], "learner: expected for Markov games"),
        (["--games", "0"], "games: expected a whole number"),
    ],
)
def test_wrong_input_is_told_in_a_line(capsys, tmp_path, arguments, complaint):
    assert main(["play", "--out", str(tmp_path / "run"), *arguments]) == 2
    assert complaint in capsys.readouterr().err
