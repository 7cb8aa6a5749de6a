"""What was seen: counts of next states and sums of rewards, by step, state and cell.

Where samples were taken is kept too. The mean of their aggregates, and how far they lay from it,
say how much a Lipschitz function can differ from its empirical mean: less than half a cell when
the same aggregate is played again and again.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.aggregative.learning._spec import Spec

#: Next states are counted in this many bits.
_COUNT = np.int32


@dataclass
class Samples:
    """All data of a learner: arrays of fixed shapes, which is also what is kept of it on disk.

    Memory is `S + d + 2` numbers for each step, state and cell, and where rewards are learnt
    `d + 3` more for each row and action of the spec.
    """

    #: (horizon, states, cells)
    visits: np.ndarray
    #: (horizon, states, cells, states)
    following: np.ndarray
    #: (horizon, states, cells, d), sum of aggregates.
    place: np.ndarray
    #: (horizon, states, cells), sum of squared lengths of aggregates.
    square: np.ndarray
    #: (horizon, states, cells, types, actions), rewards seen; no rows when they are known.
    seen: np.ndarray
    #: Their sum.
    total: np.ndarray
    #: (horizon, states, cells, types, actions, d), sum of the aggregates they were seen at.
    seen_place: np.ndarray
    seen_square: np.ndarray

    @classmethod
    def empty(cls, spec: Spec, cells: int, *, rewards: bool) -> "Samples":
        """Nothing seen yet."""
        base = (spec.horizon, spec.states, cells)
        own = (*base, spec.types if rewards else 0, spec.actions)
        return cls(
            visits=np.zeros(base, np.int64),
            following=np.zeros((*base, spec.states), _COUNT),
            place=np.zeros((*base, spec.dimensions)),
            square=np.zeros(base),
            seen=np.zeros(own, np.int64),
            total=np.zeros(own),
            seen_place=np.zeros((*own, spec.dimensions)),
            seen_square=np.zeros(own),
        )

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return sum(array.nbytes for array in vars(self).values())

    def add(self, where: tuple[int, int, int], x: np.ndarray, following: int) -> None:
        """One transition, from (step, state, cell) at the aggregate x."""
        self.visits[where] += 1
        self.following[where][following] += 1
        self.place[where] += x
        self.square[where] += x @ x

    def add_rewards(
        self, where: tuple[int, int, int], x: np.ndarray, plays: np.ndarray, sums: np.ndarray
    ) -> None:
        """(types, actions): how many agents played what, and the sums of their rewards."""
        self.seen[where] += plays
        self.total[where] += sums
        self.seen_place[where] += plays[..., None] * x
        self.seen_square[where] += plays * (x @ x)


def centred(
    count: np.ndarray, place: np.ndarray, square: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mean (..., d) of aggregates, and (...) a bound on their mean distance from it.

    The mean distance in the sup norm is at most the root of the mean squared distance.

    >>> middle, away = centred(np.array(2), np.array([0.6]), np.array(0.2))
    >>> middle.tolist(), round(float(away), 6)
    ([0.3], 0.1)
    """
    middle = place / count[..., None]
    mean = square / count
    variance = np.maximum(mean - (middle * middle).sum(-1), 0.0)
    return middle, np.sqrt(variance + 1e-15 * mean)  # so much may be lost to rounding
