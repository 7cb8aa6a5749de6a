"""Maps: matrices as colours, who matters to whom, and where equilibria of many agents lie."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.report._canvas import COLOURS, canvas, label, name_ticks


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


def interaction_map(
    strength: Any,
    *,
    names: Sequence[str] | None = None,
    most: int = 40,
    title: str = "strength of interaction",
) -> Any:
    """Whose actions (columns) matter to whose reward (rows), as colours.

    `strength` is (agents, agents), such as the `interactions.total` of a fit to a log. Of more
    than `most` agents, those with the strongest interactions are drawn, in their order. Without
    `names`, agents are counted from 0, as the rows of arrays are.

    **Example**

    >>> import numpy as np
    >>> from equipoise.report import figures
    >>> ring = np.roll(np.eye(100), 1, axis=1)
    >>> ring[[3, 7], [7, 3]] = 5.0
    >>> figure = figures.interaction_map(ring, most=2)
    >>> [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    ['3', '7']
    """
    matrix = np.asarray(strength, float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"strength: expected shape (agents, agents), found {matrix.shape}")
    if names is not None and len(names) != len(matrix):
        raise ValueError(f"names: expected {len(matrix)} of them, found {len(names)}")
    agents = list(range(len(matrix)))
    if len(agents) > most:
        weight = matrix.sum(0) + matrix.sum(1)
        agents = sorted(np.argsort(-weight, kind="stable")[:most].tolist())
        title = f"{title}: {most} of {len(matrix):,} agents"
    shown = [str(i) if names is None else names[i] for i in agents]
    return heat_map(
        matrix[np.ix_(agents, agents)],
        rows=shown,
        columns=shown,
        title=title,
        xlabel="whose action",
        ylabel="whose reward",
    )


def equilibrium_map(
    aggregates: Any,
    welfare: Any,
    *,
    gains: Any = None,
    regions: Any = None,
    chosen: tuple[Any, float] | None = None,
    title: str = "",
    names: Sequence[str] | None = None,
) -> Any:
    """Where equilibria lie on the line (or plane) of aggregates, and what they are worth.

    `aggregates` is (equilibria, coordinates), `welfare` one number each. With one coordinate,
    welfare is the height; with more, the first two span the plane and welfare is the colour.
    `gains` are written beside the points; `regions`, (equilibria, 2, coordinates), are the lower
    and upper corners of the cells each was found in, and are shaded. The best is a star, and
    what was `chosen`, an aggregate and its welfare, is in a ring. `names` are those of the
    coordinates.

    **Example**

    >>> from equipoise.report import figures
    >>> figure = figures.equilibrium_map([[0.0], [1.0]], [0.0, 0.6], gains=[0.0, 1e-6])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['gain 0', 'gain 1e-06']
    """
    places, worth = np.asarray(aggregates, float), np.asarray(welfare, float)
    if places.ndim != 2 or not len(places) or worth.shape != places.shape[:1]:
        raise ValueError(
            "aggregates: expected shape (equilibria, coordinates) and one welfare for each, "
            f"found {places.shape} and {worth.shape}"
        )
    flat = places.shape[1] == 1
    points = np.stack([places[:, 0], worth if flat else places[:, 1]], -1)
    with canvas(5.2, 3.4) as (figure, axes):
        if regions is not None:
            _shade(axes, np.asarray(regions, float).reshape(len(places), 2, -1), flat)
        if flat:
            axes.plot(*points.T, "o", color=COLOURS[0], ms=8, label="equilibria")
        else:
            dots = axes.scatter(*points.T, c=worth, cmap="viridis", s=70, label="equilibria")
            if len(points) > 1:
                figure.colorbar(dots, ax=axes, label="welfare")
        best = points[int(worth.argmax())]
        axes.plot(*best, "*", color=COLOURS[1], ms=17, label="best for society")
        if chosen is not None:
            place, height = np.asarray(chosen[0], float).ravel(), chosen[1]
            ring = (place[0], height if flat else place[1])
            style = {"mfc": "none", "mec": COLOURS[4], "mew": 2.0, "ls": "none"}
            axes.plot(*ring, "o", ms=22, label="chosen", **style)
        for point, gain in zip(points, [] if gains is None else np.asarray(gains), strict=False):
            text = f"gain {gain:.2g}" if gain else "gain 0"
            axes.annotate(text, point, xytext=(0, 13), textcoords="offset points", ha="center")
        first, second = ("aggregate", "") if flat else ("first coordinate", "second coordinate")
        first, second = [*(names or (first, second)), second][:2]
        axes.set(xlabel=label(first), ylabel=label("welfare" if flat else second))
        axes.set_title(label(title))
        axes.margins(0.12, 0.25)
        axes.grid(True, color="#808080", alpha=0.25, lw=0.6)
        axes.set_axisbelow(True)
        axes.legend(frameon=False, loc="best")
    return figure


def _shade(axes: Any, regions: np.ndarray, flat: bool) -> None:
    """The cells that equilibria were found in: bands of the line, or rectangles of the plane."""
    for low, high in regions:
        if flat:
            axes.axvspan(low[0], high[0], color=COLOURS[0], alpha=0.15, lw=0)
        else:
            corners = np.array([low[:2], [high[0], low[1]], high[:2], [low[0], high[1]]])
            axes.fill(*corners.T, color=COLOURS[0], alpha=0.15, lw=0)
