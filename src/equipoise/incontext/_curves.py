"""How near to equilibrium policies are: the one file here that asks for certificates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.games import MarkovGame, MatrixGame

Games = MatrixGame | MarkovGame
Pair = tuple[np.ndarray, np.ndarray]


def gap(games: Games, policies: Pair) -> np.ndarray:
    """(...): exact `nash_conv` of one pair of policies in every game.

    >>> from equipoise.games import MatrixGame
    >>> float(gap(MatrixGame([[1, 0], [0, 1]]), (np.array([1.0, 0.0]), np.array([0.5, 0.5]))))
    0.5
    """
    return np.asarray(certify(games, policies).nash_conv)


def gap_curve(games: Games, policies: Pair) -> np.ndarray:
    """(records, ...): exact `nash_conv` of the policies at each record; they lead the axes."""
    return np.stack([gap(games, (x, y)) for x, y in zip(*policies, strict=True)])


@dataclass(frozen=True)
class Mean:
    """A mean over games, and over seeds where there are several, with its standard errors.

    **Example**

    >>> import numpy as np
    >>> from equipoise.incontext import Mean
    >>> mean = Mean.of(np.random.default_rng(0).normal(1.0, 1.0, (10_000,)))
    >>> low, high = mean.interval(0.95)
    >>> bool(low < 1.0 < high), round(float(high - low), 3)
    (True, 0.039)
    """

    #: (...)
    value: np.ndarray
    #: Standard error, as if other games had been drawn.
    error: np.ndarray
    #: Standard error, as if training had been repeated; zero where there is one seed.
    seed_error: np.ndarray

    @staticmethod
    def of(samples: Any, *, seeds: bool = False) -> "Mean":
        """The mean over the last axis, games; with `seeds`, over the first axis too."""
        values = np.asarray(samples, float)
        by_seed = values if seeds else values[None]
        games, count = by_seed.mean(0), by_seed.shape[0]
        seed_error = np.zeros(games.shape[:-1])
        if count > 1:
            seed_error = by_seed.mean(-1).std(0, ddof=1) / np.sqrt(count)
        error = np.zeros(games.shape[:-1])
        if games.shape[-1] > 1:
            error = games.std(-1, ddof=1) / np.sqrt(games.shape[-1])
        return Mean(games.mean(-1), error, seed_error)

    def interval(self, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the interval of that confidence, over games and seeds, by the normal law."""
        checks.check_range("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
        width = ndtri(0.5 + confidence / 2) * np.hypot(self.error, self.seed_error)
        return self.value - width, self.value + width
