"""The figures people of this field like, each from plain arrays to a matplotlib figure.

Every function returns a `matplotlib.figure.Figure` that no window shows and nothing else
holds; put it in a `Report`, or save it with `figure.savefig`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = [
    "fit_slope",
    "heat_map",
    "histogram",
    "learning_curves",
    "policy_bars",
    "simplex_plot",
]

#: Colours that colour-blind readers tell apart, on light and on dark pages (after Okabe and Ito).
COLOURS = ("#2b8cc4", "#e08a00", "#00a878", "#c65d9c", "#d55e00", "#8a7fd1", "#7f8790")

_FONT = 10.0


def fit_slope(rounds: Any, values: Any, start: float | None = None) -> tuple[float, float]:
    """Fit `values = scale * rounds ** slope` by least squares of logarithms, from `start` on.

    Without `start`, the last decade of rounds is used. Returns (slope, scale); values that are
    not positive are left out.

    **Example**

    >>> import numpy as np
    >>> from equipoise.report.figures import fit_slope
    >>> t = np.arange(1, 1001)
    >>> slope, scale = fit_slope(t, 3 / np.sqrt(t))
    >>> round(slope, 6), round(scale, 6)
    (-0.5, 3.0)
    """
    t, y = np.asarray(rounds, float), np.asarray(values, float)
    if t.ndim != 1 or t.shape != y.shape:
        raise ValueError(f"values: expected one per round, {t.shape}; found {y.shape}")
    used = (t >= (t.max() / 10 if start is None else start)) & (y > 0) & (t > 0)
    if used.sum() < 2:
        raise ValueError(f"values: expected two positive ones to fit, found {used.sum()}")
    slope, offset = np.polyfit(np.log(t[used]), np.log(y[used]), 1)
    return float(slope), float(np.exp(offset))


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
    """Curves on logarithmic axes: the median over runs, a band of quantiles, fitted slopes.

    A curve is one value per round, or one row of them per run. `references` draws dotted lines
    of given slopes through the first curve's end, for rates that theory promises.

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
    with _canvas(5.6, 3.8) as (figure, axes):
        end = None
        for (name, values), colour in zip(curves.items(), _cycle(), strict=False):
            runs = np.atleast_2d(np.asarray(values, float))
            if runs.shape[1:] != t.shape:
                raise ValueError(
                    f"curves[{name!r}]: expected {t.size} values per run, found shape {runs.shape}"
                )
            middle = np.median(runs, 0)
            label = _label(name)
            if fit:
                slope, scale = fit_slope(t, middle)
                label += f"  (slope {slope:.2f})".replace("-", "−")
                tail = t[t >= t.max() / 10]
                axes.plot(tail, scale * tail**slope, "--", color=colour, lw=1.0)
            axes.plot(t, middle, color=colour, lw=1.8, label=label)
            if len(runs) > 1:
                low, high = np.quantile(runs, band, axis=0)
                axes.fill_between(t, low, high, color=colour, alpha=0.2, lw=0)
            end = middle[-1] if end is None else end
        for name, slope in (references or {}).items():
            axes.plot(t, end * (t / t[-1]) ** slope, ":", color=COLOURS[-1], label=_label(name))
        axes.set(xscale="log", yscale="log", xlabel=_label(xlabel), ylabel=_label(ylabel))
        axes.set_title(_label(title))
        axes.grid(True, color="#808080", alpha=0.25, lw=0.6)
        axes.legend(frameon=False)
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
    with _canvas(*size) as (figure, axes):
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
        _name_ticks(axes.xaxis, width, columns, "columns")
        _name_ticks(axes.yaxis, height, rows, "rows")
        axes.set(xlabel=_label(xlabel), ylabel=_label(ylabel))
        axes.set_title(_label(title))
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


def policy_bars(
    policies: Mapping[str, Any],
    *,
    actions: Sequence[str] | None = None,
    title: str = "",
    ylabel: str = "probability",
) -> Any:
    """Probabilities of two or more policies side by side, action by action.

    **Example**

    >>> from equipoise.report import figures
    >>> figure = figures.policy_bars({"row": [0.4, 0.6], "column": [0.5, 0.5]})
    >>> len(figure.axes[0].patches)
    4
    """
    tables = {name: np.asarray(policy, float) for name, policy in policies.items()}
    for name, policy in tables.items():
        if policy.ndim != 1:
            raise ValueError(f"policies[{name!r}]: expected one axis, found shape {policy.shape}")
    count = max(policy.size for policy in tables.values())
    width = 0.8 / len(tables)
    with _canvas(1.6 + min(0.6 * count, 6.0), 2.8) as (figure, axes):
        for i, ((name, policy), colour) in enumerate(zip(tables.items(), _cycle(), strict=False)):
            places = np.arange(policy.size) + (i - (len(tables) - 1) / 2) * width
            axes.bar(places, policy, width * 0.92, color=colour, label=_label(name))
        _name_ticks(axes.xaxis, count, actions, "actions")
        axes.set(ylabel=_label(ylabel), ylim=(0, None))
        axes.set_title(_label(title), pad=2.6 * _FONT)  # above the legend
        axes.grid(True, axis="y", color="#808080", alpha=0.25, lw=0.6)
        axes.set_axisbelow(True)
        axes.legend(frameon=False, ncols=len(tables), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def simplex_plot(
    trajectory: Any,
    *,
    equilibrium: Any = None,
    actions: Sequence[str] = ("1", "2", "3"),
    title: str = "",
) -> Any:
    """The path of a policy over three actions in its triangle, and the equilibrium as a star.

    **Example**

    >>> from equipoise.report import figures
    >>> path = [[0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [0.4, 0.3, 0.3]]
    >>> figure = figures.simplex_plot(path, equilibrium=[1 / 3, 1 / 3, 1 / 3])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['1', '2', '3']
    """
    path = np.asarray(trajectory, float)
    if path.ndim != 2 or path.shape[1] != 3 or len(actions) != 3:
        raise ValueError(f"trajectory: expected shape (rounds, 3), found {path.shape}")
    corners = np.array([[0.5, np.sqrt(3) / 2], [0.0, 0.0], [1.0, 0.0]])
    centre = corners.mean(0)
    with _canvas(3.8, 3.5) as (figure, axes):
        axes.plot(*corners[[0, 1, 2, 0]].T, color="#808080", lw=1.2)
        for share in (0.25, 0.5, 0.75):  # lines of equal probability of one action
            for i in range(3):
                a, b = corners[(i + 1) % 3], corners[(i + 2) % 3]
                ends = share * corners[i] + (1 - share) * np.stack([a, b])
                axes.plot(*ends.T, color="#808080", alpha=0.25, lw=0.6)
        if equilibrium is not None:  # below the path, which ends there if all goes well
            point = np.asarray(equilibrium, float) @ corners
            axes.plot(*point, "*", color=COLOURS[1], ms=18, label="Nash")
        axes.plot(*(path @ corners).T, color=COLOURS[0], lw=1.2, label="policy")
        axes.plot(*(path[0] @ corners), "o", color=COLOURS[0], ms=5, label="first")
        axes.plot(*(path[-1] @ corners), "s", color=COLOURS[0], ms=5, label="last")
        for corner, name in zip(corners, actions, strict=True):
            axes.text(*(centre + 1.14 * (corner - centre)), _label(name), ha="center", va="center")
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_title(_label(title))
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(-0.1, 1.0))
    return figure


def histogram(
    values: Any, *, title: str = "", xlabel: str = "", ylabel: str = "games", log: bool = False
) -> Any:
    """How many values fall where; with `log`, by decades, with those not above 0 in the title.

    **Example**

    >>> from equipoise.report import figures
    >>> figure = figures.histogram([0.0, 1e-16, 2e-16], log=True, title="gaps")
    >>> figure.axes[0].get_title()
    'gaps (1 of 3 not above 0)'
    """
    x = np.asarray(values, float).ravel()
    positive = x[x > 0] if log else x
    with _canvas(4.7, 3.0) as (figure, axes):
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
        axes.set(xlabel=_label(xlabel), ylabel=_label(ylabel))
        axes.set_title(_label(title))
        axes.grid(True, axis="y", color="#808080", alpha=0.25, lw=0.6)
        axes.set_axisbelow(True)
    return figure


@contextmanager
def _canvas(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """A figure of its own, untouched by the user's settings and by pyplot."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {"font.size": _FONT, "axes.titlesize": _FONT + 1, "axes.spines.top": False}
        )
        matplotlib.rcParams["axes.spines.right"] = False
        figure = Figure(figsize=(width, height), layout="tight")
        yield figure, figure.subplots()


def _cycle() -> Iterator[str]:
    while True:
        yield from COLOURS


def _label(text: str) -> str:
    """Text as it is: a dollar sign would otherwise begin a formula."""
    return str(text).replace("$", r"\$")


def _name_ticks(axis: Any, count: int, names: Sequence[str] | None, argument: str) -> None:
    if names is not None and len(names) != count:
        raise ValueError(f"{argument}: expected {count} names, found {len(names)}")
    if names is None:
        names = [str(i + 1) for i in range(count)]
    if count > 30:  # names would overlap
        return
    axis.set_ticks(np.arange(count), [_label(name) for name in names])
