"""Named games from the literature, with their sources and known solutions.

The games are data, in `games.toml`. Games with parameters, and games that are easier to state by
their rules than by a table, are built by functions in the modules of this package. Listing and
describing games imports neither JAX nor NumPy.
"""

import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from importlib import import_module, resources
from typing import Any

from equipoise.core import InputError
from equipoise.core.errors import named_arguments
from equipoise.games.kinds import class_of

__all__ = ["Entry", "describe", "load", "names"]

#: Probabilities of one player's actions.
Strategy = tuple[Fraction, ...]


@dataclass(frozen=True)
class Entry:
    """A named game: its source, its value, and how to build it.

    `value` and `equilibrium` belong to the game with its default parameters. The value is that of
    the first player of a zero-sum game: a number, or one number per state of a Markov game. It is
    None for general-sum games and if no closed form is known. The equilibrium is one of possibly
    several: one strategy per player, or one per player and state.

    **Example**

    >>> import equipoise as eq
    >>> entry = eq.games.describe("kuhn-poker")
    >>> entry.kind, entry.value
    ('matrix', Fraction(-1, 18))
    >>> eq.games.describe("mendelsohn").parameters
    {'numbers': 5}
    """

    #: Name that `load` takes.
    name: str
    #: Title in tables.
    title: str
    #: One of `equipoise.games.kinds.KINDS`.
    kind: str
    #: Publication of the game or of its solution.
    source: str
    #: Value of the game, if it is known.
    value: Fraction | tuple[Fraction, ...] | None = None
    #: An equilibrium, if it is known.
    equilibrium: tuple[Strategy | tuple[Strategy, ...], ...] | None = None
    #: What is special about the game.
    notes: str = ""
    #: Parameters of the game and their defaults.
    parameters: dict[str, Any] = field(default_factory=dict)
    #: Smallest and largest value of a parameter, if not the usual ones.
    ranges: dict[str, Any] = field(default_factory=dict, repr=False)
    #: Arguments of the constructor.
    game: dict[str, Any] = field(default_factory=dict, repr=False)
    #: Name of the function that makes the other arguments; empty if there is none.
    build: str = field(default="", repr=False)


@cache
def _entries() -> dict[str, Entry]:
    text = resources.files(__name__).joinpath("games.toml").read_text("utf-8")
    return {name: _entry(name, row) for name, row in tomllib.loads(text).items()}


def _entry(name: str, row: dict[str, Any]) -> Entry:
    read: dict[str, Any] = {key: " ".join(row.get(key, "").split()) for key in ("source", "notes")}
    if "value" in row:
        value = row["value"]
        read["value"] = tuple(map(Fraction, value)) if isinstance(value, list) else Fraction(value)
    if "equilibrium" in row:
        read["equilibrium"] = _strategies(row["equilibrium"])
    parameters = row.get("parameters", {}).items()
    read["parameters"] = {k: tuple(v) if isinstance(v, list) else v for k, v in parameters}
    return Entry(name=name, **row | read)


def _strategies(texts: Any) -> Any:
    """Parse exact probabilities from texts, however nested.

    >>> _strategies(["1/3 2/3", "1 0*2"])
    ((Fraction(1, 3), Fraction(2, 3)), (Fraction(1, 1), Fraction(0, 1), Fraction(0, 1)))
    """
    if isinstance(texts, list):
        return tuple(map(_strategies, texts))
    words = (word.partition("*") for word in texts.split())
    return tuple(Fraction(p) for p, _, times in words for _ in range(int(times or 1)))


def names() -> tuple[str, ...]:
    """Return the names of all games of the catalogue, grouped by theme.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.names()[:2]
    ('rock-paper-scissors', 'matching-pennies')
    """
    return tuple(_entries())


def describe(name: str) -> Entry:
    """Return what is known about a game: source, kind, value and an equilibrium.

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
        raise InputError("name", "the name of a game", repr(name), hint)
    return entries[name]


@named_arguments
def load(name: str, /, *, labels: Any = None, **parameters: Any) -> Any:
    """Build a game of the catalogue; `describe(name).kind` is its kind.

    Some games have parameters; `describe(name).parameters` lists their defaults. `labels` replaces
    the names of players, actions, states and types that the catalogue provides.

    **Example**

    >>> import equipoise as eq
    >>> pennies = eq.games.load("matching-pennies")
    >>> pennies.payoff.tolist(), pennies.labels.actions
    ([[1.0, -1.0], [-1.0, 1.0]], (('heads', 'tails'),))
    >>> eq.games.load("hide-and-seek", size=10).actions
    (20, 100)
    """
    from equipoise.games.catalogue._parameters import check_parameter  # imports JAX

    entry = describe(name)
    unknown = sorted(set(parameters) - set(entry.parameters))
    if unknown:
        allowed = ", ".join(entry.parameters) or "no parameters"
        raise InputError("parameters", f"{allowed} for {name}", ", ".join(unknown))
    arguments = {
        parameter: check_parameter(parameter, value, default, *entry.ranges.get(parameter, ()))
        for parameter, default in entry.parameters.items()
        for value in [parameters.get(parameter, default)]
    }
    if entry.build:
        module, function = entry.build.split(".")
        arguments = getattr(import_module(f"{__name__}._{module}"), function)(**arguments)
    arguments = entry.game | arguments
    if labels is not None:
        arguments["labels"] = labels
    return class_of(entry.kind)(**arguments)
