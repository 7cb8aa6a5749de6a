"""What may come after one step and state: bounds on the mean of a function of the next state.

From the samples of a cell, at aggregates near `x~`, the mean of f at x is known up to
`span(f) (radius + gamma_P (spread of the samples + |x - x~|))`. Bounds from all cells hold
together, so the least of the upper ones does: the Lipschitz envelope of the continuation alone,
to which rewards are added afterwards.
"""

from dataclasses import dataclass

import numpy as np

from equipoise.aggregative._cells import lipschitz_envelope
from equipoise.aggregative.learning._grid import Grid
from equipoise.aggregative.learning._radii import Radii
from equipoise.aggregative.learning._samples import Samples, centred


@dataclass(frozen=True)
class Continuation:
    """The cells of one step and state that were visited."""

    #: (visited,)
    cells: np.ndarray
    #: (visited, states), shares of next states.
    shares: np.ndarray
    #: (visited, d), mean aggregate of the samples.
    middles: np.ndarray
    #: (visited,), total variation that samples and their spread leave open.
    open: np.ndarray
    #: Lipschitz constant of transitions.
    slope: float

    @classmethod
    def of(cls, samples: Samples, h: int, s: int, radii: Radii, slope: float) -> "Continuation":
        """From the samples of one step and state."""
        cells = np.flatnonzero(samples.visits[h, s])
        count = samples.visits[h, s][cells].astype(np.float64)
        middles, spread = centred(count, samples.place[h, s][cells], samples.square[h, s][cells])
        shares = samples.following[h, s][cells] / count[:, None]
        return cls(cells, shares, middles, radii.transition(count) + slope * spread, slope)

    def upper(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(states, functions) -> (functions,): no mean at the aggregate x is larger."""
        highest = f.max(0)
        if not len(self.cells):
            return highest
        span = highest - f.min(0)
        away = self.open + self.slope * np.abs(self.middles - x).max(1)
        bounds = self.shares @ f + np.minimum(away, 1.0)[:, None] * span
        return np.minimum(bounds.min(0), highest)

    def upper_at(self, f: np.ndarray, points: np.ndarray, cell: np.ndarray, grid: Grid):
        """(states,) -> (points,): the same at points in cells of the grid, for one function.

        The envelope of all cells at their centres, by doubling, and from there to the point; or
        what the cell of the point itself has seen, if that is less.
        """
        highest, span = float(f.max()), float(f.max() - f.min())
        if not len(self.cells) or span == 0.0:
            return np.full(len(points), highest)
        values = self.shares @ f
        away = self.open + self.slope * np.abs(self.middles - grid.centres[self.cells]).max(1)
        start = np.full(len(grid.centres), highest)
        start[self.cells] = np.minimum(values + span * np.minimum(away, 1.0), highest)
        slope = self.slope * span
        field = lipschitz_envelope(start.reshape(grid.shape), slope, grid.side).ravel()
        found = field[cell] + slope * np.abs(points - grid.centres[cell]).max(1)
        rank = np.full(len(grid.centres), -1)
        rank[self.cells] = np.arange(len(self.cells))
        own = rank[cell]
        near = self.open[own] + self.slope * np.abs(points - self.middles[own]).max(1)
        seen = np.where(own >= 0, values[own] + span * np.minimum(near, 1.0), highest)
        return np.minimum(np.minimum(found, seen), highest)
