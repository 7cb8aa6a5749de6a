"""Games of two players as the pages have them: by name, from a file, or typed cell by cell."""

import re
import shlex
from fractions import Fraction
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.report import player_names

#: Larger tables are not drawn.
MOST_CELLS = 2_500


def tables() -> list[dict[str, Any]]:
    """Games of the catalogue that can be drawn as a table."""
    found = []
    for name in eq.games.names():
        entry = eq.games.describe(name)
        if entry.kind in ("matrix", "normal-form") and not entry.parameters:
            about = {"kind": entry.kind, "title": entry.title, "source": entry.source}
            found.append({"name": name, **about, "notes": entry.notes})
    return found


def game_of(studio: Any, given: Any) -> Any:
    """The game that a page describes: `{"name"}`, `{"file"}` or `{"cells", "actions", "players"}`.

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
        raise InputError("game", "one table of two players", game)
    if np.prod(game.actions) > MOST_CELLS:
        raise InputError("game", f"at most {MOST_CELLS:,} cells", game.actions)
    return game


def _typed(given: dict[str, Any]) -> Any:
    cells = given.get("cells")
    if not isinstance(cells, list) or not cells or not all(isinstance(r, list) for r in cells):
        raise InputError("cells", "rows of payoffs", "nothing")
    width = len(cells[0])
    if not width or any(len(row) != width for row in cells):
        raise InputError("cells", "rows of one length", [len(row) for row in cells])
    read = [[_payoffs(text, i, j) for j, text in enumerate(row)] for i, row in enumerate(cells)]
    sizes = {len(cell) for row in read for cell in row}
    if sizes not in ({1}, {2}):
        expected = "one payoff in every cell (zero-sum), or two in every cell"
        raise InputError("cells", expected, "both kinds of cells")
    labels: dict[str, Any] = {
        name: value for name in ("players", "actions") if (value := given.get(name)) is not None
    }
    payoffs = np.moveaxis(np.array(read, float), 2, 0)
    if sizes == {1}:
        return eq.MatrixGame(payoffs[0], labels=labels or None)
    return eq.NormalFormGame(payoffs, labels=labels or None)


def _payoffs(text: Any, row: int, column: int) -> list[float]:
    """One or two numbers: 3, -0.5 or 1/3, parted by a comma or a space."""
    where = f"cell in row {row + 1}, column {column + 1}"
    words = re.split(r"[,;\s]+", str(text).replace("−", "-").strip())
    if len(words) > 2 or len(str(text)) > 60:
        raise InputError(where, "one or two payoffs", repr(str(text)[:60]))
    try:
        # Fractions of powers such as 1e999999999 would be computed in full.
        numbers = [float(Fraction(word) if "/" in word else word) for word in words]
        if ("e" in str(text).lower() and "/" in str(text)) or not np.isfinite(numbers).all():
            raise ValueError
    except (ValueError, ZeroDivisionError, OverflowError):
        raise InputError(where, "numbers such as 3, -0.5 or 1/3", repr(str(text))) from None
    return numbers


def payoffs_of(game: Any) -> np.ndarray:
    """(2, rows, columns): what each player earns."""
    if isinstance(game, eq.MatrixGame):
        payoff = np.asarray(game.payoff, float)
        return np.stack([payoff, -payoff])
    return np.asarray(game.payoffs, float)


def described(game: Any) -> dict[str, Any]:
    """What a page needs to draw a game."""
    labels = game.labels
    return {
        "zero_sum": isinstance(game, eq.MatrixGame),
        "about": game.describe(),
        "players": list(player_names(2, labels.players)),
        "actions": [[labels.action(p, a) for a in range(n)] for p, n in enumerate(game.actions)],
        "payoffs": payoffs_of(game),
    }


def in_python(game: Any, given: dict[str, Any]) -> str:
    """The line of Python that makes the game."""
    if "name" in given:
        return f"game = eq.games.load({given['name']!r})"
    if "file" in given:
        return f"game = eq.games.read({given['file']!r})"
    labels = {name: given[name] for name in ("players", "actions") if given.get(name) is not None}
    named = f", labels={labels!r}" if labels else ""
    matrix = isinstance(game, eq.MatrixGame)
    numbers = _short((game.payoff if matrix else game.payoffs).tolist())
    return f"game = eq.{'MatrixGame' if matrix else 'NormalFormGame'}({numbers}{named})"


def on_command_line(given: dict[str, Any]) -> str:
    """What the command line calls the game; a typed one has to be saved first."""
    return shlex.quote(str(given.get("name") or given.get("file") or "game.nfg"))


def _short(value: Any) -> str:
    """Nested lists of numbers, whole ones without a point.

    >>> _short([[1.0, 0.5], [-2.0, 3.0]])
    '[[1, 0.5], [-2, 3]]'
    """
    if isinstance(value, list):
        return "[" + ", ".join(map(_short, value)) + "]"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
