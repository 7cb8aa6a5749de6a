"""Draw the figure from its record alone."""

from typing import Any

import numpy as np

from equipoise.runs import Record
from reproduction._drawing import draw_band, finish

#: Colour and dash of every curve.
STYLES: dict[str, dict[str, Any]] = {
    "ours": {"color": "#2b8cc4", "lw": 2.0, "marker": "o", "ms": 3},
    "paper": {"color": "#d55e00", "lw": 2.0, "marker": "s", "ms": 3},
    "omd": {"color": "#00a878", "lw": 1.3},
    "exp3-ix (average)": {"color": "#8a7fd1", "lw": 1.3},
    "v-learning": {"color": "#b07a3c", "lw": 1.3},
    "uniform": {"color": "#7f8790", "lw": 1.0, "ls": ":"},
    "base Nash": {"color": "#c65d9c", "lw": 1.0, "ls": "--"},
    "mean Nash": {"color": "#e08a00", "lw": 1.0, "ls": "-."},
    "best static": {"color": "#303030", "lw": 1.0, "ls": "--"},
}
#: Labels of the x axes of the additional panels.
BESIDE = {
    "lengths": "rounds trained at and played",
    "sizes": "round",
    "games": "training games",
}


def plot(record: Record) -> Any:
    """Draw a row of panels for each family and a column for each kind of game.

    Below them, players trained at shorter trajectories, models of several sizes, and the number
    of training games. Bands are one standard deviation between seeds.

    **Example**

    >>> from reproduction import in_context
    >>> from equipoise.runs import Record
    >>> arrays = {"A=2|x": [1, 2, 4], "A=2|iid|ours": [[0.3, 0.2, 0.1]]}
    >>> len(in_context.plot(Record("in-context", arrays=arrays)).axes)
    1
    """
    from matplotlib.figure import Figure

    keys = [name.split("|") for name in record.arrays if name.count("|") == 2]
    columns = [p for p in dict.fromkeys(k[0] for k in keys) if p not in BESIDE]
    columns.sort(key=lambda panel: (panel[0], int(panel[2:])))
    rows = list(dict.fromkeys(family for panel, family, _ in keys if panel not in BESIDE))
    rows.sort(key=lambda family: (family == "iid", family))
    extra = [panel for panel in BESIDE if any(k[0] == panel for k in keys)]
    wide, tall = max(len(columns), len(extra), 1), len(rows) + bool(extra)
    figure = Figure(figsize=(2.1 * wide, 1.9 * max(tall, 1)), layout="constrained")
    first: Any = None
    for i, family in enumerate(rows):
        for j, panel in enumerate(columns):
            axes = figure.add_subplot(tall, wide, 1 + i * wide + j, sharex=first, sharey=first)
            first = first or axes
            _draw(axes, record, panel, family)
            axes.set_title(f"{panel}, {family}", fontsize=9)
            # All panels have the same axes, so only those at the edges are labelled.
            axes.tick_params(labelleft=j == 0, labelbottom=i == len(rows) - 1, labelsize=8)
            axes.set_ylabel("gap" if j == 0 else "")
            axes.set_xlabel("round" if i == len(rows) - 1 else "")
    if first is not None:
        first.set(xscale="log", yscale="log")
        _legend(figure)
    for j, panel in enumerate(extra):
        axes = figure.add_subplot(tall, wide, 1 + len(rows) * wide + j)
        _draw_beside(axes, record, panel)
    return figure


def _draw(axes: Any, record: Record, panel: str, family: str) -> None:
    if f"{panel}|x" not in record.arrays:
        return
    x = record.arrays[f"{panel}|x"]
    for who, style in STYLES.items():
        values = record.arrays.get(f"{panel}|{family}|{who}")
        if values is not None:
            _band(axes, x, values, label=who, **style)
    axes.grid(True, alpha=0.25, lw=0.6)


def _band(axes: Any, x: np.ndarray, values: np.ndarray, **style: Any) -> None:
    mean, spread = values.mean(0), values.std(0, ddof=1) if len(values) > 1 else 0.0
    dash = style.pop("ls", "-")
    draw_band(axes, x, mean, np.maximum(mean - spread, mean / 10), mean + spread, dash, **style)


def _draw_beside(axes: Any, record: Record, panel: str) -> None:
    x = record.arrays[f"{panel}|x"]
    places = x if panel != "games" else np.arange(1, len(x) + 1)
    for name, values in record.arrays.items():
        at, _, who = name.partition("|")
        if at == panel and "|" in who:
            family, player = who.split("|")
            style = {"lw": 1.5, "marker": "o", "ms": 3}
            if player in STYLES:
                style |= {"color": STYLES[player]["color"], "ls": "-" if family == "iid" else "--"}
            own = (places, values)
            if panel == "lengths":
                own = _with_whole(record, *own, f"{family}|{player}")
            _band(axes, *own, label=f"{player}, {family}", **style)
    if panel == "games":
        axes.set_xticks(places, [str(n) if n else "fresh" for n in x])
    else:
        axes.set_xscale("log", base=2 if panel == "lengths" else 10)
    axes.tick_params(which="both", labelsize=7)
    axes.set_title(f"A=3: {panel}", fontsize=9)
    finish(axes, 6, yscale="log", xlabel=BESIDE[panel], ylabel="gap")


def _with_whole(
    record: Record, x: np.ndarray, values: np.ndarray, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return gaps against the training length, with full trajectories from the main panel."""
    if f"A=3|{name}" not in record.arrays:
        return x, values
    whole, last = record.arrays["A=3|x"][-1], record.arrays[f"A=3|{name}"][:, -1:]
    return np.append(x, whole), np.concatenate([values, last], 1)


def _legend(figure: Any) -> None:
    """Draw one legend for all panels."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        found |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    names = [name for name in STYLES if name in found]
    place = {"loc": "outside upper center", "ncols": 9, "fontsize": 8, "frameon": False}
    figure.legend([found[name] for name in names], names, **place)
