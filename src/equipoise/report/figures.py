"""Figures for games and learning, each drawn from plain arrays with matplotlib.

Every function returns a `matplotlib.figure.Figure` that is not registered with pyplot and opens no
window. A notebook displays it; elsewhere put it in a `Report`, or save it with `figure.savefig`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.report._canvas import (
    COLOURS,
    FONT,
    canvas,
    cycle,
    draw_slope,
    fit_slope,
    label,
    name_ticks,
    room_below,
    set_value_axis,
    spans_a_range,
)
from equipoise.report._run_curves import compared_curves

__all__ = [
    "compared_curves",
    "equilibrium_map",
    "fit_slope",
    "heat_map",
    "histogram",
    "interaction_map",
    "learning_curves",
    "network_map",
    "policy_bars",
    "simplex_plot",
]


def learning_curves(
    rounds: Any,
    curves: Mapping[str, Any],
    *,
    band: tuple[float, float] = (0.1, 0.9),
    fit: bool = True,
    references: Mapping[str, float] | None = None,
    title: str = "",
    xlabel: str = "round",
    ylabel: str = "NashConv",
) -> Any:
    """Plot curves on logarithmic axes: the median over runs, a quantile band, fitted slopes.

    A curve has one value per round, or one row of values per run. `references` draws dotted lines
    with the given slopes through the end of the first curve, for theoretical rates.

    **Example**

    >>> import numpy as np
    >>> from equipoise.report import figures
    >>> t = np.arange(1, 100)
    >>> runs = np.random.default_rng(0).lognormal(0, 0.1, (5, 99)) / np.sqrt(t)
    >>> figure = figures.learning_curves(t, {"EXP3": runs}, references={"1/√t": -0.5})
    >>> figure.axes[0].get_xscale()
    'log'
    """
    t = np.asarray(rounds, float)
    with canvas(5.6, 3.8) as (figure, axes):
        end, middles = None, []
        for (name, values), colour in zip(curves.items(), cycle(), strict=False):
            runs = np.atleast_2d(np.asarray(values, float))
            if runs.shape[1:] != t.shape:
                raise InputError(
                    f"curves[{name!r}]", f"{t.size} values per run", f"shape {runs.shape}"
                )
            middle = np.median(runs, 0)
            middles.append(middle)
            text = label(name)
            if fit:
                text += draw_slope(axes, t, middle, colour)
            axes.plot(t, middle, color=colour, lw=1.8, label=text)
            if len(runs) > 1:
                low, high = np.quantile(runs, band, axis=0)
                axes.fill_between(t, low, high, color=colour, alpha=0.2, lw=0)
            end = middle[-1] if end is None else end
        for name, slope in (references or {}).items():
            axes.plot(t, end * (t / t[-1]) ** slope, ":", color=COLOURS[-1], label=label(name))
        axes.set(xscale="log", xlabel=label(xlabel), ylabel=label(ylabel))
        set_value_axis(axes, middles, log=spans_a_range(m[m > 0] for m in middles))
        axes.set_title(label(title))
        axes.grid(True, color="#808080", alpha=0.25, lw=0.6)
        axes.legend(frameon=False)
    return figure


def policy_bars(
    policies: Mapping[str, Any],
    *,
    actions: Sequence[str] | None = None,
    title: str = "",
    ylabel: str = "probability",
) -> Any:
    """Draw bars of the probabilities of two or more policies, action by action.

    **Example**

    >>> from equipoise.report import figures
    >>> figure = figures.policy_bars({"row": [0.4, 0.6], "column": [0.5, 0.5]})
    >>> len(figure.axes[0].patches)
    4
    """
    tables = {name: np.asarray(policy, float) for name, policy in policies.items()}
    for name, policy in tables.items():
        if policy.ndim != 1:
            raise InputError(f"policies[{name!r}]", "one axis", f"shape {policy.shape}")
    count = max(policy.size for policy in tables.values())
    width = 0.8 / len(tables)
    with canvas(1.6 + min(0.6 * count, 6.0), 2.8 + room_below(actions)) as (figure, axes):
        for i, ((name, policy), colour) in enumerate(zip(tables.items(), cycle(), strict=False)):
            places = np.arange(policy.size) + (i - (len(tables) - 1) / 2) * width
            axes.bar(places, policy, width * 0.92, color=colour, label=label(name))
        name_ticks(axes.xaxis, count, actions, "actions")
        axes.set(ylabel=label(ylabel), ylim=(0, None))
        axes.set_title(label(title), pad=2.6 * FONT)  # above the legend
        axes.grid(True, axis="y", color="#808080", alpha=0.25, lw=0.6)
        axes.set_axisbelow(True)
        axes.legend(frameon=False, ncols=len(tables), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def simplex_plot(
    trajectory: Any = None,
    *,
    equilibrium: Any = None,
    actions: Sequence[str] = ("0", "1", "2"),
    title: str = "",
) -> Any:
    """Draw the path of a policy over three actions in the simplex; a star marks the equilibrium.

    The path may be left out. For several players, `equilibrium` maps their names to points.

    **Example**

    >>> from equipoise.report import figures
    >>> path = [[0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [0.4, 0.3, 0.3]]
    >>> figure = figures.simplex_plot(path, equilibrium=[1 / 3, 1 / 3, 1 / 3])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['0', '1', '2']
    """
    path = np.zeros((0, 3)) if trajectory is None else np.asarray(trajectory, float)
    if path.ndim != 2 or path.shape[1] != 3 or len(actions) != 3:
        raise InputError("trajectory", "shape (rounds, 3)", path.shape)
    stars = equilibrium if isinstance(equilibrium, Mapping) else {"": equilibrium}
    corners = np.array([[0.5, np.sqrt(3) / 2], [0.0, 0.0], [1.0, 0.0]])
    centre = corners.mean(0)
    with canvas(3.8, 3.5) as (figure, axes):
        axes.plot(*corners[[0, 1, 2, 0]].T, color="#808080", lw=1.2)
        for share in (0.25, 0.5, 0.75):  # lines of constant probability of one action
            for i in range(3):
                a, b = corners[(i + 1) % 3], corners[(i + 2) % 3]
                ends = share * corners[i] + (1 - share) * np.stack([a, b])
                axes.plot(*ends.T, color="#808080", alpha=0.25, lw=0.6)
        # Below the path, which may end there; the first star is largest, so that all are visible.
        for k, (name, point) in enumerate(stars.items()):
            if point is not None:
                place, text = (
                    np.asarray(point, float) @ corners,
                    f"Nash, {name}" if name else "Nash",
                )
                axes.plot(*place, "*", color=COLOURS[1 + k], ms=18 - 6 * k, label=label(text))
        if len(path):
            axes.plot(*(path @ corners).T, color=COLOURS[0], lw=1.2, label="policy")
            axes.plot(*(path[0] @ corners), "o", color=COLOURS[0], ms=5, label="first")
            axes.plot(*(path[-1] @ corners), "s", color=COLOURS[0], ms=5, label="last")
        for corner, name in zip(corners, actions, strict=True):
            axes.text(*(centre + 1.14 * (corner - centre)), label(name), ha="center", va="center")
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_title(label(title), pad=1.6 * FONT)  # above the name of the upper corner
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(-0.1, 1.0))
    return figure


def histogram(
    values: Any, *, title: str = "", xlabel: str = "", ylabel: str = "games", log: bool = False
) -> Any:
    """Draw a histogram; with `log`, by decades, with the count of values <= 0 in the title.

    **Example**

    >>> from equipoise.report import figures
    >>> figure = figures.histogram([0.0, 1e-16, 2e-16], log=True, title="gaps")
    >>> figure.axes[0].get_title()
    'gaps (1 of 3 not above 0)'
    """
    x = np.asarray(values, float).ravel()
    positive = x[x > 0] if log else x
    with canvas(4.7, 3.0) as (figure, axes):
        if positive.size:
            edges: Any = 40
            if log:
                low, high = np.log10(positive.min()) - 0.05, np.log10(positive.max()) + 0.05
                edges = np.logspace(low, high, 41)
                axes.set_xscale("log")
            else:
                axes.locator_params(axis="x", nbins=6)
            axes.hist(positive, bins=edges, color=COLOURS[0])
        if log:
            title = f"{title} ({x.size - positive.size:,} of {x.size:,} not above 0)".strip()
        axes.set(xlabel=label(xlabel), ylabel=label(ylabel))
        axes.set_title(label(title))
        axes.grid(True, axis="y", color="#808080", alpha=0.25, lw=0.6)
        axes.set_axisbelow(True)
    return figure


def heat_map(
    values: Any,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
) -> Any:
    """Draw a matrix as colours with its numbers in the cells: payoffs, or policies by state.

    Matrices with entries of both signs get a diverging colour map centred at zero.

    **Example**

    >>> from equipoise.report import figures
    >>> figure = figures.heat_map([[3, -1], [-2, 1]], rows=("up", "down"))
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['3', '−1', '−2', '1']
    """
    matrix = np.asarray(values, float)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError("values", "a matrix", f"shape {matrix.shape}")
    height, width = matrix.shape
    signed = matrix.min() < 0 < matrix.max()
    # The ends of the colour map are not used: they are too dark to tell apart.
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
    """Draw a heat map of how much each agent's action (columns) affects each reward (rows).

    `strength` is (agents, agents), such as the `interactions.total` of a fit to a log. If there are
    more than `most` agents, only those with the strongest interactions are drawn, in their order.
    Without `names`, agents are numbered from 0, like the rows of arrays.

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
        raise InputError("strength", "shape (agents, agents)", matrix.shape)
    if names is not None and len(names) != len(matrix):
        raise InputError("names", f"{len(matrix)} names", len(names))
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
        xlabel="agent (action)",
        ylabel="agent (reward)",
    )


def outcomes(values: Any, outcome: Any, *, name: str = "parameter", title: str = "") -> Any:
    """Plot the outcome at each value of a parameter; a star marks the best.

    **Example**

    >>> from equipoise.report import figures
    >>> figure = figures.outcomes([0.0, 0.1, 0.2], [1.0, 3.0, 2.0], name="toll")
    >>> figure.axes[0].get_xlabel()
    'toll'
    """
    x, y = np.asarray(values, float), np.asarray(outcome, float)
    if x.ndim != 1 or not x.size or x.shape != y.shape:
        found = f"{x.shape} and {y.shape}"
        raise InputError("values", "one number for each outcome", f"shapes {found}")
    order, best = np.argsort(x, kind="stable"), int(y.argmax())
    with canvas(5.2, 3.4) as (figure, axes):
        # With several parameters, one value can have several outcomes.
        line = "o-" if len(np.unique(x)) == len(x) else "o"
        axes.plot(x[order], y[order], line, color=COLOURS[0], ms=4, lw=1.2, label="games solved")
        axes.plot(x[best], y[best], "*", color=COLOURS[1], ms=15, label="best")
        axes.set(xlabel=label(name), ylabel="outcome")
        axes.set_title(label(title))
        axes.grid(True, color="#808080", alpha=0.25, lw=0.6)
        axes.legend(frameon=False)
    return figure


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
    """Plot equilibria by aggregate and welfare.

    `aggregates` is (equilibria, coordinates), `welfare` has one number per equilibrium. With one
    coordinate, welfare is the height; with more, the first two span the plane and welfare is the
    colour. `gains` are written next to the points. `regions`, (equilibria, 2, coordinates), are the
    lower and upper corners of the cells in which each was found; they are shaded. A star marks the
    best equilibrium, and a ring marks `chosen`, an aggregate with its welfare. `names` lists the
    names of the coordinates.

    **Example**

    >>> from equipoise.report import figures
    >>> figure = figures.equilibrium_map([[0.0], [1.0]], [0.0, 0.6], gains=[0.0, 1e-6])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['gain 0', 'gain 1e-06']
    """
    places, worth = np.asarray(aggregates, float), np.asarray(welfare, float)
    if places.ndim != 2 or not len(places) or worth.shape != places.shape[:1]:
        raise InputError(
            "aggregates",
            "shape (equilibria, coordinates) and one welfare for each",
            f"{places.shape} and {worth.shape}",
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
    """Shade the cells of the equilibria: bands on the line, or rectangles in the plane."""
    for low, high in regions:
        if flat:
            axes.axvspan(low[0], high[0], color=COLOURS[0], alpha=0.15, lw=0)
        else:
            corners = np.array([low[:2], [high[0], low[1]], high[:2], [low[0], high[1]]])
            axes.fill(*corners.T, color=COLOURS[0], alpha=0.15, lw=0)


def network_map(
    positions: Any, tails: Any, heads: Any, values: Any, *, title: str = "", what: str = ""
) -> Any:
    """Draw a road network; colour and width of each link show a value, one lane per direction.

    **Example**

    >>> from equipoise.report import figures
    >>> places = [[0, 0], [1, 1], [2, 0]]
    >>> figure = figures.network_map(places, [0, 1, 1], [1, 2, 0], [0.5, 1.2, 0.1], what="load")
    >>> len(figure.axes)
    2
    """
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap

    places, values = np.asarray(positions, np.float64), np.asarray(values, np.float64)
    begin, end = places[np.asarray(tails)], places[np.asarray(heads)]
    along = end - begin
    length = np.maximum(np.hypot(*along.T), 1e-12)
    # Offset each lane to the right of its direction, so that opposite lanes do not overlap.
    aside = np.stack([along[:, 1], -along[:, 0]], 1) / length[:, None]
    shift = 0.04 * float(np.median(length)) * aside
    most = max(float(values.max(initial=0.0)), 1e-12)
    order = np.argsort(values, kind="stable")
    with canvas(6.5, 5.5) as (figure, axes):
        lines = LineCollection(
            list(np.stack([begin + shift, end + shift], 1)[order]),
            # Without both ends of the map of colours, which vanish on light or on dark pages.
            cmap=ListedColormap(colormaps["viridis"](np.linspace(0.9, 0.25, 256))),
            linewidths=0.5 + 2.5 * values[order] / most,
        )
        lines.set_array(values[order])
        lines.set_gid("links")
        ends = zip(np.asarray(tails)[order], np.asarray(heads)[order], values[order], strict=True)
        figure.told = {"links": [f"{tail} to {head}: {value:.4g}" for tail, head, value in ends]}
        axes.add_collection(lines)
        axes.set_aspect("equal")
        axes.autoscale_view()
        axes.set_axis_off()
        figure.colorbar(lines, ax=axes, shrink=0.8, label=label(what))
        axes.set_title(label(title))
    return figure
