"""Logs of any length: sums are taken over all rows, everything else over a random selection.

A fit needs only sums over rows, so a log that is larger than memory can be read piece by piece.
Cross-validation folds and the errors of bounds need single rows. They use a random selection of
rows, whose size does not depend on the length of the log. The selection is the same in every pass
over the pieces.
"""

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import InputError, checks
from equipoise.games import Labels
from equipoise.offline._coverage import sizes_of
from equipoise.offline._formats import rows_in
from equipoise.offline._log import Log, counts_of
from equipoise.runs.engines import Engine, engine_of

#: Logs of up to twice this many rows are used whole. From a longer log, a selection of between
#: this many rows and twice as many is used wherever single rows are needed.
ROWS = 200_000
#: Largest number of tasks given to an engine; each task reads a group of files.
MOST_TASKS = 1024
#: Counts that all pieces of a log share. A single file may show fewer than there are.
_COUNTS = ("actions_per_agent", "contexts_count", "states_count", "horizon")
_ALIKE = ("agents", *_COUNTS)


@dataclass(frozen=True)
class Source:
    """A log, or the pieces of a log, with a selection of its rows."""

    #: The selected rows: all rows if the log is short or has episodes.
    log: Log
    #: Total number of rows.
    rows: int
    #: (rows of `log`,): row numbers of the selection; None if all rows are selected.
    numbers: np.ndarray | None
    pieces: Iterable[Log]

    @classmethod
    def of(cls, given: Log | Iterable[Log], *, again: bool = False) -> "Source":
        """Select rows. `again` says whether a later step needs another pass over all rows."""
        source = cls._of(given, again)
        known = source.log.recorded
        if known is not None and not known.any(0).all():
            nobody = source.log.labels.player(int(known.any(0).argmin()))
            raise InputError("log", "a recorded reward of every agent", f"none of agent {nobody}")
        return source

    @classmethod
    def _of(cls, given: Log | Iterable[Log], again: bool) -> "Source":
        if isinstance(given, Log) and (given.samples <= 2 * ROWS or given.episodes is not None):
            return cls(given, given.samples, None, [given])
        if not isinstance(given, Log) and again and given is iter(given):
            expected = "pieces that can be read more than once, such as Log.read_chunks returns"
            raise InputError("log", expected, type(given).__name__)
        pieces: Iterable[Log] = [given] if isinstance(given, Log) else given
        if isinstance(given, LogFiles):
            step = _step_for(given.samples)
            found = list(over(given, lambda numbered: _selected(numbered, step)))
        else:
            step, found = 1, [_selected(_numbered(pieces))]
        kept, seen = [pair for some, _ in found for pair in some], sum(rows for _, rows in found)
        kept = _few(kept, step)[0]
        if not seen:
            raise InputError("log", "a Log or pieces of a log", "nothing")
        numbers = np.concatenate([numbers for numbers, _ in kept])
        whole = len(numbers) == seen
        log = joined([piece for _, piece in kept])
        return cls(log, seen, None if whole else numbers, [log] if whole else pieces)

    def part_sums(self, part: np.ndarray, count: int, empty: Callable[[], Any]) -> list[Any]:
        """Sums over the rows of each of `count` parts, added up over all pieces.

        `part` is the part of each row of `log`, as returned by `part_of`.
        """
        known = part if self.numbers is None else None

        def sums_of(numbered: Iterable[tuple[int, Log]]) -> list[Any]:
            sums = [empty() for _ in range(count)]
            for first, piece in numbered:
                numbers = np.arange(first, first + piece.samples)
                part = part_of(numbers, count) if known is None else known
                for own, rows in zip(sums, np.arange(count)[:, None] == part, strict=True):
                    if rows.any():
                        own.add(piece.take(rows))
            return sums

        found = over(self.pieces, sums_of)
        total = next(found)
        for sums in found:
            total = [one.plus(more) for one, more in zip(total, sums, strict=True)]
        return total


class LogFiles:
    """A log stored in many Parquet files, read in pieces by this process or by an engine.

    Pass it to `fit`, `select_rank`, `discover` and `learn` wherever they accept pieces. From the
    full set of rows these functions need only sums: every worker adds up the rows of its files, and
    this process adds up the workers' sums. Steps that need single rows use the same random
    selection as on one machine. The memory of a worker does not grow with the number of its files.

    - `paths`: a pattern such as "logs/*.parquet", or a sequence of paths; sorted by name.
    - `rows`: number of rows held in memory at once. Default: 100,000.
    - `on`: where to read the files. None or "local" reads them in this process; "ray", "slurm" or
      an engine of `runs.engines` reads them on its workers, which must see them under the same
      paths.
    - `declared`: facts that the files do not state, such as `actions_per_agent`.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)
    >>> for i in range(2):
    ...     log = eq.offline.collect(game, "uniform", samples=500, key=i)
    ...     log.write(f"part-{i}.parquet")
    >>> files = eq.offline.LogFiles("part-*.parquet")
    >>> files.samples, eq.offline.fit(files, rank=2).samples
    (1000, 1000)
    """

    #: The files.
    paths: tuple[Path, ...]
    #: Number of rows in each file.
    rows_of: tuple[int, ...]

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        rows: int = 100_000,
        on: str | Engine | None = None,
        **declared: Any,
    ):
        self.paths = _files_of(paths)
        self.engine = None if on in (None, "local") else engine_of(on)
        self.rows = checks.check_count("rows", rows)
        self.rows_of = tuple(map(rows_in, self.paths))
        self._declared, self._said = dict(declared), dict[str, Any]()

    @property
    def samples(self) -> int:
        """Total number of rows in all files."""
        return sum(self.rows_of)

    @property
    def agents(self) -> int:
        """Number of agents."""
        return self._first.agents

    @property
    def labels(self) -> Labels:
        """Names of agents and actions."""
        return self._first.labels

    @property
    def name(self) -> str:
        """A name for all files together: the first file name and the number of others."""
        return f"{self.paths[0].name} and {len(self.paths) - 1} more"

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about how the files were read: always empty, since the tables are not changed."""
        return self._first.notes

    @cached_property
    def _first(self) -> Log:
        return next(iter(self)).take(slice(1))

    @property
    def said(self) -> Mapping[str, Any]:
        """Counts that all pieces share; a pass over the files finds those not declared."""
        if not self._said:
            task = _Counts(self.rows, self._declared)
            counts: dict[str, Any] = {}
            results = self._results(task, [(path,) for path in self.paths])
            for path, found in zip(self.paths, results, strict=True):
                for name, value in found.items():
                    known = counts.get(name, value)
                    alike = np.shape(known) == np.shape(value)
                    if not alike or (name not in _COUNTS and not np.array_equal(known, value)):
                        what = "number of agents" if name == "actions_per_agent" else name
                        differs = f"{path}, which differs from the files before it"
                        raise InputError("paths", f"files with the same {what}", differs)
                    counts[name] = np.maximum(known, value).tolist() if name in _COUNTS else value
            self._said = counts
        return self._said

    def __iter__(self) -> Iterator[Log]:
        firsts = np.cumsum([0, *self.rows_of]).tolist()
        group = list(zip(self.paths, firsts, strict=False))
        return (piece for _, piece in _pieces_of(group, self.rows, self.said))

    def over(self, task: Callable[[Iterator[tuple[int, Log]]], Any]) -> Iterator[Any]:
        """Results of `task` for the numbered pieces of each group of files, in order."""
        firsts = np.cumsum([0, *self.rows_of]).tolist()
        pairs = list(zip(self.paths, firsts, strict=False))
        if self.engine is None:
            yield task(_pieces_of(pairs, self.rows, self.said))
            return
        size = -(-len(pairs) // MOST_TASKS)
        groups = [pairs[i : i + size] for i in range(0, len(pairs), size)]
        yield from self._results(_Group(task, self.rows, self.said), groups)

    def _results(self, task: Callable[[Any], Any], inputs: Sequence[Any]) -> Iterator[Any]:
        """Results in the order of the inputs, so that sums are identical in every run."""
        if self.engine is None:
            yield from map(task, inputs)
            return
        waiting: dict[int, Any] = {}
        following = 0
        for index, result in self.engine.map(task, inputs):
            waiting[index] = result
            while following in waiting:
                yield waiting.pop(following)
                following += 1


@dataclass(frozen=True)
class _Group:
    """The task of a worker: apply a function to the pieces of its files."""

    task: Callable[[Iterator[tuple[int, Log]]], Any]
    rows: int
    said: Mapping[str, Any]

    def __call__(self, group: Sequence[tuple[Path, int]]) -> Any:
        return self.task(_pieces_of(group, self.rows, self.said))


@dataclass(frozen=True)
class _Counts:
    """The task of a worker: find the counts of its files."""

    rows: int
    declared: Mapping[str, Any]

    def __call__(self, group: Sequence[Path]) -> dict[str, Any]:
        return counts_of(group[0], self.rows, self.declared)


def _files_of(paths: Any) -> tuple[Path, ...]:
    if isinstance(paths, str | os.PathLike):
        found = sorted(glob.glob(os.fspath(paths)))
    else:
        found = [os.fspath(path) for path in paths]
    # Workers start in other working directories, so paths must be absolute.
    files = tuple(Path(path).absolute() for path in found)
    if not files:
        raise InputError("paths", "a pattern that matches files", f"none for {paths!r}")
    for file in files:
        if file.suffix != ".parquet":
            raise InputError("paths", "names that end in .parquet", str(file))
    return files


def _pieces_of(
    group: Sequence[tuple[Path, int]], rows: int, said: Mapping[str, Any]
) -> Iterator[tuple[int, Log]]:
    for path, first in group:
        for piece in Log.read_chunks(path, rows, **said):
            yield first, piece
            first += piece.samples


def _numbered(pieces: Iterable[Log]) -> Iterator[tuple[int, Log]]:
    """Yield the number of the first row of each piece, and the piece."""
    seen = 0
    for piece in pieces:
        yield seen, piece
        seen += getattr(piece, "samples", 0)


def over(pieces: Iterable[Log], task: Callable[[Iterator[tuple[int, Log]]], Any]) -> Iterator[Any]:
    """Results of a task over numbered pieces: one for all, or one for each group of files."""
    if isinstance(pieces, LogFiles):
        yield from pieces.over(task)
    else:
        yield task(_numbered(pieces))


def _selected(
    numbered: Iterable[tuple[int, Log]], given: int | None = None
) -> tuple[list[tuple[np.ndarray, Log]], int]:
    """Select one row in `given`, by default as many as allowed; also return the row count."""
    kept, seen, first, step = list[tuple[np.ndarray, Log]](), 0, None, given or 1
    for start, piece in numbered:
        first = check_alike(first, piece)
        seen += piece.samples
        kept += _every(step, [(np.arange(start, start + piece.samples), piece)])
        if given is None:
            kept, step = _few(kept, step)
    return kept, seen


def _few(kept: list[tuple[np.ndarray, Log]], step: int) -> tuple[list[tuple[np.ndarray, Log]], int]:
    """Double `step` until one row in `step` gives at most `2 * ROWS` rows; return both."""
    while sum(len(numbers) for numbers, _ in kept) > 2 * ROWS:
        step *= 2
        kept = _every(step, kept)
    return kept, step


def _step_for(rows: int) -> int:
    """Smallest power of two such that selecting one row in that many gives about `2 * ROWS` rows.

    The limit is `2 * ROWS` plus ten standard deviations, since the selected rows are not counted:
    with half the step, the selection would certainly be too large.

    >>> _step_for(400_000), _step_for(10_000_000), _step_for(10**10)
    (1, 32, 32768)
    """
    step, most = 1, 2 * ROWS + 10 * (2 * ROWS) ** 0.5
    while rows / step > most:
        step *= 2
    return step


def check_alike(first: Log | None, piece: Any) -> Log:
    """Return the first piece, or refuse a piece that belongs to a different log."""
    if not isinstance(piece, Log):
        raise InputError("log", "a Log or pieces of a log", type(piece).__name__)
    if first is None:
        sizes_of(piece)  # refuses continuous actions
        return piece
    for name in _ALIKE:
        one, other = getattr(first, name), getattr(piece, name)
        if one != other:
            raise InputError("log", f"pieces with the same {name}", f"{one} and {other}")
    return first


def joined(pieces: list[Log]) -> Log:
    """Join the rows of several logs into one log without episodes."""
    whole = pieces[0].take(slice(None))
    for name, value in vars(whole).items():
        if isinstance(value, np.ndarray) and name not in ("behaviour", "recorded"):
            tables = [getattr(piece, name) for piece in pieces]
            object.__setattr__(whole, name, np.concatenate(tables))
    if any(piece.recorded is not None for piece in pieces):  # None in pieces without a gap
        object.__setattr__(whole, "recorded", ~np.isnan(whole.rewards))
    return whole


def part_of(numbers: np.ndarray, count: int) -> np.ndarray:
    """The part, from 0 to `count - 1`, of each row: a pseudo-random function of its number.

    >>> np.bincount(part_of(np.arange(10_000), 5)).tolist()
    [1996, 2031, 1923, 1970, 2080]
    """
    return ((_scattered(numbers) >> np.uint64(32)) % np.uint64(count)).astype(np.int64)


def _every(step: int, kept: list[tuple[np.ndarray, Log]]) -> list[tuple[np.ndarray, Log]]:
    """Select one row in `step`, a power of two, pseudo-randomly by row number."""
    found = []
    for numbers, piece in kept if step > 1 else ():
        rows = (_scattered(numbers) & np.uint64(step - 1)) == 0
        if rows.any():
            found.append((numbers[rows], piece.take(rows)))
    return found if step > 1 else kept


def _scattered(numbers: np.ndarray) -> np.ndarray:
    """Hash row numbers to pseudo-random 64-bit numbers (the finaliser of SplitMix64)."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
