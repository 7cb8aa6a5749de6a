"""Play any learner against any learner, on a batch of games, for any number of rounds."""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.core.randomness import as_key
from equipoise.core.streams import game_words
from equipoise.dynamics import _learner as learners
from equipoise.dynamics._engine import run
from equipoise.dynamics._learner import (
    ContextLearner,
    Learner,
    Noise,
    Pair,
    check_below,
    check_noise,
)
from equipoise.dynamics._round import Tables, seat
from equipoise.dynamics._trace import (
    PlayState,
    Trace,
    check_state,
    digests,
    make_trace,
    repeat_games,
)
from equipoise.games import MarkovGame, MatrixGame


@named_arguments
def play(
    games: MatrixGame | MarkovGame,
    row: Learner | Pair,
    column: Learner | Pair,
    *,
    rounds: int,
    key: Any = None,
    record: int | Iterable[int] | None = None,
    noise: Noise | None = None,
    seeds: int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    start: int = 0,
    state: PlayState | None = None,
    double: bool = False,
    history: bool = False,
) -> Trace:
    """Let two learners play every game of a batch for `rounds` rounds, each with its own feedback.

    A learner is one of this package, one of your own, or players of `equipoise.incontext`, which
    come in pairs: a pair plays in the seat or seats for which it is passed.

    Both players see the same reward `r`, which the row player maximises and the column player
    minimises. Rewards are scaled from `reward_range` to [0, 1] before the learners see them.

    Game `i` of the (flattened) batch uses the key `fold_in(key, i)`, and its seed `j` uses
    `fold_in(fold_in(key, i), j)`, so that the trajectory of a game does not depend on the rest of
    the batch. To replay some games of a larger batch, pass their keys: `key` may be an array of
    keys, one for each game (and seed). See `game_keys`.

    Memory does not grow with `rounds` unless `history` is set. To resume a run, pass
    `state=trace.state`, the same games, learners, noise and precision, and the number of rounds to
    add, but no `key` and no `start`. The result is the same, bit for bit, as that of an
    uninterrupted run. Runs with frozen players cannot be resumed.

    **Arguments**

    - `record`: one or several round numbers, counted from the first round of all runs, at which
      policies are kept. The final round is always kept.
    - `noise`: `Exact()` (the default), `Bernoulli()` or `Gaussian(scale)`.
    - `seeds`: play every game this many times; adds an axis after the batch axes.
    - `start`: the state in which play begins, in Markov games.
    - `double`: compute in float64 instead of float32.
    - `history`: keep every action, reward, state and policy as `trace.history`. The trajectory is
      the same as without it, up to rounding.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=2).sample(32, key=0)
    >>> omd = eq.dynamics.OMD()
    >>> whole = eq.dynamics.play(games, omd, omd, rounds=200, key=1)
    >>> half = eq.dynamics.play(games, omd, omd, rounds=100, key=1)
    >>> again = eq.dynamics.play(games, omd, omd, rounds=100, state=half.state)
    >>> bool((again.last[0] == whole.last[0]).all())
    True
    """
    rounds = checks.check_count("rounds", rounds)
    both = row, column = check_learners(games, row, column)
    played = games if seeds is None else repeat_games(games, checks.check_count("seeds", seeds))
    tables = Tables.of(played, reward_range)
    noise, start = check_noise(noise), check_start("start", games, start)
    seats = seat(row, column)
    if state is None:
        words, loop, before = game_words(flat_keys(key, games.batch_shape, seeds)), None, 0
    else:
        if key is not None:
            raise InputError("key", "None together with `state` (which holds the keys)", repr(key))
        if start != 0:
            raise InputError("start", "0 together with `state` (which says where play is)", start)
        if seats.in_context:
            raise ValueError("state: expected None, since runs of frozen players cannot resume")
        state = check_state(state, tables, both, noise, double)
        words, loop = state.keys, state.loop
        before = int(loop.round)
    stops = _stops(record, before, rounds)
    options = {"double": double, "history": history}
    try:
        found = run(tables, seats, noise, words, loop, stops, start, **options)
    except InputError as error:  # raised while JAX traces the loop: without its frames and notes
        raise InputError(error.argument, error.expected, error.found, error.hint) from None
    after = None
    if found.loop is not None:
        parts = digests(tables, both, noise) if state is None else state.digests
        after = PlayState(found.loop, words, parts)
    return make_trace(games, tables, found, stops, reward_range, after, seeds)


@named_arguments
def game_keys(key: Any, batch_shape: tuple[int, ...], seeds: int | None = None) -> jax.Array:
    """Return the JAX keys with which `play` plays a batch of games, shape `batch_shape` (+ seeds).

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=2).sample(8, key=0)
    >>> omd, keys = eq.dynamics.OMD(), eq.dynamics.game_keys(1, (8,))
    >>> whole = eq.dynamics.play(games, omd, omd, rounds=50, key=1)
    >>> part = eq.dynamics.play(games[3:5], omd, omd, rounds=50, key=keys[3:5])
    >>> bool((part.last[0] == whole.last[0][3:5]).all())
    True
    """
    base = as_key(key)
    count = int(np.prod(batch_shape, dtype=int))
    keys = jax.vmap(lambda i: jax.random.fold_in(base, i))(jnp.arange(count))
    if seeds is None:
        return keys.reshape(batch_shape)
    fold = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
    return fold(keys, jnp.arange(seeds)).reshape(*batch_shape, seeds)


def flat_keys(key: Any, batch_shape: tuple[int, ...], seeds: int | None) -> jax.Array:
    """Return one key for every game and seed, as a flat array."""
    if key is None:
        raise ValueError("key: expected an int seed, a JAX key or an array of keys, found None")
    shape = batch_shape if seeds is None else (*batch_shape, seeds)
    many = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if many and key.shape != ():
        checks.check_shape("key", key, shape, "one key for every game and seed")
        return key.reshape(-1)
    return game_keys(key, batch_shape, seeds).reshape(-1)


def check_learners(games: Any, row: Any, column: Any) -> tuple[Learner, Learner]:
    """Return the learners of both seats; raise if a learner does not fit the kind of game."""
    if not isinstance(games, MatrixGame | MarkovGame):
        raise InputError("games", "a MatrixGame or MarkovGame", type(games).__name__)
    if isinstance(games, MarkovGame):
        games.check_stationary_zero_sum("games")
    pairs = {id(who): who.learners() for who in (row, column) if isinstance(who, Pair)}
    row, column = (
        pairs[id(who)][own] if id(who) in pairs else who for own, who in enumerate((row, column))
    )
    markov = isinstance(games, MarkovGame)
    of_matrix = (learners.Bandit, learners.JointBandit, learners.Values)
    wrong = of_matrix if markov else (learners.MarkovBandit, learners.JointMarkovBandit)
    kind = "Markov" if markov else "matrix"
    for name, learner in (("row", row), ("column", column)):
        if not isinstance(learner, Learner):
            raise InputError(name, "a Learner", type(learner).__name__)
        if learner.sees in wrong:
            found = f"{type(learner).__name__}, which sees {learner.sees.__name__}"
            raise InputError(name, f"a learner of {kind} games", found)
    states = getattr(games, "states", None)
    row, column = (
        who.fitted(count, states) if isinstance(who, ContextLearner) else who
        for who, count in zip((row, column), games.actions, strict=True)
    )
    if row.sees is learners.Foresight and column.sees is learners.Foresight:
        raise ValueError("column: expected a learner, since the row player best-responds to it")
    return row, column


def check_start(name: str, games: MatrixGame | MarkovGame, start: Any) -> int:
    """Return the state in which play begins; raise if the games do not have it.

    >>> check_start("start", MatrixGame([[0.0]]), 0)
    0
    """
    if isinstance(games, MarkovGame):
        return check_below(name, start, games.states)
    if checks.check_count(name, start, at_least=0) != 0:
        raise InputError(name, "0 in matrix games (which have no states)", start)
    return 0


def _stops(record: Any, before: int, rounds: int) -> list[int]:
    final = before + rounds
    if final >= 2**31:
        raise InputError("rounds", "fewer than 2^31 rounds in all", final)
    if isinstance(record, np.ndarray | jax.Array):
        record = np.asarray(record).ravel()
    several = isinstance(record, Iterable) and not isinstance(record, str)
    given = () if record is None else record if several else (record,)
    chosen = [checks.check_count("record", r) for r in given]
    for r in chosen:
        if r > final or r <= before:
            raise InputError("record", f"rounds in [{before + 1}, {final}]", r)
    return sorted({*chosen, final})
