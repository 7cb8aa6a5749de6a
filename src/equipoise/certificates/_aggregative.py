"""Gains of very many agents: every deviation at the aggregate that it would cause.

An agent that leaves action a for a' moves the aggregate by `scale * (f(a') - f(a))`, and its
reward is taken there. Agents of one row of the game who play alike have the same gains, so the
work is that of the classes, not of the agents.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from equipoise.core import checks
from equipoise.core.results import Certificate
from equipoise.games import AggregativeGame, AggregativeMarkovGame, AggregativePolicy


class AggregativeCertificate(Certificate):
    """A certificate by classes of agents; what is said of every agent is spread out when asked.

    In a Markov game the gain of an agent is that of its worst starting state; `class_gains` and
    `class_value` have all states on their first axis.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> free, jam = np.array([[-0.2, -0.5]]), np.array([[-0.6, 0.0]])
    >>> town = eq.AggregativeGame(
    ...     [[[1.0], [0.0]]], lambda x: free + jam * x[..., 0], 0.6, counts=[10]
    ... )
    >>> certificate = eq.certify(town, np.repeat([0, 1], [6, 4]))
    >>> certificate.gains.round(3).tolist()
    [0.06, 0.06, 0.06, 0.06, 0.06, 0.06, 0.0, 0.0, 0.0, 0.0]
    >>> certificate.class_counts.tolist(), round(float(certificate.max_gain), 3)
    ([6, 4], 0.06)
    """

    class_gains: np.ndarray
    class_value: np.ndarray
    class_counts: np.ndarray

    def __init__(
        self,
        policy: AggregativePolicy,
        class_gains: np.ndarray,
        class_value: np.ndarray,
        method: str,
    ):
        order = np.argsort(policy.rows, kind="stable")
        fields = {
            "class_gains": class_gains[..., order],
            "class_value": class_value[..., order],
            "class_counts": policy.counts[order],
            "method": method,
            "exact": True,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @cached_property
    def gains(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(agents,): gain of each agent, agents in the order of the rows of the game."""
        return np.repeat(self._worst, self.class_counts)

    @property
    def value(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(agents,), or (states, agents): value of the policy to each agent."""
        return np.repeat(self.class_value, self.class_counts, axis=-1)

    @property
    def state_gains(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(states, agents) in a Markov game, otherwise None."""
        if self.class_gains.ndim == 1:
            return None
        return np.repeat(self.class_gains, self.class_counts, axis=-1)

    @property
    def _worst(self) -> np.ndarray:
        return self.class_gains if self.class_gains.ndim == 1 else self.class_gains.max(0)

    @property
    def players(self) -> int:
        """Number of agents."""
        return int(self.class_counts.sum())

    @property
    def max_gain(self) -> np.float64:
        """Largest gain of any agent."""
        return np.float64(self._worst.max())

    @property
    def nash_conv(self) -> np.float64:
        """Sum of the gains of all agents."""
        return np.float64(self._worst @ self.class_counts)

    @property
    def mean_value(self) -> np.ndarray:
        """Value to the mean agent; one for each starting state of a Markov game."""
        return self.class_value @ self.class_counts / self.players


def certify_aggregative(game: AggregativeGame, policy: Any) -> Certificate:
    """Exact gains of all agents of a normal-form game."""
    policy = as_policy(game, policy, ())
    x = aggregate_of(game.influence, game.scale, policy, policy.actions)
    own = _own_points(game.influence, game.scale, x, policy.rows, policy.actions)
    rewards = _by_class(game.own_rewards, own, policy.rows, policy.actions, game.types)
    value = np.take_along_axis(rewards, policy.actions[:, None].astype(np.int64), 1)[:, 0]
    gains = np.max(rewards, 1) - value
    return AggregativeCertificate(policy, gains, value, "each deviation at its own aggregate")


def as_policy(
    game: AggregativeGame | AggregativeMarkovGame, policy: Any, stages: tuple[int, ...]
) -> AggregativePolicy:
    """A policy as users give it: an `AggregativePolicy`, or the actions of every agent."""
    if not isinstance(policy, AggregativePolicy):
        array = np.asarray(policy)
        meaning = "one action for each agent" + (", step and state" if stages else "")
        checks.check_shape("policy", array, (game.agents, *stages), meaning)
        if array.dtype.kind not in "iu":
            raise ValueError(f"policy: expected whole numbers, found dtype {array.dtype}")
        policy = _from_agents(game.counts, array)
    if policy.actions.shape[1:] != stages:
        raise ValueError(
            f"policy: expected actions of shape (classes, {', '.join(map(str, stages))}), "
            f"found {policy.actions.shape}"
        )
    if policy.rows.max() >= game.types:
        raise ValueError(f"policy: expected rows below {game.types}, found {policy.rows.max()}")
    low, high = policy.actions.min(), policy.actions.max()
    if low < 0 or high >= game.actions[0]:
        raise ValueError(
            f"policy: expected actions from 0 to {game.actions[0] - 1}, found {low} to {high}"
        )
    present = np.bincount(policy.rows, weights=policy.counts, minlength=game.types)
    if not np.array_equal(present, game.counts):
        row = int(np.argmax(present != game.counts))
        raise ValueError(
            f"policy: expected {game.counts[row]} agents of row {row}, found {present[row]:.0f}"
        )
    return policy


def _from_agents(counts: np.ndarray, actions: np.ndarray) -> AggregativePolicy:
    """Agents of one row who play alike become one class."""
    if np.all(counts == 1):
        return AggregativePolicy(np.arange(len(counts)), counts, actions)
    rows = np.repeat(np.arange(len(counts)), counts)
    keys = np.concatenate([rows[:, None], actions.reshape(len(actions), -1)], 1)
    classes, size = np.unique(keys, axis=0, return_counts=True)
    shaped = classes[:, 1:].reshape(-1, *actions.shape[1:])
    return AggregativePolicy(classes[:, 0], size, shaped)


def aggregate_of(
    influence: np.ndarray, scale: float, policy: AggregativePolicy, played: np.ndarray
) -> np.ndarray:
    """(d,): the aggregate when each class plays `played`."""
    return scale * (policy.counts.astype(np.float64) @ influence[policy.rows, played])


def is_plain(rows: np.ndarray, types: int) -> bool:
    """Whether there is one class for each row of the game, in order."""
    return len(rows) == types and bool((rows == np.arange(types)).all())


def _own_points(
    influence: np.ndarray, scale: float, x: np.ndarray, rows: np.ndarray, played: np.ndarray
) -> np.ndarray:
    """The aggregate that each deviation would cause.

    (types, actions, d) when there is one class for each row; otherwise with a leading axis for
    the action that is left, (actions, types, actions, d).
    """
    if is_plain(rows, len(influence)):
        left = influence[np.arange(len(influence)), played][:, None]
    else:
        left = np.swapaxes(influence, 0, 1)[:, :, None]
    return x + scale * (influence - left)


def _by_class(
    evaluate: Callable[[np.ndarray], np.ndarray],
    own: np.ndarray,
    rows: np.ndarray,
    played: np.ndarray,
    types: int,
) -> np.ndarray:
    """Evaluate at the points of deviations, and give each class its own."""
    values = evaluate(own)
    return values if is_plain(rows, types) else values[played, rows]
