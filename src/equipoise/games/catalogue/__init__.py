"""Named games from the literature, with their source and what is known of them.

The games are data, one file for each theme, and are built only when loaded: listing and
describing them imports neither JAX nor NumPy. A new theme is a module with a tuple `GAMES`,
named in `_THEMES`.
"""

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any

from equipoise.games.catalogue._entry import Entry, check_parameter
from equipoise.games.kinds import class_of

__all__ = ["Entry", "describe", "load", "names"]

_THEMES = (
    "classics",
    "parlour",
    "cards",
    "operations",
    "experiments",
    "degenerate",
    "general_sum",
    "markov",
    "soccer",
    "crowds",
    "crowds_markov",
    "continuous",
)


@cache
def _entries() -> dict[str, Entry]:
    modules = [import_module(f"equipoise.games.catalogue.{theme}") for theme in _THEMES]
    return {entry.name: entry for module in modules for entry in module.GAMES}


def names() -> tuple[str, ...]:
    """The names of all games of the catalogue, theme by theme.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.names()[:2]
    ('rock-paper-scissors', 'matching-pennies')
    """
    return tuple(_entries())


def describe(name: str) -> Entry:
    """What is known of a game: its source, its kind, its value and an equilibrium.

    **Example**

    >>> import equipoise as eq
    >>> entry = eq.games.describe("odd-or-even")
    >>> entry.value, entry.equilibrium[0]
    (Fraction(1, 12), (Fraction(7, 12), Fraction(5, 12)))
    """
    entries = _entries()
    if name not in entries:
        close = get_close_matches(str(name), entries, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "see games.names()"
        raise ValueError(f"name: expected the name of a game, found {name!r}; {hint}")
    return entries[name]


def load(name: str, /, *, labels: Any = None, **parameters: Any) -> Any:
    """Build a game of the catalogue, of the kind that `describe(name).kind` says.

    Some games have parameters; `describe(name).parameters` gives their defaults. `labels` replace
    the names of players, actions, states and types that the catalogue gives.

    **Example**

    >>> import equipoise as eq
    >>> pennies = eq.games.load("matching-pennies")
    >>> pennies.payoff.tolist(), pennies.labels.actions
    ([[1.0, -1.0], [-1.0, 1.0]], (('heads', 'tails'),))
    >>> eq.games.load("hide-and-seek", size=10).actions
    (20, 100)
    """
    entry = describe(name)
    unknown = sorted(set(parameters) - set(entry.parameters))
    if unknown:
        allowed = ", ".join(entry.parameters) or "no parameters"
        raise ValueError(f"parameters: expected {allowed} for {name}, found {', '.join(unknown)}")
    parameters = {
        parameter: check_parameter(parameter, value, entry.parameters[parameter])
        for parameter, value in parameters.items()
    }
    arguments = entry.build(**parameters)
    if labels is not None:
        arguments["labels"] = labels
    return class_of(entry.kind)(**arguments)
