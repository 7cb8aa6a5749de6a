"""Policies in files: JSON to read and edit by hand, `.npz` for batches."""

import inspect
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.arrays import read_npz, write_npz
from equipoise.core.errors import InputError, named_arguments
from equipoise.core.files import write_text
from equipoise.core.plain import dumps, read_json_value
from equipoise.core.results import policy_in
from equipoise.games._game import Game
from equipoise.games._policies import (
    POLICIES,
    Profile,
    policy_from_plain,
)
from equipoise.games._policy import Policy

SUFFIXES = (".json", ".npz")
#: Array that identifies each kind of policy in a `.npz` file.
_MARKS = {"joint": "joint", "policies": "mixture", "points": "continuous", "rows": "aggregative"}
_MARKS |= {"flows": "flows"}
_PLAYER = re.compile(r"(?:policy|arr)_(\d{1,6})")


@named_arguments
def read_policy(path: str | os.PathLike[str], game: Game | None = None) -> Policy:
    """Read a policy from a `.json` or `.npz` file.

    A `.json` file holds `{"policy": ...}`, possibly with other entries, or the policy alone. The
    policy is its plain form, as `write_policy` writes it, with or without `kind`; or a list. A list
    holds one strategy per player. With `game`, the content is anything that
    `game.policy` takes: players and actions may be named, and a list is read according to the kind
    of game: the probabilities of a product policy in games of interaction terms, the points of all
    agents in continuous games, the actions of all agents in aggregative games.

    A `.npz` file holds `policy_0`, `policy_1`, ... of a `Profile` (or the default names of
    `numpy.savez`), or the parts of another kind by name. Other arrays are ignored.

    **Example**

    >>> import tempfile, pathlib, equipoise as eq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "policy.json"
    ...     _ = path.write_text('{"policy": [[0.5, 0.5], [1, 0]]}')
    ...     x, y = eq.read_policy(path)
    >>> y.tolist()
    [1.0, 0.0]
    """
    path = Path(path)
    _check_suffix(path)
    try:
        if path.suffix.lower() == ".npz":
            return _from_arrays(read_npz(path))
        content = read_json_value(path)
        if isinstance(content, dict):
            content = content.get("policy", content)
        return _from_content(content, game)
    except ValueError as error:
        if str(error).startswith(f"{path}: "):  # the readers already named the file
            raise
        raise ValueError(f"{path}: {error}") from error


def _from_content(content: Any, game: Game | None) -> Policy:
    if not isinstance(content, dict | list) or content == []:
        raise InputError("policy", "a list or an object", type(content).__name__)
    if game is not None:
        if not isinstance(content, dict) or "kind" not in content:
            checks.check_listed("policy", content)
        return game.policy(content)
    if isinstance(content, dict):
        return policy_from_plain(content)
    if not all(isinstance(part, list) for part in content):
        raise InputError(
            "policy",
            '{"policy": [[...], [...]]}, one list of probabilities for each player',
            f"{content[0]!r:.40}",
            "pass the game to read_policy if it has many agents",
        )
    return Profile.from_plain({"strategies": content})


def is_policy(names: Iterable[str]) -> bool:
    """Whether arrays of these names are those of a policy.

    >>> is_policy({"policy_0", "policy_1"}), is_policy({"payoff", "labels"})
    (True, False)
    """
    return any(name in _MARKS or _PLAYER.fullmatch(name) for name in names)


def _from_arrays(arrays: Mapping[str, np.ndarray]) -> Policy:
    players = {int(match[1]): a for name, a in arrays.items() if (match := _PLAYER.fullmatch(name))}
    if players:
        return Profile.from_plain({"strategies": {str(i): a for i, a in players.items()}})
    for mark, kind in _MARKS.items():
        if mark in arrays:
            names = inspect.signature(POLICIES[kind]).parameters
            parts = {name: arrays[name] for name in names if name in arrays}
            return POLICIES[kind].from_plain(parts)
    found = ", ".join(sorted(arrays))[:200] or "nothing"
    expected = "arrays policy_0, policy_1, ...; joint; policies; points; or rows, counts, actions"
    raise InputError("policy", expected, found)


def write_policy(path: str | os.PathLike[str], policy: Any) -> None:
    """Write a policy to a `.json` or `.npz` file; `read_policy` returns exactly the same policy.

    A tuple or list of strategies is written as a `Profile`; of a solution, its policy is written.

    **Example**

    >>> import tempfile, pathlib, equipoise as eq
    >>> policy = eq.Profile([[0.5, 0.5], [0.25, 0.75]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "policy.npz"
    ...     eq.write_policy(path, policy)
    ...     eq.read_policy(path) == policy
    True
    """
    if not isinstance(path, str | os.PathLike):
        hint = "the path comes first: write_policy(path, policy)"
        raise InputError("path", "the name of a file", type(path).__name__, hint)
    path = Path(path)
    _check_suffix(path)
    policy = policy_in(policy)
    policy = policy if isinstance(policy, Policy) else Profile(policy)
    plain = policy.to_plain()
    if path.suffix.lower() == ".json":
        write_text(path, dumps({"policy": plain}, "policy") + "\n")
    elif isinstance(policy, Profile):
        write_npz(path, {f"policy_{i}": np.asarray(s) for i, s in enumerate(policy)})
    else:
        write_npz(path, {name: np.asarray(a) for name, a in plain.items() if name != "kind"})


def _check_suffix(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise InputError("path", f"a name that ends in {' or '.join(SUFFIXES)}", path)
