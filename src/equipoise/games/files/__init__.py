"""Games in files: Gambit's `.nfg`, NumPy's `.npz`, `.csv` for a zero-sum matrix, and `.toml` for
a game of the catalogue with its parameters.

The suffix of the path says the format. Content that is not a game raises a `ValueError` that
says where; a path that cannot be opened raises the `OSError` that the system gives.
"""

import os
from pathlib import Path
from typing import Any

from equipoise.core.files import atomic_write, write_text
from equipoise.games._contextual import ContextualGame
from equipoise.games._continuous import ContinuousGame
from equipoise.games._decoupled import DecoupledMarkovGame
from equipoise.games._markov import MarkovGame
from equipoise.games._matrix import MatrixGame
from equipoise.games._normal import NormalFormGame
from equipoise.games.files._csv import format_csv, parse_csv
from equipoise.games.files._nfg import format_nfg, parse_nfg
from equipoise.games.files._npz import read_npz, write_npz
from equipoise.games.files._toml import parse_toml

__all__ = ["read", "write"]

SUFFIXES = (".nfg", ".npz", ".csv")


def read(path: str | os.PathLike[str]) -> Any:
    """Read a game from a `.nfg`, `.npz`, `.csv` or `.toml` file.

    A two-player `.nfg` game whose payoffs sum to exactly zero comes back as a `MatrixGame`, any
    other as a `NormalFormGame`. A `.npz` file says itself which kind it holds, and may hold a
    batch. A `.csv` file is a zero-sum matrix. A `.toml` file has a line `kind = "two-roads"` with
    the name of a game of the catalogue, and its parameters, one a line.

    **Example**

    >>> import tempfile, pathlib, equipoise as eq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "pennies.csv"
    ...     _ = path.write_text("1, -1\\n-1, 1\\n")
    ...     eq.games.read(path).actions
    (2, 2)
    """
    path = Path(path)
    suffix = _suffix(path, (*SUFFIXES, ".toml"))
    if suffix == ".npz":
        return read_npz(path)
    # Only names may be anything but ASCII, and they are dropped: no encoding is wrong.
    text = path.read_bytes().decode("utf-8-sig", errors="replace")
    return {".nfg": parse_nfg, ".csv": parse_csv, ".toml": parse_toml}[suffix](text, str(path))


def write(
    game: MatrixGame
    | NormalFormGame
    | MarkovGame
    | ContinuousGame
    | ContextualGame
    | DecoupledMarkovGame,
    path: str | os.PathLike[str],
) -> None:
    """Write a game to a `.nfg`, `.npz` or `.csv` file, from which `read` gets it back exactly.

    `.npz` takes every kind of game that is made of arrays, and batches; `.nfg` one matrix or
    normal-form game, in the form that Gambit and OpenSpiel both read; `.csv` one matrix game. The
    file appears whole or not at all.

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
    path = Path(path)
    suffix = _suffix(path, SUFFIXES)
    allowed = {
        ".npz": (
            *(MatrixGame, NormalFormGame, MarkovGame),
            *(ContinuousGame, ContextualGame, DecoupledMarkovGame),
        ),
        ".nfg": (MatrixGame, NormalFormGame),
        ".csv": (MatrixGame,),
    }[suffix]
    if not isinstance(game, allowed):
        names = " or ".join(kind.__name__ for kind in allowed)
        raise ValueError(f"game: expected a {names} for {suffix}, found {type(game).__name__}")
    if suffix == ".npz":
        with atomic_write(path) as temporary:
            write_npz(game, temporary)
        return
    if game.batch_shape:
        raise ValueError(
            f"game: expected a single game, since a {suffix} file holds one, "
            f"found a batch of shape {game.batch_shape}; .npz files hold batches"
        )
    if isinstance(game, MatrixGame) and suffix == ".csv":
        write_text(path, format_csv(game))
    elif isinstance(game, MatrixGame | NormalFormGame):
        write_text(path, format_nfg(game, title=path.stem))


def _suffix(path: Path, suffixes: tuple[str, ...]) -> str:
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise ValueError(f"path: expected a name that ends in {', '.join(suffixes)}, found {path}")
    return suffix
