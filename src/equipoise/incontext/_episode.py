"""One loop plays a batch of games, whoever sits at the table."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from equipoise.core import streams
from equipoise.dynamics import Exact, Noise
from equipoise.incontext._teams import Board, Responding, Seen, Team

#: The loop is compiled for so many lengths of context: attention reads no more cache than it must.
SEGMENTS = 4
#: Contexts of so few rounds are read whole in every round: compiling for more takes longer.
SHORT = 64


class Trajectory(eqx.Module):
    """What happened; axes are (rounds, seats, batch, ...)."""

    actions: Int[Array, "rounds 2 batch"]
    #: Of the row player, as it was seen.
    reward: Float[Array, "rounds batch"]
    #: Mean reward of the row player given both policies.
    expected: Float[Array, "rounds batch"]
    #: The policies played, exploration included, at the state of the round.
    played: Float[Array, "rounds 2 batch actions"]
    #: The policies before each round and after the last, at all states.
    policies: Float[Array, "records 2 batch *states actions"]
    #: (rounds + 1, batch), or None in matrix games.
    states: Any


def episode(
    board: Board,
    teams: tuple[Team, ...],
    words: UInt32[Array, "2 batch"],
    *,
    rounds: int,
    exploration: Any = 0.0,
    fading: bool = True,
    noise: Noise | None = None,
    start: int = 0,
    segments: int | None = None,
) -> Trajectory:
    """Play `rounds` rounds; may be compiled, and `vmap`ped.

    `words` are the two random words of each game; `exploration` is the first share of uniform play
    (see `explored_share`), one number, or one for each game, or for each seat and game; unless it
    is `fading`, it stays as it is. The loop is compiled in `segments`: one where rounds are few,
    unless said otherwise.
    """
    noise = Exact() if noise is None else noise
    batch = board.reward.shape[0]
    place = None if board.states is None else jnp.full(batch, start, jnp.int32)
    exploration = jnp.broadcast_to(jnp.asarray(exploration, board.reward.dtype), (2, batch))
    states = tuple(team.begin(board, place) for team in teams)
    explore = jnp.stack([_uniform(count, max(board.actions)) for count in board.actions])

    def play_round(reach: int, carry: Any, t: Any) -> tuple[Any, Any]:
        states, place = carry
        policies = _policies(board, teams, states)
        here = policies if place is None else _at(policies, place[None])
        share = exploration[..., None]
        share = explored_share(share, t) if fading else share
        played = (1.0 - share) * here + share * explore[:, None]
        actions = jnp.stack(
            [
                _sample(played[seat], streams.uniform(words, t, purpose), board.actions[seat])
                for seat, purpose in enumerate((streams.ROW_ACTION, streams.COLUMN_ACTION))
            ]
        )
        table = board.reward if place is None else _at(board.reward, place)
        mean = _at(_at(table, actions[0]), actions[1])
        reward = noise(mean, words, t)
        rows, columns = board.actions
        expected = jnp.einsum("ba,bac,bc->b", played[0, :, :rows], table, played[1, :, :columns])
        then = None if place is None else _move(board, place, actions, words, t)
        own = jnp.stack([reward, 1.0 - reward])
        states = tuple(
            team.observe(state, _seen(team, t, actions, own, played, table, place, then), reach)
            for team, state in zip(teams, states, strict=True)
        )
        return (states, then), (actions, reward, expected, played, policies, place)

    if segments is None:
        segments = 1 if rounds <= SHORT else SEGMENTS
    carry, pieces = (states, place), []
    for first, last in _cut(rounds, segments):
        ts = jnp.arange(first + 1, last + 1, dtype=jnp.int32)
        carry, piece = jax.lax.scan(lambda c, t, r=last: play_round(r, c, t), carry, ts)
        pieces.append(piece)
    states, place = carry
    joined: list[Any] = [
        None if parts[0] is None else jnp.concatenate(parts) for parts in zip(*pieces, strict=True)
    ]
    actions, reward, expected, played, policies, places = joined
    final = _policies(board, teams, states)
    return Trajectory(
        actions,
        reward,
        expected,
        played,
        jnp.concatenate([policies, final[None]]),
        None if place is None else jnp.concatenate([places, place[None]]),
    )


def explored_share(first: Any, t: Any) -> Array:
    """The share of uniform play in round `t`: `first` in sixteen rounds, then falling as t^-1/4.

    >>> [round(float(explored_share(0.2, t)), 4) for t in (1, 16, 256)]
    [0.2, 0.2, 0.1]
    """
    return first * jnp.minimum(1.0, (16.0 / jnp.asarray(t, jnp.float32)) ** 0.25)


def _policies(board: Board, teams: tuple[Team, ...], states: tuple[Any, ...]) -> Array:
    """(seats, batch, ...): those of a best responder last, for it must know what it meets."""
    found: dict[int, Array] = {}
    order = sorted(range(len(teams)), key=lambda i: isinstance(teams[i], Responding))
    for i in order:
        team = teams[i]
        met = found.get(1 - team.seats[0]) if isinstance(team, Responding) else None
        for seat, policy in zip(team.seats, team.policies(states[i], board, met), strict=True):
            found[seat] = policy
    return jnp.stack([found[0], found[1]])


def _seen(
    team: Team,
    t: Any,
    actions: Array,
    rewards: Array,
    played: Array,
    table: Array,
    place: Any,
    then: Any,
) -> Seen:
    own = jnp.array(team.seats)
    seen = Seen(t, actions[own], rewards[own], place, then)
    if not team.informed:
        return seen
    (seat,) = team.seats
    mine = table if seat == 0 else 1.0 - jnp.swapaxes(table, -1, -2)
    met = played[1 - seat][:, : mine.shape[-1]]
    values = jnp.einsum("gab,gb->ga", mine, met)[None]
    return replace(seen, policies=played[own], values=values)


def _uniform(count: int, most: int) -> Array:
    return jnp.where(jnp.arange(most) < count, 1.0 / count, 0.0)


def _sample(policy: Array, u: Array, count: int) -> Array:
    drawn = (u[:, None] >= jnp.cumsum(policy, -1)).sum(-1).astype(jnp.int32)
    return jnp.minimum(drawn, count - 1)


def _at(table: Array, index: Array) -> Array:
    """`table[..., index, ...]` on the first axis after those of `index`, game by game."""
    lifted = index.reshape(*index.shape, *(1,) * (table.ndim - index.ndim))
    return jnp.take_along_axis(table, lifted, axis=index.ndim).squeeze(index.ndim)


def _move(board: Board, place: Array, actions: Array, words: Array, t: Any) -> Array:
    chances = _at(_at(_at(board.transition, place), actions[0]), actions[1])  # type: ignore[arg-type]
    u = streams.uniform(words, t, streams.TRANSITION)
    return _sample(chances, u, chances.shape[-1])


def _cut(rounds: int, segments: int) -> list[tuple[int, int]]:
    """(first, last) of every segment: as equal as can be, and none empty."""
    ends = [round(rounds * (i + 1) / segments) for i in range(segments)]
    starts = [0, *ends[:-1]]
    return [(a, b) for a, b in zip(starts, ends, strict=True) if b > a]
