"""Convert games to and from OpenSpiel, Gambit and QuantEcon.

These libraries are optional: each function imports its own when called, and names the package to
install if it is missing. An imported game becomes a `MatrixGame` if it has two players whose
payoffs sum to exactly zero, and a `NormalFormGame` otherwise.
"""

import math
from types import ModuleType
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.core.errors import named_arguments
from equipoise.core.extras import import_extra
from equipoise.games._game import labels_of
from equipoise.games._matrix import MatrixGame
from equipoise.games._normal import NormalFormGame
from equipoise.games._policies import Profile

__all__ = [
    "from_gambit",
    "from_gambit_profile",
    "from_openspiel",
    "from_quantecon",
    "to_gambit",
    "to_gambit_profile",
    "to_openspiel",
    "to_quantecon",
]

#: Largest number of strategy profiles that is converted; normal forms grow exponentially.
PROFILES_LIMIT = 1_000_000
#: Largest number of tree nodes visited to find the size of a normal form.
NODES_LIMIT = 200_000


def to_openspiel(game: MatrixGame | NormalFormGame) -> Any:
    """Convert to a `pyspiel.MatrixGame`, or to a `pyspiel.TensorGame` unless there are two players.

    **Example**

    >>> import equipoise as eq
    >>> theirs = eq.games.adapters.to_openspiel(eq.games.load("odd-or-even"))
    >>> theirs.num_players(), theirs.num_rows()
    (2, 2)
    """
    pyspiel = import_extra("pyspiel", "OpenSpiel", "openspiel")
    payoffs = _payoffs(game)
    if len(payoffs) == 2:
        rows, columns = payoffs[0].tolist(), payoffs[1].tolist()
        if game.labels.actions is None:
            return pyspiel.create_matrix_game(rows, columns)
        names = [[game.labels.action(i, a) for a in range(n)] for i, n in enumerate(game.actions)]
        return pyspiel.create_matrix_game("equipoise", "equipoise", *names, rows, columns)
    return pyspiel.create_tensor_game(payoffs.reshape(len(payoffs), -1).tolist(), payoffs.shape[1:])


def from_openspiel(game: Any) -> MatrixGame | NormalFormGame:
    """Return the normal form of a `pyspiel` game: a matrix or tensor game, or any other small game.

    Sequential games, and simultaneous games with several moves, go through
    `pyspiel.extensive_to_tensor_game`, whose strategies choose an action at every information
    state. Strategies are counted first; games with more than a million profiles are refused.

    **Example**

    >>> import pyspiel, equipoise as eq
    >>> eq.games.adapters.from_openspiel(pyspiel.load_game("kuhn_poker")).actions
    (64, 64)
    """
    pyspiel = import_extra("pyspiel", "OpenSpiel", "openspiel")
    if not isinstance(game, pyspiel.Game):
        raise InputError("game", "a pyspiel.Game", type(game).__name__)
    if isinstance(game, pyspiel.MatrixGame):
        names = [
            [game.row_action_name(a) for a in range(game.num_rows())],
            [game.col_action_name(a) for a in range(game.num_cols())],
        ]
        payoffs = np.array([game.row_utilities(), game.col_utilities()])
        return _from_payoffs(payoffs, actions=names)
    if not isinstance(game, pyspiel.TensorGame):
        _check_size(_count_strategies(pyspiel, game))
        game = pyspiel.extensive_to_tensor_game(game)
    players = range(game.num_players())
    return _from_payoffs(np.array([game.player_utilities(player) for player in players]))


def _count_strategies(pyspiel: ModuleType, game: Any) -> list[int]:
    """Count the pure strategies of each player of a game tree."""
    kind, dynamics = game.get_type(), pyspiel.GameType.Dynamics
    if kind.dynamics == dynamics.MEAN_FIELD or not kind.provides_information_state_string:
        raise InputError(
            "game", "a game with information states", f"{kind.short_name}, which has none"
        )
    if kind.dynamics == dynamics.SIMULTANEOUS:
        game = pyspiel.convert_to_turn_based(game)
    moves: list[dict[str, int]] = [{} for _ in range(game.num_players())]
    stack = [game.new_initial_state()]
    for _ in range(NODES_LIMIT):
        if not stack:
            return [math.prod(counts.values()) for counts in moves]
        state = stack.pop()
        if state.is_terminal():
            continue
        actions = state.legal_actions()
        if not state.is_chance_node():
            moves[state.current_player()][state.information_state_string()] = len(actions)
        stack.extend(state.child(action) for action in actions)
    raise InputError("game", f"a tree of at most {NODES_LIMIT} nodes", "a larger one")


@named_arguments
def to_gambit(game: MatrixGame | NormalFormGame, title: str = "equipoise") -> Any:
    """Convert to a `pygambit.StrategicGame`; payoffs are kept exactly.

    Labels are kept too, unless two of them are equal, which Gambit does not allow.

    **Example**

    >>> import equipoise as eq
    >>> theirs = eq.games.adapters.to_gambit(eq.games.load("odd-or-even"))
    >>> theirs.is_const_sum
    True
    """
    pygambit = import_extra("pygambit", "Gambit", "gambit")
    theirs = pygambit.StrategicGame.from_arrays(*_payoffs(game), title=title)
    for i, player in enumerate(list(theirs.players)):
        own = [game.labels.action(i, a) for a in range(game.actions[i])]
        if game.labels.actions is not None and len(set(own)) == len(own):
            old = theirs.get_strategies(player)
            theirs.relabel_strategies(player, dict(zip(old, own, strict=True)))
    names = game.labels.players
    if names is not None and len(set(names)) == len(names):
        theirs.relabel_players(dict(zip(theirs.players, names, strict=True)))
    return theirs


def from_gambit(game: Any) -> MatrixGame | NormalFormGame:
    """Return the normal form of a `pygambit` game, strategic or extensive.

    An extensive game is converted in Gambit's reduced strategic form. Names become labels.

    **Example**

    >>> import pygambit, equipoise as eq
    >>> theirs = pygambit.StrategicGame.from_arrays([[3, 0], [5, 1]], [[3, 5], [0, 1]])
    >>> eq.games.adapters.from_gambit(theirs).payoffs[0]
    array([[3., 0.],
           [5., 1.]])
    """
    pygambit = import_extra("pygambit", "Gambit", "gambit")
    if not isinstance(game, pygambit.Game):
        raise InputError("game", "a pygambit.Game", type(game).__name__)
    strategies = [list(game.get_strategies(player)) for player in game.players]
    _check_size([len(own) for own in strategies])
    payoffs = np.array(game.to_arrays(dtype=float), np.float64)
    return _from_payoffs(payoffs, list(game.players), strategies)


def to_gambit_profile(policy: Any, game: Any) -> Any:
    """Convert a profile to a mixed strategy profile of a `pygambit` game.

    `game` is the result of `to_gambit`, or any game whose players have the same numbers of
    strategies.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.load("battle-of-the-sexes")
    >>> theirs = eq.games.adapters.to_gambit(game)
    >>> profile = eq.games.adapters.to_gambit_profile(eq.solve(game).policy, theirs)
    >>> float(profile.max_regret())
    0.0
    """
    pygambit = import_extra("pygambit", "Gambit", "gambit")
    if not isinstance(game, pygambit.Game):
        raise InputError("game", "a pygambit.Game", type(game).__name__)
    strategies = [np.asarray(own, np.float64) for own in Profile(policy)]
    counts = [len(game.get_strategies(player)) for player in game.players]
    if [own.shape for own in strategies] != [(count,) for count in counts]:
        shapes = [own.shape for own in strategies]
        raise InputError("policy", f"strategies of {counts} actions", f"shapes {shapes}")
    return game.mixed_strategy_profile([own.tolist() for own in strategies])


def from_gambit_profile(profile: Any) -> Profile:
    """Convert a mixed strategy profile of `pygambit`; strategies are in the order of its players.

    **Example**

    >>> import pygambit, equipoise as eq
    >>> theirs = pygambit.StrategicGame.from_arrays([[3, 0], [5, 1]], [[3, 5], [0, 1]])
    >>> found = pygambit.nash.lcp_solve(theirs).equilibria[0]
    >>> [own.tolist() for own in eq.games.adapters.from_gambit_profile(found)]
    [[0.0, 1.0], [0.0, 1.0]]
    """
    game = getattr(profile, "game", None)
    if game is None or not hasattr(profile, "strategy_values"):
        found = type(profile).__name__
        raise InputError("profile", "a mixed strategy profile of pygambit", found)
    return Profile(
        [
            [float(profile[player][own]) for own in game.get_strategies(player)]
            for player in game.players
        ]
    )


def to_quantecon(game: MatrixGame | NormalFormGame) -> Any:
    """Convert to a `quantecon.game_theory.NormalFormGame`.

    QuantEcon stores one array per player, with that player's actions on the first axis and those of
    the following players, in cyclic order, on the others.

    **Example**

    >>> import equipoise as eq
    >>> theirs = eq.games.adapters.to_quantecon(eq.MatrixGame([[1, 2, 3], [4, 5, 6]]))
    >>> theirs.payoff_arrays[1].shape
    (3, 2)
    """
    quantecon = import_extra("quantecon.game_theory", "QuantEcon", "quantecon")
    payoffs = _payoffs(game)
    arrays = [payoffs[i].transpose(_own_first(i, len(payoffs))) for i in range(len(payoffs))]
    return quantecon.NormalFormGame([quantecon.Player(np.array(a, order="C")) for a in arrays])


def from_quantecon(game: Any) -> MatrixGame | NormalFormGame:
    """Convert a `quantecon.game_theory.NormalFormGame`.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> from quantecon.game_theory import NormalFormGame, Player
    >>> theirs = NormalFormGame([Player(np.ones((2, 3))), Player(-np.ones((3, 2)))])
    >>> eq.games.adapters.from_quantecon(theirs).actions
    (2, 3)
    """
    quantecon = import_extra("quantecon.game_theory", "QuantEcon", "quantecon")
    if not isinstance(game, quantecon.NormalFormGame):
        raise InputError("game", "a quantecon.game_theory.NormalFormGame", type(game).__name__)
    arrays = game.payoff_arrays
    return _from_payoffs(
        np.array([a.transpose(np.argsort(_own_first(i, game.N))) for i, a in enumerate(arrays)])
    )


def _own_first(player: int, players: int) -> list[int]:
    """Return the axes in QuantEcon's order, which begins with the player itself."""
    return [(player + k) % players for k in range(players)]


def _payoffs(game: MatrixGame | NormalFormGame) -> np.ndarray:
    """Return the payoffs of all players in one array; refuse batches and other kinds of games."""
    if not isinstance(game, MatrixGame | NormalFormGame):
        raise InputError("game", "a MatrixGame or a NormalFormGame", type(game).__name__)
    if game.batch_shape:
        raise InputError("game", "a single game", f"a batch of {game.batch_shape}")
    if isinstance(game, NormalFormGame):
        return np.asarray(game.payoffs, np.float64)
    row = np.asarray(game.payoff, np.float64)
    return np.stack([row, 0.0 - row])  # not -row, which would make zeros negative


def _from_payoffs(
    payoffs: np.ndarray,
    players: list[str] | None = None,
    actions: list[list[str]] | None = None,
) -> MatrixGame | NormalFormGame:
    game = NormalFormGame(payoffs, players=len(payoffs), labels=labels_of(players, actions))
    return game.as_matrix_game() if game.is_zero_sum() else game


def _check_size(strategies: list[int]) -> None:
    if math.prod(strategies) > PROFILES_LIMIT:
        counts = [f"10^{math.log10(n):.0f}" if n > 10**9 else str(n) for n in strategies]
        raise InputError("game", f"at most {PROFILES_LIMIT} strategy profiles", " x ".join(counts))
