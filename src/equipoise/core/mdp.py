"""Finite discounted Markov decision processes: what a policy is worth, and what the best is.

NumPy in float64, over any leading batch axes: these are the exact parts of certificates and
solvers, memory-bound or LAPACK-bound at every size, and gain nothing from being compiled.
`best_response` and `evaluate_policy` are in JAX instead, for losses and for opponents in compiled
play: they can be differentiated, and are as exact as JAX's precision.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

#: Steps of policy iteration in JAX: best responses of small games are found in two or three.
IMPROVEMENTS = 8


def policy_value(
    reward: Float[np.ndarray, "*batch states"],
    transition: Float[np.ndarray, "*batch states states"],
    discount: float,
) -> Float[np.ndarray, "*batch states"]:
    """Discounted value of a Markov chain with rewards, by one linear solve.

    >>> policy_value(np.ones(1), np.ones((1, 1)), 0.5).tolist()
    [2.0]
    """
    matrix = np.eye(reward.shape[-1]) - discount * transition
    return np.linalg.solve(matrix, reward[..., None])[..., 0]


def best_response_value(
    reward: Float[np.ndarray, "*batch states actions"],
    transition: Float[np.ndarray, "*batch states actions states"],
    discount: float,
) -> Float[np.ndarray, "*batch states"]:
    """Optimal value of a Markov decision process, by policy iteration to the end.

    An action replaces the current one only if it is better by more than rounding, so that ties
    cannot make the iteration go round in circles; it ends when no state of any process can
    improve.

    >>> best_response_value(np.array([[0.0, 1.0]]), np.ones((1, 2, 1)), 0.5).tolist()
    [2.0]
    """
    batch, (states, actions) = reward.shape[:-2], reward.shape[-2:]
    reward = reward.reshape(-1, states, actions)
    transition = transition.reshape(-1, states, actions, states)
    scale = 1.0 + np.abs(reward).max((1, 2)) / (1.0 - discount)
    margin = 32 * np.finfo(np.float64).eps * scale[:, None]
    choice = reward.argmax(-1)
    value = np.zeros(reward.shape[:2])
    going = np.arange(len(reward))
    while len(going):
        value[going] = _choice_value(reward, transition, choice, discount, going)
        some = slice(None) if len(going) == len(reward) else going
        ahead = np.matmul(
            transition[some].reshape(-1, states * actions, states), value[going, :, None]
        )
        q = reward[some] + discount * ahead.reshape(-1, states, actions)
        current = np.take_along_axis(q, choice[going, :, None], -1)[..., 0]
        better = q.max(-1) > current + margin[going]
        choice[going] = np.where(better, q.argmax(-1), choice[going])
        going = going[better.any(-1)]
    return value.reshape(*batch, states)


def _choice_value(
    reward: np.ndarray,
    transition: np.ndarray,
    choice: np.ndarray,
    discount: float,
    games: np.ndarray,
) -> np.ndarray:
    """Value of the deterministic policies `choice` of some of the processes."""
    index = (games[:, None], np.arange(reward.shape[1]), choice[games])
    return policy_value(reward[index], transition[index], discount)


def best_response(
    reward: Float[Array, "*rounds states actions"],
    transition: Float[Array, "*rounds states actions states"],
    discount: float,
) -> tuple[Float[Array, "*rounds states"], Float[Array, "*rounds states actions"]]:
    """Value and a deterministic optimal policy of a decision process, by policy iteration.

    The value can be differentiated with respect to rewards and transitions.

    >>> import jax.numpy as jnp
    >>> value, policy = best_response(jnp.array([[0.0, 1.0]]), jnp.ones((1, 2, 1)), 0.5)
    >>> value.tolist(), policy.tolist()
    ([2.0], [[0.0, 1.0]])
    """
    fixed_reward, fixed_transition = jax.lax.stop_gradient((reward, transition))

    def improve(_: Any, policy: Array) -> Array:
        value = evaluate_policy(policy, fixed_reward, fixed_transition, discount)
        action_values = fixed_reward + discount * jnp.einsum(
            "...saz,...z->...sa", fixed_transition, value
        )
        return jax.nn.one_hot(action_values.argmax(-1), reward.shape[-1])

    greedy = jax.nn.one_hot(fixed_reward.argmax(-1), reward.shape[-1])
    policy = jax.lax.fori_loop(0, IMPROVEMENTS, improve, greedy)
    return evaluate_policy(policy, reward, transition, discount), policy


def evaluate_policy(policy: Array, reward: Array, transition: Array, discount: float) -> Array:
    """The value of a policy: `(I - discount P) v = r`, solved by elimination.

    Unrolled over the few states and elementwise over everything else: batches of tiny systems
    are slow in a general solver. The matrix is diagonally dominant, so that no pivoting is needed.
    """
    chosen = jnp.einsum("...sa,...sa->...s", policy, reward)
    matrix = jnp.eye(reward.shape[-2]) - discount * jnp.einsum(
        "...sa,...saz->...sz", policy, transition
    )
    states = range(reward.shape[-2])
    rows: list[Any] = [jnp.append(matrix[..., s, :], chosen[..., s, None], -1) for s in states]
    for s in states:
        rows[s] = rows[s] / rows[s][..., s, None]
        rows = [
            row if other == s else row - row[..., s, None] * rows[s]
            for other, row in enumerate(rows)
        ]
    return jnp.stack([row[..., -1] for row in rows], -1)
