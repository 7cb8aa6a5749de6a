"""Runs the compiled loop over the tiles of a batch, and gathers what was recorded."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core.precision import double_precision, single_precision
from equipoise.dynamics import _tiles
from equipoise.dynamics._learner import Learner
from equipoise.dynamics._loop import LoopState, Sums, advance, begin
from equipoise.dynamics._noise import Noise
from equipoise.dynamics._tables import Tables

#: Rounds compiled into one loop body: on an H200, 8 give 1.3 times the speed of 1, and 16 no more.
UNROLL = {"cpu": 1, "gpu": 8, "tpu": 8}


class Snapshot(eqx.Module):
    """What is kept at a recorded round; NumPy, batch last."""

    policies: tuple[np.ndarray, np.ndarray]
    #: Float64 sums of what the arena tallies.
    sums: Any


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


@eqx.filter_jit
def _advance(
    arena: Any, learners: Any, noise: Any, keys: Any, state: Any, stop: Any, unroll: int
) -> tuple[LoopState, Any]:
    return advance(arena, learners, noise, keys, state, stop, unroll=unroll)


@eqx.filter_jit
def _begin(arena: Any, learners: Any, noise: Any, keys: Any, start: int) -> LoopState:
    return begin(arena, learners, noise, keys, start)


def run(
    tables: Tables,
    learners: tuple[Learner, Learner],
    noise: Noise,
    keys: np.ndarray,
    state: LoopState | None,
    stops: list[int],
    start: int,
    double: bool,
) -> tuple[LoopState, list[Snapshot]]:
    """Play until each of `stops`; return the final state and a snapshot at each."""
    backend = jax.default_backend()
    unroll = UNROLL.get(backend, 1)

    def play_tile(index: np.ndarray, stops: list[int] = stops) -> tuple[LoopState, list[Snapshot]]:
        with precision(double):
            arena, words = tables.arena(index), jnp.asarray(keys[:, index])
            parts, sounds = as_arrays(learners), as_arrays(noise)
            if state is None:
                loop = _begin(arena, parts, sounds, words, start)
            else:
                loop = _take(state, index)
            snapshots = []
            for stop in stops:
                loop, _ = _advance(arena, parts, sounds, words, loop, jnp.int32(stop), unroll)
                snapshots.append(_snapshot(learners, loop))
            return jax.tree.map(np.asarray, loop), snapshots

    size = _tiles.tile_size(tables.games, _bytes_per_game(tables, double), backend)

    def compile_tile(index: np.ndarray) -> None:
        play_tile(index, [0])  # the loop ends before its first round

    pieces = _tiles.run_tiles(play_tile, _tiles.cut(tables.games, size), compile_tile)
    return _join(pieces, tables.games)


def _bytes_per_game(tables: Tables, double: bool) -> int:
    """About how much of the cache one game takes: its tables, and per action what learners keep
    (a policy, an anchor, estimates) and the three parts of a sum."""
    entries = tables.rewards[..., 0].size
    if tables.cumulative is not None:
        entries += tables.cumulative[..., 0].size
    entries += 7 * (tables.states or 1) * sum(tables.actions)
    return entries * (8 if double else 4)


def _snapshot(learners: tuple[Learner, Learner], loop: LoopState) -> Snapshot:
    row, column = learners
    policies = (row.policy(loop.learners[0]), column.policy(loop.learners[1]))
    return Snapshot(
        (np.asarray(policies[0], np.float64), np.asarray(policies[1], np.float64)),
        _exact_sum(loop.sums),
    )


def _exact_sum(sums: Sums) -> Any:
    def add(partial: Any, total: Any, error: Any) -> np.ndarray:
        whole = np.asarray(total, np.float64) - np.asarray(error, np.float64)
        return whole + np.asarray(partial, np.float64)

    return jax.tree.map(add, sums.partial, sums.total, sums.error)


def _take(state: LoopState, index: np.ndarray) -> LoopState:
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if leaf.ndim == 0 else jnp.asarray(leaf[..., index]), state
    )


def _join(
    pieces: list[tuple[LoopState, list[Snapshot]]], games: int
) -> tuple[LoopState, list[Snapshot]]:
    def join(*leaves: Any) -> Any:
        return leaves[0] if leaves[0].ndim == 0 else np.concatenate(leaves, -1)[..., :games]

    return jax.tree.map(join, *pieces)
