"""Read and write games: Gambit's `.nfg`, NumPy's `.npz`, `.csv` for a zero-sum matrix, and `.toml`
for a game of the catalogue with its parameters. Read and write policies: `.json` and `.npz`.

The suffix of the path determines the format. Invalid content raises a `ValueError` that names the
place; a path that cannot be opened raises the system's `OSError`.
"""

import os
from pathlib import Path
from typing import Any

from equipoise.core.errors import InputError, named_arguments
from equipoise.core.files import read_bytes, write_text
from equipoise.core.plain import read_json_value
from equipoise.games import kinds
from equipoise.games._game import Game
from equipoise.games._matrix import MatrixGame
from equipoise.games._network import NetworkGame
from equipoise.games._normal import NormalFormGame
from equipoise.games.files._arrays import KINDS, read_arrays, write_arrays
from equipoise.games.files._flows import (
    flows_of_table,
    read_flows,
    read_links,
    read_tolls,
    write_flows,
)
from equipoise.games.files._policies import is_policy as is_policy
from equipoise.games.files._policies import read_policy, write_policy
from equipoise.games.files._text import (
    format_csv,
    format_nfg,
    parse_csv,
    parse_game_toml,
    parse_nfg,
    parse_number,
)
from equipoise.games.files._tntp import read_tntp

__all__ = [
    "flows_of_table",
    "read",
    "read_flows",
    "read_links",
    "read_policy",
    "read_tntp",
    "read_tolls",
    "write",
    "write_flows",
    "write_policy",
]

SUFFIXES = (".nfg", ".npz", ".csv")


@named_arguments
def read(path: str | os.PathLike[str], trips: str | os.PathLike[str] | None = None) -> Any:
    """Read a game from one file, `.nfg`, `.npz`, `.csv`, `.json` or `.toml`, or roads from two.

    A two-player `.nfg` game whose payoffs sum to exactly zero is returned as a `MatrixGame`, any
    other as a `NormalFormGame`. The contents of a `.npz` file determine its kind; it may hold a
    batch. A `.csv` file is a zero-sum matrix; with a second one for `trips`, the two are the tables
    of a road network, as in `NetworkGame.from_tables`. A `.tntp` network has its trips in a second
    file too, as in `read_tntp`. A `.toml` file has a line `kind = "two-roads"` with
    the name of a game of the catalogue, followed by its parameters, one per line. Names of players
    and actions become the `labels` of the game.

    **Example**

    >>> import tempfile, pathlib, equipoise as eq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "pennies.csv"
    ...     _ = path.write_text("1, -1\\n-1, 1\\n")
    ...     eq.games.read(path).actions
    (2, 2)
    """
    path = Path(path)
    suffix = _suffix(path, (*SUFFIXES, ".json", ".toml", *([".tntp"] if trips else [])))
    if trips is not None:
        if suffix not in (".csv", ".tntp"):
            expected = "no trips: only networks in .csv and .tntp files have them"
            raise InputError("trips", expected, trips)
        return NetworkGame.from_tables(path, trips) if suffix == ".csv" else read_tntp(path, trips)
    if suffix == ".npz":
        return read_arrays(path)
    if suffix == ".json":
        return _from_plain(path, read_json_value(path))
    # Only names may contain non-ASCII characters; accept any encoding.
    text = read_bytes(path).decode("utf-8-sig", errors="replace")
    return {".nfg": parse_nfg, ".csv": parse_csv, ".toml": parse_game_toml}[suffix](text, str(path))


@named_arguments
def write(game: Game, path: str | os.PathLike[str], *, plain: bool = False) -> None:
    """Write a game to a `.nfg`, `.npz` or `.csv` file; `read` returns exactly the same game.

    `.npz` takes every kind of game that consists of arrays, and batches; `.nfg` takes one matrix or
    normal-form game; `.csv` takes one matrix game. Labels are kept. The file is written atomically:
    it appears whole or not at all.

    Gambit reads names of strategies in `.nfg` files, but OpenSpiel does not: use `plain=True` to
    leave them out.

    **Example**

    >>> import tempfile, pathlib, equipoise as eq
    >>> pennies = eq.MatrixGame([[1, -1], [-1, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "pennies.nfg"
    ...     eq.games.write(pennies, path)
    ...     print(path.read_text().splitlines()[0])
    ...     bool((eq.games.read(path).payoff == pennies.payoff).all())
    NFG 1 R "pennies" { "Player 1" "Player 2" } { 2 2 }
    True
    """
    if not isinstance(path, str | os.PathLike):
        hint = "the game comes first: write(game, path)"
        raise InputError("path", "the name of a file", type(path).__name__, hint)
    path = Path(path)
    suffix = _suffix(path, SUFFIXES)
    tables = (MatrixGame, NormalFormGame)
    allowed = {".npz": KINDS, ".nfg": tables, ".csv": (MatrixGame,)}[suffix]
    if not isinstance(game, allowed):
        names = " or ".join(kind.__name__ for kind in allowed)
        raise InputError("game", f"a {names} for {suffix}", type(game).__name__)
    if suffix == ".npz":
        return write_arrays(game, path)
    if game.batch_shape:
        raise InputError(
            "game",
            f"a single game, because a {suffix} file holds one",
            f"a batch of shape {game.batch_shape}",
            "use .npz for batches",
        )
    if isinstance(game, MatrixGame) and suffix == ".csv":
        text = format_csv(game)
        if game.labels and parse_csv(text, str(path)) != game:
            expected = "labels that a .csv file keeps: names of all actions, none with a backslash"
            raise InputError("game", expected, game.labels, "use .json or .npz")
        write_text(path, text)
    elif isinstance(game, tables):
        write_text(path, format_nfg(game, path.stem, plain))


def _from_plain(path: Path, content: Any) -> Game:
    """Return the game of a plain form; errors name the file."""
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in kinds.KINDS:
        expected = f"an object whose kind is one of {', '.join(kinds.KINDS)}"
        raise InputError(str(path), expected, f"{content!r:.40}" if kind is None else repr(kind))
    try:
        return kinds.class_of(kind).from_plain(content)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def begins_matrix(line: str) -> bool:
    """Whether this first line of a `.csv` file is that of a matrix: numbers, or `\\` and names.

    >>> begins_matrix("1, -1/2"), begins_matrix("\\\\,left,right"), begins_matrix("week,shop")
    (True, True, False)
    """
    cells = line.split(",")
    quoted = line.lstrip().startswith('"')  # a name may contain a comma
    if "\\" in (line.split('"')[1] if quoted else cells[0]):
        return True
    try:
        return bool([parse_number(cell.strip()) for cell in cells])
    except ValueError:
        return False


def _suffix(path: Path, suffixes: tuple[str, ...]) -> str:
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise InputError("path", f"a name that ends in {', '.join(suffixes)}", path)
    return suffix
