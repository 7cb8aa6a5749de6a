"""Gains in Markov games of n players, of any policy that depends on step and state.

A policy is a joint distribution over actions for each step and state; product policies are the
special case in which the actions are independent. A player who deviates faces a decision process:

- "nash" and "cce": it ignores recommendations. The others play the marginal of the joint
  distribution, and its states are those of the game;
- "ce": it hears its own recommendation in every step and may reply to it. Its states are pairs of
  a state and a recommendation.

Finite horizons and the steps before a policy becomes stationary are solved by backward induction,
the stationary rest of a discounted game by policy iteration.
"""

import numpy as np

from equipoise.core.mdp import best_response_value, policy_value


def joint_markov_values(
    reward: np.ndarray,
    transition: np.ndarray,
    joint: np.ndarray,
    *,
    discount: float = 1.0,
    finite: bool = True,
    concept: str = "nash",
) -> tuple[np.ndarray, np.ndarray]:
    """(states, players) twice: the value of the policy, and of each player's best deviation.

    `reward` is (players, states, A_1, ..., A_n), `transition` (states, A_1, ..., A_n, states) and
    `joint` (steps, states, A_1, ..., A_n). A finite game ends after the last step of `joint`; in
    one that does not, the last step is repeated for ever.

    >>> reward = np.array([[[[3.0, 0], [5, 1]]], [[[3, 5], [0, 1]]]])
    >>> both_defect = np.array([[[[0.0, 0], [0, 1]]]])
    >>> value, best = joint_markov_values(
    ...     reward, np.ones((1, 2, 2, 1)), both_defect, discount=0.5, finite=False
    ... )
    >>> value.tolist(), best.tolist()
    ([[2.0, 2.0]], [[2.0, 2.0]])
    """
    players, states = reward.shape[:2]
    steps = len(joint)
    value, best = np.zeros((states, players)), np.zeros((states, players))
    for i in range(players):
        own = _own_first(reward[i], i)
        moves = np.moveaxis(transition, 1 + i, 1).reshape(*own.shape, states)
        chances = _own_first_steps(joint, i)
        if not finite:
            value[:, i] = policy_value(*_chain(own, moves, chances[-1]), discount)
            best[:, i] = _best_for_ever(own, moves, chances[-1], discount, concept)
        for t in reversed(range(steps if finite else steps - 1)):
            mean, chain = _chain(own, moves, chances[t])
            value[:, i] = mean + discount * chain @ value[:, i]
            worth = own + discount * moves @ best[:, i]
            best[:, i] = _best_now(worth, chances[t], concept)
    return value, best


def _own_first(table: np.ndarray, player: int) -> np.ndarray:
    """(states, A_1, ..., A_n) -> (states, A_i, actions of the others)."""
    moved = np.moveaxis(table, 1 + player, 1)
    return moved.reshape(*moved.shape[:2], -1)


def _own_first_steps(joint: np.ndarray, player: int) -> np.ndarray:
    moved = np.moveaxis(joint, 2 + player, 2)
    return moved.reshape(*moved.shape[:3], -1)


def _chain(own: np.ndarray, moves: np.ndarray, chances: np.ndarray) -> tuple[np.ndarray, ...]:
    """Expected rewards and transitions when everybody follows the policy."""
    return np.einsum("sab,sab->s", own, chances), np.einsum("sab,sabt->st", chances, moves)


def _best_now(worth: np.ndarray, chances: np.ndarray, concept: str) -> np.ndarray:
    """(states,): what the best deviation earns if `worth` (states, own, others) is at stake."""
    if concept == "ce":
        return np.matmul(chances, worth.swapaxes(1, 2)).max(2).sum(1)
    return np.einsum("sab,sb->sa", worth, chances.sum(1)).max(1)


def _best_for_ever(
    own: np.ndarray, moves: np.ndarray, chances: np.ndarray, discount: float, concept: str
) -> np.ndarray:
    """(states,): the value of the best reply to a stationary policy."""
    states, actions = own.shape[:2]
    if concept != "ce":
        others = chances.sum(1)
        reward = np.einsum("sab,sb->sa", own, others)
        return best_response_value(reward, np.einsum("sabt,sb->sat", moves, others), discount)
    heard = chances.sum(2)
    # Given a recommendation; what is never recommended may be anything.
    given = chances / np.where(heard > 0, heard, 1.0)[..., None]
    given = np.where(heard[..., None] > 0, given, 1.0 / given.shape[2])
    reward = np.matmul(given, own.swapaxes(1, 2)).reshape(states * actions, actions)
    reached = np.einsum("sab,scbt->sact", given, moves)
    following = np.einsum("sact,td->sactd", reached, heard)
    following = following.reshape(states * actions, actions, states * actions)
    value = best_response_value(reward, following, discount).reshape(states, actions)
    return (heard * value).sum(1)
