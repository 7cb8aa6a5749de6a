"""Gains in zero-sum Markov games: exact best responses by policy iteration.

Against a fixed stationary policy the other player faces a Markov decision process. Policy
iteration solves it exactly in finitely many steps: it ends when no state can improve its action
by more than rounding, not after a given number of sweeps.
"""

from typing import Any

import numpy as np

from equipoise.certificates._policies import as_profile, joint_batch_shape
from equipoise.core.mdp import best_response_value, policy_value
from equipoise.core.results import Certificate
from equipoise.games import MarkovGame


def certify_markov(game: MarkovGame, policy: Any) -> Certificate:
    """Exact gains of both players in every state, and of the worst state for each."""
    rows, columns = game.actions
    x, y = as_profile(
        policy,
        [(game.states, rows), (game.states, columns)],
        ["(states, actions) of the row player", "(states, actions) of the column player"],
    )
    joint_batch_shape(game.batch_shape, x.shape[:-2], y.shape[:-2])
    reward = np.asarray(game.reward, np.float64)
    transition = np.asarray(game.transition, np.float64)
    discount = game.discount
    row_reward, row_next = against_column(reward, transition, y)
    column_reward, column_next = against_row(reward, transition, x)
    value = policy_value(
        np.einsum("...sa,...sa->...s", row_reward, x),
        np.matmul(x[..., None, :], row_next)[..., 0, :],
        discount,
    )
    best_row = best_response_value(row_reward, row_next, discount)
    best_column = -best_response_value(-column_reward, column_next, discount)
    state_gains = np.stack(np.broadcast_arrays(best_row - value, value - best_column), -1)
    return Certificate(
        gains=state_gains.max(-2),
        value=np.stack([value, -value], -1),
        method="best responses by policy iteration, worst state",
        exact=True,
        state_gains=state_gains,
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
