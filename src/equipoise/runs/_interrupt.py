"""Ctrl-C that asks a loop to return the best it has, rather than throwing it away."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupt:
    """False until Ctrl-C was pressed, then true."""

    def __init__(self) -> None:
        self.requested = False

    def __bool__(self) -> bool:
        return self.requested

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Take the signal: the first sets the flag, the second raises `KeyboardInterrupt`."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Within this block the first Ctrl-C sets a flag, and the second raises `KeyboardInterrupt`.

    The earlier behaviour comes back at the end of the block. Blocks may be nested: a Ctrl-C in
    an inner one is seen by the outer ones too. Outside the main thread, where Python delivers
    no signals, the flag stays false.

    **Example**

    >>> from equipoise.runs import interruptible
    >>> best = 0
    >>> with interruptible() as stop:
    ...     for step in range(1000):
    ...         if stop:
    ...             break
    ...         best = max(best, step % 7)
    >>> best, bool(stop)
    (6, False)
    """
    stop = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous: Any = signal.signal(signal.SIGINT, stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)
        if stop and isinstance(previous, Interrupt):
            previous.requested = True
