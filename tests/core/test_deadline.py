"""Deadlines: time, parts of it, and Ctrl-C."""

import math
import signal
import threading

import pytest

from equipoise.core.deadline import Deadline
from equipoise.runs import resumable


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_time_ends_a_deadline():
    clock = Clock()
    deadline = Deadline(5.0, clock=clock)
    assert (deadline.over(), deadline.remaining(), deadline.missed) == (False, 5.0, False)
    clock.now += 4.0
    assert (deadline.over(), deadline.remaining()) == (False, 1.0)
    clock.now += 1.0
    assert (deadline.over(), deadline.remaining(), deadline.missed) == (True, 0.0, True)


def test_no_limit_and_no_time():
    clock = Clock()
    assert not Deadline(clock=clock).over()
    assert Deadline(clock=clock).remaining() == math.inf
    assert Deadline(clock=clock).part(0.5).remaining() == math.inf
    assert Deadline(0.0, clock=clock).over()


def test_a_part_ends_before_the_whole_and_tells_it():
    clock = Clock()
    whole = Deadline(8.0, clock=clock)
    part = whole.part(0.25)
    clock.now += 2.0
    assert part.over()
    assert whole.missed
    assert not whole.over()
    assert whole.part(0.5).remaining() == 3.0


def test_a_deadline_that_nobody_asks_is_not_missed():
    clock = Clock()
    deadline = Deadline(1.0, clock=clock)
    clock.now += 2.0
    assert deadline.remaining() == 0.0
    assert not deadline.missed


def test_ctrl_c_ends_a_deadline_and_its_parts():
    before = signal.getsignal(signal.SIGINT)
    with Deadline(clock=Clock()) as deadline:
        part = deadline.part(0.5)
        assert not part.over()
        signal.raise_signal(signal.SIGINT)
        assert part.over()
        assert (deadline.over(), deadline.remaining(), deadline.missed) == (True, 0.0, False)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_in_an_inner_block_ends_the_outer_one():
    with Deadline() as outer:
        with Deadline() as inner:
            signal.raise_signal(signal.SIGINT)
            assert inner.over()
        assert outer.over()


def test_another_thread_has_time_alone():
    ended = []

    def work():
        with Deadline(0.0) as deadline:
            ended.append(deadline.over())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]


def test_steps_that_no_time_limit_may_cut_short():
    clock = Clock()
    with Deadline(1.0, clock=clock) as deadline:
        last = deadline.untimed()
        clock.now += 2.0
        assert (deadline.over(), last.over()) == (True, False)
        signal.raise_signal(signal.SIGINT)
        assert last.over()


def test_a_deadline_entered_again_restores_every_handler():
    before = signal.getsignal(signal.SIGINT)
    with Deadline() as deadline:
        within = signal.getsignal(signal.SIGINT)
        with deadline:
            signal.raise_signal(signal.SIGINT)
        assert deadline.over()
        assert signal.getsignal(signal.SIGINT) is within
    assert signal.getsignal(signal.SIGINT) is before


def test_a_computation_ends_after_the_piece_in_which_its_time_ran_out():
    clock = Clock()

    def advance(total, step, until):
        clock.now += 1.0
        return total + until, {}

    deadline = Deadline(2.5, clock=clock)
    reached = resumable(None, 0, advance, 10, name="adding", deadline=deadline)
    assert (reached.step, reached.stopped, deadline.missed) == (3, False, True)
