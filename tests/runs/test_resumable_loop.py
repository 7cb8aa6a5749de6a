"""The one resumable loop: pieces, interruptions and resuming leave no trace in the result."""

import os
import signal

import numpy as np
import pytest

from equipoise.runs import Run, _loop, read_metrics, resumable


@pytest.fixture(autouse=True)
def _heard():
    """Python hears Ctrl-C, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Walk:
    """A random walk whose every step depends on the state alone; may press Ctrl-C."""

    def __init__(self, stop_at=None, fail_at=None):
        self.pieces, self.stop_at, self.fail_at = [], stop_at, fail_at

    def __call__(self, state, step, until):
        self.pieces.append((step, until))
        for _ in range(step, until):
            state = {"x": state["x"] * 1.1 + 0.3, "steps": state["steps"] + 1}
        if self.stop_at is not None and until >= self.stop_at:
            os.kill(os.getpid(), signal.SIGINT)
        if self.fail_at is not None and until >= self.fail_at:
            raise RuntimeError("killed")
        return state, {"x": state["x"]}


START = {"x": np.float64(0.0), "steps": 0}


def test_a_run_that_was_stopped_and_one_that_failed_end_with_the_same_bits(tmp_path):
    whole = resumable(None, START, Walk(), 40, name="walking")
    assert (whole.step, whole.stopped, whole.state["steps"]) == (40, False, 40)
    with Run.start(tmp_path / "whole", {}) as run:
        assert resumable(run, START, Walk(), 40, name="walking").state == whole.state
    with Run.start(tmp_path / "run", {}) as run:
        first = resumable(run, START, Walk(stop_at=7), 40, name="walking")
        assert (first.step, first.stopped) == (7, True)
        assert run.step == 7  # what was done is kept
    with Run.start(tmp_path / "run", {}) as run, pytest.raises(RuntimeError, match="killed"):
        resumable(run, START, Walk(fail_at=23), 40, name="walking")
    with Run.start(tmp_path / "run", {}) as run:
        assert 7 <= run.step < 23
        last = resumable(run, START, Walk(), 40, name="walking")
    assert (last.state, last.step, last.stopped) == (whole.state, 40, False)
    rows = read_metrics(tmp_path / "run")
    assert rows == read_metrics(tmp_path / "whole")
    assert [row["step"] for row in rows] == list(range(1, 41))


@pytest.mark.parametrize(
    ("marks", "expected"),
    [(None, [4, 8, 10]), (6, [6, 10]), ([3, 7], [3, 7, 10])],
)
def test_metrics_are_logged_at_marks_alone(tmp_path, marks, expected):
    walk = Walk()
    with Run.start(tmp_path / "run", {}) as run:
        resumable(run, START, walk, 10, name="walking", stride=4, marks=marks)
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == expected
    assert [until for _, until in walk.pieces][-1] == 10
    assert all(until - step <= 4 for step, until in walk.pieces)


def test_only_marks_are_resumed_from_where_no_other_place_is_one(tmp_path):
    with Run.start(tmp_path / "run", {}) as run:
        options = {"name": "walking", "marks": 5, "anywhere": False}
        first = resumable(run, START, Walk(stop_at=8), 20, **options)
        assert (first.step, run.step) == (8, 5)
        assert resumable(run, START, Walk(), 20, **options).state["steps"] == 20
        assert run.step == 20


def test_ctrl_c_keeps_the_last_mark_although_no_checkpoint_was_due(tmp_path, monkeypatch):
    monkeypatch.setattr(_loop, "CHECKPOINT_SHARE", 1e-9)  # none but the first and the last
    total, walk = np.zeros(1), Walk(stop_at=23)

    def advance(state, step, until):  # in place, as learners do
        state["total"] += until - step
        walk(START, step, until)
        return state, {}

    options = {"name": "counting", "marks": 5, "anywhere": False}
    with Run.start(tmp_path / "run", {}, keep=9) as run:
        first = resumable(run, {"total": total}, advance, 40, **options)
        assert (first.step, first.stopped, run.step) == (23, True, 20)
        assert run.restore({"total": total})["total"] == 20
    names = sorted(path.stem for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert [int(name) for name in names] == [5, 20]


def test_a_rule_ends_the_loop_and_the_end_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(_loop, "CHECKPOINT_SHARE", 1e-9)  # none but the first and the last
    with Run.start(tmp_path / "run", {}, keep=9) as run:
        found = resumable(
            run, START, Walk(), 50, name="walking", ended=lambda state: state["steps"] >= 9
        )
        assert (found.step, found.stopped, run.step) == (9, False, 9)
    names = sorted(path.stem for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert [int(name) for name in names] == [1, 9]


def test_a_loop_that_is_over_does_nothing(tmp_path):
    with Run.start(tmp_path / "run", {}) as run:
        resumable(run, START, Walk(), 5, name="walking")
        walk = Walk()
        assert resumable(run, START, walk, 5, name="walking").state["steps"] == 5
        assert walk.pieces == []


def paced(seconds_each, look, first, total, marks=None):
    """The lengths of the pieces of work that takes so many seconds a step."""
    clock, made = [0.0], []

    def advance(state, step, until):
        made.append(until - step)
        clock[0] += (until - step) * seconds_each(len(made))
        return state, {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("equipoise.runs._loop.time.monotonic", lambda: clock[0])
        resumable(None, 0, advance, total, name="work", stride=first, look=look, marks=marks)
    return made


def test_pieces_become_as_long_as_they_may():
    """A thousand steps a second: five hundred at a time, and no fewer after a short piece."""
    made = paced(lambda _: 1e-3, 0.5, 16, 1663, marks=[663])
    assert made == [16, 16, 128, 500, 3, 500, 500]


def test_pieces_become_shorter_when_the_work_becomes_slower():
    slower = {1: 0.1, 2: 0.1, 3: 0.5}
    assert paced(lambda piece: slower.get(piece, 3.0), 1.0, 10, 43) == [10, 10, 10, 2, 1, *[1] * 10]


def test_compilation_says_nothing_of_the_pace():
    assert paced(lambda piece: 30.0 if piece == 1 else 0.05, 1.0, 1, 30) == [1, 1, 8, 20]
