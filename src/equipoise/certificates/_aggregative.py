"""Gains of very many agents: every deviation at the aggregate that it would cause.

An agent that leaves action a for a' moves the aggregate by `scale * (f(a') - f(a))`, and its
reward is taken there. Agents of one row of the game who play alike have the same gains, so the
work is that of the classes, not of the agents.
"""

from collections.abc import Callable
from dataclasses import dataclass
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
        given: "Given",
        class_gains: np.ndarray,
        class_value: np.ndarray,
        method: str,
    ):
        fields = {
            "class_gains": class_gains,
            "class_value": class_value,
            "class_counts": given.policy.counts,
            "_given": given,
            "method": method,
            "exact": True,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @cached_property
    def gains(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(agents,): gain of each agent, in the order of the policy or of the game's rows."""
        return self._given.spread(self._worst)

    @property
    def value(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(agents,), or (states, agents): value of the policy to each agent."""
        return self._given.spread(self.class_value)

    @property
    def state_gains(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(states, agents) in a Markov game, otherwise None."""
        if self.class_gains.ndim == 1:
            return None
        return self._given.spread(self.class_gains)

    _given: "Given"

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
    given = as_given(game, policy, ())
    policy = given.policy
    x = aggregate_of(game.influence, game.scale, policy, policy.actions)
    own = own_points(game.influence, game.scale, x, policy.rows, policy.actions)
    rewards = _by_class(game.own_rewards, own, policy.rows, policy.actions, game.types)
    value = np.take_along_axis(rewards, policy.actions[:, None].astype(np.int64), 1)[:, 0]
    gains = np.max(rewards, 1) - value
    return AggregativeCertificate(given, gains, value, "each deviation at its own aggregate")


@dataclass(frozen=True)
class Given:
    """A policy by classes, and the class of each agent where agents were listed one by one."""

    policy: AggregativePolicy
    class_of: np.ndarray | None = None

    def spread(self, values: np.ndarray) -> np.ndarray:
        """(..., classes) -> (..., agents)."""
        if self.class_of is not None:
            return values[..., self.class_of]
        order = np.argsort(self.policy.rows, kind="stable")
        return np.repeat(values[..., order], self.policy.counts[order], axis=-1)


def as_given(
    game: AggregativeGame | AggregativeMarkovGame, policy: Any, stages: tuple[int, ...]
) -> Given:
    """A policy as users give it: an `AggregativePolicy`, or the actions of every agent."""
    if isinstance(policy, AggregativePolicy):
        given = Given(policy)
    else:
        array = np.asarray(policy)
        meaning = "one action for each agent" + (", step and state" if stages else "")
        checks.check_shape("policy", array, (game.agents, *stages), meaning)
        if array.dtype.kind not in "iu":
            raise ValueError(f"policy: expected whole numbers, found dtype {array.dtype}")
        given = _from_agents(game.counts, array)
    _check_policy(game, given.policy, stages)
    return given


def _check_policy(
    game: AggregativeGame | AggregativeMarkovGame,
    policy: AggregativePolicy,
    stages: tuple[int, ...],
) -> None:
    """Refuse a policy for other agents, actions, steps or states than the game has."""
    if policy.actions.shape[1:] != stages:
        raise ValueError(
            f"policy: expected actions of shape {('classes', *stages)}, "
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


def _from_agents(counts: np.ndarray, actions: np.ndarray) -> Given:
    """Agents of one row who play alike become one class."""
    if np.all(counts == 1):
        return Given(AggregativePolicy(np.arange(len(counts)), counts, actions))
    rows = np.repeat(np.arange(len(counts)), counts)
    if actions.ndim == 1 and actions.min() >= 0:
        width = int(actions.max()) + 1
        keys, class_of, size = np.unique(
            rows * width + actions, return_inverse=True, return_counts=True
        )
        return Given(AggregativePolicy(keys // width, size, keys % width), class_of)
    table = np.concatenate([rows[:, None], actions.reshape(len(actions), -1)], 1)
    classes, class_of, size = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    shaped = classes[:, 1:].reshape(-1, *actions.shape[1:])
    return Given(AggregativePolicy(classes[:, 0], size, shaped), class_of.ravel())


def aggregate_of(
    influence: np.ndarray, scale: float, policy: AggregativePolicy, played: np.ndarray
) -> np.ndarray:
    """(d,): the aggregate when each class plays `played`."""
    return scale * (policy.counts.astype(np.float64) @ influence[policy.rows, played])


def is_plain(rows: np.ndarray, types: int) -> bool:
    """Whether there is one class for each row of the game, in order."""
    return len(rows) == types and bool((rows == np.arange(types)).all())


def own_points(
    influence: np.ndarray, scale: float, x: np.ndarray, rows: np.ndarray, played: np.ndarray
) -> np.ndarray:
    """The aggregate that each deviation would cause.

    (types, actions, d) when there is one class for each row; otherwise with a leading axis for
    the action that is left, (actions, types, actions, d). Where nobody leaves an action, the
    aggregate itself stands: nobody can reach the other point, and rewards need not exist there.
    """
    if is_plain(rows, len(influence)):
        left = influence[np.arange(len(influence)), played][:, None]
        return x + scale * (influence - left)
    own = x + scale * (influence - np.swapaxes(influence, 0, 1)[:, :, None])
    idle = np.ones(own.shape[:2], bool)
    idle[played, rows] = False
    own[idle] = x
    return own


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
