"""Cut a batch into tiles that suit the machine, play them, and collect the records.

On a CPU one thread plays each tile from start to end, with its state in the cache; JAX releases
Python's lock while it computes. On an accelerator every device plays one tile. Tiles
are distributed over devices in turn. With several processes, each plays its share of the tiles,
and all of them receive all results.

Tiles are padded to a power of two, so that few sizes are compiled and every game is computed by the
same vector instructions whatever the batch. Matrix products round differently for different sizes,
so all tiles have one size if a `ContextLearner` plays.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.devices import chosen, from_all_processes, on
from equipoise.core.machine import cores
from equipoise.core.precision import double_precision, single_precision
from equipoise.dynamics._learner import Noise
from equipoise.dynamics._round import Event, Seats, Tables, upcoming
from equipoise.dynamics.loop import LoopState, Remembered, Sums, advance, begin, remember
from equipoise.runs import interruptible

#: Number of rounds in one loop body. On an H200, 8 rounds are 1.3 times as fast as 1, and 16 are
#: no faster.
UNROLL = {"cpu": 1, "gpu": 8, "tpu": 8}
#: Largest size of the state and tables of a tile, in bytes. Starting an operation costs more than
#: leaving the second-level cache: with 4 MiB, two cores play 3x3 and 10x10 games 1.4 times as fast
#: as with half a MiB.
TILE_BYTES = 4 * 1024 * 1024
SMALLEST, LARGEST = 16, 16_384
#: Number of games per tile if a `ContextLearner` plays, so that a tile fits a CPU's caches.
CONTEXT_TILES = {"cpu": 32}
#: If a `ContextLearner` plays, Ctrl-C takes effect after at most this many rounds, while contexts
#: are read and afterwards. Each is about a second of one core for the largest players.
CONTEXT_PIECE, PIECE = 32, 2**14


class Snapshot(eqx.Module):
    """Data kept at a recorded round, as NumPy arrays with the batch last."""

    policies: tuple[np.ndarray, np.ndarray]
    #: Sums of the tallied quantities, in float64.
    sums: Any


@dataclass(frozen=True)
class Outcome:
    """The result of `run`."""

    #: State of the loop. None if a `ContextLearner` played, which cannot be resumed.
    loop: LoopState | None
    snapshots: list[Snapshot]
    #: Every round, its mean reward, and the state after the last; None unless requested.
    history: tuple[Event, np.ndarray, Any] | None


@contextmanager
def precision(double: bool) -> Iterator[None]:
    """Set the precision of a run in this thread.

    Rank promotion is allowed, since learners broadcast over batch axes.
    """
    with double_precision() if double else single_precision(), jax.numpy_rank_promotion("allow"):
        yield


def as_arrays(tree: Any) -> Any:
    """Convert numbers to arrays, so that learners that differ only in numbers share a program."""

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
    # Contexts are large, and runs with them cannot be resumed.
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
    """Play until the last of `stops`, and take a snapshot at each of them."""
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

    ends = [end for end in seats.context_ends if end < stops[-1]]
    pauses = _pauses(seats.last_context or stops[-1], stops[-1]) if seats.in_context else []
    kept = set(stops)

    def play_tile(
        index: np.ndarray, device: Any = None, halt: Any = False, after: int | None = None
    ) -> tuple[Any, list[Snapshot], Any]:
        """Play a tile. With `after`, play no round, as if `after` rounds had been played before."""
        with precision(double), on(device):
            games, who, sounds, words, loop = prepared(index)
            who, loop = _without_contexts(who, loop, after or 0)
            snapshots = []
            for stop in sorted({*stops, *ends, *pauses}) if after is None else [0]:
                loop, _ = _advance(games, who, sounds, words, loop, jnp.int32(stop), unroll=unroll)
                if seats.in_context and loop.round.block_until_ready() and halt:
                    raise KeyboardInterrupt
                if stop in kept or after is not None:
                    policies = _upcoming(games, who, loop.round, loop.learners)
                    snapshots.append(_snapshot(policies, loop.sums))
                who, loop = _without_contexts(who, loop, stop)
            return None if seats.in_context else jax.tree.map(np.asarray, loop), snapshots, None

    def compile_tile(index: np.ndarray, device: Any) -> None:
        """Compile every program of a tile: a loop that ends before its first round is enough."""
        for after in (0, *ends):
            play_tile(index, device, after=after)

    def remember_tile(index: np.ndarray, device: Any = None) -> tuple[Any, list[Snapshot], Any]:
        rounds, records = stops[-1] - before, len(stops)
        slots = np.full(rounds, records)
        slots[np.array(stops) - before - 1] = np.arange(records)
        with precision(double), on(device):
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
    elif seats.in_context:
        with interruptible() as halt:
            pieces = run_tiles(partial(play_tile, halt=halt), tiles, prepare=compile_tile)
    else:
        pieces = run_tiles(play_tile, tiles, prepare=compile_tile)

    def join(*leaves: Any) -> Any:
        return np.concatenate(leaves, -1)[..., : tables.games] if leaves[0].ndim else leaves[0]

    return Outcome(*jax.tree.map(join, *pieces))


def _pauses(read: int, last: int) -> set[int]:
    """Return the rounds before `last` after which play looks for Ctrl-C, with contexts to `read`.

    >>> sorted(_pauses(64, 50_000)), sorted(_pauses(100, 100))
    ([32, 64, 16384, 32768, 49152], [32, 64, 96])
    """
    return {*range(CONTEXT_PIECE, min(read + 1, last), CONTEXT_PIECE), *range(PIECE, last, PIECE)}


def context_batch() -> int:
    """Number of games that occupy the machine if a `ContextLearner` plays: a tile per worker."""
    backend = jax.default_backend()
    workers = cores() if backend == "cpu" else len(chosen())
    return CONTEXT_TILES.get(backend, 4096) * workers * jax.process_count()


def _without_contexts(seats: Seats, loop: LoopState, t: int) -> tuple[Seats, LoopState]:
    """Return the seats and the loop after round `t`, without contexts that are no longer read."""
    seats, states = seats.after(t, loop.learners)
    return seats, replace(loop, learners=states)


def before_play(tables: Tables, seats: Seats, noise: Noise, double: bool) -> LoopState:
    """Return the state of a first tile before the first round, computed as at the start of play."""
    tile = _tiles(tables, seats, double)[0]
    with precision(double):
        who, sounds = as_arrays((seats, noise))
        words = jnp.zeros((2, len(tile)), jnp.uint32)
        return _begin(tables.on_device(tile), who, sounds, words, 0, 0)


def _tiles(tables: Tables, seats: Seats, double: bool) -> list[np.ndarray]:
    backend = jax.default_backend()
    if seats.in_context:
        return cut(tables.games, CONTEXT_TILES.get(backend, 4096))
    devices = len(chosen()) * jax.process_count()
    size = tile_size(tables.games, _bytes_per_game(tables, double), backend, devices)
    return cut(tables.games, size)


def _bytes_per_game(tables: Tables, double: bool) -> int:
    """Estimate the memory of one game in bytes: its tables, and per action the learners' state
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


def tile_size(games: int, bytes_per_game: int, backend: str, devices: int = 1) -> int:
    """Return the number of games per tile.

    >>> tile_size(10, 200, "cpu"), tile_size(100_000, 200, "cpu"), tile_size(100_000, 1, "gpu")
    (16, 16384, 100000)
    """
    if backend != "cpu":
        return -(-games // devices)
    fits = _power_of_two(TILE_BYTES // max(1, bytes_per_game) + 1) // 2
    share = _power_of_two(-(-games // cores()))
    return max(SMALLEST, min(fits, share, LARGEST))


def cut(games: int, size: int) -> list[np.ndarray]:
    """Return the indices of the games in each tile; the last tile is padded with its last game.

    >>> [tile.tolist() for tile in cut(3, 2)]
    [[0, 1], [2, 2]]
    """
    starts = range(0, games, size)
    return [np.minimum(np.arange(start, start + size), games - 1) for start in starts]


def run_tiles(
    play: Callable[[np.ndarray, Any], Any],
    tiles: list[np.ndarray],
    prepare: Callable[[np.ndarray, Any], object] | None = None,
) -> list[Any]:
    """Play every tile, using all cores, devices and processes.

    Programs are compiled once per device, before threads start: `prepare` is called with the first
    tile, or the first tile is played alone. If a tile fails or Ctrl-C is pressed, tiles that no
    thread has started are dropped.

    >>> run_tiles(lambda tile, _: int(tile.sum()), cut(3, 2), prepare=lambda tile, _: None)
    [1, 4]
    """
    processes = jax.process_count()
    own = tiles[jax.process_index() :: processes]
    rounds = -(-len(tiles) // processes)
    own += [tiles[-1]] * (rounds - len(own))  # every process needs the same number
    found = _run_own(play, own, prepare)
    if processes == 1:
        return found
    return [piece for one in found for piece in from_all_processes(one)][: len(tiles)]


def _run_own(
    play: Callable[[np.ndarray, Any], Any],
    tiles: list[np.ndarray],
    prepare: Callable[[np.ndarray, Any], object] | None,
) -> list[Any]:
    """Play the tiles of this process; tile `i` runs on device `i` modulo the number of devices."""
    here = chosen()
    devices = here[: len(tiles)] if len(here) > 1 or len(jax.local_devices()) > 1 else [None]
    pairs = [(tile, devices[i % len(devices)]) for i, tile in enumerate(tiles)]
    done = [] if prepare else [play(*pair) for pair in pairs[: len(devices)]]
    rest = pairs[len(done) :]
    workers = len(devices) if jax.default_backend() != "cpu" else min(cores(), len(rest))
    if workers <= 1:
        return done + [play(*pair) for pair in rest]
    if prepare:
        for device in devices:
            prepare(tiles[0], device)
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(play, *pair) for pair in rest]
        try:
            return done + [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
