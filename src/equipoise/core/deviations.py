"""The value of joint play of a Markov game, and the gain of the best deviation from it.

A policy is a joint distribution over actions for each step and state; product policies are the
special case in which the actions are independent. A player who deviates faces a decision process:

- "nash" and "cce": it ignores recommendations. The others play the marginal of the joint
  distribution, and its states are those of the game;
- "ce": it hears its own recommendation in every step and may respond to it. Its states are pairs
  of a state and a recommendation.

Backward induction solves finite horizons and the steps before a policy becomes stationary; policy
iteration solves the stationary rest of a discounted game.
"""

import numpy as np

from equipoise.core.mdp import bracket_best_response, bracket_policy
from equipoise.core.rounding import EPS, WEIGHTS, normalise


def joint_markov_values(
    reward: np.ndarray,
    transition: np.ndarray,
    joint: np.ndarray,
    *,
    discount: float = 1.0,
    finite: bool = True,
    concept: str = "nash",
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(states, players) each: the value of the policy, the gain of each player's best deviation,
    how much more any deviation can gain, and the rounding error of rewards that can be reached.

    `reward` is (players, states, A_1, ..., A_n), `transition` (states, A_1, ..., A_n, states) and
    `joint` (steps, states, A_1, ..., A_n). A finite game ends after the last step of `joint`; in
    an infinite game the last step is repeated indefinitely.

    >>> reward = np.array([[[[3.0, 0], [5, 1]]], [[[3, 5], [0, 1]]]])
    >>> both_defect = np.array([[[[0.0, 0], [0, 1]]]])
    >>> value, gain, *_ = joint_markov_values(
    ...     reward, np.ones((1, 2, 2, 1)), both_defect, discount=0.5, finite=False
    ... )
    >>> value.tolist(), gain.tolist()
    ([[2.0, 2.0]], [[0.0, 0.0]])
    """
    players, states = reward.shape[:2]
    steps = len(joint) if finite else len(joint) - 1
    operations = int(np.prod(reward.shape[2:])) + states + 4 * WEIGHTS + 16
    found = np.zeros((4, states, players))
    for i in range(players):
        table = normalise(reward[i], reward.ndim - 1)
        own = _own_first(table.scaled, i)
        moves = np.moveaxis(transition, 1 + i, 1).reshape(*own.shape, states)
        chances = _own_first_steps(joint, i)
        value, best, slack, reach = np.zeros((4, states))
        total = 0.0 if finite else 1.0 / (1.0 - discount)
        if not finite:
            value, best, slack, reach = _for_ever(
                own, moves, chances[-1], discount, concept, operations
            )
        rounding = 32 * operations * EPS * reach
        most = float(np.abs(own).max())
        for t in reversed(range(steps)):
            mean, chain = _chain(own, moves, chances[t])
            value = mean + discount * chain @ value
            best = _best_now(own + discount * moves @ best, chances[t], concept)
            total = 1.0 + discount * total
            reach = np.full(states, most + discount * float(reach.max()))
            # The error of the next step, and the rounding of both sums of this step.
            further, added = discount * (1.0 + operations * EPS), 4 * operations * EPS * reach
            slack, rounding = further * slack.max() + added, further * rounding.max() + added
        # The offset is left out of gains: it would cost their last digits.
        found[0, :, i] = table.restore(value + table.offset * total)
        found[1, :, i] = table.restore(best - value)
        found[2, :, i] = table.restore(slack + 8 * EPS * reach, up=True)
        found[3, :, i] = table.restore(rounding + 8 * EPS * reach, up=True)
    return found[0], found[1], found[2], found[3]


def _for_ever(
    own: np.ndarray,
    moves: np.ndarray,
    chances: np.ndarray,
    discount: float,
    concept: str,
    operations: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Value and best response of a stationary policy, their error bound, and the largest return."""
    size = np.abs(own).max((1, 2))
    mean, chain = _chain(own, moves, chances)
    kept = bracket_policy(mean, chain, discount, size, operations)
    reward, following, start = _process(own, moves, chances, concept)
    sizes = np.repeat(size, len(reward) // len(size))
    reply = bracket_best_response(reward, following, discount, sizes, operations)

    def first(array: np.ndarray) -> np.ndarray:
        return (start * array.reshape(start.shape)).sum(-1)

    value, best = kept.value + kept.rest, first(reply.value + reply.rest)
    reach = np.maximum(kept.reach, reply.reach.reshape(start.shape).max(-1))
    slack = kept.above + first(reply.above) + 16 * operations * EPS * reach
    return value, best, slack, reach


def _own_first(table: np.ndarray, player: int) -> np.ndarray:
    """(states, A_1, ..., A_n) -> (states, A_i, actions of the others)."""
    moved = np.moveaxis(table, 1 + player, 1)
    return moved.reshape(*moved.shape[:2], -1)


def _own_first_steps(joint: np.ndarray, player: int) -> np.ndarray:
    moved = np.moveaxis(joint, 2 + player, 2)
    return moved.reshape(*moved.shape[:3], -1)


def _chain(
    own: np.ndarray, moves: np.ndarray, chances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return expected rewards and transitions when all players follow the policy."""
    return np.einsum("sab,sab->s", own, chances), np.einsum("sab,sabt->st", chances, moves)


def _best_now(worth: np.ndarray, chances: np.ndarray, concept: str) -> np.ndarray:
    """(states,): reward of the best deviation if payoffs are `worth` (states, own, others)."""
    if concept == "ce":
        return np.matmul(chances, worth.swapaxes(1, 2)).max(2).sum(1)
    return np.einsum("sab,sb->sa", worth, chances.sum(1)).max(1)


def _process(
    own: np.ndarray, moves: np.ndarray, chances: np.ndarray, concept: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The deviator's decision process: rewards, transitions, and initial state distributions."""
    states, actions = own.shape[:2]
    if concept != "ce":
        others = chances.sum(1)
        reward = np.einsum("sab,sb->sa", own, others)
        return reward, np.einsum("sabt,sb->sat", moves, others), np.ones((states, 1))
    heard = chances.sum(2)
    # Conditional on a recommendation; rows of actions that are never recommended are arbitrary.
    given = chances / np.where(heard > 0, heard, 1.0)[..., None]
    given = np.where(heard[..., None] > 0, given, 1.0 / given.shape[2])
    reward = np.matmul(given, own.swapaxes(1, 2)).reshape(states * actions, actions)
    reached = np.einsum("sab,scbt->sact", given, moves)
    following = np.einsum("sact,td->sactd", reached, heard)
    return reward, following.reshape(states * actions, actions, states * actions), heard
