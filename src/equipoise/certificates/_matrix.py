"""Gains in zero-sum matrix games: two products with the payoff matrix."""

from typing import Any

import numpy as np

from equipoise.certificates._policies import as_profile, joint_batch_shape
from equipoise.core.reductions import largest, smallest
from equipoise.core.results import Certificate
from equipoise.games import MatrixGame


def certify_matrix(game: MatrixGame, policy: Any) -> Certificate:
    """Exact gains of both players: the best pure reply to each strategy, minus its value."""
    rows, columns = game.actions
    x, y = as_profile(policy, [(rows,), (columns,)], ["the row player's", "the column player's"])
    payoff = np.asarray(game.payoff, np.float64)
    batch = joint_batch_shape(game.batch_shape, x.shape[:-1], y.shape[:-1])
    row_values = _times(payoff, y, "...ij,...j->...i")
    column_values = _times(np.swapaxes(payoff, -1, -2), x, "...ij,...j->...i")
    value = np.einsum("...i,...i->...", row_values, x)
    row_gain = largest(row_values) - value
    column_gain = value - smallest(column_values)
    gains = np.stack(np.broadcast_arrays(row_gain, column_gain), -1)
    values = np.stack([value, -value], -1)
    return Certificate(
        gains=np.broadcast_to(gains, (*batch, 2)),
        value=np.broadcast_to(values, (*batch, 2)),
        method="best pure reply to each strategy",
        exact=True,
    )


def _times(payoff: np.ndarray, strategy: np.ndarray, subscripts: str) -> np.ndarray:
    """Payoff times strategy: one matrix product when many strategies meet one game."""
    if payoff.ndim == 2:
        return strategy @ payoff.T
    return np.einsum(subscripts, payoff, strategy)
