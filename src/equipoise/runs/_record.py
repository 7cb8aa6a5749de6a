"""The final record of a run, which contains everything that a report needs."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.core.arrays import pack, read_npz, unpack, write_npz
from equipoise.core.files import read_bytes, refuse_devices, write_text
from equipoise.core.plain import dumps, expect, read_json, revive, to_plain
from equipoise.runs._upgrade import SOLUTION_VERSION, upgraded
from equipoise.runs.environment import read_sessions

#: Required keys of `record.json`; records of version 0.1 have no `solution`.
_KEYS = ("name", "config", "scalars", "tables", "arrays", "arrays_sha256")
#: Prefix of the arrays of the solution, and the key that refers to one of them in `record.json`.
_PREFIX, _ARRAY = "solution/", "$array"


@dataclass(frozen=True)
class Table:
    """Named columns and rows of plain values.

    **Example**

    >>> from equipoise.runs import Table
    >>> table = Table(("game", "gap"), [("pennies", 0.0), ("rps", 1e-16)])
    >>> table.column("gap")
    [0.0, 1e-16]
    """

    #: Names of the columns.
    columns: Sequence[str]
    #: Rows of plain values.
    rows: Sequence[Sequence[Any]]

    def __post_init__(self) -> None:
        for i, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"rows[{i}]: expected {len(self.columns)} entries, one per column, "
                    f"found {len(row)}"
                )

    @classmethod
    def from_dicts(cls, rows: Iterable[Mapping[str, Any]]) -> "Table":
        """Return a table from rows given as dicts; missing entries are None.

        >>> Table.from_dicts([{"step": 1}, {"step": 2, "gap": 0.5}]).rows
        [(1, None), (2, 0.5)]
        """
        rows = list(rows)
        columns = tuple(dict.fromkeys(key for row in rows for key in row))
        return cls(columns, [tuple(row.get(key) for key in columns) for row in rows])

    def column(self, name: str) -> list[Any]:
        """Return all entries of one column."""
        if name not in self.columns:
            raise InputError("name", f"one of {', '.join(self.columns)}", repr(name))
        index = list(self.columns).index(name)
        return [row[index] for row in self.rows]


@dataclass(frozen=True, eq=False)
class Record:
    """Named scalars, arrays and tables, with the config that they result from.

    A record is saved as `record.json` and `record.npz`. Equal records with equal metrics make equal
    files, byte for byte. The files contain digests of their content and of the metrics, so records
    that were edited or damaged later are refused; records of version 0.1 have fewer digests. A run
    that was stopped and resumed must leave the same files as an uninterrupted run. Scalars and
    columns of tables whose names contain seconds are therefore not in these files: `Run.finish`
    saves them in `environment.json`, and `load` adds them again.

    `solution` is the plain form of a `Solution` (`solution.to_plain()`): policy, certificate and
    status under one versioned key, whichever command found them. Records of version 0.1 have no
    such key; it is added when they are read.

    **Example**

    >>> import tempfile
    >>> from equipoise.runs import Record
    >>> record = Record("coins", {"seed": 0}, {"gap": 0.5}, {"policy": [0.25, 0.75]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     record.save(folder)
    ...     again = Record.load(folder)
    >>> again.scalars, again.arrays["policy"]
    ({'gap': 0.5}, array([0.25, 0.75]))
    """

    #: Name of the record.
    name: str
    #: Configuration that the results belong to.
    config: Any = field(default_factory=dict)
    #: Plain values by name.
    scalars: Mapping[str, Any] = field(default_factory=dict)
    #: Arrays by name.
    arrays: Mapping[str, Any] = field(default_factory=dict)
    #: Tables by name.
    tables: Mapping[str, Table] = field(default_factory=dict)
    solution: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        # Values are converted as saving and loading would, so that reports from both are the same.
        set_field = object.__setattr__
        set_field(self, "config", revive(to_plain(self.config, "config")))
        set_field(self, "scalars", revive(to_plain(self.scalars, "scalars")))
        set_field(self, "arrays", {k: np.asarray(v) for k, v in self.arrays.items()})
        set_field(self, "tables", {k: _plain_table(k, v) for k, v in self.tables.items()})
        if self.solution is None:
            return
        version = self.solution.get("version")
        if version != SOLUTION_VERSION:
            raise ValueError(
                f"solution: expected version {SOLUTION_VERSION} of its plain form, found "
                f"{version!r:.40}"
            )
        arrays: dict[str, np.ndarray] = {}
        plain = _without_arrays(_without_times(self.solution), "solution", arrays)
        set_field(self, "solution", _with_arrays(revive(to_plain(plain, "solution")), arrays))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `record.npz` and then `record.json`, which completes the record."""
        folder = Path(folder)
        arrays = dict(self.arrays)
        solution = _without_arrays(self.solution, "solution", arrays)
        packed = {name: pack(f"arrays[{name!r}]", array) for name, array in arrays.items()}
        write_npz(folder / "record.npz", {name: array for name, (array, _) in packed.items()})
        content = {
            "name": self.name,
            "config": self.config,
            "scalars": _without_times(self.scalars),
            "tables": {k: _split(t)[0] for k, t in self.tables.items()},
            "solution": solution,
            "arrays": {name: dtype for name, (_, dtype) in packed.items()},
            "arrays_sha256": _digest(folder / "record.npz"),
        }
        if (folder / "metrics.jsonl").exists():
            content["metrics_sha256"] = _rows_digest(folder / "metrics.jsonl")
        content["sha256"] = _content_digest(to_plain(content, "record"))
        write_text(folder / "record.json", dumps(content, "record", indent=2) + "\n")

    @property
    def times(self) -> dict[str, Any]:
        """Scalars and columns of tables that `save` leaves out, since they are times in seconds."""
        tables = {name: found for name, t in self.tables.items() if (found := _split(t)[1])}
        scalars = _without_times(self.scalars, inverse=True)
        parts = {"scalars": scalars, "tables": tables}
        return {name: part for name, part in parts.items() if part}

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Record":
        """Read the record of a finished run folder."""
        folder = Path(folder)
        file = folder / "record.json"
        if not file.exists():
            raise FileNotFoundError(f"{folder}: expected a finished run, found no record.json")
        content = revive(_read_checked(file))
        expect(f"{file}: name", content["name"], str, "words")
        for part in ("scalars", "tables", "arrays"):
            expect(f"{file}: {part}", content[part], dict, "an object")
        if content["arrays_sha256"] != _digest(folder / "record.npz"):
            raise ValueError(f"{folder}: record.npz and record.json do not belong to one record")
        stored = read_npz(folder / "record.npz")
        if set(stored) != set(content["arrays"]):
            raise ValueError(f"{file}: expected the arrays of record.npz, found others")
        arrays = {name: unpack(stored[name], dtype) for name, dtype in content["arrays"].items()}
        given = {name: array for name, array in arrays.items() if not name.startswith(_PREFIX)}
        solution = content.get("solution")
        if solution is not None:
            expect(f"{file}: solution", solution, dict, "an object")
            solution = _with_arrays(solution, arrays)
        elif "solution" not in content:
            solution = upgraded(content["scalars"], given)
        times = _times(folder)
        columns = times.get("tables", {})
        return cls(
            name=content["name"],
            config=content["config"],
            scalars=_merged(content["scalars"], times.get("scalars", {})),
            arrays=given,
            tables={
                name: _read_table(f"{file}: {name}", table, columns.get(name, {}))
                for name, table in content["tables"].items()
            },
            solution=solution,
        )


def check_metrics(folder: Path) -> None:
    """Refuse metrics of a finished run that changed after it finished."""
    file, metrics = folder / "record.json", folder / "metrics.jsonl"
    expected = _read_checked(file).get("metrics_sha256") if file.exists() else None
    if expected is None:
        return
    if not metrics.exists() or _rows_digest(metrics) != expected:
        raise ValueError(
            f"{metrics}: expected the rows of the finished run, found others; the file was "
            "damaged or edited"
        )


def _without_arrays(plain: Any, where: str, arrays: dict[str, Any]) -> Any:
    """Replace the arrays in a plain form by references, and add them to `arrays`."""
    if isinstance(plain, Mapping):
        items = plain.items()
        return {str(key): _without_arrays(v, f"{where}/{key}", arrays) for key, v in items}
    if isinstance(plain, list | tuple):
        return [_without_arrays(v, f"{where}/{i}", arrays) for i, v in enumerate(plain)]
    if hasattr(plain, "__array__") and not isinstance(plain, np.generic):
        arrays[where] = np.asarray(plain)
        return {_ARRAY: where}
    return plain


def _with_arrays(plain: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Undo `_without_arrays`."""
    if isinstance(plain, dict):
        if set(plain) == {_ARRAY}:
            name = plain[_ARRAY]
            if not isinstance(name, str) or name not in arrays:
                raise ValueError(f"solution: expected the name of an array, found {name!r:.60}")
            return arrays[name]
        return {key: _with_arrays(value, arrays) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_with_arrays(value, arrays) for value in plain]
    return plain


def _without_times(scalars: Mapping[str, Any], *, inverse: bool = False) -> dict[str, Any]:
    """Return the scalars whose names do not end in "seconds", also nested; or only the others.

    >>> _without_times({"gap": 0.5, "stats": {"sweeps": 3, "plan_seconds": 0.1}})
    {'gap': 0.5, 'stats': {'sweeps': 3}}
    >>> _without_times({"gap": 0.5, "stats": {"sweeps": 3, "plan_seconds": 0.1}}, inverse=True)
    {'stats': {'plan_seconds': 0.1}}
    """
    kept = {}
    for name, value in scalars.items():
        if isinstance(value, Mapping):
            within = _without_times(value, inverse=inverse)
            if within or not inverse:
                kept[name] = within
        elif str(name).endswith("seconds") == inverse:
            kept[name] = value
    return kept


def _split(table: Table) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a table into the columns without times in seconds, and those with times.

    >>> _split(Table(("game", "seconds"), [("pennies", 0.5)]))
    ({'columns': ['game'], 'rows': [['pennies']]}, {'seconds': {'place': 1, 'values': [0.5]}})
    """
    timed = [i for i, column in enumerate(table.columns) if "seconds" in column]
    kept = [i for i in range(len(table.columns)) if i not in timed]
    plain = {
        "columns": [table.columns[i] for i in kept],
        "rows": [[row[i] for i in kept] for row in table.rows],
    }
    columns = {i: [row[i] for row in table.rows] for i in timed}
    return plain, {table.columns[i]: {"place": i, "values": columns[i]} for i in timed}


def _times(folder: Path) -> dict[str, Any]:
    """Return the times that belong to the record of a folder."""
    file = folder / "environment.json"
    sessions = read_sessions(file) if file.exists() else []
    found = next((s["times"] for s in reversed(sessions) if "times" in s), {})
    for part in expect(f"{file}: times", revive(found), dict, "an object").values():
        expect(f"{file}: times", part, dict, "objects")
    return revive(found)


def _merged(scalars: dict[str, Any], times: dict[str, Any]) -> dict[str, Any]:
    """Undo `_without_times`."""
    merged = dict(scalars)
    for name, value in times.items():
        within = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if within else value
    return merged


def _read_table(where: str, table: Any, times: Any) -> Table:
    """Read a table of `_split` and insert its times, if they exist and fit."""
    expect(where, table, dict, "a table")
    columns, rows = (
        expect(f"{where}: {part}", table.get(part), list, "a list") for part in ("columns", "rows")
    )
    for row in rows:
        expect(f"{where}: rows", row, list, "lists")
    for name, column in expect(f"{where}: times", times, dict, "an object").items():
        values = column.get("values") if isinstance(column, dict) else None
        if isinstance(values, list) and len(values) == len(rows):
            place = expect(f"{where}: times", column.get("place"), int, "a place")
            columns.insert(place, name)
            for row, value in zip(rows, values, strict=True):
                row.insert(place, value)
    try:
        return Table(columns, rows)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _plain_table(name: str, table: Table) -> Table:
    columns = tuple(str(column) for column in table.columns)
    rows = revive(to_plain(list(table.rows), f"tables[{name!r}]"))
    return Table(columns, [tuple(row) for row in rows])


def _read_checked(file: Path) -> dict[str, Any]:
    """Read the plain content of a `record.json`; refuse it if it changed since it was written."""
    content = read_json(file, *_KEYS)
    if "sha256" in content and content["sha256"] != _content_digest(content):
        raise ValueError(
            f"{file}: expected the content that the run wrote, found another; the file was "
            "damaged or edited"
        )
    return content


def _content_digest(content: Mapping[str, Any]) -> str:
    """Return a digest of the content except the digest itself, whatever the JSON layout."""
    kept = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _rows_digest(metrics: Path) -> str:
    """Return a digest of all complete rows."""
    content = read_bytes(metrics)
    return hashlib.sha256(content[: content.rfind(b"\n") + 1]).hexdigest()


def _digest(path: Path) -> str:
    refuse_devices(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
