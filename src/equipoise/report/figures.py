"""The figures people of this field like, each from plain arrays to a matplotlib figure.

Every function returns a `matplotlib.figure.Figure` that no window shows and nothing else
holds; put it in a `Report`, or save it with `figure.savefig`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.report._canvas import (
    COLOURS,
    FONT,
    canvas,
    cycle,
    draw_slope,
    fit_slope,
    label,
    name_ticks,
    set_value_axis,
    spans_a_range,
)
from equipoise.report._maps import equilibrium_map, heat_map, interaction_map
from equipoise.report._run_curves import compared_curves

__all__ = [
    "compared_curves",
    "equilibrium_map",
    "fit_slope",
    "heat_map",
    "histogram",
    "interaction_map",
    "learning_curves",
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
    with canvas(5.6, 3.8) as (figure, axes):
        end, middles = None, []
        for (name, values), colour in zip(curves.items(), cycle(), strict=False):
            runs = np.atleast_2d(np.asarray(values, float))
            if runs.shape[1:] != t.shape:
                raise ValueError(
                    f"curves[{name!r}]: expected {t.size} values per run, found shape {runs.shape}"
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
    with canvas(1.6 + min(0.6 * count, 6.0), 2.8) as (figure, axes):
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
    """The path of a policy over three actions in its triangle, and the equilibrium as a star.

    The path may be left out; of several players, `equilibrium` is a mapping of their names.

    **Example**

    >>> from equipoise.report import figures
    >>> path = [[0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [0.4, 0.3, 0.3]]
    >>> figure = figures.simplex_plot(path, equilibrium=[1 / 3, 1 / 3, 1 / 3])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['0', '1', '2']
    """
    path = np.zeros((0, 3)) if trajectory is None else np.asarray(trajectory, float)
    if path.ndim != 2 or path.shape[1] != 3 or len(actions) != 3:
        raise ValueError(f"trajectory: expected shape (rounds, 3), found {path.shape}")
    stars = equilibrium if isinstance(equilibrium, Mapping) else {"": equilibrium}
    corners = np.array([[0.5, np.sqrt(3) / 2], [0.0, 0.0], [1.0, 0.0]])
    centre = corners.mean(0)
    with canvas(3.8, 3.5) as (figure, axes):
        axes.plot(*corners[[0, 1, 2, 0]].T, color="#808080", lw=1.2)
        for share in (0.25, 0.5, 0.75):  # lines of equal probability of one action
            for i in range(3):
                a, b = corners[(i + 1) % 3], corners[(i + 2) % 3]
                ends = share * corners[i] + (1 - share) * np.stack([a, b])
                axes.plot(*ends.T, color="#808080", alpha=0.25, lw=0.6)
        # Below the path, which ends there if all goes well; the first largest, to be seen.
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
    """How many values fall where; with `log`, by decades, with those not above 0 in the title.

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
