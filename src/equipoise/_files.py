"""The one reader and the one writer of files, which know a file by its suffix and its content."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from equipoise.core.errors import InputError

#: Suffix -> what files of this format hold.
SUFFIXES = {
    ".csv": "a matrix, a log, or with a second file the links and trips of a road network",
    ".json": "a game, a policy or a solution",
    ".nfg": "a game, as Gambit writes it",
    ".npz": "a game, a policy or a log",
    ".parquet": "a log",
    ".tntp": "a road network, with a second file for its trips",
    ".toml": "a game of the catalogue with its parameters",
}
Path_ = str | os.PathLike[str]


def read(path: Path_, *more: Path_, **options: Any) -> Any:
    """Read a game, a policy, a solution or a log from a file, or a road network from two.

    The suffix and the content say what a file holds:

    - `.csv`: numbers alone, or with `\\` in the first cell, are a zero-sum matrix; any other table
      is a log, whose columns the `options` of `Log.read` name if it has one row per agent and time.
      Two files are the links and the trips of a road network.
    - `.json`: a policy, or a game or a solution that `save` wrote.
    - `.npz`: a game or a batch of games, a policy, or a log.
    - `.nfg`: a game, as Gambit writes it. `.toml`: a game of the catalogue with its parameters.
    - `.tntp`: a road network, whose trips are in a second file. `.parquet`: a log.
    - A run folder: the solution or the advice that it holds.

    **Example**

    >>> import equipoise as eq
    >>> eq.save(eq.solve(eq.MatrixGame([[1, -1], [-1, 1]])), "solution.json")
    >>> eq.read("solution.json").policy
    Profile([0.5, 0.5], [0.5, 0.5])
    >>> from pathlib import Path
    >>> _ = Path("sales.csv").write_text("week,shop,price,profit\\n1,Ada,low,2\\n1,Bo,high,3\\n")
    >>> eq.read("sales.csv", agent="shop", time="week", action="price", reward="profit").agents
    2
    """
    if len(more) > 1:
        expected = "one file, or two for a road network: its links and its trips"
        raise InputError("path", expected, f"{1 + len(more)} files")
    path = Path(path)
    suffix = path.suffix.lower()
    if path.is_dir():
        _refuse(path, more, options)
        return _result(path)
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise InputError("path", f"a name that ends in {known}, or a run folder", repr(str(path)))
    if suffix == ".parquet" or (suffix == ".csv" and not more and (options or not _matrix(path))):
        _refuse(path, more, {})
        return _log(path, options)
    names = _arrays(path) if suffix == ".npz" else set()
    if {"actions", "rewards"} <= names:
        _refuse(path, more, {})
        return _log(path, options)
    _refuse(path, (), options)
    from equipoise import games

    if suffix in (".csv", ".tntp", ".nfg", ".toml"):
        return games.read(path, *more)
    _refuse(path, more, {})
    if suffix == ".npz":
        from equipoise.games.files import is_policy

        return games.read_policy(path) if is_policy(names) else games.read(path)
    from equipoise.certificates import solution_from_plain
    from equipoise.core.plain import read_json_value, revive

    content = read_json_value(path)
    if isinstance(content, dict) and {"certificate", "status"} <= set(content):
        return _of(path, solution_from_plain, revive(content))  # a bound may be infinite
    if isinstance(content, dict) and content.get("kind") in tuple(games.kinds.KINDS):
        return games.read(path)
    return games.read_policy(path)


def save(value: Any, path: Path_) -> None:
    """Write a game, a policy, a solution or a log to a file; `read` returns the same value.

    The suffix is the format: `.json` for games, policies and solutions, `.npz` for games, policies
    and logs, `.nfg` and `.csv` for matrix and normal-form games, `.parquet` for logs. The file is
    written whole or not at all. A game made of functions cannot be written: keep the program that
    makes it.

    **Example**

    >>> import equipoise as eq
    >>> eq.save(eq.Profile([[0.5, 0.5], [0.25, 0.75]]), "policy.json")
    >>> eq.read("policy.json")[1].tolist()
    [0.25, 0.75]
    """
    if not isinstance(path, str | os.PathLike):
        hint = "the value comes first: save(value, path)"
        raise InputError("path", "the name of a file", type(path).__name__, hint)
    path = Path(path)
    from equipoise import games
    from equipoise.core import Solution

    if isinstance(value, Solution):
        _check_suffix(path, "a solution", ".json")
        _write_plain(path, value, "solution")
    elif isinstance(value, games.Game) and path.suffix.lower() == ".json":
        _write_plain(path, value, "game")
    elif isinstance(value, games.Game):
        games.write(value, path)
    elif isinstance(value, games.Policy):
        games.write_policy(path, value)
    elif callable(getattr(value, "write", None)):  # a log, a page, the tolls of a design
        value.write(path)
    elif callable(getattr(value, "save", None)):  # records, actors, what an `Online` has learned
        value.save(path)
    else:
        expected = "a game, a policy, a solution, a log, or another result"
        raise InputError("value", expected, type(value).__name__)


def _refuse(path: Path, more: tuple[Path_, ...], options: Mapping[str, Any]) -> None:
    """Refuse arguments that this kind of file has no use for."""
    if more:
        expected = f"one file: {path.name} needs no second one"
        raise InputError("path", expected, f"also {os.fspath(more[0])}")
    for name in options:
        expected = f"no options with {path.name}: they name columns of a log"
        raise InputError(name, expected, repr(options[name]))


def _check_suffix(path: Path, what: str, *suffixes: str) -> None:
    if path.suffix.lower() not in suffixes:
        expected = f"a name that ends in {' or '.join(suffixes)} for {what}"
        raise InputError("path", expected, repr(str(path)))


def _matrix(path: Path) -> bool:
    """Whether a `.csv` file holds a matrix: its first line has numbers alone, or names columns."""
    from equipoise.core.files import refuse_devices
    from equipoise.games.files import begins_matrix

    refuse_devices(path)
    with open(path, encoding="utf-8-sig", errors="replace") as lines:
        for line in lines:
            if line.strip() and not line.lstrip().startswith("#"):
                return begins_matrix(line)
    return True  # empty: the reader of matrices says so


def _arrays(path: Path) -> set[str]:
    from equipoise.core.arrays import open_npz

    with open_npz(path) as arrays:
        return set(arrays)


def _log(path: Path, options: Mapping[str, Any]) -> Any:
    from equipoise.offline import Log

    try:
        return Log.read(path, **options)
    except InputError as error:
        if options or "long table" not in error.hint:
            raise
        hint = f"name the columns of a long table: read({str(path)!r}, agent=..., time=..., "
        hint += "action=..., reward=...); a road network is read from two files"
        raise InputError(str(path), error.expected, error.found, hint) from None


def _write_plain(path: Path, value: Any, name: str) -> None:
    from equipoise.core.files import write_text
    from equipoise.core.plain import dumps

    write_text(path, dumps(value.to_plain(), name) + "\n")


def _of(path: Path, make: Callable[[Any], Any], content: Mapping[str, Any]) -> Any:
    """Return what the content of a file describes; errors name the file."""
    try:
        return make(content)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _result(folder: Path) -> Any:
    """Return the solution in the record of a run folder."""
    from equipoise.certificates import solution_from_plain
    from equipoise.runs import Record

    if not (folder / "record.json").exists():
        found = "a folder without record.json"
        raise InputError("path", "a file, or the folder of a finished run", found)
    record = Record.load(folder)
    if record.solution is None:
        found = f"a record of {record.name}"
        raise InputError("path", "the folder of a run that ended with a policy", found)
    return _of(folder, solution_from_plain, record.solution)
