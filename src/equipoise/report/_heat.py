"""A matrix as colours."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.report._canvas import canvas, label, name_ticks


def heat_map(
    values: Any,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
) -> Any:
    """A matrix as colours with its numbers in the cells: payoffs, or policies by state.

    Matrices with entries of both signs get colours that part at zero.

    **Example**

    >>> from equipoise.report import figures
    >>> figure = figures.heat_map([[3, -1], [-2, 1]], rows=("up", "down"))
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['3', '−1', '−2', '1']
    """
    matrix = np.asarray(values, float)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"values: expected a matrix, found shape {matrix.shape}")
    height, width = matrix.shape
    signed = matrix.min() < 0 < matrix.max()
    # Neither end of the colours is reached: their extremes are too dark to tell apart.
    top = 1.4 * np.abs(matrix).max() if signed else matrix.max() + 0.4 * np.ptp(matrix)
    bottom = -top if signed else matrix.min()
    size = (1.4 + min(0.7 * width, 6.0), 1.0 + min(0.5 * height, 5.0))
    with canvas(*size) as (figure, axes):
        colours = "RdBu" if signed else "Blues"
        image = axes.pcolormesh(
            np.arange(width + 1) - 0.5,
            np.arange(height + 1) - 0.5,
            matrix,
            cmap=colours,
            vmin=bottom,
            vmax=top,
            rasterized=matrix.size > 10_000,
        )
        axes.invert_yaxis()  # the first row on top, as matrices are written
        name_ticks(axes.xaxis, width, columns, "columns")
        name_ticks(axes.yaxis, height, rows, "rows")
        axes.set(xlabel=label(xlabel), ylabel=label(ylabel))
        axes.set_title(label(title))
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        if matrix.size <= 200:
            for (i, j), value in np.ndenumerate(matrix):
                red, green, blue, _ = image.cmap(image.norm(value))
                dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
                text = f"{value:.3g}".replace("-", "−")
                colour = "#ffffff" if dark else "#111111"
                axes.text(j, i, text, ha="center", va="center", color=colour)
    return figure
