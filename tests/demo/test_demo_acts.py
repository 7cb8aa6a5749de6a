"""Acts share one folder in good order; what they play is tested with `equipoise demo`."""

import io
from contextlib import contextmanager

import pytest
from rich.console import Console

from equipoise.demo import ACTS, Settings, Stage, _stage
from equipoise.runs import Record, Run, progress


def test_the_bar_names_the_act_that_is_played_and_moves_inside_it(tmp_path, monkeypatch):
    seen = io.StringIO()
    console = Console(file=seen, force_terminal=True, width=120)
    bars = []

    @contextmanager
    def shown(description, total):
        with progress(description, total, console=console) as bar:
            moves = []
            bars.append((description, total, moves))
            advance = bar.advance
            bar.advance = lambda steps=1, **words: (moves.append(steps), advance(steps, **words))
            yield bar

    monkeypatch.setattr(_stage, "progress", shown)
    stage = Stage(tmp_path / "demo", Settings())
    with stage.open(ACTS[0]) as run:
        stage.play(ACTS[0], run)
    ((description, total, moves),) = bars
    assert (description, total) == ("Prologue", len(ACTS[0].steps))
    assert moves == [0, *[1] * total]
    assert "Prologue" in seen.getvalue()
    assert f"{total}/{total}" in seen.getvalue()


def test_an_act_that_was_played_is_read_without_a_bar(tmp_path, monkeypatch):
    stage = Stage(tmp_path / "demo", Settings())
    with Run.create(tmp_path / "demo" / "prologue", ACTS[0].config(Settings())) as run:
        run.finish(Record("kept"))
    monkeypatch.setattr(_stage, "progress", None)
    with stage.open(ACTS[0]) as run:
        assert stage.play(ACTS[0], run).name == "kept"


def test_a_complete_demo_of_other_settings_is_played_anew(tmp_path):
    """Also one of an older version; and after an interruption it goes on."""
    folder = tmp_path / "demo"
    for act in ACTS:
        with Run.create(folder / act.name, {"older": True}) as run:
            run.finish(Record("x"))
    (folder / "report.html").write_text("old")
    for settings in (Settings(seed=5), Settings(seed=5)):
        stage = Stage(folder, settings)
        assert not (folder / "report.html").exists()
    for act in ACTS:
        with stage.open(act) as run:
            assert not run.finished
            assert run.config == act.config(Settings(seed=5))
    with pytest.raises(ValueError, match=r"folder: expected an unfinished demo of the same.*seed"):
        Stage(folder, Settings(seed=6))
