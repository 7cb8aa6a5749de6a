"""What the user names: a file, or a game of the catalogue with its parameters."""

import json
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from equipoise.cli._errors import CommandError, refusing


def find_game(name: str, settings: Sequence[str] = (), argument: str = "GAME") -> Any:
    """The game in a file, or the game of that name in the catalogue, with settings "size=10".

    `argument` is what the user typed it as.

    >>> find_game("hide-and-seek", ["size=4"]).actions
    (8, 16)
    """
    import equipoise as eq

    if name in eq.games.names():
        return load_named(name, settings)
    path = Path(name)
    with refusing(argument):
        named = not path.suffix and not path.exists()
    if named:
        raise CommandError(
            f"{argument}: expected a file or a named game, found neither of the name {name!r}; "
            f"{hint(name)}"
        )
    if settings:
        raise CommandError(f"--set: expected a named game, found the file {name}")
    with refusing(argument, path=argument):
        return eq.games.read(path)


def load_named(name: str, settings: Sequence[str]) -> Any:
    """A game of the catalogue."""
    import equipoise as eq

    parameters = dict(setting(text) for text in settings)
    check_names("--set", parameters, eq.games.describe(name).parameters, f"parameters of {name}")
    with refusing():
        try:
            return eq.games.load(name, **parameters)
        except TypeError as error:  # a parameter of another kind than its default
            defaults = eq.games.describe(name).parameters
            raise ValueError(
                f"--set: expected values like {defaults}, found {parameters}"
            ) from error


def check_names(flag: str, given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse a name that is not known, and say which was meant, or else which there are.

    >>> check_names("--set", ["sise"], ["size"], "parameters of hide-and-seek")
    Traceback (most recent call last):
    ...
    equipoise.cli._errors.CommandError: --set: expected parameters of hide-and-seek, found 'sise';
    did you mean size?
    """
    known = list(known)
    for name in given:
        if name in known:
            continue
        close = get_close_matches(name, known, n=1)
        there = f"there are {', '.join(known)}" if known else "there are none"
        more = f"did you mean {close[0]}?" if close else there
        raise CommandError(f"{flag}: expected {what}, found {name!r}; {more}")


def hint(name: str) -> str:
    """Where to find the right name."""
    import equipoise as eq

    close = get_close_matches(name, eq.games.names(), n=1)
    return f"did you mean {close[0]}?" if close else "`equipoise games` lists the names"


def setting(text: str, flag: str = "--set") -> tuple[str, Any]:
    """The name and the value in "size=10"; what is not JSON is a word.

    >>> setting("size=10"), setting("sense=min")
    (('size', 10), ('sense', 'min'))
    """
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise CommandError(f"{flag}: expected NAME=VALUE, found {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value  # a word


#: Class -> kind, as the catalogue calls it.
_KINDS = {
    "MatrixGame": "matrix",
    "NormalFormGame": "normal-form",
    "MarkovGame": "markov",
    "AggregativeGame": "aggregative",
    "AggregativeMarkovGame": "aggregative-markov",
    "ContinuousGame": "continuous",
    "ContextualGame": "contextual",
    "DecoupledMarkovGame": "decoupled-markov",
}


#: The kinds that consist of interaction terms, and of which policies may be mixtures.
TERMS = ("contextual", "decoupled-markov")


def kind_of(game: Any) -> str:
    """The kind of a game, as the catalogue calls it.

    >>> import equipoise as eq
    >>> kind_of(eq.MatrixGame([[1, -1], [-1, 1]]))
    'matrix'
    """
    return _KINDS[type(game).__name__]


def describe(game: Any) -> str:
    """A game in a few words.

    >>> import equipoise as eq
    >>> describe(eq.MatrixGame([[[1, -1], [-1, 1]]] * 5))
    '5 zero-sum matrix games, 2 x 2'
    """
    import numpy as np

    if kind_of(game).startswith("aggregative"):
        return _describe_crowd(game)
    if kind_of(game) == "continuous":
        return _describe_continuous(game)
    if kind_of(game) in TERMS:
        return _describe_terms(game)
    words = {"matrix": "zero-sum matrix game", "markov": "zero-sum Markov game"}
    text = words.get(kind_of(game), "normal-form game")
    if game.batch_shape:
        text = f"{int(np.prod(game.batch_shape)):,} {text}s"
    if kind_of(game) == "markov":
        text += f", {game.states} states, discount {game.discount:g}"
    return f"{text}, {' x '.join(str(a) for a in game.actions)}"


def _describe_crowd(game: Any) -> str:
    kinds = "each of its own type" if game.types == game.agents else f"of {game.types} types"
    kinds = "all alike" if game.types == 1 else kinds
    text = f"aggregative game of {game.agents:,} agents, {kinds}, with {game.actions[0]} actions"
    if kind_of(game) == "aggregative-markov":
        text += f", {game.states} states and {game.horizon} steps"
    return f"{text}; the aggregate has {game.dimensions} coordinate{'s' * (game.dimensions > 1)}"


def _describe_terms(game: Any) -> str:
    text = f"game of {game.agents:,} agents with {max(game.actions)} actions"
    if game.contexts > 1:
        text += f", with {game.contexts} contexts"
    if kind_of(game) == "decoupled-markov":
        text += f", with {max(game.states)} states and {game.horizon} steps"
    return f"{text}; its interaction rank is {game.interactions.rank}"


def _describe_continuous(game: Any) -> str:
    text = f"game of {game.agents:,} agents who each choose a number from -1 to 1"
    if game.contexts > 1:
        text += f", with {game.contexts} contexts"
    if game.states is not None:
        text += f", with {game.states} states and {game.horizon} steps"
    return f"{text}; its interaction rank is {game.rank}"
