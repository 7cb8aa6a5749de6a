"""Policies in files: JSON for reading and writing by hand, `.npz` for batches."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core.arrays import read_npz, write_npz
from equipoise.core.files import write_text
from equipoise.core.plain import dumps

SUFFIXES = (".json", ".npz")


def check_suffix(path: Path, name: str = "policy") -> None:
    """Refuse a name that says no format; asked before the work that leads to the file.

    >>> check_suffix(Path("p.txt"), "--out")
    Traceback (most recent call last):
    ...
    ValueError: --out: expected a name that ends in .json or .npz, found p.txt
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"{name}: expected a name that ends in {' or '.join(SUFFIXES)}, found {path}"
        )


def read_policy(path: Path) -> tuple[np.ndarray, ...]:
    """Read a policy: one array of probabilities per player.

    A `.json` file holds `{"policy": [[...], [...]]}`, with whatever else beside it, or the
    list alone. A `.npz` file holds `policy_0`, `policy_1`, ... (or what `numpy.savez` calls
    them when they have no names).
    """
    check_suffix(path)
    players = _read_npz(path) if path.suffix.lower() == ".npz" else _read_players(path)
    return tuple(_as_numbers(path, i, player) for i, player in enumerate(players))


def write_policy(path: Path, policy: Sequence[np.ndarray], document: dict[str, Any]) -> None:
    """Write a policy, atomically; `.json` files hold the rest of the document too."""
    check_suffix(path)
    if path.suffix.lower() == ".json":
        write_text(path, dumps(document, "document") + "\n")
        return
    write_npz(path, {f"policy_{i}": np.asarray(player) for i, player in enumerate(policy)})


def read_json(path: Path) -> Any:
    """What stands under `policy` in a file of JSON, or all of it where it is no dictionary."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError(f"{path}: expected a policy, found lists nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON, found {error}") from error
    return content.get("policy") if isinstance(content, dict) else content


def _read_players(path: Path) -> list[Any]:
    policy = read_json(path)
    if not isinstance(policy, list) or not policy or not all(isinstance(p, list) for p in policy):
        raise ValueError(
            f'{path}: expected {{"policy": [[...], [...]]}}, one list of probabilities per player'
        )
    return policy


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name}, which is not a number")


def _read_npz(path: Path) -> list[np.ndarray]:
    arrays = read_npz(path)
    named = {player: array for n, array in arrays.items() if (player := _player(n)) is not None}
    if not named or sorted(named) != list(range(len(named))):
        found = ", ".join(arrays) or "nothing"
        raise ValueError(f"{path}: expected arrays policy_0, policy_1, ..., found {found}")
    return [named[i] for i in range(len(named))]


def _player(name: str) -> int | None:
    match = re.fullmatch(r"(?:policy|arr)_(\d{1,6})", name)
    return int(match[1]) if match else None


def _as_numbers(path: Path, player: int, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{path}: player {player}: expected rows of one length, found several"
        ) from error
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{path}: player {player}: expected numbers, found {_in_words(array)}")
    return array.astype(np.float64)


def _in_words(array: np.ndarray) -> str:
    """What an array without numbers holds.

    >>> _in_words(np.array(["a", "b"])), _in_words(np.array([True]))
    ("words, such as 'a'", 'true and false')
    """
    if array.dtype.kind in "US":
        return f"words, such as {array.flat[0].item()!r}"
    known = {"b": "true and false", "c": "complex numbers"}
    return known.get(array.dtype.kind, "null, or another thing that is no number")
