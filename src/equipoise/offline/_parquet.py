"""Logs as Parquet files: a column for everything, as other tools write and read them.

The columns are `context`, `action_0`, `action_1`, ..., `reward_0`, ..., and where there are local
states `state_0`, ..., `next_state_0`, ..., `step`, `episode`. What a log says beside its tables is
kept as JSON in the metadata of the schema, under `equipoise`; a file without it is read just so.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from equipoise.core.extras import import_extra
from equipoise.offline._files import DECLARED, as_settings, said_beside
from equipoise.offline._log import Log

#: Prefix of the columns of each agent -> the table they make.
_WIDE = {"action": "actions", "reward": "rewards", "state": "states", "next_state": "next_states"}
#: Column -> table.
_NARROW = {"context": "contexts", "step": "steps", "episode": "episodes"}
_COLUMN = re.compile(r"(action|reward|state|next_state)_(0|[1-9][0-9]{0,6})")
_METADATA = b"equipoise"
#: Rows that are written and read at once.
_ROWS = 50_000


def write(log: Log, path: Path) -> None:
    """Write a log to `path`, which ends in `.parquet`."""
    pyarrow, parquet = _library("pyarrow"), _library("pyarrow.parquet")
    columns: dict[str, np.ndarray] = {}
    for column, table in _NARROW.items():
        if getattr(log, table) is not None:
            columns[column] = getattr(log, table)
    for prefix, table in _WIDE.items():
        values = getattr(log, table)
        if values is not None:
            columns |= {f"{prefix}_{i}": values[:, i] for i in range(log.agents)}
    said = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in said_beside(log).items()
    }
    schema = pyarrow.schema(
        [(name, pyarrow.from_numpy_dtype(column.dtype)) for name, column in columns.items()],
        metadata={_METADATA: json.dumps(said).encode()},
    )
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, log.samples, _ROWS):
            part = {n: np.ascontiguousarray(c[start : start + _ROWS]) for n, c in columns.items()}
            writer.write_table(pyarrow.table(part, schema))


def read(path: Path) -> dict[str, Any]:
    """All that a file holds."""
    with open(path, "rb") as stream:  # a missing or forbidden file stays the OSError it is
        file, groups, settings = _open(path, stream)
        rows, done = _damaged(path, lambda: file.metadata.num_rows), 0
        whole: dict[str, np.ndarray] = {}
        # Part by part into its place: the file and the tables are never both in memory.
        for part in _parts(path, file, groups, _ROWS):
            count = len(part["actions"])
            if done + count > rows:
                break
            for name, table in part.items():
                if name not in whole:
                    whole[name] = np.empty((rows, *table.shape[1:]), table.dtype)
                whole[name][done : done + count] = table
            done += count
        if done != rows or not whole:
            raise ValueError(f"{path}: expected {rows} rows, at least one, found {done}")
        return {**whole, **settings}


def parts(path: Path, rows: int) -> Iterator[dict[str, Any]]:
    """The tables of a file, some rows at a time, each with what is said beside them."""
    with open(path, "rb") as stream:
        file, groups, settings = _open(path, stream)
        for part in _parts(path, file, groups, rows):
            yield {**part, **settings}


def _parts(
    path: Path, file: Any, groups: dict[str, list[str]], rows: int
) -> Iterator[dict[str, np.ndarray]]:
    """The tables of a file, some rows at a time."""
    wanted = [name for names in groups.values() for name in names]
    read = {"batch_size": rows, "columns": wanted}
    batches, first = iter(_damaged(path, lambda: file.iter_batches(**read))), 0
    while (batch := _damaged(path, lambda: next(batches, None))) is not None:
        yield _tables(path, batch, groups, first)
        first += batch.num_rows


def _open(path: Path, stream: Any) -> tuple[Any, dict[str, list[str]], dict[str, Any]]:
    """The file, the columns of each table in the order of the agents, and what is said beside."""
    parquet = _library("pyarrow.parquet")
    file = _damaged(path, lambda: parquet.ParquetFile(stream))
    schema = _damaged(path, lambda: file.schema_arrow)
    names: list[str] = list(schema.names)
    if len(set(names)) != len(names):
        raise ValueError(f"{path}: expected every column once, found one twice")
    groups = {table: [column] for column, table in _NARROW.items() if column in names}
    numbered: dict[str, set[int]] = {}
    for name in names:
        match = _COLUMN.fullmatch(name)
        if match:
            numbered.setdefault(match[1], set()).add(int(match[2]))
    agents = 1 + max((max(numbers) for numbers in numbered.values()), default=-1)
    for prefix in ("action", "reward", *numbered):
        missing = sorted(set(range(agents)) - numbered.get(prefix, set()))
        if missing or not agents:
            raise ValueError(
                f"{path}: expected a column {prefix}_i for every agent i from 0 to "
                f"{max(agents - 1, 0)}, found none for agent {missing[0] if missing else 0}"
            )
        groups[_WIDE[prefix]] = [f"{prefix}_{i}" for i in range(agents)]
    return file, groups, _settings(path, schema.metadata or {})


def _settings(path: Path, metadata: dict[bytes, bytes]) -> dict[str, Any]:
    if _METADATA not in metadata:
        return {}
    try:
        said = json.loads(metadata[_METADATA])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: expected JSON in the metadata, found {error}") from error
    if not isinstance(said, dict) or not set(said) <= set(DECLARED):
        raise ValueError(f"{path}: expected metadata about {', '.join(DECLARED)}, found other")
    return as_settings(path, said)


def _tables(
    path: Path, arrow: Any, groups: dict[str, list[str]], first: int
) -> dict[str, np.ndarray]:
    """NumPy tables from Arrow columns, of the rows from `first` on."""
    tables = {}
    for table, names in groups.items():
        columns = [_column(path, arrow, name, first) for name in names]
        if table in _NARROW.values():
            tables[table] = columns[0]
            continue
        wide = np.empty((len(columns[0]), len(names)), np.result_type(*columns))
        for i, column in enumerate(columns):
            wide[:, i] = column
        tables[table] = wide
    return tables


def _column(path: Path, arrow: Any, name: str, first: int) -> np.ndarray:
    """One column of numbers; a null among them is refused by its row."""
    column = arrow.column(name)
    if column.null_count:
        row = _damaged(path, lambda: column.is_null().to_numpy(zero_copy_only=False)).argmax()
        raise ValueError(f"{path}: {name}: expected a number, found none in row {first + row}")
    values = _damaged(path, lambda: column.to_numpy(zero_copy_only=False))
    if values.dtype.kind not in "iufb":
        raise ValueError(f"{path}: {name}: expected numbers, found {column.type}")
    return values


def _damaged(path: Path, work: Any) -> Any:
    """Do the work; what Arrow raises over a damaged file becomes a ValueError that names it."""
    pyarrow = _library("pyarrow")
    try:
        return work()
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        raise ValueError(
            f"{path}: expected a Parquet file of a log, found one that cannot be read: {error}"
        ) from error


def _library(module: str) -> ModuleType:
    return import_extra(module, "pyarrow", "parquet")
