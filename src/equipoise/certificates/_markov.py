"""Gains in infinite-horizon Markov games: best responses by policy iteration, with a proof.

Against a fixed stationary policy the other player faces a Markov decision process. Policy
iteration finds a best response; the remaining advantages in all states bound how much better any
other policy can be. The proof is in `core.mdp`.
"""

import math
from typing import Any

import numpy as np

from equipoise.certificates._tables import checked, independent, is_plain, joint_batch_shape
from equipoise.core import InputError, kernels
from equipoise.core.deviations import joint_markov_values
from equipoise.core.mdp import bracket_best_response, bracket_policy
from equipoise.core.results import TableCertificate
from equipoise.core.rounding import EPS, ORDINARY, TINY, WEIGHTS, normalise
from equipoise.games import JointPolicy, MarkovGame, Profile

#: Up to this discount the compiled kernel, whose values are single floats, is accurate enough.
_SHORT = 0.99


def certify_markov(game: MarkovGame, policy: Any, concept: str) -> TableCertificate:
    """Return the gains of both players in every state, and in each player's worst state."""
    stationary = game.zero_sum and game.horizon is None and concept in ("auto", "nash")
    if not stationary or _has_steps(game, policy):
        return certify_joint_markov(game, policy, concept)
    reward, transition = (np.asarray(part, np.float64) for part in (game.reward, game.transition))
    found = _compiled_gains(reward, transition, game.discount, policy)
    if found is None:
        found = _markov_gains(reward, transition, game.discount, policy)
    (gains, upper, rounding), (state_gains, state_upper, value) = found
    return TableCertificate(
        gains=gains,
        upper=upper,
        value=value,
        method="best responses by policy iteration, worst state",
        state_gains=state_gains,
        state_upper=state_upper,
        rounding=rounding,
    )


def _compiled_gains(
    reward: np.ndarray, transition: np.ndarray, discount: float, policy: Any
) -> tuple[np.ndarray, np.ndarray] | None:
    """(3, ..., 2): gains, bounds and rounding; (3, ..., states, 2): gains, bounds and values.

    None where the general method is needed: for policies that broadcast, rewards of unusual size,
    values that are many times a reward, and input that must be rejected.
    """
    (x, y), batch, (states, rows, columns) = policy, reward.shape[:-3], reward.shape[-3:]
    if discount > _SHORT or not all(map(is_plain, (reward, transition, x, y))):
        return None
    if x.shape != (*batch, states, rows) or y.shape != (*batch, states, columns):
        return None
    games, seconds = math.prod(batch), (5e-7 + 1e-9 * rows * columns * states) * states
    kernel, _ = kernels.choose("markov_gains", games * seconds)
    if kernel is None:
        return None
    results, by_state = np.empty((3, games, 2)), np.empty((3, games, states, 2))
    left = kernels.over_games(
        kernel, games, seconds,
        reward.reshape(games, states, rows, columns),
        transition.reshape(games, states, rows, columns, states), discount,
        x.reshape(games, states, rows), y.reshape(games, states, columns),
        rows + columns + 3 * WEIGHTS, TINY, ORDINARY[1], results, by_state,
    )  # fmt: skip
    if left:
        return None
    return results.reshape(3, *batch, 2), by_state.reshape(3, *batch, states, 2)


def _markov_gains(
    reward: np.ndarray, transition: np.ndarray, discount: float, policy: Any
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Compute the same for any policy and rewards, in NumPy, with values to twice the precision."""
    states, rows, columns = reward.shape[-3:]
    x, y = checked(policy)
    batch = joint_batch_shape(reward.shape[:-3], x.shape[:-2], y.shape[:-2])
    table = normalise(reward, 3)
    # Rewards of a player who meets them with a probability below 1e-308 still count.
    least = np.reshape(table.tiny, (*np.shape(table.tiny), 1, 1, 1))
    reward, size = table.scaled, np.maximum(np.abs(table.scaled), least)
    # One sum over the other's actions and one over own actions: of rewards and of transitions.
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
    largest = state_gains.max(-2), state_upper.max(-2), table.restore(rounding, 1, up=True)
    return largest, (state_gains, state_upper, np.stack([value, -value], -1))


def _has_steps(game: MarkovGame, policy: Any) -> bool:
    """Whether a policy of a single game depends on the step or is correlated."""
    if isinstance(policy, JointPolicy):
        return True
    if game.batch_shape or not isinstance(policy, Profile):
        return False
    return len(policy) == 2 and all(np.ndim(own) == 3 for own in policy)


def against_column(
    reward: np.ndarray, transition: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row player's decision process when the column player plays `y`."""
    own_reward = np.matmul(reward, y[..., None])[..., 0]
    own_next = np.matmul(y[..., None, None, :], transition)[..., 0, :]
    return own_reward, own_next


def against_row(
    reward: np.ndarray, transition: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the column player's decision process, in the row player's rewards, against `x`."""
    *_, states, rows, columns = reward.shape
    own_reward = np.matmul(x[..., None, :], reward)[..., 0, :]
    by_row = transition.reshape(*transition.shape[:-3], rows, columns * states)
    own_next = np.matmul(x[..., None, :], by_row)[..., 0, :]
    return own_reward, own_next.reshape(*own_next.shape[:-1], columns, states)


def certify_joint_markov(game: MarkovGame, policy: Any, concept: str) -> TableCertificate:
    """Return each player's gains in every state of the first step, and in its worst state."""
    if game.batch_shape:
        raise InputError(
            "policy",
            "one strategy (..., states, actions) per player without steps for a batch of games",
            "a policy that depends on the step or is correlated",
        )
    if concept not in ("auto", "nash", "cce", "ce"):
        raise ValueError(f"concept: expected auto, nash, cce or ce, found {concept!r}")
    correlated = isinstance(policy, JointPolicy)
    if concept == "nash" and correlated:
        policy = independent(policy)
    if concept == "auto":
        concept = "ce" if correlated else "nash"
    joint = _as_joint(game, policy)
    finite = game.horizon is not None
    value, state_gains, slack, rounding = joint_markov_values(
        game.rewards(),
        np.asarray(game.transition, np.float64),
        joint,
        discount=game.discount,
        finite=finite,
        concept=concept,
    )
    with np.errstate(over="ignore"):
        state_upper = state_gains + slack
    worst = state_upper.argmax(0)[None]
    how = "backward induction" if finite else "policy iteration"
    return TableCertificate(
        gains=state_gains.max(0),
        upper=state_upper.max(0),
        value=value,
        method=f"best responses by {how}, worst state",
        concept=concept,
        state_gains=state_gains,
        state_upper=state_upper,
        rounding=np.take_along_axis(rounding, worst, 0)[0],
    )


def _as_joint(game: MarkovGame, policy: Profile | JointPolicy) -> np.ndarray:
    """(steps, states, A_1, ..., A_n): a stationary policy is one step, or all steps."""
    if not isinstance(policy, JointPolicy):
        policy = JointPolicy.of(np.broadcast_arrays(*policy) if game.players == 1 else policy)
    joint = np.asarray(policy.joint)
    joint = joint[None] if joint.ndim == 1 + game.players else joint
    if game.horizon is None:
        return joint
    return np.broadcast_to(joint, (game.horizon, *joint.shape[1:]))
