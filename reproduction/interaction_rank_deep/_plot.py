"""Draw the figures from a record alone."""

from typing import Any

import numpy as np

from equipoise.runs import Record
from reproduction import rows_of
from reproduction._drawing import draw_band, finish, make_panels

_COLOURS = {"1-IR": "C3", "2-IR": "C0", "joint": "C1"}
_TITLES = {
    "2": "Figure 2: pairwise rewards",
    "3": "Figure 3: pairwise rewards, all architectures",
    "4": "Figure 4: rewards of the own action, all architectures",
    "ablations": "Pairwise rewards, one change at a time",
}


def plot(record: Record) -> Any:
    """Draw a panel for each figure in the record; for Figure 2 also training gaps and losses.

    **Example**

    >>> from reproduction import interaction_rank_deep as figures
    >>> small = figures.Config.quick(
    ...     figures=("2",), agents=4, critics=("2-IR-linear",), rows_per_agent=(50,), steps=300
    ... )
    >>> len(figures.plot(figures.run(small)).axes)
    3
    """
    rows = rows_of(record.tables["summary"])
    panels = []
    for figure in dict.fromkeys(row["figure"] for row in rows):
        own = [row for row in rows if row["figure"] == figure]
        if figure == "2":
            panels += [
                lambda axes, own=own: _against_rows(axes, own, "max gap"),
                lambda axes: _curves(axes, record),
                lambda axes, own=own: _against_rows(axes, own, "validation"),
            ]
        else:
            panels.append(lambda axes, own=own, figure=figure: _bars(axes, own, figure))
    drawn, every = make_panels(len(panels), 3, 5.4, 4.2)
    for axes, draw in zip(every, panels, strict=True):
        draw(axes)
    return drawn


def _colour(critic: str) -> str:
    if critic.endswith("linear"):
        return "C2"
    return next(colour for kind, colour in _COLOURS.items() if critic.startswith(kind))


def _against_rows(axes: Any, rows: list[dict[str, Any]], measure: str) -> None:
    """Draw means over trials against the size of the log, with standard errors of gaps."""
    for critic, recipe in dict.fromkeys((r["critic"], r["recipe"]) for r in rows):
        own = [r for r in rows if (r["critic"], r["recipe"]) == (critic, recipe)]
        own.sort(key=lambda r: r["rows per agent"])
        x = [r["rows per agent"] for r in own]
        mean = np.array([r[measure] for r in own])
        dash = "-" if recipe == "ours" else ":"
        error = np.nan_to_num([r["error"] for r in own]) if measure == "max gap" else 0.0
        style = {"color": _colour(critic), "marker": ".", "label": f"{critic}, {recipe}"}
        draw_band(axes, x, mean, np.maximum(mean - error, 0.0), mean + error, dash, **style)
    if measure == "max gap":
        axes.set_yscale("symlog", linthresh=0.01)
        axes.set_ylim(0.0, None)
        axes.set_title(_TITLES["2"], fontsize=9)
    rule = "rows of the log for each agent (the paper's rule: 10)"
    what = "max gap" if measure == "max gap" else "held-out mean squared error"
    finish(axes, 6, xscale="log", xlabel=rule, ylabel=what)


def _curves(axes: Any, record: Record) -> None:
    """Draw gaps during the training of actors, at the middle size of the log, with our recipe."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in record.arrays:
        kind, *label = name.split("|")
        if kind == "gap" and label[0] == "2" and label[2] == "ours":
            found.setdefault(label[1], []).append((int(label[3]), "|".join(label)))
    for critic, sizes in found.items():
        sizes.sort()
        ratio, label = sizes[(len(sizes) - 1) // 2]
        gaps = record.arrays[f"gap|{label}"]
        mean, steps = gaps.mean(1), record.arrays[f"steps|{label}"]
        error = gaps.std(1, ddof=1) / np.sqrt(gaps.shape[1]) if gaps.shape[1] > 1 else 0.0 * mean
        style = {"color": _colour(critic), "label": f"{critic}, {ratio} rows per agent"}
        draw_band(axes, steps, mean, np.maximum(mean - error, 0.0), mean + error, **style)
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_ylim(0.0, None)
    finish(axes, 6, xscale="log", xlabel="steps of the actors", ylabel="max gap")


def _bars(axes: Any, rows: list[dict[str, Any]], figure: str) -> None:
    """Draw means over trials and standard errors for every architecture."""
    labels = [r["change"] or r["recipe"] for r in rows]
    names = [f"{r['critic']}, {label}" for r, label in zip(rows, labels, strict=True)]
    places = np.arange(len(rows))
    worst = [r["max gap"] for r in rows]
    errors = np.nan_to_num([r["error"] for r in rows])
    # The printed recipe is drawn in a pale colour.
    colours = [(_colour(r["critic"]), 0.35 if r["recipe"] == "printed" else 0.8) for r in rows]
    axes.barh(places, worst, xerr=errors, color=colours, height=0.7)
    axes.plot([r["median gap"] for r in rows], places, "k|", ms=7, label="median agent")
    axes.set_yticks(places, names, fontsize=5)
    axes.invert_yaxis()
    axes.set_xscale("symlog", linthresh=0.01)
    axes.set_xlim(0.0, None)
    axes.set_xlabel("max gap")
    axes.set_title(_TITLES[figure], fontsize=9)
    axes.grid(True, axis="x", alpha=0.25, lw=0.6)
    axes.legend(fontsize=6, frameon=False)
