"""Shared parts of all figures: colours, an empty canvas, labels, ticks and fitted slopes."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np

from equipoise.core import InputError

#: Colours that colour-blind readers can tell apart, on light and dark pages (Okabe and Ito).
COLOURS = ("#2b8cc4", "#e08a00", "#00a878", "#c65d9c", "#d55e00", "#8a7fd1", "#7f8790")

FONT = 10.0
#: Names of more letters would overlap below neighbouring bars or columns.
_WIDE = 9


@cache
def _figure_class() -> type[Any]:
    """Return a figure class that notebooks display although pyplot does not know the figures."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        #: Identifier of a collection of lines -> what pages show when one points at each of them.
        told: dict[str, list[str]]

        def _repr_png_(self) -> bytes:
            content = BytesIO()
            self.savefig(content, format="png", dpi=110, facecolor="white", bbox_inches="tight")
            return content.getvalue()

    return NotebookFigure


@contextmanager
def canvas(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """Create a figure that is independent of the user's settings and of pyplot."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {"font.size": FONT, "axes.titlesize": FONT + 1, "axes.spines.top": False}
        )
        matplotlib.rcParams["axes.spines.right"] = False
        figure = _figure_class()(figsize=(width, height), layout="tight")
        yield figure, figure.subplots()


def cycle() -> Iterator[str]:
    """Yield the colours, repeatedly."""
    while True:
        yield from COLOURS


def label(text: str) -> str:
    """Escape dollar signs, which would otherwise begin a formula."""
    return str(text).replace("$", r"\$")


def room_below(names: Sequence[str] | None) -> float:
    """Return how high, in inches, names are that do not fit side by side and must be turned.

    >>> room_below(["rock", "paper"]), room_below(["rock", "own action by others' counts"]) > 1
    (0.0, True)
    """
    longest = max(map(len, names), default=0) if names is not None and len(names) > 1 else 0
    return 0.0 if longest <= _WIDE else 0.04 * longest


def name_ticks(axis: Any, count: int, names: Sequence[str] | None, argument: str) -> None:
    """Name rows, columns or actions, unless there are too many to read."""
    if names is not None and len(names) != count:
        raise InputError(argument, f"{count} names", len(names))
    if names is None:
        names = [str(i) for i in range(count)]
    if count > 30:  # names would overlap
        return
    turned: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    turned = turned if axis.axis_name == "x" and room_below(names) else {}
    axis.set_ticks(np.arange(count), [label(name) for name in names], **turned)


#: A curve that changes by less than this factor looks constant, and gets no slope.
_CONSTANT = 1.05
#: Curves that together span less than this factor are drawn on a linear axis.
_NARROW = 1.2


def fit_slope(rounds: Any, values: Any, start: float | None = None) -> tuple[float, float]:
    """Fit `values = scale * rounds ** slope` by least squares of logarithms, from `start` on.

    Without `start`, the last decade of rounds is used. Returns (slope, scale). Non-positive values
    are left out.

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
        raise InputError("values", f"one value per round, {t.shape}", y.shape)
    used = (t >= (t.max() / 10 if start is None else start)) & (y > 0) & (t > 0)
    if used.sum() < 2:
        raise InputError("values", "at least two positive values to fit", used.sum())
    slope, offset = np.polyfit(np.log(t[used]), np.log(y[used]), 1)
    return float(slope), float(np.exp(offset))


def draw_slope(axes: Any, rounds: np.ndarray, values: np.ndarray, colour: str) -> str:
    """Draw the slope of the last decade, dashed, and return a text for the legend.

    A curve that is (nearly) constant there, not positive throughout, or known at fewer than three
    rounds has no slope: nothing is drawn, and the text is empty.
    """
    tail = rounds >= rounds.max(initial=1.0) / 10
    t, y = rounds[tail], values[tail]
    if t.size < 3 or not (y > 0).all() or y.max() < _CONSTANT * y.min():
        return ""
    slope, scale = fit_slope(t, y)
    axes.plot(t, scale * t**slope, "--", color=colour, lw=1.0)
    return f"  (slope {slope:.2f})".replace("-", "−")


def spans_a_range(values: Iterable[np.ndarray]) -> bool:
    """Return whether numbers are all positive and vary enough for a logarithmic axis.

    >>> spans_a_range([np.array([1.0, 0.1])]), spans_a_range([np.ones(3)])
    (True, False)
    """
    found = np.concatenate([np.asarray(v, float).ravel() for v in values] or [np.zeros(0)])
    return found.size > 0 and 0 < float(found.min()) <= float(found.max()) / _NARROW


def set_value_axis(axes: Any, values: Iterable[np.ndarray], log: bool) -> None:
    """Make the vertical axis logarithmic or linear, with labelled ticks in either case.

    By default, matplotlib labels only powers of ten on a logarithmic axis, and on a linear axis
    shows small differences next to an offset. Neither shows the height of a flat curve.
    """
    from matplotlib.ticker import MaxNLocator, NullLocator, ScalarFormatter

    found = np.concatenate([np.asarray(v, float).ravel() for v in values] or [np.zeros(0)])
    found = found[np.isfinite(found)]
    if not found.size:
        return
    low, high = float(found.min()), float(found.max())
    if log:
        axes.set_yscale("log")
        if low > 0 and high < 10 * low:
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))
        return
    axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))
    if high - low < 1e-3 * max(abs(low), abs(high)) or high == low:
        margin = 0.1 * max(abs(low), abs(high)) or 1.0
        axes.set_ylim(low - margin, high + margin)
