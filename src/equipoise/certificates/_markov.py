"""Gains in zero-sum Markov games: best responses by policy iteration, with proven residuals.

Against a fixed stationary policy the other player faces a Markov decision process. Policy
iteration finds a best response; the advantages that are left in all states bound how much better
any other policy can be. `core.mdp` has the argument.
"""

from typing import Any

import numpy as np

from equipoise.certificates._tables import as_profile, joint_batch_shape
from equipoise.core.errors import InputError
from equipoise.core.mdp import bracket_best_response, bracket_policy
from equipoise.core.results import TableCertificate
from equipoise.core.rounding import EPS, WEIGHTS, normalise
from equipoise.games import MarkovGame


def certify_markov(game: MarkovGame, policy: Any, concept: str) -> TableCertificate:
    """Gains of both players in every state, and of the worst state for each."""
    if concept not in ("auto", "nash"):
        raise InputError("concept", '"nash" for a MarkovGame', repr(concept))
    states, (rows, columns) = game.states, game.actions
    x, y = as_profile(
        policy,
        [(states, rows), (states, columns)],
        ["(states, actions) of the row player", "(states, actions) of the column player"],
    )
    batch = joint_batch_shape(game.batch_shape, x.shape[:-2], y.shape[:-2])
    table = normalise(np.asarray(game.reward, np.float64), 3)
    reward, size = table.scaled, np.abs(table.scaled)
    transition, discount = np.asarray(game.transition, np.float64), game.discount
    # One sum over the other's actions, and one over the own: of rewards and of transitions.
    operations = rows + columns + 3 * WEIGHTS
    row_reward, row_next = against_column(reward, transition, y)
    column_reward, column_next = against_row(reward, transition, x)
    row_size = np.matmul(size, y[..., None])[..., 0]
    column_size = np.matmul(x[..., None, :], size)[..., 0, :].max(-1)
    own = bracket_policy(
        np.einsum("...sa,...sa->...s", row_reward, x),
        np.matmul(x[..., None, :], row_next)[..., 0, :],
        discount,
        np.einsum("...sa,...sa->...s", row_size, x),
        operations,
    )
    best = (
        bracket_best_response(row_reward, row_next, discount, row_size.max(-1), operations),
        bracket_best_response(-column_reward, column_next, discount, column_size, operations),
    )
    state_gains = np.empty((*batch, states, 2))
    state_upper, rounding = np.empty_like(state_gains), np.empty_like(state_gains)
    for i, (reply, sign) in enumerate(zip(best, (1.0, -1.0), strict=True)):
        gain = (reply.value - sign * own.value) + (reply.rest - sign * own.rest)
        slack = (1.0 + 8 * EPS) * (reply.above + own.above) + 8 * EPS * np.abs(gain)
        state_gains[..., i], state_upper[..., i] = gain, gain + slack
        rounding[..., i] = 8.0 * EPS * (operations + states) * (reply.reach + own.reach)
    value = table.restore(own.value + table.offset[..., None] / (1.0 - discount), 1)
    worst = state_upper.argmax(-2)[..., None, :]
    rounding = np.take_along_axis(rounding, worst, -2)[..., 0, :]
    state_gains = table.restore(state_gains, 2)
    state_upper = np.maximum(table.restore(state_upper, 2, up=True), state_gains)
    return TableCertificate(
        gains=state_gains.max(-2),
        upper=state_upper.max(-2),
        value=np.stack([value, -value], -1),
        method="best responses by policy iteration, worst state",
        state_gains=state_gains,
        state_upper=state_upper,
        rounding=table.restore(rounding, 1, up=True),
    )


def against_column(
    reward: np.ndarray, transition: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The row player's decision process when the column player plays `y`."""
    own_reward = np.matmul(reward, y[..., None])[..., 0]
    own_next = np.matmul(y[..., None, None, :], transition)[..., 0, :]
    return own_reward, own_next


def against_row(
    reward: np.ndarray, transition: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The column player's decision process, in the row player's rewards, against `x`."""
    *_, states, rows, columns = reward.shape
    own_reward = np.matmul(x[..., None, :], reward)[..., 0, :]
    by_row = transition.reshape(*transition.shape[:-3], rows, columns * states)
    own_next = np.matmul(x[..., None, :], by_row)[..., 0, :]
    return own_reward, own_next.reshape(*own_next.shape[:-1], columns, states)
