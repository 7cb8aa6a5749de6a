"""Long work in pieces of about as many seconds as Ctrl-C may have to wait."""

import pytest

from equipoise.runs import Pace


@pytest.fixture
def clock(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("equipoise.runs._pace.time.monotonic", lambda: clock[0])
    return clock


def pieces(clock, pace, most, seconds_each):
    """The pieces that are made of work that takes so many seconds a step."""
    made = []

    def work(steps):
        made.append(steps)
        clock[0] += steps * seconds_each(len(made))
        return -steps

    assert [pace.run(work, limit) for limit in most] == [-steps for steps in made]
    return made


def test_pieces_become_as_long_as_they_may(clock):
    """A thousand steps a second: five hundred at a time, and no fewer after a short piece."""
    made = pieces(clock, Pace(0.5, first=16), (10_000, 10_000, 10_000, 3, 10_000), lambda _: 1e-3)
    assert made == [16, 128, 500, 3, 500]


def test_pieces_become_shorter_when_the_work_becomes_slower(clock):
    slower = {1: 0.1, 2: 0.5}
    made = pieces(clock, Pace(1.0, first=10), (100,) * 4, lambda piece: slower.get(piece, 3.0))
    assert made == [10, 10, 2, 1]


def test_a_piece_that_is_cut_short_and_too_long_even_so_counts(clock):
    assert pieces(clock, Pace(1.0, first=16), (4, 100), lambda _: 1.0) == [4, 1]


def test_compilation_says_nothing_of_the_pace(clock):
    seconds = {1: 30.0}
    made = pieces(
        clock, Pace(1.0, compiled=False), (100,) * 4, lambda piece: seconds.get(piece, 0.05)
    )
    assert made == [1, 1, 8, 20]
