"""File formats of logs: `.npz` with one array per table, and `.parquet` with one column per agent.

The columns of a Parquet file are `context`, `action_0`, `action_1`, ..., `reward_0`, ..., and with
local states `state_0`, ..., `next_state_0`, ..., `step`, `episode`; `recorded_0`, ... say which
rewards are known, unless all are. Numeric contexts are `covariate_0`, ..., and numeric local states
`state_0_0`, `state_0_1`, ... (agent, number), likewise `next_state_0_0`, .... All other
declarations of a log are stored as JSON in the metadata of the schema, under `equipoise`.

Reading returns the fields of a `Log`, or raises a `ValueError` that names the file and the problem.
A file that is missing or may not be read raises the original `OSError`. Since a small file can
claim to hold a very large table, reading refuses to allocate more than `RATIO` times the length of
the file plus `ALLOWANCE` bytes.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.core.arrays import open_npz, write_npz
from equipoise.core.extras import import_extra
from equipoise.core.files import atomic_write, refuse_devices
from equipoise.core.plain import dumps, parse_json

#: Arrays of a log that have one row per sample.
TABLES = (
    *("contexts", "actions", "rewards", "states", "next_states", "steps", "episodes"),
    "recorded",
    "covariates",
)
#: Other fields of a log, which the caller or the file declares.
DECLARED = (
    *("actions_per_agent", "contexts_count", "states_count", "horizon"),
    *("behaviour", "reward_range", "continuous", "action_range", "labels"),
    *("numeric_contexts", "confounders"),
)
#: Declared names, which an archive stores as JSON: their type, and its description in errors.
_NAMES = {
    "labels": (dict, "names by field"),
    "numeric_contexts": (list, "a list of names"),
    "confounders": (list, "a list of sentences"),
}
#: Tables larger than RATIO times the length of their file plus ALLOWANCE bytes are not read.
RATIO, ALLOWANCE = 64, 64 << 20

#: Maps the prefix of the agents' columns to their table.
_WIDE = {
    **{"action": "actions", "reward": "rewards", "state": "states", "next_state": "next_states"},
    "recorded": "recorded",
    "covariate": "covariates",
}
#: Tables whose columns may have two numbers: the agent, and which of its numbers.
_NUMBERS = ("state", "next_state")
#: Maps each single column to its table.
_NARROW = {"context": "contexts", "step": "steps", "episode": "episodes"}
_COLUMN = re.compile(r"(action|reward|state|next_state|recorded|covariate)_(0|[1-9][0-9]{0,6})")
_NUMBER = re.compile(r"(state|next_state)_(0|[1-9][0-9]{0,6})_(0|[1-9][0-9]{0,6})")
_METADATA = b"equipoise"
#: Number of rows of a Parquet file that are written and read at once.
_ROWS = 50_000


def read(path: Path) -> dict[str, Any]:
    """Read the fields of a file."""
    if _suffix(path) == ".npz":
        return next(_archive(path, None))
    pieces = list(_columns(path, _ROWS))
    rows, settings = pieces[0][1:] if pieces else (0, {})
    done = sum(len(piece["actions"]) for piece, *_ in pieces)
    if done != rows or not done:
        raise ValueError(f"{path}: expected {rows} rows (at least one), found {done}")
    # Join table by table, so that at most one table is in memory twice.
    names = list(pieces[0][0])
    return {n: np.concatenate([piece.pop(n) for piece, *_ in pieces]) for n in names} | settings


def parts(path: Path, rows: int) -> Iterator[dict[str, Any]]:
    """Yield the fields of a file, with at most `rows` rows of the tables at a time."""
    if _suffix(path) == ".npz":
        yield from _archive(path, rows)
        return
    for part, _, settings in _columns(path, rows):
        yield {**part, **settings}


def rows_in(path: Path) -> int:
    """Return the number of rows of a Parquet file."""
    refuse_devices(path)
    with open(path, "rb") as stream, _damaged(path):
        return int(_library("pyarrow.parquet").read_metadata(stream).num_rows)


def has_gaps(path: Path) -> bool:
    """Whether a Parquet file is a user's wide table, with names, words or missing entries.

    `write` does not write such files, and they are read without local states.
    """
    refuse_devices(path)
    with open(path, "rb") as stream, _damaged(path):
        file = _library("pyarrow.parquet").ParquetFile(stream)
        schema, about = file.schema_arrow, file.metadata
        names = [n for n in schema.names if n.startswith(("action_", "reward_"))]
        local = any(n.startswith(("state_", "next_state_")) or n == "step" for n in schema.names)
        if local or not names or _METADATA in (schema.metadata or {}):
            return False
        plain = all(_COLUMN.fullmatch(n) for n in names)
        if not plain or any(
            not _is_number(schema.field(n).type) for n in (*names, "context") if n in schema.names
        ):
            return True
        columns = [
            about.row_group(group).column(at)
            for group in range(about.num_row_groups)
            for at in range(about.num_columns)
        ]
        said = (c.statistics for c in columns if c.path_in_schema in {*names, "context"})
        return any(each is not None and each.null_count for each in said)


def _is_number(kind: Any) -> bool:
    name = str(kind)
    return name.startswith(("int", "uint")) or name in ("bool", "halffloat", "float", "double")


def write(path: Path, tables: Mapping[str, np.ndarray], said: Mapping[str, Any]) -> None:
    """Write tables and declarations `said`; the suffix of `path` determines the format."""
    if _suffix(path) == ".npz":  # not compressed, so that it can be read quickly and mapped
        texts = {name: dumps(said[name]) for name in _NAMES if name in said}
        write_npz(path, {**tables, **said, **texts})
        return
    pyarrow, parquet = _library("pyarrow"), _library("pyarrow.parquet")
    columns = {column: tables[table] for column, table in _NARROW.items() if table in tables}
    for prefix, table in _WIDE.items():
        if table in tables:
            values = tables[table]
            if values.ndim == 3:
                _, agents, width = values.shape
                pairs = ((i, k) for i in range(agents) for k in range(width))
                columns |= {f"{prefix}_{i}_{k}": values[:, i, k] for i, k in pairs}
            else:
                columns |= {f"{prefix}_{i}": own for i, own in enumerate(values.T)}
    schema = pyarrow.schema(
        [(name, pyarrow.from_numpy_dtype(column.dtype)) for name, column in columns.items()],
        metadata={_METADATA: dumps(dict(said)).encode()},
    )
    with atomic_write(path) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        for start in range(0, len(tables["actions"]), _ROWS):
            part = {n: np.ascontiguousarray(c[start : start + _ROWS]) for n, c in columns.items()}
            writer.write_table(pyarrow.table(part, schema))


def _suffix(path: Path) -> str:
    if path.suffix not in (".npz", ".parquet"):
        raise InputError("path", "a name that ends in .parquet or .npz", path)
    return path.suffix


def _archive(path: Path, rows: int | None) -> Iterator[dict[str, Any]]:
    """Yield the fields of an archive, with all rows of its tables or `rows` at a time."""
    with open_npz(path) as arrays:
        unknown = sorted(set(arrays) - {*TABLES, *DECLARED})
        if unknown:
            optional = [n for n in (*TABLES, *DECLARED) if n not in ("actions", "rewards")]
            shown = [name if name.isprintable() else repr(name) for name in unknown]
            expected = f"arrays named actions and rewards and optionally {', '.join(optional)}"
            raise InputError(str(path), expected, ", ".join(shown))
        settings = _settings(path, {n: arrays[n].read() for n in DECLARED if n in arrays})
        tables = {name: arrays[name] for name in TABLES if name in arrays}
        lengths = {name: table.left for name, table in tables.items()}
        if "actions" in lengths and set(lengths.values()) != {lengths["actions"]}:
            raise ValueError(f"{path}: expected equally many rows in all tables, found {lengths}")
        while True:
            yield {name: table.read(rows) for name, table in tables.items()} | settings
            if not any(table.left for table in tables.values()):
                return


def _settings(path: Path, said: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the declarations of a file to arguments of `Log`, which checks them."""
    settings: dict[str, Any] = {}
    for name, value in said.items():
        array = np.asarray(value)
        if name in _NAMES:
            text = array.dtype.kind == "U" and not array.ndim  # in an archive
            value = parse_json(array.item(), f"{path}: {name}") if text else value
            kind, expected = _NAMES[name]
            if not isinstance(value, kind):
                raise ValueError(f"{path}: {name}: expected {expected}, found {value!r:.60}")
            settings[name] = value
            continue
        if array.dtype.kind not in "iufb":
            raise ValueError(f"{path}: {name}: expected numbers, found {value!r:.60}")
        if array.ndim and name in ("contexts_count", "states_count", "horizon", "continuous"):
            raise ValueError(f"{path}: {name}: expected one number, found {array.shape}")
        plain = array.tolist()
        settings[name] = array if name == "behaviour" else tuple(plain) if array.ndim else plain
    return settings


def _columns(path: Path, rows: int) -> Iterator[tuple[dict[str, np.ndarray], int, dict[str, Any]]]:
    """Yield tables of `rows` rows at a time, the total number of rows, and the declarations."""
    refuse_devices(path)
    with open(path, "rb") as stream:  # a missing or forbidden file raises OSError
        with _damaged(path):
            file = _library("pyarrow.parquet").ParquetFile(stream)
            schema, total = file.schema_arrow, file.metadata.num_rows
        settings = _metadata(path, schema.metadata or {})
        groups = _groups(path, list(schema.names))
        wanted = [name for names in groups.values() for name in names]
        claimed = 8.0 * min(total, rows) * len(wanted)
        # Tables store whole numbers in the smallest type that holds them, usually one byte.
        claimed += total * sum(_width(schema.field(name).type) for name in wanted)
        length = os.fstat(stream.fileno()).st_size
        if claimed > RATIO * length + ALLOWANCE:
            raise ValueError(
                f"{path}: expected tables of at most {RATIO} times the length of the file plus "
                f"{ALLOWANCE >> 20} MB, found {total} rows of {len(wanted)} columns in {length} "
                "bytes; read it in parts with Log.read_chunks, or store actions and states as int8 "
                "and rewards as float32"
            )
        first = 0
        with _damaged(path):
            batches = iter(file.iter_batches(batch_size=rows, columns=wanted))
        while True:
            with _damaged(path):
                batch = next(batches, None)
            if batch is None:
                return
            yield _tables(path, batch, groups, first), total, settings
            first += batch.num_rows


def _groups(path: Path, names: list[str]) -> dict[str, list[str]]:
    """Columns of each table, in the order of the agents."""
    if len(set(names)) != len(names):
        raise ValueError(f"{path}: expected every column once, found a duplicate")
    groups = {table: [column] for column, table in _NARROW.items() if column in names}
    numbered: dict[str, set[int]] = {}
    for match in filter(None, map(_COLUMN.fullmatch, names)):
        numbered.setdefault(match[1], set()).add(int(match[2]))
    covariates = numbered.pop("covariate", set())
    agents = 1 + max((max(numbers) for numbers in numbered.values()), default=-1)
    if covariates:
        if covariates != set(range(len(covariates))):
            raise ValueError(
                f"{path}: expected columns covariate_0 to covariate_{len(covariates) - 1}, found "
                f"covariate_{max(covariates)}"
            )
        groups["covariates"] = [f"covariate_{k}" for k in range(len(covariates))]
    for prefix in ("action", "reward", *numbered):
        own = numbered.get(prefix, set())
        if not agents or len(own) < agents:
            # The first missing number is at most the number of columns present.
            missing = next(i for i in range(len(own) + 1) if i not in own)
            raise ValueError(
                f"{path}: expected a column {prefix}_i for every agent i from 0 to "
                f"{max(agents - 1, 0)}, found none for agent {missing}"
            )
        groups[_WIDE[prefix]] = [f"{prefix}_{i}" for i in range(agents)]
    return groups | _number_groups(path, names, agents, numbered)


def _number_groups(
    path: Path, names: list[str], agents: int, numbered: dict[str, set[int]]
) -> dict[str, list[str]]:
    """Columns of numeric local states: all numbers of agent 0, then those of agent 1, ..."""
    groups: dict[str, list[str]] = {}
    for prefix in _NUMBERS:
        found = {
            (int(m[2]), int(m[3])) for m in map(_NUMBER.fullmatch, names) if m and m[1] == prefix
        }
        if not found:
            continue
        width = 1 + max(k for _, k in found)
        wanted = [(i, k) for i in range(agents) for k in range(width)]
        if found != set(wanted) or prefix in numbered:
            raise ValueError(
                f"{path}: expected columns {prefix}_i_k for every agent i from 0 to {agents - 1} "
                f"and number k from 0 to {width - 1} and no others, found "
                f"{len(found) + len(numbered.get(prefix, ()))} columns"
            )
        groups[_WIDE[prefix]] = [f"{prefix}_{i}_{k}" for i, k in wanted]
    return groups


def _metadata(path: Path, metadata: dict[bytes, bytes]) -> dict[str, Any]:
    said = parse_json(metadata.get(_METADATA, b"{}"), f"{path}: metadata")
    if not isinstance(said, dict) or not set(said) <= set(DECLARED):
        raise ValueError(f"{path}: expected metadata about {', '.join(DECLARED)}, found other")
    return _settings(path, said)


def _width(kind: Any) -> int:
    """Bytes of an entry after reading: whole numbers in a log usually fit into one byte."""
    name = str(kind)
    return 1 if "int" in name or name == "bool" else 4 if name in ("float", "halffloat") else 8


def _tables(
    path: Path, arrow: Any, groups: dict[str, list[str]], first: int
) -> dict[str, np.ndarray]:
    """Convert Arrow columns to NumPy tables; `first` is the number of the first row."""
    tables = {}
    for table, names in groups.items():
        columns = [_column(path, arrow, name, first) for name in names]
        if table in _NARROW.values():
            tables[table] = columns[0]
        else:
            columns = [_narrowed(column) for column in columns]
            tables[table] = np.empty((len(columns[0]), len(names)), np.result_type(*columns))
            np.stack(columns, 1, out=tables[table])
            if _NUMBER.fullmatch(names[0]):
                width = 1 + int(names[-1].rsplit("_", 1)[1])
                tables[table] = tables[table].reshape(len(columns[0]), -1, width)
    return tables


def _narrowed(column: np.ndarray) -> np.ndarray:
    """Convert whole numbers to the smallest type that holds them."""
    if column.dtype.kind not in "iu" or not len(column):
        return column
    low, high = int(column.min()), int(column.max())
    return column if high >= 2**63 else column.astype(np.min_scalar_type(min(low, -high - 1)))


def _column(path: Path, arrow: Any, name: str, first: int) -> np.ndarray:
    """Return one column of numbers; a null raises an error that names its row."""
    column = arrow.column(name)
    with _damaged(path):
        values = column.to_numpy(zero_copy_only=False)
        missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    if missing is not None:
        row = first + int(missing.argmax())
        raise ValueError(f"{path}: {name}: expected a number, found none in row {row}")
    if values.dtype.kind not in "iufb":
        raise ValueError(f"{path}: {name}: expected numbers, found {column.type}")
    return values


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    """Turn Arrow's errors about a damaged file into a ValueError that names the file."""
    arrow_error = _library("pyarrow").ArrowException
    try:
        yield
    except (arrow_error, OSError, ValueError, MemoryError, OverflowError) as error:
        raise ValueError(
            f"{path}: expected a Parquet file of a log, found a file that cannot be read: "
            f"{' '.join(str(error).split())}"
        ) from error


def _library(module: str) -> Any:
    return import_extra(module, "pyarrow", "parquet")
