"""The compiled loop that plays any two learners, with or without a record of every round.

Most callers need `equipoise.dynamics.play`. This module is for programs that compile play into a
larger program, as training does.

`advance` keeps only sums, so that memory does not grow with the number of rounds. A sum over rounds
has three parts: a partial sum over at most `BLOCK` rounds, and a compensated total of whole blocks
with its rounding error, so that float32 loses nothing over millions of rounds. Blocks end at
multiples of `BLOCK` counted from the first round, wherever a run stops, so that stopping and
resuming a run does not change a bit. `remember` also returns every round.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from equipoise.core.steps import collecting
from equipoise.dynamics._learner import Exact, Noise, check_policy
from equipoise.dynamics._round import (
    Event,
    Seats,
    Seen,
    Tables,
    expected,
    play_round,
    seat,
    tally,
    upcoming,
)

__all__ = [
    "Event",
    "LoopState",
    "Remembered",
    "Seats",
    "Seen",
    "Tables",
    "advance",
    "begin",
    "remember",
    "seat",
]

#: Number of rounds in a partial sum, before it is added to the compensated total.
BLOCK = 64
#: Number of context lengths for which play is compiled, so that attention reads no more of the
#: context than necessary.
SEGMENTS = 4
#: Contexts up to this many rounds are read whole in every round, since compiling more lengths would
#: take longer.
SHORT = 64


class Sums(eqx.Module):
    """A sum of tallied quantities over rounds."""

    partial: Any
    total: Any
    error: Any

    @staticmethod
    def zero(like: Any) -> "Sums":
        """Return an empty sum of arrays like these."""
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
        return Sums(zeros, zeros, zeros)

    def add(self, tally: Any) -> "Sums":
        """Add one round."""
        return Sums(jax.tree.map(jnp.add, self.partial, tally), self.total, self.error)

    def fold(self, full: Any) -> "Sums":
        """Move the partial sum to the total where `full`, keeping the rounding error (Kahan)."""
        addend = jax.tree.map(jnp.subtract, self.partial, self.error)
        total = jax.tree.map(jnp.add, self.total, addend)
        lost = jax.tree.map(lambda new, old, a: (new - old) - a, total, self.total, addend)
        folded = Sums(jax.tree.map(jnp.zeros_like, self.partial), total, lost)
        return jax.tree.map(lambda new, old: jnp.where(full, new, old), folded, self)


class LoopState(eqx.Module):
    """Everything needed to resume play: the round, both learners, the current state, the sums."""

    #: Number of rounds played so far.
    round: jax.Array
    #: States of the two learners, in the layout of `equipoise.dynamics._round`.
    learners: Any
    #: State in which the next round is played; `()` in matrix games.
    place: Any
    #: Sums over the rounds played.
    sums: Sums


def begin(
    tables: Tables, seats: Seats, noise: Noise, keys: Any, start: int = 0, rounds: int = 0
) -> LoopState:
    """Return the state before the first round; a `ContextLearner` gets room for `rounds` rounds.

    **Example**

    >>> import jax, numpy as np, equipoise as eq
    >>> from equipoise.core.streams import game_words
    >>> from equipoise.dynamics.loop import Tables, begin, seat
    >>> games = eq.games.families.uniform(actions=3).sample(16, key=0)
    >>> tables = Tables.of(games).on_device(np.arange(16))
    >>> words = jax.numpy.asarray(game_words(jax.random.split(jax.random.key(1), 16)))
    >>> seats = seat(eq.dynamics.Uniform(), eq.dynamics.Uniform())
    >>> int(begin(tables, seats, eq.dynamics.Exact(), words).round)
    0
    """
    states = seats.begin(tables.specs(start, rounds), tables.games)
    places = () if tables.states is None else (tables.states,)
    policies = jax.eval_shape(seats.policies, states)
    for own, actions in enumerate(tables.actions):
        name, shape = ("row", "column")[own], (*places, actions, tables.games)
        check_policy(name, seats.each[own], policies[own], shape)
    place = tables.start(start)
    first = jnp.int32(1)
    like = jax.eval_shape(
        lambda: tally(tables, play_round(tables, seats, noise, keys, first, place, states)[2])
    )
    return LoopState(jnp.int32(0), states, place, Sums.zero(like))


def advance(
    tables: Tables,
    seats: Seats,
    noise: Noise,
    keys: Any,
    state: LoopState,
    stop: Any,
    *,
    unroll: int = 1,
) -> tuple[LoopState, Any]:
    """Play until `stop` rounds have been played in all.

    `unroll` rounds are compiled into one loop body, which saves kernel launches on an accelerator.
    The second result has the values marked with `once`. They leave the loop only so that they are
    computed once; ignore them.

    **Example**

    >>> import jax, numpy as np, equipoise as eq
    >>> from equipoise.core.streams import game_words
    >>> from equipoise.dynamics.loop import Tables, advance, begin, seat
    >>> games = eq.games.families.uniform(actions=3).sample(16, key=0)
    >>> tables = Tables.of(games).on_device(np.arange(16))
    >>> words = jax.numpy.asarray(game_words(jax.random.split(jax.random.key(1), 16)))
    >>> seats = seat(eq.dynamics.Uniform(), eq.dynamics.Uniform())
    >>> who = (tables, seats, eq.dynamics.Exact(), words)
    >>> int(advance(*who, begin(*who), 7)[0].round)
    7
    """

    def one_round(state: LoopState) -> tuple[LoopState, list[Any]]:
        t = state.round + 1
        with collecting() as marked:
            place, states, event = play_round(
                tables, seats, noise, keys, t, state.place, state.learners
            )
            sums = state.sums.add(tally(tables, event))
        return LoopState(t, states, place, sums), marked

    def repeat(count: int, times: Any, state: LoopState, marked: Any) -> tuple[LoopState, Any]:
        def body(_: Any, carry: tuple[LoopState, Any]) -> tuple[LoopState, Any]:
            state, marked = carry[0], []
            for _ in range(count):
                state, more = one_round(state)
                marked += more
            return state, marked

        return jax.lax.fori_loop(0, times, body, (state, marked))

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

    one = jax.eval_shape(lambda: one_round(state)[1])
    one = [jnp.zeros(leaf.shape, leaf.dtype) for leaf in one]
    scratch = (one * unroll if unroll > 1 else [], one)
    return jax.lax.while_loop(lambda c: c[0].round < stop, play_block, (state, scratch))


class Remembered(eqx.Module):
    """Result of `remember`; rounds are the first axis of all arrays in `events` and `expected`."""

    #: State after the last round.
    state: LoopState
    #: The events of each round.
    events: Event
    #: Mean reward of the row player given both policies.
    expected: jax.Array
    #: Policies and sums after the rounds that have a slot; slots are the first axis.
    kept: Any
    #: Policies of the round after the last, at all states.
    policies: tuple[jax.Array, jax.Array]
    #: Values marked with `once`, as in `advance`; empty without records or with a `ContextLearner`.
    marked: Any


def remember(
    tables: Tables,
    seats: Seats,
    words: Any,
    *,
    rounds: int,
    noise: Noise | None = None,
    start: int = 0,
    state: LoopState | None = None,
    slots: Any = None,
    records: int = 0,
) -> Remembered:
    """Play `rounds` rounds and keep all of them; memory grows with their number.

    The function can be compiled into a larger program and `vmap`ped. `words` are the two random
    words of each game. After round `i` (from 0), policies and sums are kept in slot `slots[i]`;
    slots >= `records` are discarded.

    **Example**

    >>> import jax, numpy as np, equipoise as eq
    >>> from equipoise.core.streams import game_words
    >>> from equipoise.dynamics.loop import Tables, remember, seat
    >>> games = eq.games.families.uniform(actions=3).sample(16, key=0)
    >>> tables = Tables.of(games).on_device(np.arange(16))
    >>> words = jax.numpy.asarray(game_words(jax.random.split(jax.random.key(1), 16)))
    >>> seats = seat(eq.dynamics.OMD(), eq.dynamics.Uniform())
    >>> with jax.numpy_rank_promotion("allow"):  # learners broadcast over games
    ...     found = remember(tables, seats, words, rounds=5)
    >>> found.events.reward.shape, found.policies[0].shape
    ((5, 16), (3, 16))
    """
    noise, words = noise or Exact(), jnp.asarray(words)
    if state is None:
        state = begin(tables, seats, noise, words, start, rounds)
    kept = None
    if records:
        like = (upcoming(tables, seats, state.round, state.learners), state.sums)
        kept = jax.tree.map(lambda leaf: jnp.zeros((records + 1, *leaf.shape), leaf.dtype), like)
    # With a context, marking does not pay: computing values twice is cheap compared with the
    # context, and marking is slow to trace.
    marking = records > 0 and not seats.in_context
    first = state.round
    ts = jnp.arange(1, rounds + 1, dtype=jnp.int32)
    slots = jnp.full(rounds, records) if slots is None else jnp.minimum(slots, records)

    def body(who: Seats, carry: Any, moment: Any) -> tuple[Any, Any]:
        state, kept, _ = carry
        t, slot = moment
        t = first + t
        with collecting(marking) as marked:
            place, states, event = play_round(
                tables, who, noise, words, t, state.place, state.learners
            )
        sums = state.sums
        if records:
            sums = sums.add(tally(tables, event)).fold(t % BLOCK == 0)
            kept = jax.tree.map(
                lambda all_, new: jax.lax.dynamic_update_index_in_dim(all_, new, slot, 0),
                kept,
                (upcoming(tables, who, t, states), sums),
            )
        after = LoopState(t, states, place, sums)
        return (after, kept, marked), (event, expected(tables, event))

    # The kernel of an accelerator reads only the filled part of a context.
    long = seats.in_context and rounds > SHORT and jax.default_backend() == "cpu"
    segments = SEGMENTS if long else 1
    # Runs with a context start in round 1.
    dropped = [end for end in seats.context_ends if end < rounds]
    read = dropped[0] if dropped else rounds
    parts = [round(read * (i + 1) / segments) for i in range(segments)]
    ends = sorted({*parts, *dropped, rounds})
    like = []
    if marking:
        like = jax.eval_shape(lambda: body(seats, (state, kept, None), (ts[0], slots[0]))[0][2])
    carry: Any = (state, kept, [jnp.zeros(leaf.shape, leaf.dtype) for leaf in like])
    pieces = []
    for begun, end in zip([0, *ends[:-1]], ends, strict=True):
        who, part = seats.within(end), slice(begun, end)
        carry, piece = jax.lax.scan(
            lambda c, moment, who=who: body(who, c, moment), carry, (ts[part], slots[part])
        )
        pieces.append(piece)
        seats, states = seats.after(end, carry[0].learners)
        carry = (replace(carry[0], learners=states), *carry[1:])
    events, means = jax.tree.map(lambda *parts: jnp.concatenate(parts), *pieces)
    after, kept, marked = carry
    policies = upcoming(tables, seats, after.round, after.learners)
    return Remembered(after, events, means, kept, policies, marked)
