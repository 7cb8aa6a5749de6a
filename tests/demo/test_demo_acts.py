"""Acts tell what they do, show three lines that do it, and share one folder in good order."""

import io
from contextlib import contextmanager

import pytest
from rich.console import Console

from equipoise.demo import ACTS, Settings, Stage, _stage
from equipoise.report import certificate_of
from equipoise.runs import Record, Run, progress

#: Each act at a size of a second or two.
SMALL = {
    "prologue": {},
    "in-context": {"games": 4},
    "log": {"agents": 5, "rows": 600},
    "crowd": {"agents": 900},
}


@pytest.fixture(params=ACTS, ids=[act.name for act in ACTS], scope="module")
def small(request, tmp_path_factory):
    """An act, the record of playing it at a small size, and what it told meanwhile."""
    act, told = request.param, []
    config = act.config(Settings(seed=2)) | SMALL[act.name]
    with Run.create(tmp_path_factory.mktemp("act") / "run", config) as run:
        return act, act.play(config, run, told.append), told


def test_an_act_tells_the_steps_it_announces(small):
    act, _, told = small
    assert tuple(told) == act.steps
    assert len(told) >= 2


def test_three_lines_do_what_the_act_did(small, capsys):
    act, record, _ = small
    first, *lines = act.code(record.config).splitlines()
    assert first == "import equipoise as eq"
    assert len(lines) == 3
    exec(act.code(record.config), {})
    printed = float(capsys.readouterr().out.split()[-1])
    gains = certificate_of(record).gains
    certified = gains.sum(-1).mean() if act.name == "in-context" else gains.max()
    assert printed == pytest.approx(certified, rel=1e-9, abs=1e-12)


def test_an_outcome_is_one_short_sentence(small):
    act, record, _ = small
    said = act.outcome(record)
    assert said.endswith(".")
    assert "\n" not in said
    assert len(said) < 250


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
