"""Cuts a batch into tiles for the machine, plays them, and gathers what was recorded.

On a CPU each tile is played from start to end by one thread, its state in the second-level
cache; JAX releases Python's lock while it computes. On an accelerator the batch is one tile.
Tiles are padded to a power of two, so that few sizes are ever compiled and every game is computed
by the same vector instructions whatever the batch. Where matrices are multiplied, compilers round
differently for different sizes: with a `ContextLearner` at the table all tiles have one size.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.machine import cores
from equipoise.core.precision import double_precision, single_precision
from equipoise.dynamics._learner import Noise
from equipoise.dynamics._round import Event, Seats, Tables, upcoming
from equipoise.dynamics.loop import LoopState, Remembered, Sums, advance, begin, remember

#: Rounds compiled into one loop body: on an H200, 8 give 1.3 times the speed of 1, and 16 no more.
UNROLL = {"cpu": 1, "gpu": 8, "tpu": 8}
#: Bytes of state and tables that a tile may take: half of a second-level cache.
TILE_BYTES = 512 * 1024
SMALLEST, LARGEST = 16, 4096
#: Games of a tile with a context at the table: what a CPU's caches hold, or keeps others busy.
CONTEXT_TILES = {"cpu": 32}


class Snapshot(eqx.Module):
    """What is kept at a recorded round; NumPy, batch last."""

    policies: tuple[np.ndarray, np.ndarray]
    #: Float64 sums of what is tallied.
    sums: Any


@dataclass(frozen=True)
class Outcome:
    """What `run` leaves."""

    #: None where a learner with a context played, which begins anew every time.
    loop: LoopState | None
    snapshots: list[Snapshot]
    #: Every round, its mean reward, and the place after the last; None unless asked for.
    history: tuple[Event, np.ndarray, Any] | None


@contextmanager
def precision(double: bool) -> Iterator[None]:
    """The precision of a run, in this thread.

    Learners let batch axes pass by broadcasting, which is rank promotion on purpose.
    """
    with double_precision() if double else single_precision(), jax.numpy_rank_promotion("allow"):
        yield


def as_arrays(tree: Any) -> Any:
    """Numbers as arrays, so that learners that differ by numbers alone share a compilation."""

    def convert(leaf: Any) -> Any:
        number = isinstance(leaf, float | np.ndarray)
        return jnp.asarray(leaf, jnp.result_type(float)) if number else leaf

    return jax.tree.map(convert, tree)


_advance = eqx.filter_jit(advance)
_begin = eqx.filter_jit(begin)
_upcoming = eqx.filter_jit(upcoming)


@eqx.filter_jit
def _remember(
    tables: Tables, seats: Seats, words: Any, state: Any, slots: Any, **sizes: Any
) -> Remembered:
    found = remember(tables, seats, words, state=state, slots=slots, **sizes)
    # Contexts are large, and nobody goes on with them.
    return eqx.tree_at(lambda f: f.state.learners, found, None) if seats.in_context else found


def run(
    tables: Tables,
    seats: Seats,
    noise: Noise,
    keys: np.ndarray,
    state: LoopState | None,
    stops: list[int],
    start: int,
    *,
    double: bool = False,
    history: bool = False,
) -> Outcome:
    """Play until each of `stops`, with a snapshot at each."""
    backend = jax.default_backend()
    unroll = 1 if seats.in_context else UNROLL.get(backend, 1)
    before = 0 if state is None else int(state.round)

    def prepared(index: np.ndarray) -> tuple[Any, ...]:
        games, words = tables.on_device(index), jnp.asarray(keys[:, index])
        who, sounds = as_arrays((seats, noise))
        loop = jax.tree.map(lambda a: jnp.asarray(a[..., index] if a.ndim else a), state)
        if loop is None and not history:
            room = stops[-1] if seats.in_context else 0
            loop = _begin(games, who, sounds, words, start, room)
        return games, who, sounds, words, loop

    def play_tile(index: np.ndarray, stops: list[int] = stops) -> tuple[Any, list[Snapshot], Any]:
        with precision(double):
            games, who, sounds, words, loop = prepared(index)
            snapshots = []
            for stop in stops:
                loop, _ = _advance(games, who, sounds, words, loop, jnp.int32(stop), unroll=unroll)
                policies = _upcoming(games, who, loop.round, loop.learners)
                snapshots.append(_snapshot(policies, loop.sums))
            return None if seats.in_context else jax.tree.map(np.asarray, loop), snapshots, None

    def remember_tile(index: np.ndarray) -> tuple[Any, list[Snapshot], Any]:
        rounds, records = stops[-1] - before, len(stops)
        slots = np.full(rounds, records)
        slots[np.array(stops) - before - 1] = np.arange(records)
        with precision(double):
            games, who, sounds, words, loop = prepared(index)
            found = _remember(
                *(games, who, words, loop, slots.astype(np.int32)),
                **{"rounds": rounds, "records": records, "noise": sounds, "start": start},
            )
            found = jax.tree.map(np.asarray, found)
            kept = [jax.tree.map(lambda leaf, i=i: leaf[i], found.kept) for i in range(records)]
            events = (found.events, found.expected, found.state.place)
            after = None if seats.in_context else found.state
            return after, [_snapshot(*one) for one in kept], events

    tiles = _tiles(tables, seats, double)
    if history:
        pieces = run_tiles(remember_tile, tiles)
    else:  # a loop that ends before its first round compiles the same program
        pieces = run_tiles(play_tile, tiles, prepare=lambda index: play_tile(index, [0]))

    def join(*leaves: Any) -> Any:
        return np.concatenate(leaves, -1)[..., : tables.games] if leaves[0].ndim else leaves[0]

    return Outcome(*jax.tree.map(join, *pieces))


def before_play(tables: Tables, seats: Seats, noise: Noise, double: bool) -> LoopState:
    """The state of a first tile before the first round, by the program that begins play."""
    tile = _tiles(tables, seats, double)[0]
    with precision(double):
        who, sounds = as_arrays((seats, noise))
        words = jnp.zeros((2, len(tile)), jnp.uint32)
        return _begin(tables.on_device(tile), who, sounds, words, 0, 0)


def _tiles(tables: Tables, seats: Seats, double: bool) -> list[np.ndarray]:
    backend = jax.default_backend()
    if seats.in_context:
        return cut(tables.games, CONTEXT_TILES.get(backend, LARGEST))
    return cut(tables.games, tile_size(tables.games, _bytes_per_game(tables, double), backend))


def _bytes_per_game(tables: Tables, double: bool) -> int:
    """About how much of the cache one game takes: its tables, and per action what learners keep
    (a policy, an anchor, estimates) and the three parts of a sum."""
    entries = sum(leaf[..., 0].size for leaf in jax.tree.leaves(tables))
    entries += 7 * (tables.states or 1) * sum(tables.actions)
    return entries * (8 if double else 4)


def _snapshot(policies: Any, sums: Sums) -> Snapshot:
    def exact(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)

    wide = exact(sums)
    added = jax.tree.map(lambda p, t, e: (t - e) + p, wide.partial, wide.total, wide.error)
    return Snapshot(exact(policies), added)


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()


def tile_size(games: int, bytes_per_game: int, backend: str) -> int:
    """How many games one tile holds.

    >>> tile_size(10, 200, "cpu"), tile_size(100_000, 200, "cpu"), tile_size(100_000, 1, "gpu")
    (16, 2048, 100000)
    """
    if backend != "cpu":
        return games
    fits = _power_of_two(TILE_BYTES // max(1, bytes_per_game) + 1) // 2
    share = _power_of_two(-(-games // cores()))
    return max(SMALLEST, min(fits, share, LARGEST))


def cut(games: int, size: int) -> list[np.ndarray]:
    """Indices of the games in each tile; the last tile is padded with its last game.

    >>> [tile.tolist() for tile in cut(3, 2)]
    [[0, 1], [2, 2]]
    """
    starts = range(0, games, size)
    return [np.minimum(np.arange(start, start + size), games - 1) for start in starts]


def run_tiles(
    play: Callable[[np.ndarray], Any],
    tiles: list[np.ndarray],
    prepare: Callable[[np.ndarray], object] | None = None,
) -> list[Any]:
    """Play every tile, on every core.

    What is compiled is compiled once, before there are threads: `prepare` is called with the first
    tile, or the first tile is played alone. When a tile fails, or Ctrl-C comes, the tiles that no
    thread has begun are dropped.

    >>> run_tiles(lambda tile: int(tile.sum()), cut(3, 2), prepare=lambda tile: None)
    [1, 4]
    """
    done = [] if prepare else [play(tiles[0])]
    rest = tiles[len(done) :]
    workers = 1 if jax.default_backend() != "cpu" else min(cores(), len(rest))
    if workers <= 1:
        return done + [play(tile) for tile in rest]
    if prepare:
        prepare(tiles[0])
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(play, tile) for tile in rest]
        try:
            return done + [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
