"""Registry of the kinds of games: one row per kind, imported only when it is used."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from equipoise.core.errors import InputError

if TYPE_CHECKING:
    from equipoise.games._game import Game

__all__ = ["KINDS", "class_of", "kind_of"]

#: Kind of game -> the module and the class that implement it.
KINDS = {
    "matrix": ("equipoise.games._matrix", "MatrixGame"),
    "normal-form": ("equipoise.games._normal", "NormalFormGame"),
    "markov": ("equipoise.games._markov", "MarkovGame"),
    "aggregative": ("equipoise.games._aggregative", "AggregativeGame"),
    "aggregative-markov": ("equipoise.games._aggregative", "AggregativeMarkovGame"),
    "contextual": ("equipoise.games._contextual", "ContextualGame"),
    "decoupled-markov": ("equipoise.games._decoupled", "DecoupledMarkovGame"),
    "continuous": ("equipoise.games._continuous", "ContinuousGame"),
    "network": ("equipoise.games._network", "NetworkGame"),
    "oracle": ("equipoise.games._oracle", "OracleGame"),
}


@cache
def class_of(kind: str) -> "type[Game]":
    """Return the class of a kind of game, imported on first use.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.kinds.class_of("matrix") is eq.MatrixGame
    True
    """
    if kind not in KINDS:
        raise InputError("kind", f"one of {', '.join(KINDS)}", repr(kind))
    module, name = KINDS[kind]
    return getattr(import_module(module), name)


def kind_of(game: Any) -> str:
    """Return the kind of a game, as named in `KINDS`. Refuse objects that are not games.

    **Example**

    >>> import equipoise as eq
    >>> eq.games.kinds.kind_of(eq.MatrixGame([[1, -1], [-1, 1]]))
    'matrix'
    """
    kind = getattr(type(game), "kind", None)
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(game, class_of(kind)):
        classes = ", ".join(name for _, name in KINDS.values())
        raise InputError("game", f"one of {classes}", type(game).__name__)
    return kind
