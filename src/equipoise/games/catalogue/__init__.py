"""Named games from the literature, with their source and what is known of them.

The games are data, in `games.toml`; what cannot be written down, since it has parameters or since
its rules say more than its table, is built by a function of a module of this package. Listing and
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
from equipoise.games.kinds import class_of

__all__ = ["Entry", "describe", "load", "names"]

#: The probabilities of one player's actions.
Strategy = tuple[Fraction, ...]


@dataclass(frozen=True)
class Entry:
    """A named game: where it comes from, what it is worth, and how to build it.

    `value` and `equilibrium` are those of the game with its default parameters. The value is
    that to the first player of a zero-sum game, a number, or one for each state of a Markov
    game; it is None for general-sum games and where no closed form is known. The equilibrium is
    one of possibly many: a strategy for each player, or one for each player and state.

    **Example**

    >>> import equipoise as eq
    >>> entry = eq.games.describe("kuhn-poker")
    >>> entry.kind, entry.value
    ('matrix', Fraction(-1, 18))
    >>> eq.games.describe("mendelsohn").parameters
    {'numbers': 5}
    """

    #: The word `load` takes.
    name: str
    title: str
    #: A word of `equipoise.games.kinds.KINDS`.
    kind: str
    #: Where the game, or its solution, was published.
    source: str
    value: Fraction | tuple[Fraction, ...] | None = None
    equilibrium: tuple[Strategy | tuple[Strategy, ...], ...] | None = None
    notes: str = ""
    #: The parameters of the game and their defaults.
    parameters: dict[str, Any] = field(default_factory=dict)
    #: The least and the largest value of a parameter, where they are not the usual ones.
    ranges: dict[str, Any] = field(default_factory=dict, repr=False)
    #: Arguments of the constructor, and where the function is that makes the others.
    game: dict[str, Any] = field(default_factory=dict, repr=False)
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
    """Exact probabilities from texts, however nested.

    >>> _strategies(["1/3 2/3", "1 0*2"])
    ((Fraction(1, 3), Fraction(2, 3)), (Fraction(1, 1), Fraction(0, 1), Fraction(0, 1)))
    """
    if isinstance(texts, list):
        return tuple(map(_strategies, texts))
    words = (word.partition("*") for word in texts.split())
    return tuple(Fraction(p) for p, _, times in words for _ in range(int(times or 1)))


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
        raise InputError("name", "the name of a game", repr(name), hint)
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
