"""Games as play wants them, and how a batch of them is cut for the machine.

Compilers round differently for different sizes, so that games are played in blocks of one fixed
size, the last filled up with copies: the result of a game does not depend, to the last bit, on
how many others are played, or on which.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.machine import cores
from equipoise.core.rewards import scaled
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext._teams import Board

#: Games of a block: on a CPU what its caches hold, on an accelerator what keeps it busy.
BLOCKS = {"cpu": 32}
ACCELERATOR_BLOCK = 4096


def block_size() -> int:
    """How many games are played at once on this machine.

    >>> block_size() in (32, 4096)
    True
    """
    return BLOCKS.get(jax.default_backend(), ACCELERATOR_BLOCK)


def flat_board(games: MatrixGame | MarkovGame, reward_range: tuple[float, float]) -> Board:
    """All games in one row, rewards scaled from their range to [0, 1], in float32.

    >>> flat_board(MatrixGame([[3, 1], [1, 2]]), (1, 3)).reward.tolist()
    [[[1.0, 0.0], [0.0, 0.5]]]
    """
    axes = len(games.batch_shape)

    def flat(array: Any) -> jax.Array:
        array = np.asarray(array)
        return jnp.asarray(array.reshape(-1, *array.shape[axes:]), jnp.float32)

    if isinstance(games, MatrixGame):
        return Board(flat(scaled(np.asarray(games.payoff), reward_range)))
    reward = flat(scaled(np.asarray(games.reward), reward_range))
    return Board(reward, flat(games.transition), games.discount)


def in_blocks(play: Callable[[np.ndarray], Any], games: int) -> list[Any]:
    """What `play` gives for the indices of each block, without what was filled in.

    The games are the first axis of every array that it returns. On a CPU there is a thread for
    every core; the first block is played alone, so that what it compiles serves the others.

    >>> [part.tolist() for part in in_blocks(lambda index: 2 * index, 3)]
    [[0, 2, 4]]
    """
    size = block_size()
    blocks = [np.minimum(np.arange(a, a + size), games - 1) for a in range(0, games, size)]

    def one(index: np.ndarray) -> Any:
        real = min(size, games - int(index[0]))
        return jax.tree.map(lambda leaf: np.asarray(leaf)[:real], play(index))

    done = [one(blocks[0])]
    workers = min(cores(), len(blocks) - 1) if jax.default_backend() == "cpu" else 1
    if workers <= 1:
        return done + [one(block) for block in blocks[1:]]
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(one, block) for block in blocks[1:]]
        try:
            return done + [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
