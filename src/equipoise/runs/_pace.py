"""How much to do between two looks at the keyboard."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class Pace:
    """Cuts long work into pieces of about as many seconds as Ctrl-C may have to wait.

    The first piece is small, and the next ones as long as the last one says, but never many
    times longer. The first may be told apart, where it is mostly compilation.

    **Example**

    >>> pace = Pace(seconds=1.0, first=16)
    >>> pace.run(lambda steps: steps, most=10)       # cut short: it says nothing of 16
    10
    >>> pace.steps
    16
    """

    def __init__(self, seconds: float, first: int = 1, *, compiled: bool = True):
        self.seconds = seconds
        self.steps = first
        self._compiled = compiled

    def run(self, work: Callable[[int], Result], most: int) -> Result:
        """Do one piece, of at most so many steps, and learn from it."""
        steps, began = min(self.steps, most), time.monotonic()
        result = work(steps)
        spent = max(time.monotonic() - began, 1e-6)
        # A piece that was cut short says nothing, unless it was too long even so.
        if self._compiled and (steps == self.steps or spent > self.seconds):
            self.steps = max(1, int(steps * min(8.0, self.seconds / spent)))
        self._compiled = True
        return result
