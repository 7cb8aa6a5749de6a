"""Drawing functions for the figures of all papers: grids of panels, curves with bands, axes."""

from typing import Any

import numpy as np


def make_panels(count: int, columns: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """Return a Matplotlib figure with panels of this size in inches, and their axes by row."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    lines = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * lines), layout="constrained")
    return figure, [figure.add_subplot(lines, columns, k + 1) for k in range(count)]


def draw_band(
    axes: Any, x: Any, mean: np.ndarray, low: Any, high: Any, dash: str = "-", **style: Any
) -> None:
    """Draw a curve with a band around it."""
    (line,) = axes.plot(x, mean, dash, **style)
    axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, lw=0)


def finish(axes: Any, legend: float | None = None, **settings: Any) -> None:
    """Set scales, labels and a grid, and add a legend with the given font size."""
    axes.set(**settings)
    axes.grid(True, alpha=0.25, lw=0.6)
    if legend is not None:
        axes.legend(fontsize=legend, frameon=False)
