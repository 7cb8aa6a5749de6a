"""The records kept with the documentation are whole, and are those that one command makes."""

import shutil
from pathlib import Path

import pytest

from equipoise.core.plain import read_json
from equipoise.runs import Record
from reproduction import FIGURES, PAPERS

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"


def names(figure):
    return f"{figure.paper}-{figure.name}"


@pytest.mark.parametrize("figure", FIGURES, ids=names)
def test_every_figure_is_kept_in_full(figure, tmp_path):
    kept = FOLDER / figure.paper / figure.name
    shutil.copytree(kept, tmp_path / "run")
    # Another config than that of the full scale would be refused.
    record, known = figure.run(tmp_path / "run", "full")
    assert known
    assert record.tables
    assert (kept / f"{figure.name}.png").stat().st_size > 10_000


@pytest.mark.parametrize("figure", FIGURES, ids=names)
def test_the_machine_the_command_and_the_seconds_are_kept(figure):
    environment = read_json(FOLDER / figure.paper / figure.name / "environment.json", "sessions")
    assert environment["seconds"] > 0
    for session in environment["sessions"]:
        assert session["command"][0] in ("equipoise", "python")
        assert session["machine"]


def test_nothing_else_is_kept():
    kept = {path.parent.relative_to(FOLDER) for path in FOLDER.glob("*/*/record.json")}
    assert kept == {Path(figure.paper, figure.name) for figure in FIGURES}
    assert {path.parts[0] for path in kept} == set(PAPERS)


def test_weights_that_are_counted_are_those_that_were_trained():
    counted = Record.load(FOLDER / "interaction-rank" / "1").tables["networks"]
    for figure in ("3", "4"):
        gaps = Record.load(FOLDER / "interaction-rank" / figure).tables["gaps"]
        trained = dict(zip(gaps.column("critic"), gaps.column("parameters"), strict=True))
        for name, weights in zip(counted.column("critic"), counted.column("weights"), strict=True):
            assert trained[name] == weights
