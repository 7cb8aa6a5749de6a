"""Players by the names that the command line and configs give them, for one match."""

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.incontext._config import Config
from equipoise.incontext._files import description, load
from equipoise.incontext._guarded import Guarded
from equipoise.incontext._players import Players
from equipoise.incontext._sizes import check_size

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
