"""Two-player games of the pages: given by name, in a file, or typed cell by cell."""

import json
import re
import shlex
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.report import player_names

#: Largest number of cells in a table that is drawn.
MOST_CELLS = 2_500


def tables() -> list[dict[str, Any]]:
    """Return the games of the catalogue that can be drawn as a table."""
    found = []
    for name in eq.games.names():
        entry = eq.games.describe(name)
        if entry.kind in ("matrix", "normal-form") and not entry.parameters:
            about = {"kind": entry.kind, "title": entry.title, "source": entry.source}
            found.append({"name": name, **about, "notes": entry.notes})
    return found


def game_of(studio: Any, given: Any) -> Any:
    """Return the game of a request: `{"name"}`, `{"file"}` or `{"cells", "actions", "players"}`.

    >>> typed = {"cells": [["3", "-1"], ["-2", "1/2"]], "actions": [["up", "down"], ["l", "r"]]}
    >>> game = game_of(None, typed)
    >>> game.payoff.tolist(), game.labels.action(0, 1)
    ([[3.0, -1.0], [-2.0, 0.5]], 'down')
    >>> game_of(None, {"cells": [["3 1", "0 0"], ["0 0", "1 3"]]}).payoffs.tolist()
    [[[3.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 3.0]]]
    """
    if not isinstance(given, dict):
        raise InputError("game", "an object", type(given).__name__)
    if "name" in given:
        game = eq.games.load(str(given["name"]))
    elif "file" in given:
        game = eq.games.read(studio.folder.file(given["file"], ".nfg", ".csv", ".npz"))
    else:
        game = _typed(given)
    tabular = isinstance(game, eq.MatrixGame | eq.NormalFormGame) and not game.batch_shape
    if not tabular or len(game.actions) != 2:
        raise InputError("game", "a single game of two players", game)
    if np.prod(game.actions) > MOST_CELLS:
        raise InputError("game", f"at most {MOST_CELLS:,} cells", game.actions)
    return game


def _typed(given: dict[str, Any]) -> Any:
    cells = given.get("cells")
    if not isinstance(cells, list) or not cells or not all(isinstance(r, list) for r in cells):
        raise InputError("cells", "rows of payoffs", "nothing")
    width = len(cells[0])
    if not width or any(len(row) != width for row in cells):
        raise InputError("cells", "rows of equal length", [len(row) for row in cells])
    read = [[_payoffs(text, i, j) for j, text in enumerate(row)] for i, row in enumerate(cells)]
    sizes = {len(cell) for row in read for cell in row}
    if sizes not in ({1}, {2}):
        expected = "one payoff in every cell (zero-sum), or two in every cell"
        raise InputError("cells", expected, "a mixture of both")
    labels: dict[str, Any] = {
        name: value for name in ("players", "actions") if (value := given.get(name)) is not None
    }
    payoffs = np.moveaxis(np.array(read, float), 2, 0)
    if sizes == {1}:
        return eq.MatrixGame(payoffs[0], labels=labels or None)
    return eq.NormalFormGame(payoffs, labels=labels or None)


def _payoffs(text: Any, row: int, column: int) -> list[float]:
    """Read one or two numbers such as 3, -0.5 or 1/3, separated by a comma or a space."""
    where = f"cell in row {row + 1}, column {column + 1}"
    words = re.split(r"[,;\s]+", str(text).replace("−", "-").strip())
    if len(words) > 2 or len(str(text)) > 60:
        raise InputError(where, "one or two payoffs", repr(str(text)[:60]))
    try:
        # A fraction such as 1e999999999/3 would be computed in full.
        numbers = [float(Fraction(word) if "/" in word else word) for word in words]
        if ("e" in str(text).lower() and "/" in str(text)) or not np.isfinite(numbers).all():
            raise ValueError
    except (ValueError, ZeroDivisionError, OverflowError):
        raise InputError(where, "numbers such as 3, -0.5 or 1/3", repr(str(text))) from None
    return numbers


def payoffs_of(game: Any) -> np.ndarray:
    """(2, rows, columns): the payoffs of each player."""
    if isinstance(game, eq.MatrixGame):
        payoff = np.asarray(game.payoff, float)
        return np.stack([payoff, -payoff])
    return np.asarray(game.payoffs, float)


def described(game: Any) -> dict[str, Any]:
    """Return what a page needs to draw a game."""
    labels = game.labels
    return {
        "zero_sum": isinstance(game, eq.MatrixGame),
        "about": game.describe(),
        "players": list(player_names(2, labels.players)),
        "actions": [[labels.action(p, a) for a in range(n)] for p, n in enumerate(game.actions)],
        "payoffs": payoffs_of(game),
    }


def whole(request: dict[str, Any], name: str, usual: int, low: int, high: int) -> int:
    """Read a whole number from a request.

    >>> whole({"rounds": 5}, "rounds", 9, 1, 10), whole({}, "rounds", 9, 1, 10)
    (5, 9)
    """
    value = request.get(name, usual)
    if type(value) is not int or not low <= value <= high:
        raise InputError(name, f"a whole number from {low:,} to {high:,}", repr(value)[:60])
    return value


def quoted(value: Any) -> str:
    """Format a value as Python code with double quotes, which need no escapes in a shell command.

    >>> print(quoted("it's"))
    "it's"
    """
    return json.dumps(value, ensure_ascii=False)


def in_python(studio: Any, game: Any, given: dict[str, Any]) -> str:
    """Return the line of Python that creates the game."""
    if "name" in given:
        return f"game = eq.games.load({quoted(given['name'])})"
    if "file" in given:
        return f"game = eq.games.read({quoted(studio.folder.shown(given['file']))})"
    labels = {name: given[name] for name in ("players", "actions") if given.get(name) is not None}
    named = f", labels={quoted(labels)}" if labels else ""
    matrix = isinstance(game, eq.MatrixGame)
    numbers = _short((game.payoff if matrix else game.payoffs).tolist())
    return f"game = eq.{'MatrixGame' if matrix else 'NormalFormGame'}({numbers}{named})"


def in_code(
    lines: Sequence[str],
    command: Sequence[str] = (),
    *,
    files: Sequence[tuple[str, str]] = (),
    typed: Sequence[str] = (),
) -> dict[str, str]:
    """Return the Python code and the command that compute what a page shows, ready to paste.

    `files` are names and texts that are written before the command runs, and `typed` are lines of
    its input. If no verb of the command line does the same, the command runs the Python code.

    >>> in_code(["print(1)"], ["equipoise", "solve", "my game.nfg"])["command"]
    "equipoise solve 'my game.nfg'"
    >>> print(in_code(["print(1)"])["command"])
    python -c 'import equipoise as eq
    print(1)'
    """
    python = "\n".join(["import equipoise as eq", *lines])
    made = [f"printf '%s\\n' {shlex.quote(text)} > {shlex.quote(name)}" for name, text in files]
    run = shlex.join(command or ("python", "-c", python))
    if typed:
        run = f"printf '%s\\n' {shlex.join(typed)} | {run}"
    return {"python": python, "command": " &&\n".join([*made, run])}


def on_command_line(studio: Any, game: Any, given: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the name of the game for a command, and the file to write first for a typed game."""
    if "name" in given:
        return str(given["name"]), []
    if "file" in given:
        return studio.folder.shown(given["file"]), []
    return "game.nfg", [("game.nfg", text_of(game))]


def text_of(game: Any) -> str:
    """Return the game as the text of an `.nfg` file."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "game.nfg"
        eq.games.write(game, path)
        return path.read_text("utf-8").rstrip("\n")


def _short(value: Any) -> str:
    """Format nested lists of numbers, with whole numbers without a decimal point.

    >>> _short([[1.0, 0.5], [-2.0, 3.0]])
    '[[1, 0.5], [-2, 3]]'
    """
    if isinstance(value, list):
        return "[" + ", ".join(map(_short, value)) + "]"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
