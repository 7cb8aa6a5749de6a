"""What training minimises, given the games and the players' books."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from equipoise.incontext._contexts import Context
from equipoise.incontext._gaps import markov_gap, matrix_gap
from equipoise.incontext._model import Transformer
from equipoise.incontext._players import Players, read_policies
from equipoise.incontext._teams import Board
from equipoise.incontext._tokens import Tokens


def write(tokens: Tokens, context: Context) -> Float[Array, "2 batch length features"]:
    """The tokens of whole histories."""
    states = context.states
    rounds = jnp.arange(1, context.actions.shape[2] + 1)

    def one(actions: Array, rewards: Array, states: Any) -> Array:
        here, then = (None, None) if states is None else (states[:-1], states[1:])
        axes = (0, 0, 0, *(2 * [None if states is None else 0]))
        body = jax.vmap(tokens.round, in_axes=axes)(rounds, actions, rewards, here, then)
        opening = tokens.opening(None if states is None else states[0])
        return jnp.concatenate([opening, body.reshape(-1, body.shape[-1])])

    games = jax.vmap(one, in_axes=(0, 0, None if states is None else 0))
    return jax.vmap(games, in_axes=(0, 0, None))(context.actions, context.rewards, states)


def outputs(models: Transformer, tokens: Tokens, context: Context) -> Array:
    """(2, batch, rounds + 1, outputs): of the models at the last token before each round."""
    written = write(tokens, context)
    rows = written.reshape(models.embed.shape[0], -1, *written.shape[2:])
    sequences = eqx.filter_vmap(
        jax.vmap(Transformer.__call__, (None, 0)), in_axes=(eqx.if_array(0), 0)
    )
    out = sequences(models, rows)
    out = out.reshape(*written.shape[:3], -1)
    rounds = context.actions.shape[2]
    opening = written.shape[2] - tokens.per_round * rounds
    return out[:, :, opening - 1 :: tokens.per_round]


def gap_name(states: int | None) -> str:
    """What the gap of training is called, with its unit: that of one round.

    `evaluate` and certificates have the `nash_conv` of Markov games instead: what each player
    gains in its worst state, of discounted sums.

    >>> gap_name(None), gap_name(3)
    ('gap', 'gap per round (mean over states, times 1 - discount)')
    """
    return "gap" if states is None else "gap per round (mean over states, times 1 - discount)"


def gaps(board: Board, x: Array, y: Array) -> Float[Array, "batch records"]:
    """Duality gaps of the policies at every round: x and y are (batch, records, ...).

    In Markov games, means over states times `1 - discount`: see `gap_name`.
    """
    rows, columns = board.actions
    x, y = x[..., :rows], y[..., :columns]
    if board.transition is None:
        return jax.vmap(matrix_gap)(board.reward, x, y)
    game = jax.vmap(markov_gap, in_axes=(0, 0, None, 0, 0))
    return game(board.reward, board.transition, board.discount, x, y)


def policies_of(players: Players, out: Array) -> tuple[Array, Array]:
    """Outputs of both seats as policies of each."""
    x, _ = read_policies(out[0], players.actions, players.states, players.reading)
    _, y = read_policies(out[1], players.actions, players.states, players.reading)
    return x, y


def exploitability(players: Players, models: Transformer, board: Board, context: Context) -> Array:
    """The mean duality gap of the two players' policies, over games and rounds."""
    x, y = policies_of(players, outputs(models, players.tokens, context))
    return gaps(board, x, y).mean()


def expert(
    players: Players, models: Transformer, context: Context, labels: Array
) -> tuple[Array, Array]:
    """Cross-entropy to the expert's policies, Eq. (1) of the paper, and the divergence from it.

    Labels are (2, batch, records or 1, ..., actions).
    """
    x, y = policies_of(players, outputs(models, players.tokens, context))
    log = jnp.log(jnp.maximum(jnp.stack([x, y]), 1e-12))
    cross = -(labels * log).sum(-1).mean()
    entropy = -jax.scipy.special.xlogy(labels, labels).sum(-1).mean()
    return cross, cross - entropy
