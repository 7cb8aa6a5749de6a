"""Curves of runs: found in their records, and drawn in one figure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.report._canvas import (
    canvas,
    cycle,
    draw_slope,
    label,
    set_value_axis,
    spans_a_range,
)
from equipoise.runs import Record

#: Names of the array that holds the positions of the others, and its name on the axis.
_AXES = {"rounds": "round", "episodes": "episode", "step": "step"}
#: Arrays that are shown in other ways, even if their length equals the number of rounds.
_NO_CURVES = (
    "path", "path_rounds", "nash", "gains", "value", "certified_value", "solved", "welfare",
)  # fmt: skip
#: Half-width of a band, in standard errors.
WIDTH = 2.0
#: Largest number of points of a curve; more would enlarge the page without being visible.
POINTS = 600


@dataclass(frozen=True)
class Curve:
    """The course of one quantity: a mean, with its standard error if several were averaged.

    **Example**

    >>> from equipoise.report import Curve
    >>> curve = Curve.of([1, 2], [[0.5, 0.25], [0.7, 0.25]])
    >>> curve.mean.round(3).tolist(), curve.error.round(3).tolist()
    ([0.6, 0.25], [0.1, 0.0])
    """

    #: (T,) the positions at which it was recorded.
    at: np.ndarray
    #: (T,) the mean.
    mean: np.ndarray
    #: (T,) the standard error, or None if there is nothing to average.
    error: np.ndarray | None = None
    #: The unit of `at`.
    axis: str = "round"

    @classmethod
    def of(cls, at: Any, values: Any, axis: str = "round") -> "Curve":
        """Build a curve from one value per entry of `at`, or one row per game or seed."""
        at, rows = np.asarray(at, float), np.atleast_2d(np.asarray(values, float))
        if rows.shape[1:] != at.shape:
            raise InputError("values", f"{at.size} in every row", f"shape {rows.shape}")
        error = rows.std(0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else None
        return cls(at, rows.mean(0), error, axis)

    @property
    def band(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Lower and upper end of the band: two standard errors to either side of the mean."""
        if self.error is None:
            return None
        return self.mean - WIDTH * self.error, self.mean + WIDTH * self.error


def curves_of(
    record: Record | None,
    metrics: list[dict[str, Any]],
    config: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, Curve]]:
    """Return quantity -> name -> curve, for everything that a run recorded over time.

    The arrays of a record are identified by name. `rounds`, `episodes` or `step`, of shape (T,),
    holds the positions of the curves. `gap` of shape (T,) is a curve, with standard error
    `gap_error` if present. `gap/NAME` is a curve of one participant, of shape (T,), (T, games), or
    (seeds, T, games). `curve/bound` is a curve with one value per episode. An unfinished run has no
    record, so its metrics are read instead. Its config determines their unit: rounds or episodes,
    whichever it has a total for.

    **Example**

    >>> from equipoise.report import curves_of
    >>> from equipoise.runs import Record
    >>> record = Record("play", arrays={"rounds": [1, 10], "gap": [0.5, 0.2], "path": [[1, 0]]})
    >>> curves_of(record, [])["gap"][""].mean.tolist()
    [0.5, 0.2]
    """
    found: dict[str, dict[str, Curve]] = {}
    if record is None:
        axis = next((_AXES[name] for name in _AXES if name in (config or {})), "step")
        for name, curve in _of_metrics(metrics, axis).items():
            found[name] = {"": curve}
        return found
    arrays = record.arrays
    axis = next((name for name in _AXES if name in arrays and arrays[name].ndim == 1), None)
    for name, array in arrays.items():
        kind, _, who = name.partition("/")
        if array.dtype.kind not in "fiu" or name == axis or name.endswith("_error"):
            continue
        if kind == "curve" and array.ndim == 1 and array.size:
            found.setdefault(who, {})[""] = Curve.of(np.arange(1, array.size + 1), array, "episode")
        elif axis is not None and kind in (name, "gap") and name not in _NO_CURVES:
            rows = _rows(array, arrays[axis].size)
            if rows is not None:
                curve = Curve.of(arrays[axis], rows, _AXES[axis])
                if f"{name}_error" in arrays:
                    curve = Curve(curve.at, curve.mean, arrays[f"{name}_error"], curve.axis)
                found.setdefault(kind, {})[who] = curve
    return found


def _rows(array: np.ndarray, length: int) -> np.ndarray | None:
    """(games or seeds, T), if the array holds curves of that length."""
    if length == 0:
        return None
    if array.ndim in (1, 2) and len(array) == length:  # (T,) or (T, games)
        return array.reshape(length, -1).T
    if array.ndim == 3 and array.shape[1] == length:  # (seeds, T, games)
        return np.swapaxes(array, 1, 2).reshape(-1, length)
    return None


def _of_metrics(metrics: list[dict[str, Any]], axis: str) -> dict[str, Curve]:
    """Build curves from metrics: single numbers, or one number per seed."""
    found = {}
    for name in dict.fromkeys(name for row in metrics for name in row):
        if name == "step" or name.endswith("_error") or name in _NO_CURVES:
            continue
        rows = [row for row in metrics if name in row]
        steps, columns = [row["step"] for row in rows], [np.atleast_1d(row[name]) for row in rows]
        if all(c.dtype.kind in "fi" and c.shape == columns[0].shape for c in columns):
            curve = Curve.of(steps, np.stack(columns).reshape(len(steps), -1).T, axis)
            if all(f"{name}_error" in row for row in rows) and curve.error is None:
                error = np.array([row[f"{name}_error"] for row in rows], float)
                curve = Curve(curve.at, curve.mean, error, axis)
            found[name] = curve
    return found


def _spread(count: int, log: bool) -> np.ndarray:
    """Return the indices of the points to draw, including the first and the last.

    >>> _spread(3, True).tolist(), len(_spread(10**6, True)) <= 600
    ([0, 1, 2], True)
    """
    if count <= POINTS:
        return np.arange(count)
    places = np.geomspace(1, count, POINTS) - 1 if log else np.linspace(0, count - 1, POINTS)
    return np.unique(places.round().astype(int))


def compared_curves(
    curves: Mapping[str, Curve],
    *,
    fit: bool = True,
    title: str = "",
    ylabel: str = "",
) -> Any:
    """Draw curves of several runs in one figure, each on its own rounds, with bands and slopes.

    Bands extend two standard errors to either side. Axes are logarithmic if all means are
    positive; slopes are then fitted to the last decade of each curve that is not constant
    there. If all curves are nearly constant, the value axis is linear.

    **Example**

    >>> import numpy as np
    >>> from equipoise.report import Curve, figures
    >>> t = np.arange(1, 50)
    >>> figure = figures.compared_curves({"a": Curve(t, 1 / t), "b": Curve(t[::5], t[::5] ** -0.5)})
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['a  (slope −1.00)', 'b  (slope −0.50)']
    """
    if not curves:
        raise InputError("curves", "at least one", "none")
    finite = {name: np.isfinite(c.mean) & (c.at > 0) for name, c in curves.items()}
    means = [c.mean[finite[name]] for name, c in curves.items()]
    positive = all((mean > 0).all() for mean in means)
    log = positive and spans_a_range(means)
    inside = max(map(len, curves)) <= 16 and len(curves) <= 4  # larger legends hide the curves
    with canvas(4.7, 3.5 if inside else 3.6 + 0.19 * len(curves)) as (figure, axes):
        for (name, curve), colour in zip(curves.items(), cycle(), strict=False):
            used = finite[name]
            at, mean = curve.at[used], curve.mean[used]
            text = label(name)
            if log and fit:
                text += draw_slope(axes, at, mean, colour)
            drawn = _spread(at.size, positive)
            style = "o-" if at.size < 3 else "-"
            axes.plot(at[drawn], mean[drawn], style, color=colour, lw=1.8, label=text)
            if curve.band is not None and at.size:
                low, high = (end[used][drawn] for end in curve.band)
                low = np.maximum(low, mean.min() / 10) if log else low
                axes.fill_between(at[drawn], low, high, color=colour, alpha=0.2, lw=0)
        if positive:
            axes.set_xscale("log")
        set_value_axis(axes, means, log)
        axes.set(xlabel=label(next(iter(curves.values())).axis), ylabel=label(ylabel))
        axes.set_title(label(title))
        axes.grid(True, color="#808080", alpha=0.25, lw=0.6)
        place = {} if inside else {"loc": "upper left", "bbox_to_anchor": (-0.1, -0.2)}
        axes.legend(frameon=False, **place)
    return figure
