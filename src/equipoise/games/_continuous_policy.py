"""What agents with continuous actions play: points of [-1, 1], each for itself."""

from typing import Any

import equinox as eqx
import numpy as np

from equipoise.core import checks

#: How far beyond -1 and 1 a point may lie by rounding; it is then put on the end.
_TOLERANCE = 1e-6


class ContinuousPolicy(eqx.Module):
    """Independent agents, each of whom plays a point of [-1, 1], or some points by chance.

    - `points`: (contexts, agents), or (agents,) where there is one context; in a game with local
      states (contexts, horizon, agents, states), or without the first axis.
    - `weights`: of policies that choose by chance. Points then have one more axis, the last, of
      support points, and `weights`, of the same shape, are their chances.

    **Example**

    Two agents: the first always plays 1, the second tosses a coin between -1 and 1.

    >>> import equipoise as eq
    >>> policy = eq.games.ContinuousPolicy([[1.0, 1.0], [-1.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]])
    >>> policy.points.shape, policy.mean().tolist()
    ((1, 2, 2), [[1.0, 0.0]])
    >>> eq.games.ContinuousPolicy([1.0, -1.0]).points.tolist()
    [[1.0, -1.0]]
    """

    points: np.ndarray
    weights: np.ndarray | None

    def __init__(self, points: Any, weights: Any = None):
        points = checks.as_float_array("points", points)
        support = 0 if weights is None else 1
        axes = "(contexts, agents) or (contexts, horizon, agents, states)"
        axes += ", each with an axis of support points" if support else ""
        if not 1 <= points.ndim - support <= 4 or 0 in points.shape:
            raise ValueError(f"points: expected shape {axes}, found {points.shape}")
        outside = ~(np.abs(points) <= 1.0 + _TOLERANCE)
        if outside.any():
            where = checks.first_index(outside)
            raise ValueError(
                f"points: expected numbers from -1 to 1, found {points[where]:.6g} at {list(where)}"
            )
        # One context, whose axis was left out.
        missing = (points.ndim - support) % 2 == 1
        points = points[None] if missing else points
        self.points = np.clip(points, -1.0, 1.0)
        self.weights = None
        if weights is not None:
            array = checks.as_float_array("weights", weights)
            array = array[None] if missing else array
            checks.check_shape("weights", array, self.points.shape, "as points have")
            self.weights = checks.check_probabilities("weights", array)

    @property
    def policy_shape(self) -> tuple[int, ...]:
        """(contexts, agents) or (contexts, horizon, agents, states)."""
        return self.points.shape if self.weights is None else self.points.shape[:-1]

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Points and their chances, with an axis of support points in any case.

        **Example**

        >>> import equipoise as eq
        >>> points, chances = eq.games.ContinuousPolicy([0.5, -0.5]).support()
        >>> points.shape, chances.tolist()
        ((1, 2, 1), [[[1.0], [1.0]]])
        """
        if self.weights is None:
            return self.points[..., None], np.ones((*self.points.shape, 1))
        return self.points, self.weights

    def mean(self) -> np.ndarray:
        """The mean action of each agent, in every context (step and state)."""
        points, chances = self.support()
        return (points * chances).sum(-1)
