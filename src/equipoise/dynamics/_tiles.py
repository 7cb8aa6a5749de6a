"""How a batch is cut for the machine: tiles that fit a core's cache, one thread per core.

On a CPU each tile is played from start to end by one thread, its state in the second-level
cache; JAX releases Python's lock while it computes. On an accelerator the batch is one tile.
Tiles are padded to a power of two, so that few sizes are ever compiled and every game is computed
by the same vector instructions whatever the batch.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from equipoise.core.machine import cores

#: Bytes of state and tables that a tile may take: half of a second-level cache.
TILE_BYTES = 512 * 1024
SMALLEST, LARGEST = 16, 4096


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
    prepare: Callable[[np.ndarray], object],
) -> list[Any]:
    """Play every tile, on every core.

    Where there are threads, `prepare` is called with the first tile before they start: what it
    compiles is compiled once for all. When a tile fails, or Ctrl-C comes, the tiles that no
    thread has begun are dropped.

    >>> run_tiles(lambda tile: int(tile.sum()), cut(3, 2), prepare=lambda tile: None)
    [1, 4]
    """
    workers = 1 if jax.default_backend() != "cpu" else min(cores(), len(tiles))
    if workers == 1:
        return [play(tile) for tile in tiles]
    prepare(tiles[0])
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(play, tile) for tile in tiles]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
