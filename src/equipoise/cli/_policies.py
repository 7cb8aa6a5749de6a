"""Policies in files: JSON for reading and writing by hand, `.npz` for batches."""

import json
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core.files import atomic_write, write_text
from equipoise.runs.plain import dumps

SUFFIXES = (".json", ".npz")


def check_suffix(path: Path) -> None:
    """Refuse a name that says no format; asked before the work that leads to the file."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"policy: expected a name that ends in {' or '.join(SUFFIXES)}, found {path}"
        )


def read_policy(path: Path) -> tuple[np.ndarray, ...]:
    """Read a policy: one array of probabilities per player.

    A `.json` file holds `{"policy": [[...], [...]]}`, with whatever else beside it, or the
    list alone. A `.npz` file holds `policy_0`, `policy_1`, ... (or what `numpy.savez` calls
    them when they have no names).
    """
    check_suffix(path)
    players = _read_npz(path) if path.suffix.lower() == ".npz" else _read_json(path)
    return tuple(_as_numbers(path, i, player) for i, player in enumerate(players))


def write_policy(path: Path, policy: Sequence[np.ndarray], document: dict[str, Any]) -> None:
    """Write a policy, atomically; `.json` files hold the rest of the document too."""
    check_suffix(path)
    if path.suffix.lower() == ".json":
        write_text(path, dumps(document, "document") + "\n")
        return
    arrays: dict[str, Any] = {f"policy_{i}": np.asarray(p) for i, p in enumerate(policy)}
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)


def _read_json(path: Path) -> list[Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError(f"{path}: expected a policy, found lists nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON, found {error}") from error
    policy = content.get("policy") if isinstance(content, dict) else content
    if not isinstance(policy, list) or not policy or not all(isinstance(p, list) for p in policy):
        raise ValueError(
            f'{path}: expected {{"policy": [[...], [...]]}}, one list of probabilities per player'
        )
    return policy


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name}, which is not a number")


def _read_npz(path: Path) -> list[np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("a single array")
            named = {match: n for n in file.files if (match := _player(n)) is not None}
            if sorted(named) != list(range(len(named))) or not named:
                raise ValueError(f"arrays named {', '.join(file.files) or 'nothing'}")
            return [file[named[i]] for i in range(len(named))]
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: expected arrays policy_0, policy_1, ..., found {error}"
        ) from error


def _player(name: str) -> int | None:
    match = re.fullmatch(r"(?:policy|arr)_(\d{1,6})", name)
    return int(match[1]) if match else None


def _as_numbers(path: Path, player: int, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{path}: player {player + 1}: expected rows of one length, found several"
        ) from error
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{path}: player {player + 1}: expected numbers, found {array.dtype}")
    return array.astype(np.float64)
