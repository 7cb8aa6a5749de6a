"""Logs of any length: all rows for what adds up, and some of them for what does not.

A fit needs sums over the rows alone, so that a log larger than memory goes in piece by piece. Folds
of cross-validation and the errors of bounds look at single rows. They get a random selection, whose
size does not depend on the log, and which is the same whenever somebody goes through the pieces.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.offline._coverage import sizes_of
from equipoise.offline._log import Log

#: Single rows are looked at of logs up to twice this length; of longer ones, of about so many.
ROWS = 200_000
#: What pieces of a log share.
_ALIKE = ("agents", "actions_per_agent", "contexts_count", "states_count", "horizon")


@dataclass(frozen=True)
class Source:
    """A log, or the pieces of one, and a selection of its rows."""

    #: The selected rows: all, of a log that is short or has episodes.
    log: Log
    #: How many rows there are in all.
    rows: int
    #: (rows of `log`,): their numbers; None where they are all rows.
    numbers: np.ndarray | None
    pieces: Iterable[Log]

    @classmethod
    def of(cls, given: Log | Iterable[Log], *, again: bool = False) -> "Source":
        """Select rows; `again` says whether all of them are looked at later once more."""
        if isinstance(given, Log) and (given.samples <= 2 * ROWS or given.episodes is not None):
            return cls(given, given.samples, None, [given])
        if not isinstance(given, Log) and again and given is iter(given):
            expected = "pieces that can be gone through again, as Log.read_chunks gives them"
            raise InputError("log", expected, type(given).__name__)
        pieces: Iterable[Log] = [given] if isinstance(given, Log) else given
        kept, step, seen, first = list[tuple[np.ndarray, Log]](), 1, 0, None
        for piece in pieces:
            first = check_alike(first, piece)
            kept.append((np.arange(seen, seen + piece.samples), piece))
            seen += piece.samples
            kept[-1:] = _every(step, kept[-1:])
            while sum(len(numbers) for numbers, _ in kept) > 2 * ROWS:
                step *= 2
                kept = _every(step, kept)
        if first is None:
            raise InputError("log", "a Log or pieces of one", "nothing")
        numbers = np.concatenate([numbers for numbers, _ in kept])
        whole = len(numbers) == seen
        log = joined([piece for _, piece in kept])
        return cls(log, seen, None if whole else numbers, [log] if whole else pieces)

    def parts(self, part: np.ndarray, count: int) -> Iterator[tuple[Log, np.ndarray]]:
        """Every piece, and the part (of so many) that each of its rows belongs to.

        `part` says so for the rows of `log`, as `part_of` does.
        """
        seen = 0
        for piece in self.pieces:
            numbers = np.arange(seen, seen + piece.samples)
            yield piece, part if self.numbers is None else part_of(numbers, count)
            seen += piece.samples


def check_alike(first: Log | None, piece: Any) -> Log:
    """The first piece; refuses a piece that is of another log."""
    if not isinstance(piece, Log):
        raise InputError("log", "a Log or pieces of one", type(piece).__name__)
    if first is None:
        sizes_of(piece)  # refuses continuous actions
        return piece
    for name in _ALIKE:
        one, other = getattr(first, name), getattr(piece, name)
        if one != other:
            raise InputError("log", f"pieces with the same {name}", f"{one} and {other}")
    return first


def joined(pieces: list[Log]) -> Log:
    """One log of the rows of several, which stand alone."""
    whole = pieces[0].take(slice(None))
    for name, value in vars(whole).items():
        if isinstance(value, np.ndarray) and name != "behaviour":
            tables = [getattr(piece, name) for piece in pieces]
            object.__setattr__(whole, name, np.concatenate(tables))
    return whole


def part_of(numbers: np.ndarray, count: int) -> np.ndarray:
    """The part, of so many, that each row belongs to, by its number.

    >>> np.bincount(part_of(np.arange(10_000), 5)).tolist()
    [1996, 2031, 1923, 1970, 2080]
    """
    return ((_scattered(numbers) >> np.uint64(32)) % np.uint64(count)).astype(np.int64)


def _every(step: int, kept: list[tuple[np.ndarray, Log]]) -> list[tuple[np.ndarray, Log]]:
    """One in `step` rows, which is a power of two, at random by their numbers."""
    found = []
    for numbers, piece in kept if step > 1 else ():
        rows = (_scattered(numbers) & np.uint64(step - 1)) == 0
        if rows.any():
            found.append((numbers[rows], piece.take(rows)))
    return found if step > 1 else kept


def _scattered(numbers: np.ndarray) -> np.ndarray:
    """Numbers of 64 bits that look random: the end of SplitMix64."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
