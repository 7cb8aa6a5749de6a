"""When a long computation ends: its time limit and Ctrl-C, as one thing that loops ask."""

import math
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["Deadline", "Interrupt"]


class Interrupt:
    """A flag that is false until Ctrl-C is pressed, and then true."""

    def __init__(self) -> None:
        self.requested = False

    def __bool__(self) -> bool:
        return self.requested

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Handle the signal: the first sets the flag, the second raises `KeyboardInterrupt`."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


class Deadline:
    """End of a computation: so many seconds from now, or Ctrl-C.

    A loop asks `over()` and returns the best that it has found. As a context manager, a deadline
    handles Ctrl-C: the first press ends it, the second raises `KeyboardInterrupt`. Blocks may be
    nested: a Ctrl-C in an inner block also ends the outer ones. Outside the main thread, where
    Python delivers no signals, only time ends it.

    Limits that decide an answer are counted. A deadline only ends a computation early: `missed` is
    True once `over()` has seen the time run out, also for the deadline of which this is a part.
    `clock` returns seconds.

    **Example**

    >>> from equipoise.core.deadline import Deadline
    >>> now = [0.0]
    >>> deadline = Deadline(10.0, clock=lambda: now[0])
    >>> half = deadline.part(0.5)
    >>> now[0] = 6.0
    >>> half.over(), half.missed, deadline.missed, deadline.over(), deadline.remaining()
    (True, True, True, False, 4.0)
    """

    def __init__(
        self, seconds: float = math.inf, *, clock: Callable[[], float] = time.perf_counter
    ):
        self.missed, self.stop = False, Interrupt()
        self._clock, self._end = clock, clock() + seconds
        self._whole: Deadline | None = None
        self._handlers: list[Any] = []  # of Ctrl-C, outside the blocks entered

    def over(self) -> bool:
        """Return whether the computation should end."""
        if self._clock() < self._end:
            return self.stop.requested
        one: Deadline | None = self
        while one is not None:
            one.missed, one = True, one._whole
        return True

    def remaining(self) -> float:
        """Return the seconds until the end; none after Ctrl-C."""
        return 0.0 if self.stop else max(self._end - self._clock(), 0.0)

    def part(self, share: float) -> "Deadline":
        """Return the deadline of a part that may take this share of the remaining time."""
        return self._within(share * self.remaining())

    def untimed(self) -> "Deadline":
        """Return a deadline that only Ctrl-C ends, for steps that no time limit may cut short."""
        return self._within(math.inf)

    def _within(self, seconds: float) -> "Deadline":
        part = Deadline(seconds, clock=self._clock)
        part.stop, part._whole = self.stop, self
        return part

    def __enter__(self) -> "Deadline":
        if threading.current_thread() is threading.main_thread():
            self._handlers.append(signal.signal(signal.SIGINT, self.stop))
        return self

    def __exit__(self, *_: object) -> None:
        if not self._handlers or threading.current_thread() is not threading.main_thread():
            return
        handler = self._handlers.pop()
        # None is a handler that Python did not install and cannot install again.
        signal.signal(signal.SIGINT, signal.default_int_handler if handler is None else handler)
        if self.stop and isinstance(handler, Interrupt):
            handler.requested = True
