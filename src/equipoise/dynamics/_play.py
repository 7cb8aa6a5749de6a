"""`play`: any learner against any learner, on a batch of games, for any number of rounds."""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.core.randomness import as_key
from equipoise.core.streams import game_words
from equipoise.dynamics._engine import PlayState, run
from equipoise.dynamics._learner import Bandit, Foresight, Learner, MarkovBandit, Values
from equipoise.dynamics._noise import Exact, Noise
from equipoise.dynamics._tables import Tables
from equipoise.dynamics._trace import Trace, make_trace, repeat_games
from equipoise.games import MarkovGame, MatrixGame


def play(
    games: MatrixGame | MarkovGame,
    row: Learner,
    column: Learner,
    *,
    rounds: int,
    key: Any = None,
    record: Iterable[int] | None = None,
    noise: Noise | None = None,
    seeds: int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    start: int = 0,
    state: PlayState | None = None,
    double: bool = False,
) -> Trace:
    """Let two learners play every game of a batch for `rounds` rounds, seeing only their own.

    Both players see the same reward `r`, which the row player wants large and the column player
    small. Rewards are scaled from `reward_range` to [0, 1] before anybody sees them.

    Game `i` of the (flattened) batch plays with the key `fold_in(key, i)`, and seed `j` of it
    with `fold_in(fold_in(key, i), j)`: the trajectory of a game does not depend on what else is
    in the batch. To play some games of a larger batch again, pass their keys: `key` may be an
    array of keys, one for each game (and seed). See `game_keys`.

    Memory does not grow with `rounds`. To go on after a run, pass `state=trace.state`, the same
    games and learners, and the number of rounds to add: the result is the same, bit for bit, as
    if the run had not been stopped.

    **Arguments**

    - `record`: round numbers, counted from the first round ever played, at which policies are
      kept; the final round is always kept.
    - `noise`: `Exact()` (the default), `Bernoulli()` or `Gaussian(scale)`.
    - `seeds`: play every game this many times; adds an axis after the batch axes.
    - `start`: the state in which play begins, in Markov games.
    - `double`: compute in float64 instead of float32.

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
    check_learners(games, row, column)
    played = games if seeds is None else repeat_games(games, checks.check_count("seeds", seeds))
    tables = Tables.of(played, reward_range)
    before = 0 if state is None else int(state.loop.round)
    stops = _stops(record, before, rounds)
    if state is None:
        words = game_words(flat_keys(key, games.batch_shape, seeds))
        loop = None
    else:
        checks.check_shape("state.keys", state.keys, (2, tables.games), "two words for each game")
        words, loop = state.keys, state.loop
    learners = (row, column)
    records = run(tables, learners, noise or Exact(), words, loop, stops, start, double)
    return make_trace(games, tables, records, stops, words, seeds)


def game_keys(key: Any, batch_shape: tuple[int, ...], seeds: int | None = None) -> jax.Array:
    """The JAX keys with which `play` plays a batch of games: shape `batch_shape` (+ seeds).

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
    """One key for every game and seed, in one row."""
    if key is None:
        raise ValueError("key: expected an int seed, a JAX key or an array of keys, found None")
    shape = batch_shape if seeds is None else (*batch_shape, seeds)
    many = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if many and key.shape != ():
        checks.check_shape("key", key, shape, "one key for every game and seed")
        return key.reshape(-1)
    return game_keys(key, batch_shape, seeds).reshape(-1)


def check_learners(games: Any, row: Learner, column: Learner) -> None:
    """Refuse learners that the kind of game cannot inform."""
    if not isinstance(games, MatrixGame | MarkovGame):
        raise ValueError(
            f"games: expected a MatrixGame or MarkovGame, found {type(games).__name__}"
        )
    wrong = (Bandit, Values, Foresight) if isinstance(games, MarkovGame) else (MarkovBandit,)
    kind = "Markov" if isinstance(games, MarkovGame) else "matrix"
    for name, learner in (("row", row), ("column", column)):
        if not isinstance(learner, Learner):
            raise ValueError(f"{name}: expected a Learner, found {type(learner).__name__}")
        if learner.sees in wrong:
            raise ValueError(
                f"{name}: expected a learner of {kind} games, found {type(learner).__name__}, "
                f"which sees {learner.sees.__name__}"
            )
    if row.sees is Foresight and column.sees is Foresight:
        raise ValueError("column: expected a learner, since the row player best-responds to it")


def _stops(record: Iterable[int] | None, before: int, rounds: int) -> list[int]:
    final = before + rounds
    chosen = [checks.check_count("record", r) for r in record or ()]
    for r in chosen:
        if r > final or r <= before:
            raise ValueError(f"record: expected rounds in [{before + 1}, {final}], found {r}")
    if final >= 2**31:
        raise ValueError(f"rounds: expected fewer than 2^31 rounds in all, found {final}")
    return sorted({*chosen, final})
