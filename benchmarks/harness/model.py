"""What a workload is made of: cases, each with data, contenders and a measure of accuracy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

#: The data of a case: named arrays.
Arrays = Mapping[str, np.ndarray]

#: What a contender returns: named arrays, one entry per item on the first axis. Lists become
#: arrays, and functions without arguments are called, once the clock has stopped. The reserved
#: name "time_factor" holds one number by which the time is multiplied, for a contender that did
#: a stated part of the work.
Answer = Mapping[str, Any]


class Skip(Exception):
    """Raised by `Contender.prepare` when the contender cannot run here; the reason is shown."""


@dataclass(frozen=True)
class Contender:
    """One way of doing the work of a case.

    `prepare(data)` imports what is needed, converts the data to the form the method wants and
    returns `run`. Only `run(count)` is timed: it does the first `count` items and returns the
    answer. Its first call is the warm-up and is reported apart.
    """

    name: str
    prepare: Callable[[Arrays], Callable[[int], Answer]]
    #: Our own rows; the first that is both ours and ran is what the others are compared with.
    ours: bool = False
    #: What the work cannot be done faster than; shown, and nobody's rival.
    limit: bool = False
    #: Modules without which the contender is shown as not installed.
    needs: tuple[str, ...] = ()
    #: Number of cores the process is pinned to; None for all.
    cores: int | None = 1
    #: Whether it always does all items in one call (and so is never given fewer).
    batched: bool = False
    #: How the items are gone through: "batched call", "compiled loop", "Python call per game".
    how: str = "Python call per item"
    #: Whether the first call compiles, so that its time is worth showing.
    compiles: bool = False
    notes: str = ""
    #: Seconds after which the start, or one pass, is given up.
    timeout: float = 60.0
    #: Why it is not run in this case; shown in the table.
    skip: str = ""


def our_batched(prepare: Callable[[Arrays], Callable[[int], Answer]]) -> tuple[Contender, ...]:
    """Our solver in one batched call, certificate included, on one core and on all of them."""
    return tuple(
        Contender(
            f"ours, {name}", prepare, ours=True, batched=True, how="one batched call",
            compiles=True, notes="with certificate", timeout=300.0, cores=cores,
        )
        for name, cores in (("one core", 1), ("all cores", None))
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One table: the same data for every contender."""

    name: str
    #: What one item is: "game", "policy pair".
    unit: str
    items: int
    #: Draws the data; must give the same arrays in every process.
    data: Callable[[], Arrays]
    contenders: tuple[Contender, ...]
    #: Accuracy of an answer, computed apart from every contender; smaller is better. None when
    #: the answer is that of a part of the work, and has no accuracy.
    measure: Callable[[Arrays, Answer], float | None]
    #: What `measure` measures, as the heading of its column.
    measured: str = "max NashConv"
    #: How many times as long as ours the best of the others should take, at least.
    goal: float = 1.0
