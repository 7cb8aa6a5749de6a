r"""Gambit's strategic-form files, `.nfg`: every variant in, the most widely read one out.

The format has two bodies after one prologue:

    NFG 1 R "title" { "Rose" "Colin" } { 2 2 }             numbers of strategies
    NFG 1 R "title" { "Rose" "Colin" }                     or their names,
    { { "Up" "Down" } { "Left" "Right" } } "comment"       and a comment, if any

    1 -1 0 0 0 0 1 -1                                      payoffs of each profile, or

    { { "win" 1, -1 } { "lose" -1, 1 } } 1 2 2 0           outcomes, then one for each profile

Profiles are listed with the first player's strategy moving fastest. Outcome 0 pays nobody.
Names are read and dropped. The version letter (R, rational, or D, decimal) changes nothing:
numbers may be whole, decimal, or fractions in both.
"""

import math
import re

import numpy as np

from equipoise.games._matrix import MatrixGame
from equipoise.games._normal import NormalFormGame
from equipoise.games.files._tokens import Tokens, format_number

#: A payoff table has an axis for each player and one more; NumPy 1 allows 32.
PLAYERS_LIMIT = 31
#: Limits on the size of the table that a file may announce, checked before reading on.
STRATEGIES_LIMIT = 1_000_000
PROFILES_LIMIT = 100_000_000


def parse_nfg(text: str, source: str) -> MatrixGame | NormalFormGame:
    """The game in the text of an `.nfg` file; `source` names the file in errors.

    >>> parse_nfg('NFG 1 R "pennies" { "A" "B" } { 2 2 } 1 -1 -1 1 -1 1 1 -1', "text").payoff
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    tokens = Tokens(text, source)
    tokens.take("word", "the word NFG", ("NFG",))
    tokens.take("number", "version 1 of the format", ("1",))
    tokens.take("word", "the letter R or D", ("R", "D"))
    tokens.take("text", "the title of the game, in quotes")
    players = _read_players(tokens)
    actions = _read_actions(tokens, players)
    if tokens.kind == "text":
        tokens.advance()  # the comment
    read_body = _read_outcomes if tokens.kind == "open" else _read_payoffs
    flat = read_body(tokens, players, math.prod(actions))
    if tokens.kind != "end":
        raise tokens.error(f"expected the end of the file, found {tokens.found()}")
    # In Fortran order the first axis moves fastest: players, then the first player's strategies.
    payoffs = np.ascontiguousarray(flat.reshape((players, *actions), order="F"))
    if players == 2 and np.array_equal(payoffs[0], -payoffs[1]):
        return MatrixGame(payoffs[0])
    return NormalFormGame(payoffs)


def _read_players(tokens: Tokens) -> int:
    tokens.take("open", "{ before the names of the players")
    players = 0
    while tokens.kind == "text":
        players += 1
        tokens.advance()
    if not 1 <= players <= PLAYERS_LIMIT:
        raise tokens.error(f"expected the names of 1 to {PLAYERS_LIMIT} players, found {players}")
    tokens.take("close", "a player's name in quotes, or } after the last")
    return players


def _read_actions(tokens: Tokens, players: int) -> tuple[int, ...]:
    tokens.take("open", "{ before the strategies")
    named = tokens.kind == "open"
    actions = []
    for player in range(1, players + 1):
        if named:
            actions.append(_read_names(tokens, player))
        else:
            meaning = f"the number of strategies of player {player}"
            actions.append(tokens.take_whole(meaning, 1, STRATEGIES_LIMIT))
    if math.prod(actions) > PROFILES_LIMIT:
        raise tokens.error(
            f"expected at most {PROFILES_LIMIT} strategy profiles, found {math.prod(actions)}"
        )
    tokens.take("close", f"}} after the strategies of {players} players")
    return tuple(actions)


def _read_names(tokens: Tokens, player: int) -> int:
    tokens.take("open", f"{{ before the strategies of player {player}")
    count = 0
    while tokens.kind == "text":
        count += 1
        tokens.advance()
    if count == 0:
        raise tokens.error(f"expected the name of a strategy of player {player} in quotes")
    tokens.take("close", f"}} after the strategies of player {player}")
    return count


def _read_payoffs(tokens: Tokens, players: int, profiles: int) -> np.ndarray:
    # Nothing is allocated ahead, so a table larger than its file costs no memory.
    needed = players * profiles
    values: list[float] = []
    while len(values) < needed:
        if tokens.kind != "number":
            raise tokens.error(
                f"expected {needed} payoffs ({players} for each of {profiles} profiles), "
                f"found {tokens.found()} after {len(values)}"
            )
        values.append(tokens.take_number("a payoff"))
    return np.array(values)


def _read_outcomes(tokens: Tokens, players: int, profiles: int) -> np.ndarray:
    outcomes = [[0.0] * players]  # number 0 is the null outcome
    tokens.take("open", "{ before the outcomes")
    while tokens.kind == "open":
        tokens.advance()
        tokens.take("text", f"the name of outcome {len(outcomes)} in quotes")
        meaning = f"{players} payoffs of outcome {len(outcomes)}"
        outcomes.append([tokens.take_number(meaning) for _ in range(players)])
        tokens.take("close", f"}} after {meaning}")
    tokens.take("close", "an outcome in { }, or } after the last")
    indices: list[int] = []
    while len(indices) < profiles:
        meaning = f"the outcome of profile {len(indices) + 1} of {profiles}"
        indices.append(tokens.take_whole(meaning, 0, len(outcomes) - 1))
    return np.array(outcomes)[indices].ravel()


def format_nfg(game: MatrixGame | NormalFormGame, title: str) -> str:
    r"""The text of an `.nfg` file: payoffs in full, strategies by number.

    This form is read by Gambit and by OpenSpiel, which reads no other. Numbers are written so
    that they read back exactly.

    >>> import equipoise as eq
    >>> format_nfg(eq.MatrixGame([[1, 0.5]]), "one by two").splitlines()
    ['NFG 1 R "one by two" { "Player 1" "Player 2" } { 1 2 }', '', '1 -1', '0.5 -0.5']
    """
    if isinstance(game, MatrixGame):
        row = np.asarray(game.payoff, np.float64)
        payoffs = np.stack([row, 0.0 - row])  # not -row, which would make zeros negative
    else:
        payoffs = np.asarray(game.payoffs, np.float64)
    players, *actions = payoffs.shape
    # OpenSpiel ends a title at the first quote, escaped or not.
    title = re.sub(r"[^ -~]|[\"\\]", "_", title)
    names = " ".join(f'"Player {player}"' for player in range(1, players + 1))
    counts = " ".join(str(count) for count in actions)
    lines = [f'NFG 1 R "{title}" {{ {names} }} {{ {counts} }}', ""]
    for profile in payoffs.reshape(players, -1, order="F").T.tolist():
        lines.append(" ".join(format_number(value) for value in profile))
    return "\n".join(lines) + "\n"  # OpenSpiel wants white space after the last number
