"""Rewards as a learner knows them: exactly, or between Lipschitz envelopes of what was seen."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from equipoise.aggregative.learning._radii import Radii
from equipoise.aggregative.learning._samples import Samples, centred
from equipoise.aggregative.learning._spec import Spec

#: (points, d) -> (points, types, actions)
Rewards = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class KnownRewards:
    """Rewards of one step and state that need not be learnt."""

    spec: Spec
    h: int
    s: int

    def upper(self, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions): the rewards themselves."""
        return self.spec.rewards(self.h, self.s, points)

    lower = estimate = upper


@dataclass(frozen=True)
class RewardBounds:
    """Envelopes of the rewards of one step and state, at any aggregate.

    `upper(x)` is the least of the largest reward and, over the visited cells, of
    `mean + radius + gamma_r (spread of the samples + |x - x~|)`: a gamma_r-Lipschitz function of
    x, so that lemma A holds for it. Where nothing was seen it is the largest reward.
    """

    #: (visited, types, actions, d), where each pair was seen.
    middles: np.ndarray
    #: (visited, types, actions), how often.
    seen: np.ndarray
    #: (visited, types, actions), mean of what was seen.
    mean: np.ndarray
    #: (visited, types, actions), how far that may be off; infinite where a pair was never seen.
    off: np.ndarray
    #: Standard deviation of the noise, or a bound on it.
    noise: float
    slope: float
    bounds: tuple[float, float]

    @classmethod
    def of(cls, spec: Spec, samples: Samples, h: int, s: int, radii: Radii) -> "RewardBounds":
        """From the samples of one step and state."""
        cells = np.flatnonzero(samples.visits[h, s])
        seen = samples.seen[h, s][cells]
        count = np.maximum(seen, 1).astype(np.float64)
        middles, spread = centred(
            count, samples.seen_place[h, s][cells], samples.seen_square[h, s][cells]
        )
        mean = samples.total[h, s][cells] / count
        off = np.where(seen > 0, radii.reward(count) + spec.lipschitz * spread, np.inf)
        return cls(middles, seen, mean, off, radii.noise, spec.lipschitz, spec.bounds)

    def upper(self, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions): no expected reward is larger."""
        return self._envelope(points, 1.0)

    def lower(self, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions): no expected reward is smaller."""
        return -self._envelope(points, -1.0)

    def estimate(self, points: np.ndarray) -> np.ndarray:
        """(points, d) -> (points, types, actions): the best guess, within the bounds.

        Means of cells, weighted by one over their variance plus what they may be off by because
        they were seen elsewhere. Where nothing was seen, half way between the bounds.
        """
        shape = (len(points), *self.seen.shape[1:])
        weight, total = np.zeros(shape), np.zeros(shape)
        floor = max(self.noise**2, 1e-12)
        for middle, mean, seen in zip(self.middles, self.mean, self.seen, strict=True):
            away = self.slope * np.abs(points[:, None, None] - middle).max(-1)
            own = seen / (floor + seen * away**2)
            weight += own
            total += own * mean
        upper, lower = self.upper(points), self.lower(points)
        guess = np.where(weight > 0, total / np.maximum(weight, 1e-300), 0.5 * (upper + lower))
        return np.minimum(np.maximum(guess, lower), upper)

    def _envelope(self, points: np.ndarray, sign: float) -> np.ndarray:
        """The least upper bound of the rewards times the sign."""
        low, high = sorted((sign * self.bounds[0], sign * self.bounds[1]))
        found = np.full((len(points), *self.seen.shape[1:]), high)
        for middle, mean, off in zip(self.middles, self.mean, self.off, strict=True):
            # A pair that was never seen in the cell is off by infinity, and drops out.
            away = np.abs(points[:, None, None] - middle).max(-1)
            np.minimum(found, sign * mean + off + self.slope * away, out=found)
        # With noise an envelope may cross the other edge; no expected reward does.
        return np.maximum(found, low)
