"""Games as NumPy archives, `.npz`: exact, fast, and whole batches in one file. Never pickled.

The names of the arrays say what the file holds:

| game | arrays |
|---|---|
| `MatrixGame` | `payoff` |
| `NormalFormGame` | `payoffs` |
| `MarkovGame` | `reward`, `transition`, `discount` |
| `ContinuousGame` of polynomial terms | `own`, and what else it has: see `_continuous` |
| `ContextualGame` | `agents`, `scopes_K` and `tables_K` of every order: see `_interactions` |
| `DecoupledMarkovGame` | the same, `transitions` and `initial` |
"""

import io
import math
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.games._contextual import ContextualGame
from equipoise.games._continuous import ContinuousGame
from equipoise.games._decoupled import DecoupledMarkovGame
from equipoise.games._markov import MarkovGame
from equipoise.games._matrix import MatrixGame
from equipoise.games._normal import NormalFormGame
from equipoise.games.files import _continuous, _interactions

Game = (
    MatrixGame | NormalFormGame | MarkovGame | ContinuousGame | ContextualGame | DecoupledMarkovGame
)
#: Kinds of games that have arrays by what they are made of, each known by its mark.
_MADE_OF_TERMS = (_continuous, _interactions)

#: The arrays of a file, in order -> the kind of game they make.
_KINDS: dict[tuple[str, ...], Callable[..., Game]] = {
    ("payoff",): MatrixGame,
    ("payoffs",): NormalFormGame,
    ("reward", "transition", "discount"): MarkovGame,
}
#: What `zipfile` and NumPy raise on a damaged archive (NotImplementedError is a RuntimeError).
_DAMAGE = (ValueError, EOFError, KeyError, RuntimeError, OSError, zipfile.BadZipFile, zlib.error)


def read_npz(path: Path) -> Game:
    """The game or the batch of games in a `.npz` file."""
    with open(path, "rb") as file:  # a missing or forbidden file stays the OSError it is
        try:
            found, arrays = _read_arrays(file)
        except _DAMAGE as error:
            raise ValueError(
                f"{path}: expected a NumPy archive, found a file that cannot be read: {error}"
            ) from error
    for terms in _MADE_OF_TERMS:
        if sorted(arrays) == sorted(found) and terms.MARK in found:
            return _build(terms.game_of, [arrays], path)
    for names, kind in _KINDS.items():
        if sorted(names) == sorted(found):
            return _build(kind, [arrays[name] for name in names], path)
    expected = ", or ".join(" and ".join(names) for names in _KINDS)
    expected += f", or {_continuous.MARK} and others of a ContinuousGame, or {_interactions.MARK} "
    expected += "and others of a ContextualGame"
    raise ValueError(f"{path}: expected arrays named {expected}; found {sorted(found)}")


def _build(kind: Callable[..., Game], arrays: list[Any], path: Path) -> Game:
    arguments = list(arrays)
    if kind is MarkovGame:
        discount = arrays[-1]
        if discount.shape != () or discount.dtype.kind not in "fiu":
            raise ValueError(f"{path}: discount: expected one number, found {discount!r}")
        arguments[-1] = float(discount)
    try:
        return kind(*arguments)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read_arrays(file: io.BufferedReader) -> tuple[list[str], dict[str, np.ndarray]]:
    """The names of all arrays of an archive, and those arrays that a game may have."""
    with zipfile.ZipFile(file) as archive:
        found = [name.removesuffix(".npy") for name in archive.namelist()]
        known = {name for names in _KINDS for name in names}.intersection(found)
        for terms in _MADE_OF_TERMS:
            known.update(terms.known_names(found) if terms.MARK in found else ())
        return found, {name: _read_array(archive.read(f"{name}.npy")) for name in known}


def _read_array(data: bytes) -> np.ndarray:
    # NumPy allocates what the header says before it reads: compare with what is there first.
    stream = io.BytesIO(data)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(stream)
    if version not in readers:
        raise ValueError(f"an array in version {version} of the format")
    shape, _, dtype = readers[version](stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError(f"an array that does not hold what its header says: {shape} of {dtype}")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def write_npz(game: Game, path: Path) -> None:
    """Write a game or a batch of games to `path`, which ends in `.npz`."""
    if isinstance(game, MatrixGame):
        arrays = {"payoff": game.payoff}
    elif isinstance(game, NormalFormGame):
        arrays = {"payoffs": game.payoffs}
    elif isinstance(game, ContinuousGame):
        arrays = _continuous.arrays_of(game)
    elif isinstance(game, ContextualGame | DecoupledMarkovGame):
        arrays = _interactions.arrays_of(game)
    else:
        arrays = {
            "reward": game.reward,
            "transition": game.transition,
            "discount": np.float64(game.discount),
        }
    np.savez(path, allow_pickle=False, **{name: np.asarray(a) for name, a in arrays.items()})
