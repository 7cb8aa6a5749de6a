"""Finite discounted Markov decision processes: what a policy is worth, and what the best is.

NumPy in float64, over any leading batch axes: these are the exact parts of certificates and
solvers, memory-bound or LAPACK-bound at every size, and gain nothing from being compiled.
"""

import numpy as np
from jaxtyping import Float


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
