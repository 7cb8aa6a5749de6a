"""Logs as files: `.parquet`, a column for everything, and `.npz`, the arrays by their names.

Whatever a file holds, reading it gives a log or a `ValueError` that says what is wrong with it;
only a file that is not there, or may not be read, stays the `OSError` that it is.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.files import atomic_write
from equipoise.offline._checks import as_range
from equipoise.offline._log import Log

#: The arrays of a log that have a row for each sample.
TABLES = ("contexts", "actions", "rewards", "states", "next_states", "steps", "episodes")
#: What a log says beside them.
DECLARED = (
    *("actions_per_agent", "contexts_count", "states_count", "horizon"),
    *("behaviour", "reward_range", "continuous"),
)


def read_log(path: str | os.PathLike[str], declared: Mapping[str, Any]) -> Log:
    """Read a whole log; what is declared replaces what the file says."""
    path = Path(path)
    _check_declared(declared)
    fields = _format(path)[0](path)
    if declared.get("continuous") and not fields.get(
        "continuous", "actions_per_agent" not in fields
    ):
        raise ValueError(
            f"{path}: expected actions that are numbers from -1 to 1, found a log that is declared "
            "discrete; read it without continuous=True"
        )
    return _build(path, {**fields, **declared})


def write_log(log: Log, path: str | os.PathLike[str]) -> None:
    """Write a log; the suffix of `path` says how."""
    path = Path(path)
    write = _format(path)[1]
    with atomic_write(path) as temporary:
        write(log, temporary)


def read_chunks(
    path: str | os.PathLike[str], rows: int, declared: Mapping[str, Any]
) -> Iterator[Log]:
    """Read a log in parts; counts that nobody declares are found in a first pass."""
    path, rows = Path(path), checks.check_count("rows", rows)
    _check_declared(declared)
    parts = _format(path)[2]
    said = _with_counts(path, lambda: parts(path, rows), declared)
    first = 0
    for fields in parts(path, rows):
        fields = {name: value for name, value in fields.items() if name != "episodes"}
        try:
            log = _build(path, {**fields, **said})
        except ValueError as error:
            raise ValueError(f"{error} (of the part that begins at row {first})") from error
        yield log
        first += log.samples


def _with_counts(
    path: Path, parts: Callable[[], Iterator[dict[str, Any]]], declared: Mapping[str, Any]
) -> dict[str, Any]:
    """What is declared here or in the file, with counts of all parts together."""
    said = dict(declared)
    counts: dict[str, Any] = {}
    for fields in parts():
        said = {**{name: fields[name] for name in DECLARED if name in fields}, **said}
        needed = ["contexts_count", "actions_per_agent"]
        needed += ["states_count", "horizon"] if "states" in fields else []
        if all(name in said for name in needed):
            break
        part = _build(path, {k: v for k, v in fields.items() if k != "episodes"} | said)
        counts = {
            name: np.maximum(counts.get(name, 1), getattr(part, name)).tolist()
            for name in needed
            if getattr(part, name) != ()
        }
    return {**counts, **said}


def _build(path: Path, fields: dict[str, Any]) -> Log:
    for name in ("actions", "rewards"):
        if name not in fields:
            raise ValueError(f"{path}: expected {name}, found none; actions and rewards are needed")
    fields.setdefault("contexts", None)
    try:
        return Log(**fields)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _check_declared(declared: Mapping[str, Any]) -> None:
    unknown = sorted(set(declared) - set(DECLARED))
    if unknown:
        raise ValueError(f"declared: expected {', '.join(DECLARED)}, found {', '.join(unknown)}")


def _format(path: Path) -> tuple[Callable[..., Any], ...]:
    """How a file is read, written, and read in parts."""
    if path.suffix == ".npz":
        from equipoise.offline import _npz as kind
    elif path.suffix == ".parquet":
        from equipoise.offline import _parquet as kind
    else:
        raise ValueError(f"path: expected a name that ends in .parquet or .npz, found {path}")
    return kind.read, kind.write, kind.parts


def as_settings(path: Path, said: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says beside its tables, as `Log` takes it; refuses what makes no sense."""
    settings: dict[str, Any] = {}
    for name, value in said.items():
        array = np.asarray(value)
        if array.dtype.kind not in "iufb":
            raise ValueError(f"{path}: {name}: expected numbers, found {value!r:.60}")
        if name == "continuous":
            settings[name] = bool(array.all())
        elif name in ("contexts_count", "states_count", "horizon"):
            if array.ndim:
                raise ValueError(f"{path}: {name}: expected one number, found {array.shape}")
            settings[name] = checks.check_count(f"{path}: {name}", array.item())
        elif name == "reward_range":
            settings[name] = as_range(f"{path}: {name}", array)
        else:
            settings[name] = array if name == "behaviour" else array.tolist()
    return settings


def said_beside(log: Log) -> dict[str, Any]:
    """What a log says beside its tables."""
    said = {name: getattr(log, name) for name in DECLARED}
    if log.states is None:
        said = {name: said[name] for name in said if name not in ("states_count", "horizon")}
    if log.continuous:
        said.pop("actions_per_agent")
    return {name: value for name, value in said.items() if value is not None}
