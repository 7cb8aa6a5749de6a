"""Cells of one side in all coordinates: where samples are counted, and envelopes are exact."""

from dataclasses import dataclass

import numpy as np

from equipoise.aggregative._cells import check_cells
from equipoise.aggregative.learning._spec import Spec


@dataclass(frozen=True)
class Grid:
    """Cells that cover the aggregates of one step and state."""

    #: (cells, d)
    centres: np.ndarray
    #: The side of every cell in every coordinate.
    side: float
    #: Cells along each coordinate.
    shape: tuple[int, ...]

    @property
    def half(self) -> np.ndarray:
        """(d,): half sides."""
        return np.full(len(self.shape), 0.5 * self.side)

    def nearest(self, x: np.ndarray) -> int:
        """The cell whose centre is nearest."""
        return int(np.abs(self.centres - x).max(1).argmin())


def cover(low: np.ndarray, high: np.ndarray, spacing: float) -> Grid:
    """Cells of one side, `spacing` at most, around the middle of a box; centres lie inside it.

    `tile` fits its sides to the box, coordinate by coordinate. Envelopes by doubling need one
    side for all, so here the cells may reach over the edges, by less than half a side.

    >>> grid = cover(np.zeros(2), np.array([1.0, 0.5]), 0.3)
    >>> grid.shape, grid.side, grid.centres[:2].tolist()
    ((4, 2), 0.25, [[0.125, 0.125], [0.125, 0.375]])
    """
    check_cells(low, high, spacing)
    widths = high - low
    numbers = np.maximum(np.ceil(widths / spacing - 1e-9), 1).astype(int)
    side = float((widths / numbers).max()) or spacing
    numbers = np.maximum(np.ceil(widths / side - 1e-9), 1).astype(int)
    axes = [
        (a + b) / 2 + side * (np.arange(k) - (k - 1) / 2)
        for a, b, k in zip(low, high, numbers, strict=True)
    ]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(low))
    return Grid(centres, side, tuple(int(k) for k in numbers))


def grids_of(spec: Spec, spacing: float) -> dict[tuple[int, int], Grid]:
    """The grid of every step and state; one for all when influences are the same everywhere."""
    places = [(h, s) for h in range(spec.horizon) for s in range(spec.states)]
    if np.ndim(spec.influence) == 3:
        return dict.fromkeys(places, cover(*spec.box(0, 0), spacing))
    return {place: cover(*spec.box(*place), spacing) for place in places}
