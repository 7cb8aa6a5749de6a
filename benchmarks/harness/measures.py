"""Accuracy, computed with NumPy alone: no contender, ours included, marks its own work."""

import numpy as np

#: How far from a probability vector an answer may be and still count as a policy.
POLICY_TOLERANCE = 1e-6


class NotAPolicy(Exception):
    """Raised when a contender's answer is not a pair of policies of the right shapes."""


def as_policy(name: str, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return `value` clipped and normalised; refuse what is not near a policy.

    A point slightly outside the simplex can look better than any policy, so that the measure
    is taken at the nearest proper policy instead.
    """
    value = np.asarray(value, dtype=np.float64)
    if value.shape != shape:
        raise NotAPolicy(f"{name}: expected shape {shape}, found {value.shape}")
    if not np.isfinite(value).all():
        raise NotAPolicy(f"{name}: found numbers that are not finite")
    defect = max(float(np.abs(value.sum(-1) - 1.0).max()), float(-value.min()))
    if defect > POLICY_TOLERANCE:
        raise NotAPolicy(f"{name}: off the simplex by {defect:.1e}")
    value = np.maximum(value, 0.0)
    return value / value.sum(-1, keepdims=True)


def matrix_nash_conv(payoff: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NashConv of policy pairs in zero-sum matrix games: best reply to `y` minus that to `x`.

    `payoff` is (games, rows, columns), or (rows, columns) for one game shared by all pairs.
    """
    if payoff.ndim == 2:
        return (y @ payoff.T).max(-1) - (x @ payoff).min(-1)
    row_replies = np.matmul(payoff, y[..., None])[..., 0]
    column_replies = np.matmul(x[..., None, :], payoff)[..., 0, :]
    return row_replies.max(-1) - column_replies.min(-1)


def matrix_gains(payoff: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(pairs, 2): what each player could gain, in extended precision where the machine has it."""
    wide = np.asarray(payoff, dtype=np.longdouble)
    x, y = np.asarray(x, dtype=np.longdouble), np.asarray(y, dtype=np.longdouble)
    shared = "ab" if wide.ndim == 2 else "nab"
    row_replies = np.einsum(f"{shared},nb->na", wide, y)
    column_replies = np.einsum(f"na,{shared}->nb", x, wide)
    value = (x * row_replies).sum(-1)
    return np.stack([row_replies.max(-1) - value, value - column_replies.min(-1)], axis=-1)


def best_response_value(reward: np.ndarray, transition: np.ndarray, discount: float) -> np.ndarray:
    """Optimal value of a Markov decision process, by policy iteration with exact evaluation.

    `reward` is (states, actions), `transition` (states, actions, states). A policy changes
    only for a gain beyond rounding, so that ties cannot make the iteration cycle.
    """
    states = np.arange(len(reward))
    action = reward.argmax(-1)
    while True:
        chain = np.eye(len(reward)) - discount * transition[states, action]
        value = np.linalg.solve(chain, reward[states, action])
        outcomes = reward + discount * transition @ value
        better = outcomes.argmax(-1)
        rounding = 1e-13 * max(1.0, float(np.abs(value).max()))
        change = outcomes[states, better] > outcomes[states, action] + rounding
        if not change.any():
            return value
        action = np.where(change, better, action)


def markov_duality_gap(
    reward: np.ndarray, transition: np.ndarray, discount: float, x: np.ndarray, y: np.ndarray
) -> float:
    """Largest duality gap over the states of one zero-sum Markov game.

    That is, for each starting state, what the best reply to `y` earns minus what `x` keeps
    against the best reply to it. Policies are (states, actions).
    """
    against_y = best_response_value(
        np.einsum("sab,sb->sa", reward, y),
        np.einsum("sabt,sb->sat", transition, y, optimize=True),
        discount,
    )
    against_x = -best_response_value(
        -np.einsum("sab,sa->sb", reward, x),
        np.einsum("sabt,sa->sbt", transition, x, optimize=True),
        discount,
    )
    return float((against_y - against_x).max())
