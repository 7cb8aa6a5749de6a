"""What training minimises, given the games and the players' books.

Certificates are computed elsewhere, in double precision and by other code; gaps here are losses,
to be differentiated. By the envelope theorem, the gradient of the value of a best response is that
at the responding policy held fixed.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from equipoise.core.mdp import best_response
from equipoise.dynamics.loop import Tables
from equipoise.incontext._contexts import Context
from equipoise.incontext._model import Transformer
from equipoise.incontext._players import Players, read_policy
from equipoise.incontext._tokens import Tokens


def matrix_gap(
    payoff: Float[Array, "rows columns"],
    x: Float[Array, "*rounds rows"],
    y: Float[Array, "*rounds columns"],
) -> Float[Array, "*rounds"]:
    """The duality gap `max_a (A y)_a - min_b (x'A)_b`.

    >>> import jax.numpy as jnp
    >>> pennies = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    >>> float(matrix_gap(pennies, jnp.array([1.0, 0.0]), jnp.array([0.5, 0.5])))
    0.5
    """
    return (y @ payoff.T).max(-1) - (x @ payoff).min(-1)


def markov_gap(
    reward: Float[Array, "states rows columns"],
    transition: Float[Array, "states rows columns states"],
    discount: float,
    x: Float[Array, "*rounds states rows"],
    y: Float[Array, "*rounds states columns"],
) -> Float[Array, "*rounds"]:
    """The duality gap of stationary policies, `max V^{*,y} - min V^{x,*}`, mean over states.

    In units of `1 / (1 - discount)`, so that it is comparable with that of a matrix game.

    >>> import jax.numpy as jnp
    >>> pennies = jnp.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> x, y = jnp.array([[1.0, 0.0]]), jnp.array([[0.5, 0.5]])
    >>> round(float(markov_gap(pennies, jnp.ones((1, 2, 2, 1)), 0.9, x, y)), 5)
    0.5
    """
    best, _ = best_response(
        jnp.einsum("sab,...sb->...sa", reward, y),
        jnp.einsum("sabz,...sb->...saz", transition, y),
        discount,
    )
    worst, _ = best_response(
        -jnp.einsum("sab,...sa->...sb", reward, x),
        jnp.einsum("sabz,...sa->...sbz", transition, x),
        discount,
    )
    return (1.0 - discount) * (best + worst).mean(-1)


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


def gaps(tables: Tables, x: Array, y: Array) -> Float[Array, "batch records"]:
    """Duality gaps of the policies at every round: x and y are (batch, records, ...).

    In Markov games, means over states times `1 - discount`: see `gap_name`.
    """
    rows, columns = tables.actions
    x, y = x[..., :rows], y[..., :columns]
    if tables.transition is None:
        return jax.vmap(matrix_gap, in_axes=(-1, 0, 0))(tables.reward, x, y)
    game = jax.vmap(markov_gap, in_axes=(-1, -1, None, 0, 0))
    return game(tables.reward, tables.transition, tables.discount, x, y)


def policies_of(players: Players, out: Array) -> tuple[Array, Array]:
    """Outputs of both seats as policies of each."""
    most = max(players.actions)
    x, y = (
        read_policy(own, count, most, players.states, players.reading)
        for own, count in zip(out, players.actions, strict=True)
    )
    return x, y


def exploitability(
    players: Players, models: Transformer, tables: Tables, context: Context
) -> Array:
    """The mean duality gap of the two players' policies, over games and rounds."""
    x, y = policies_of(players, outputs(models, players.tokens, context))
    return gaps(tables, x, y).mean()


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
