"""The final record of a run: everything a report needs, and nothing else."""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core.arrays import pack, read_npz, unpack, write_npz
from equipoise.core.files import write_text
from equipoise.core.plain import dumps, read_json, revive, to_plain

#: What `record.json` holds.
_KEYS = ("name", "config", "scalars", "tables", "arrays", "arrays_sha256")


@dataclass(frozen=True)
class Table:
    """Named columns and rows of plain values.

    **Example**

    >>> from equipoise.runs import Table
    >>> table = Table(("game", "gap"), [("pennies", 0.0), ("rps", 1e-16)])
    >>> table.column("gap")
    [0.0, 1e-16]
    """

    columns: Sequence[str]
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
        """A table from rows with names; an entry a row lacks is None.

        >>> Table.from_dicts([{"step": 1}, {"step": 2, "gap": 0.5}]).rows
        [(1, None), (2, 0.5)]
        """
        rows = list(rows)
        columns = tuple(dict.fromkeys(key for row in rows for key in row))
        return cls(columns, [tuple(row.get(key) for key in columns) for row in rows])

    def column(self, name: str) -> list[Any]:
        """All entries of one column."""
        if name not in self.columns:
            raise ValueError(f"name: expected one of {list(self.columns)}, found {name!r}")
        index = list(self.columns).index(name)
        return [row[index] for row in self.rows]


@dataclass(frozen=True, eq=False)
class Record:
    """Scalars, arrays and tables under names, with the config that led to them.

    Saved as `record.json` and `record.npz`; equal records make equal files, byte for byte.

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

    name: str
    config: Any = field(default_factory=dict)
    scalars: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A record holds what its files would give back, so that a report from either is the same.
        set_field = object.__setattr__
        set_field(self, "config", revive(to_plain(self.config, "config")))
        set_field(self, "scalars", revive(to_plain(self.scalars, "scalars")))
        set_field(self, "arrays", {k: np.asarray(v) for k, v in self.arrays.items()})
        set_field(self, "tables", {k: _plain_table(k, v) for k, v in self.tables.items()})

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `record.npz`, then `record.json`, which completes the record."""
        folder = Path(folder)
        packed = {name: pack(f"arrays[{name!r}]", array) for name, array in self.arrays.items()}
        write_npz(folder / "record.npz", {name: array for name, (array, _) in packed.items()})
        content = {
            "name": self.name,
            "config": self.config,
            "scalars": self.scalars,
            "tables": {k: {"columns": t.columns, "rows": t.rows} for k, t in self.tables.items()},
            "arrays": {name: dtype for name, (_, dtype) in packed.items()},
            "arrays_sha256": _digest(folder / "record.npz"),
        }
        write_text(folder / "record.json", dumps(content, "record", indent=2) + "\n")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Record":
        """Read the record of a finished run folder."""
        folder = Path(folder)
        if not (folder / "record.json").exists():
            raise FileNotFoundError(f"{folder}: expected a finished run, found no record.json")
        content = revive(read_json(folder / "record.json", *_KEYS))
        if content["arrays_sha256"] != _digest(folder / "record.npz"):
            raise ValueError(f"{folder}: record.npz and record.json are not of one record")
        arrays = read_npz(folder / "record.npz")
        return cls(
            name=content["name"],
            config=content["config"],
            scalars=content["scalars"],
            arrays={name: unpack(arrays[name], dtype) for name, dtype in content["arrays"].items()},
            tables={k: Table(t["columns"], t["rows"]) for k, t in content["tables"].items()},
        )


def _plain_table(name: str, table: Table) -> Table:
    columns = tuple(str(column) for column in table.columns)
    rows = revive(to_plain(list(table.rows), f"tables[{name!r}]"))
    return Table(columns, [tuple(row) for row in rows])


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
