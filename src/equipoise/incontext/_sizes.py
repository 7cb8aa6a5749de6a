"""The games that players can play: two-player zero-sum games of one size, or of many."""

from typing import Any

from equipoise.core import InputError
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext._adaptive import FEWEST, AdaptiveTokens
from equipoise.incontext._markov_tokens import MarkovTokens

#: Tokens of players that play games of any size. They keep a `Book` or a `MarkovBook`.
AnySize = AdaptiveTokens | MarkovTokens


def check_games(games: Any, name: str = "games", also: str = "") -> None:
    """Raise unless `games` are two-player zero-sum games; errors call the argument `name`."""
    if not isinstance(games, MatrixGame | MarkovGame):
        raise InputError(name, f"{also}a MatrixGame or MarkovGame", type(games).__name__)
    if isinstance(games, MarkovGame):
        games.check_stationary_zero_sum(name)


def check_size(
    players: Any, actions: tuple[int, int], states: int | None, name: str = "games"
) -> None:
    """Raise unless the players can play games of this size; errors call the argument `name`."""
    if isinstance(players.tokens, AnySize):
        check_shape(players.tokens, actions, states, name)
    elif (actions, states) != (players.actions, players.states):
        raise InputError(name, shape(players.actions, players.states), shape(actions, states))


def check_shape(tokens: AnySize, actions: tuple[int, ...], states: int | None, name: str) -> None:
    """Raise unless games of this shape fit the tokens of players of any size."""
    most = tokens.states
    fits = states is None if most is None else states is not None and states <= most
    if not fits or not all(FEWEST <= count <= tokens.actions for count in actions):
        expected = "matrix games" if most is None else f"Markov games of at most {most} states"
        expected += f" with {FEWEST} to {tokens.actions} actions for each player"
        raise InputError(name, expected, shape(actions, states))


def shape(actions: tuple[int, ...], states: int | None) -> str:
    """Describe the size of games.

    >>> shape((2, 3), 4)
    '2 x 3 actions in 4 states'
    """
    where = "" if states is None else f" in {states} states"
    return f"{' x '.join(map(str, actions))} actions{where}"
