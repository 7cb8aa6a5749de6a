"""The kinds of games, and games in a few words."""

from typing import Any

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
