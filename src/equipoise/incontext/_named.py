"""Learners and players by the names that the command line and configs give them, and matches."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from equipoise import dynamics
from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.dynamics import Learner, Noise, Pair
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext._config import Config
from equipoise.incontext._files import description, load, shipped
from equipoise.incontext._guarded import Guarded
from equipoise.incontext._players import Players, Precision, check_players
from equipoise.incontext._sizes import check_games, check_size
from equipoise.incontext.construct import HandBuilt

#: What a name begins with if the players are to be guarded.
GUARDED = "guarded:"


@named_arguments
def make_players(
    name: str,
    *,
    actions: int | tuple[int, int],
    states: int | None = None,
    rounds: int,
    argument: str = "name",
) -> Players | Guarded:
    """Return trained players by name for matches of this size and length.

    A name is "any" or another of `shipped()`, a folder that `pretrain` wrote, or one of these after
    "guarded:", such as "guarded:any". Guarded players play matrix games of any length: the players
    play as many rounds as they were trained for, and mirror descent goes on from there. Of a
    folder with several pairs, the first one plays. Raises `InputError` with the given `argument` if
    the players cannot play games of this size, or were trained for shorter matches.

    **Example**

    >>> import equipoise as eq
    >>> eq.incontext.make_players("guarded:any", actions=(2, 5), rounds=10_000).rounds
    1024
    >>> eq.incontext.make_players("any", actions=3, rounds=10_000)
    Traceback (most recent call last):
        ...
    equipoise.core.errors.InputError: name: expected players for 10,000 rounds, found 'any',
    which plays at most 1,024; use 'guarded:any' or fewer rounds
    """
    sizes = (actions, actions) if isinstance(actions, int) else actions
    plain, guarded = str(name).removeprefix(GUARDED), str(name).startswith(GUARDED)
    try:
        config, players = Config.from_plain(description(plain)["config"]), load(plain)[0]
        check_size(players, sizes, states)
    except InputError as error:
        if error.argument == "games":
            found = f"{str(name)!r}, which is for {error.expected}"
            raise InputError(argument, f"players for {error.found}", found) from None
        if error.argument != "name":
            raise
        raise InputError(argument, error.expected, error.found, error.hint) from None
    # The action of a round is chosen after reading the rounds before it.
    most = 1 + max(stage.rounds for stage in config.staged())
    if guarded and states is not None:
        raise InputError(argument, "players without a guard in Markov games", repr(name))
    if guarded:
        return Guarded(players, rounds=most)
    if checks.check_count("rounds", rounds) > most:
        found = f"{str(name)!r}, which plays at most {most:,}"
        other = repr(GUARDED + plain) if states is None else "a learner such as 'omd'"
        hint = f"use {other} or fewer rounds"
        raise InputError(argument, f"players for {rounds:,} rounds", found, hint)
    return players


#: What can sit in a seat.
Seated = str | Learner | Pair | Players | HandBuilt


def names() -> list[str]:
    """Return the names of all learners and of the players that come with the package.

    >>> {"omd", "any"} <= set(names())
    True
    """
    return [*dynamics.LEARNERS, *shipped()]


@named_arguments
def play(
    games: MatrixGame | MarkovGame,
    row: Seated,
    column: Seated | None = None,
    *,
    rounds: int,
    key: Any = None,
    record: int | Iterable[int] | None = None,
    noise: Noise | None = None,
    seeds: int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    start: int = 0,
    state: dynamics.PlayState | None = None,
    double: bool = False,
    history: bool | None = None,
    exploration: float | None = None,
    precision: Precision = "auto",
    watching: bool = False,
) -> dynamics.Trace:
    """Let two learners or trained players play every game of a batch for `rounds` rounds.

    Games are zero-sum: a `MatrixGame` or a `MarkovGame`, or a batch of them.
    A seat holds the name of a learner (`equipoise.dynamics.LEARNERS`) or of trained players ("any",
    "markov", a folder that `pretrain` wrote, "guarded:any" for long matches), or an object: a
    learner, one of your own, or players. Without `column`, the same one plays both seats. Players
    are uncoupled: each sees its own actions and rewards (and the states), unless its learner asks
    for more.

    Both see the same reward `r`, which the row player maximises and the column player minimises.
    Rewards are scaled from `reward_range` to [0, 1] first. Game `i` of the flattened batch uses the
    key `fold_in(key, i)`, and its seed `j` uses `fold_in(fold_in(key, i), j)`: the result of a game
    does not depend on the rest of the batch.

    **Arguments**

    - `key`: a number, a key, or an array of keys, one for each game (and seed), see
      `equipoise.dynamics.game_keys`. Default: 0.
    - `record`: one or several rounds, counted from the first one, at which policies are kept. The
      last round is always kept. Default: 1, 2, 4, ... if trained players play, otherwise none.
    - `noise`: `Exact()` (the default), `Bernoulli()` or `Gaussian(scale)`.
    - `seeds`: play every game this many times; adds an axis after the batch axes.
    - `start`: the state in which play begins, in Markov games.
    - `state`: go on with the run of an earlier trace, `trace.state`, with the same games and
      learners, and `rounds` rounds to add. The result is that of an uninterrupted run, bit for bit.
      Trained players cannot go on.
    - `double`: compute in float64 instead of float32.
    - `history`: keep every action, reward, state and policy as `trace.history`. Default: True if
      trained players play, whose matches are short.

    The rest is for trained players:

    - `exploration`: share of uniform play that is mixed into their policies in the first rounds. It
      falls as t^-1/4 from round 16 on. The policies played and the rewards earned include it; the
      policies recorded do not. Default: the share of their training.
    - `precision`: floating-point format of matrix products; "auto" is float32 on a CPU and bfloat16
      on an accelerator.
    - `watching`: whether they see the opponent's actions. Only for players of any size, such as
      "any".

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(8, key=1)
    >>> trace = eq.play(games, "iid3", "omd", rounds=64, key=2)
    >>> trace.history.actions.shape, trace.last[0].shape, trace.recorded.rounds.tolist()
    ((8, 64, 2), (8, 3), [1, 2, 4, 8, 16, 32, 64])
    """
    rounds = checks.check_count("rounds", rounds)
    check_games(games)
    same = column is None or column is row or (isinstance(row, str) and column == row)
    row = _seated("row", row, games, rounds)
    column = row if same else _seated("column", column, games, rounds)
    trained = isinstance(row, Players) or isinstance(column, Players)
    if not trained:
        _refuse(exploration=exploration, watching=watching or None)
        _refuse(precision=None if precision == "auto" else precision)
    options = {"exploration": exploration, "precision": precision, "watching": watching}
    # Players who sit in both seats share their network: one call makes both learners.
    first: Any = row.learners(**options) if isinstance(row, Players) else (row, row)
    if column is row:
        both = first
    else:
        other: Any = column.learners(**options) if isinstance(column, Players) else (column, column)
        both = first[0], other[1]
    if record is None and trained:
        record = [2**k for k in range(31) if 2**k < rounds]
    if key is None and state is None:
        key = 0
    return dynamics.play(
        games,
        *both,
        rounds=rounds,
        key=key,
        record=record,
        noise=noise,
        seeds=seeds,
        reward_range=reward_range,
        start=start,
        state=state,
        double=double,
        history=trained if history is None else history,
    )


def _seated(seat: str, who: Any, games: Any, rounds: int) -> Any:
    """Return the learner or the players of a seat, which can play these games."""
    markov = hasattr(games, "states")
    if isinstance(who, str | Path):
        name = str(who)
        if name in dynamics.LEARNERS:
            return dynamics.make_learner(name, markov=markov, rounds=rounds, argument=seat)
        plain = name.removeprefix(GUARDED)
        if plain not in shipped() and not Path(plain).exists():
            close = get_close_matches(plain, names(), n=1)
            hint = f"did you mean {close[0]}?" if close else ""
            wanted = f"one of {', '.join(names())}, or a folder of players"
            raise InputError(seat, wanted, repr(name), hint)
        states = games.states if markov else None
        match = {"actions": games.actions, "states": states, "rounds": rounds}
        return make_players(name, **match, argument=seat)
    who = who.players if isinstance(who, HandBuilt) else who
    if isinstance(who, Players):
        check_players(who, games)
        if who.rounds is not None and rounds > who.rounds:
            most = f"at most {who.rounds:,} rounds, as these players were trained for"
            guarded = "'guarded:NAME' goes on with mirror descent"
            raise InputError("rounds", most, f"{rounds:,}", "" if who.states else guarded)
    return who


def _refuse(**options: Any) -> None:
    """Refuse options of trained players where none plays."""
    for name, value in options.items():
        if value is not None:
            raise InputError(name, "no value, because no trained players play", repr(value))
