"""Where trajectories come from: files, folders, arrays, or a function that yields them.

A source has numbered pieces, of which only some need to be in memory.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from equipoise.core import InputError
from equipoise.core.arrays import read_npz
from equipoise.core.extras import import_extra
from equipoise.incontext._pieces import Limits, Piece, count_labels, from_arrays, from_columns

SUFFIXES = (".npz", ".parquet")
#: Groups of rows of a Parquet file are read together up to this many rows.
ROWS = 1 << 18
#: Pieces are kept in memory up to this many bytes.
ROOM = 1 << 30

#: Reads one piece.
Reader = Callable[[Limits], Piece]


class Source:
    """Numbered pieces, which can be read in any order unless they come from a function."""

    def __init__(self, readers: list[Reader] | None, factory: Callable[[], Any] | None = None):
        self._readers, self._factory = readers, factory
        self._kept: dict[int, Piece] = {}
        self._open: Iterator[Any] = iter(())
        self._next = 0

    @property
    def in_order(self) -> bool:
        """Whether pieces can be read only in their order."""
        return self._readers is None

    def scan(self, limits: Limits) -> Iterator[Piece]:
        """Yield all pieces once, and keep in memory as many as there is room for."""
        self._kept = {}
        for i, reader in enumerate(self._all()):
            piece = reader(limits)
            self._keep(i, piece)
            yield piece

    def load(self, i: int, limits: Limits) -> Piece:
        """Return one piece."""
        if i not in self._kept:
            self._keep(i, self._reader(i)(limits))
        return self._kept[i]

    def _keep(self, i: int, piece: Piece) -> None:
        """Keep a piece in memory, in place of the oldest ones."""
        while self._kept and piece.bytes + sum(p.bytes for p in self._kept.values()) > ROOM:
            del self._kept[next(iter(self._kept))]
        self._kept[i] = piece

    def _all(self) -> Iterator[Reader]:
        if self._readers is not None:
            yield from self._readers
            return
        self._restart()
        while (reader := self._advance()) is not None:
            yield reader

    def _reader(self, i: int) -> Reader:
        if self._readers is not None:
            return self._readers[i]
        if i < self._next:
            self._restart()
        reader = None
        while self._next <= i:
            reader = self._advance()
            if reader is None:
                found = f"only {self._next} pieces in a later one"
                raise InputError("data", "a function that yields the same pieces each time", found)
        return cast(Reader, reader)

    def _restart(self) -> None:
        if self._factory is None:
            raise RuntimeError("a source without readers needs a factory")
        self._open, self._next = iter(self._factory()), 0

    def _advance(self) -> Reader | None:
        """Return the next piece that the function yields; None at its end."""
        try:
            item = next(self._open)
        except StopIteration:
            return None
        name = f"piece {self._next}"
        self._next += 1
        return _one_reader(item, name)


def open_source(data: Any) -> Source:
    """Return the source of a file, a folder, arrays, several of these, or a function."""
    if isinstance(data, str | os.PathLike):
        return Source(_readers_of_path(Path(data)))
    if isinstance(data, Mapping) or hasattr(data, "labels"):
        return Source([_one_reader(data, "data")])
    if isinstance(data, list | tuple):
        readers = list[Reader]()
        for i, item in enumerate(data):
            path = isinstance(item, str | os.PathLike)
            readers += _readers_of_path(Path(item)) if path else [_one_reader(item, f"piece {i}")]
        if not readers:
            raise InputError("data", "at least one piece", "none")
        return Source(readers)
    if hasattr(data, "export"):  # a Dataset, which computes its batches on access
        return Source(None, lambda: data)
    if callable(data):
        return Source(None, cast(Callable[[], Any], data))
    hint = ""
    if isinstance(data, Iterable):
        hint = "an iterator can be read only once: pass a function that returns a new one"
    expected = "a file, a folder, arrays, a list of these, or a function that returns an iterator"
    raise InputError("data", expected, type(data).__name__, hint)


def _one_reader(item: Any, name: str) -> Reader:
    """Return the reader of a batch, a mapping of arrays, or a file of one piece."""
    if isinstance(item, Mapping):
        arrays: Mapping[str, Any] = item
        return lambda limits: from_arrays(arrays, limits, name)
    if hasattr(item, "labels"):
        fields = {n: a for n, a in vars(item).items() if a is not None}
        return lambda limits: from_arrays(fields, limits, name)
    if isinstance(item, str | os.PathLike):
        readers = _readers_of_path(Path(item))
        if len(readers) == 1:
            return readers[0]
        raise InputError("data", "files of one piece from a function", f"{len(readers)} in {item}")
    expected = "pieces that are mappings of arrays, batches or files"
    raise InputError("data", expected, f"{type(item).__name__} in {name}")


def _readers_of_path(path: Path) -> list[Reader]:
    """Return the readers of the pieces in a file or a folder."""
    if not path.exists():
        raise InputError("data", "a file or a folder", f"nothing at {path}")
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES)
        if not files:
            found = f"no such file in {path}"
            raise InputError("data", "a folder with .npz or .parquet files", found)
        return [reader for file in files for reader in _readers_of_path(file)]
    if path.suffix == ".npz":
        return [lambda limits: from_arrays(_read_npz(path), limits, str(path))]
    if path.suffix != ".parquet":
        raise InputError("data", "a name that ends in .npz or .parquet", path)
    return _parquet_readers(path)


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        return read_npz(path)
    except ValueError as error:
        raise InputError("data", "an .npz file of arrays", f"{path}, which is damaged") from error


def _parquet(path: Path) -> Any:
    module: Any = import_extra("pyarrow.parquet", "pyarrow", "parquet")
    pyarrow: Any = import_extra("pyarrow", "pyarrow", "parquet")
    try:
        return module.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        found = f"{path}, which is damaged"
        raise InputError("data", "a Parquet file", found) from error


def _parquet_readers(path: Path) -> list[Reader]:
    """Return a reader for every block of rows that holds whole trajectories."""
    with _parquet(path) as file:
        columns = _needed(path, file.schema_arrow.names)
        blocks, rows = list[tuple[list[int], int]](), 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if not blocks or (_opens(file, group) and rows - blocks[-1][1] >= ROWS):
                blocks.append(([], rows))
            blocks[-1][0].append(group)
            rows += size
    if not rows:
        raise InputError("data", "at least one row", f"none in {path}")
    return [_block_reader(path, columns, groups, first + 1) for groups, first in blocks]


def _opens(file: Any, group: int) -> bool:
    """Return whether a group of rows begins with round 1 of the row player."""
    table = file.read_row_group(group, columns=["player", "round"]).slice(0, 1).to_pydict()
    return (table["player"], table["round"]) == ([0], [1])


def _needed(path: Path, names: list[str]) -> list[str]:
    """Return the names of the columns to read; raise if some are missing."""
    columns = ["player", "round", "action", "reward"]
    labels = ["label"] if "label" in names else [f"label_{a}" for a in range(count_labels(names))]
    if "state" in names or "next_state" in names:
        columns += ["state", "next_state"]
    missing = sorted(set(columns) - set(names))
    if missing or not labels:
        expected = "columns player, round, action, reward and label (or label_0, label_1, ...)"
        found = f"no {', '.join(missing) or 'label'} in {path}"
        raise InputError("data", expected, found)
    return columns + labels


def _block_reader(path: Path, columns: list[str], groups: list[int], first: int) -> Reader:
    def read(limits: Limits) -> Piece:
        with _parquet(path) as file:
            table = file.read_row_groups(groups, columns=columns)
        for name in columns:
            column = table.column(name)
            if column.null_count:
                row = first + column.is_null().to_pylist().index(True)
                raise InputError("data", "a number", f"none in {name}, row {row:,} of {path}")
        arrays = {name: table.column(name).to_numpy() for name in columns}
        return from_columns(arrays, limits, str(path), first)

    return read
