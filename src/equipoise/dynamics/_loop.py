"""The one loop that runs any pair of learners, compiled.

Memory does not grow with the number of rounds. Sums over rounds are kept in three parts: a
partial sum over at most `BLOCK` rounds, and a compensated total of whole blocks, so that float32
loses nothing over millions of rounds. Blocks end at multiples of `BLOCK` counted from the first
round, wherever a run stops: stopping and going on changes no bit.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core.fusion import collecting
from equipoise.dynamics._arena import MarkovArena, MatrixArena
from equipoise.dynamics._learner import Learner
from equipoise.dynamics._noise import Noise

#: Rounds whose policies are summed before they join the compensated total.
BLOCK = 64


class Sums(eqx.Module):
    """A sum over rounds, of whatever the arena tallies."""

    partial: Any
    total: Any
    error: Any

    @staticmethod
    def zero(like: Any) -> "Sums":
        """An empty sum of arrays like these."""
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
        return Sums(zeros, zeros, zeros)

    def add(self, tally: Any) -> "Sums":
        """Add one round."""
        return Sums(jax.tree.map(jnp.add, self.partial, tally), self.total, self.error)

    def fold(self, full: Any) -> "Sums":
        """Move the partial sum to the total where `full`, keeping the rounding error (Kahan)."""

        def one(partial: Any, total: Any, error: Any) -> tuple[Any, Any, Any]:
            addend = partial - error
            new = total + addend
            lost = (new - total) - addend
            return (
                jnp.where(full, 0.0, partial),
                jnp.where(full, new, total),
                jnp.where(full, lost, error),
            )

        shape = jax.tree.structure(self.partial)
        leaves = map(jax.tree.leaves, (self.partial, self.total, self.error))
        parts = [one(*triple) for triple in zip(*leaves, strict=True)]
        columns = zip(*parts, strict=True)
        return Sums(*(jax.tree.unflatten(shape, column) for column in columns))


class LoopState(eqx.Module):
    """Everything that play needs to go on: the round, both learners, the place, the sums."""

    #: Rounds played so far.
    round: jax.Array
    learners: tuple[Any, Any]
    place: Any
    sums: Sums


def begin(
    arena: MatrixArena | MarkovArena,
    learners: tuple[Learner, Learner],
    noise: Noise,
    keys: Any,
    start: int,
) -> LoopState:
    """The state before the first round."""
    batch = keys.shape[1:]

    def spread(leaf: Any) -> jax.Array:
        return jnp.broadcast_to(leaf.reshape(leaf.shape + (1,) * len(batch)), leaf.shape + batch)

    states = tuple(
        jax.tree.map(spread, learner.init(spec))
        for learner, spec in zip(learners, arena.specs(), strict=True)
    )
    place = arena.start(start)
    first = jnp.int32(1)
    tally = jax.eval_shape(
        lambda: arena.tally(arena.round(learners, noise, keys, first, place, states)[2])
    )
    return LoopState(jnp.int32(0), (states[0], states[1]), place, Sums.zero(tally))


def advance(
    arena: MatrixArena | MarkovArena,
    learners: tuple[Learner, Learner],
    noise: Noise,
    keys: Any,
    state: LoopState,
    stop: Any,
    *,
    unroll: int = 1,
    materialise: bool = True,
) -> tuple[LoopState, Any]:
    """Play until `stop` rounds have been played in all.

    `unroll` rounds are compiled into one body, which spares launches on an accelerator.
    `materialise` lets values marked with `once` leave the loop; they are the second result and
    of no use, except that a compiler must not find out.
    """

    def play_round(t: Any, state: LoopState) -> tuple[LoopState, list[Any]]:
        with collecting(materialise) as marked:
            place, states, event = arena.round(
                learners, noise, keys, t + 1, state.place, state.learners
            )
            sums = state.sums.add(arena.tally(event))
        return LoopState(t + 1, states, place, sums), marked

    def several(count: int) -> Any:
        def body(_: Any, carry: tuple[LoopState, Any]) -> tuple[LoopState, Any]:
            state, marked = carry[0], []
            for _ in range(count):
                state, more = play_round(state.round, state)
                marked += more
            return state, marked

        return body

    def repeat(count: int, times: Any, state: LoopState, marked: Any) -> tuple[LoopState, Any]:
        return jax.lax.fori_loop(0, times, several(count), (state, marked))

    def play_block(carry: Any) -> Any:
        state, (marked, marked_one) = carry
        rounds = jnp.minimum(stop, (state.round // BLOCK + 1) * BLOCK) - state.round
        if unroll > 1:
            state, marked = repeat(unroll, rounds // unroll, state, marked)
            rounds = rounds % unroll
        state, marked_one = repeat(1, rounds, state, marked_one)
        sums = state.sums.fold(state.round % BLOCK == 0)
        state = LoopState(state.round, state.learners, state.place, sums)
        return state, (marked, marked_one)

    one = jax.eval_shape(lambda: play_round(state.round, state)[1])
    one = [jnp.zeros(leaf.shape, leaf.dtype) for leaf in one]
    scratch = (one * unroll if unroll > 1 else [], one)
    return jax.lax.while_loop(lambda c: c[0].round < stop, play_block, (state, scratch))
