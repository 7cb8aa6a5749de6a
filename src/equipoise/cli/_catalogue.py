"""The catalogue as documents for programs and as tables for people."""

from fractions import Fraction
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.cli._inputs import describe, kind_of
from equipoise.cli._output import print_pairs, print_table
from equipoise.report import format_value
from equipoise.runs import Table

#: Larger payoff tables and policies are not shown in full.
_LARGEST = 12

_ARRAYS = {
    "matrix": ("payoff",),
    "normal-form": ("payoffs",),
    "markov": ("reward", "transition", "discount"),
    "aggregative": ("influence", "counts", "scale", "lipschitz"),
    "aggregative-markov": (
        *("influence", "counts", "scale", "horizon", "states"),
        *("lipschitz", "transition_lipschitz"),
    ),
    "continuous": ("agents", "contexts", "states", "horizon", "rank", "noise"),
}


def list_tables() -> dict[str, Table]:
    """All games, one a row and one table for each kind; imports neither JAX nor NumPy's games."""
    entries = [eq.games.describe(name) for name in eq.games.names()]
    tables = {}
    for kind in dict.fromkeys(entry.kind for entry in entries):
        own = [entry for entry in entries if entry.kind == kind]
        if any(entry.value is not None for entry in own):
            rows = [(entry.name, _exact(entry.value), entry.title) for entry in own]
            tables[kind] = Table(("name", "value", "title"), rows)
        else:
            tables[kind] = Table(("name", "title"), [(entry.name, entry.title) for entry in own])
    return tables


def list_document() -> list[dict[str, Any]]:
    """All games as plain data."""
    return [_entry_document(eq.games.describe(name)) for name in eq.games.names()]


def game_document(name: str, game: Any, *, changed: bool) -> dict[str, Any]:
    """One game as plain data, payoffs included."""
    document = _entry_document(eq.games.describe(name))
    if changed:  # what is known is known of the default parameters
        document |= {"value": None, "value_exact": None, "equilibrium": None}
    arrays = {key: getattr(game, key) for key in _ARRAYS[kind_of(game)]}
    return {**document, "actions": game.actions, **arrays}


def print_game(name: str, game: Any, *, changed: bool) -> None:
    """Print what is known of a game, and its payoffs if they fit."""
    entry = eq.games.describe(name)
    pairs: list[tuple[str, Any]] = [("name", entry.name), ("game", describe(game))]
    pairs += [("source", entry.source)]
    pairs += [("notes", entry.notes)] if entry.notes else []
    if entry.parameters:
        pairs.append(("parameters", ", ".join(f"{k}={v}" for k, v in entry.parameters.items())))
    if not changed and entry.value is not None:
        pairs.append(("value", _exact(entry.value)))
    print(entry.title)
    print_pairs(pairs)
    payoffs = _payoff_table(game)
    if payoffs is not None:
        print_table(payoffs, title="Payoffs")
    if not changed and entry.equilibrium is not None and max(game.actions) <= 3 * _LARGEST:
        print_table(_equilibrium_table(entry.equilibrium), title="An equilibrium")


def _entry_document(entry: Any) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "kind": entry.kind,
        "source": entry.source,
        "notes": entry.notes,
        "parameters": entry.parameters,
        "value": _floats(entry.value),
        "value_exact": _texts(entry.value),
        "equilibrium": _floats(entry.equilibrium),
    }


def _floats(value: Any) -> Any:
    """Fractions as floats, however deeply nested."""
    if isinstance(value, tuple):
        return [_floats(item) for item in value]
    return None if value is None else float(value)


def _texts(value: Any) -> Any:
    """Fractions as strings, however deeply nested.

    >>> _texts((Fraction(1, 3), Fraction(2)))
    ['1/3', '2']
    """
    if isinstance(value, tuple):
        return [_texts(item) for item in value]
    return _exact(value)


def _exact(value: Any) -> str | None:
    """Fractions as they are written.

    >>> _exact((Fraction(1, 3), 0.5))
    '(1/3, 0.5)'
    """
    if value is None:
        return None
    if isinstance(value, tuple):
        return "(" + ", ".join(str(_exact(item)) for item in value) + ")"
    return str(value) if isinstance(value, Fraction) else format_value(value)


def _payoff_table(game: Any) -> Table | None:
    if kind_of(game) not in ("matrix", "normal-form", "markov"):
        return None
    if len(game.actions) != 2 or game.actions[1] > _LARGEST or game.actions[0] > 3 * _LARGEST:
        return None
    rows, columns = game.actions
    names = [f"column {j}" for j in range(columns)]
    if kind_of(game) == "matrix":
        cells = [[float(x) for x in row] for row in np.asarray(game.payoff)]
    elif kind_of(game) == "normal-form":
        first, second = np.asarray(game.payoffs)
        cells = [
            [f"{format_value(first[i, j])}, {format_value(second[i, j])}" for j in range(columns)]
            for i in range(rows)
        ]
    elif game.states > 4:
        return None
    else:
        return _reward_table(np.asarray(game.reward), names)
    return Table(("", *names), [(f"row {i}", *row) for i, row in enumerate(cells)])


def _reward_table(reward: np.ndarray, names: list[str]) -> Table:
    """Rewards of a small Markov game, state by state."""
    lines = [
        (f"state {s}, row {i}", *(float(x) for x in row))
        for s, state in enumerate(reward)
        for i, row in enumerate(state)
    ]
    return Table(("", *names), lines)


def _equilibrium_table(equilibrium: Any) -> Table:
    rows = []
    for player, strategy in enumerate(equilibrium):
        by_state = isinstance(strategy[0], tuple)
        for state, probabilities in enumerate(strategy if by_state else (strategy,)):
            name = f"player {player}" + (f", state {state}" if by_state else "")
            rows.append((name, ", ".join(str(_exact(p)) for p in probabilities)))
    return Table(("", "probabilities of the actions"), rows)
