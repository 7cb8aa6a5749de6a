"""Figures 2, 3 and 4 of the interaction-rank paper, and what decides their outcome.

N agents choose numbers in [-1, 1]. Logs are of uniform play; critics of rank 1, of rank 2 and of
all actions at once are fitted to them, and TD3+BC improves everybody's policy against those.
Figure 2 is the largest gap of the learned policies in the game with pairwise rewards, for one
critic of each kind; here against the number of rows in the log, as that is what decides it.
Figure 3 has all architectures of Appendix B, Figure 4 the same in a game whose rewards are of the
own action alone. Each with our recipe and with the printed one, with the median agent's gap,
held-out losses and times, and beside a critic that is linear in polynomials of actions. The
ablations change our recipe one thing at a time.

    python -m equipoise.papers interaction_rank_deep --figures 2 --run runs/deep

Every part leaves a record of its own in the run folder, and one that is there is not run again.
"""

import os
from functools import partial
from typing import Any

import numpy as np

from equipoise.papers import kept, rows_of
from equipoise.papers.interaction_rank_deep._parts import (
    ABLATIONS,
    FIGURES,
    Config,
    parts,
    run_part,
)
from equipoise.runs import Record, Table

__all__ = ["ABLATIONS", "FIGURES", "Config", "plot", "run"]


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Run the parts of a config that `folder` does not hold yet; returns all parts in one record.

    Gaps are exact gains by `certify`, in the paper's units (root N times the reward where that
    is divided by it).

    **Example**

    >>> from equipoise.papers import interaction_rank_deep as figures
    >>> small = figures.Config.quick(
    ...     figures=("2",), agents=4, critics=("2-IR-linear",), rows_per_agent=(50,), steps=300
    ... )
    >>> figures.run(small).tables["summary"].column("critic")
    ['2-IR-linear']
    """
    # What a part has to do with: not which others were asked for beside it.
    beside = ("critics", "architectures", "recipes")
    shared = {k: v for k, v in vars(config).items() if k not in beside}
    records = [
        kept(
            *(folder, part.name, {**shared, "figures": (part.figure,), "part": part, "key": key}),
            partial(run_part, config, part, key),
        )
        for part in parts(config)
    ]
    arrays = {name: array for record in records for name, array in record.arrays.items()}
    columns = records[0].tables["gaps"].columns
    rows = [row for record in records for row in record.tables["gaps"].rows]
    gaps = Table(columns, rows)
    tables = {"gaps": gaps, "summary": summary(gaps)}
    return Record("interaction-rank-deep", config, {"key": key}, arrays, tables)


def summary(gaps: Table) -> Table:
    """One row for each critic, recipe, change and size of the log."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    names = ("figure", "critic", "recipe", "change", "rows per agent")
    for named in rows_of(gaps):
        groups.setdefault(tuple(named[n] for n in names), []).append(named)
    rows = []
    for group, found in groups.items():
        worst = np.array([r["max gap"] for r in found])
        error = worst.std(ddof=1) / np.sqrt(len(worst)) if len(worst) > 1 else np.nan
        rows.append(
            dict(zip(names, group, strict=True))
            | {"trials": len(found), "max gap": float(worst.mean()), "error": float(error)}
            | {n: float(np.mean([r[n] for r in found])) for n in ("median gap", "validation")}
            | {n: float(np.mean([r[n] for r in found])) for n in ("explained", "rounds")}
            | {n: float(found[0][n]) for n in ("fit seconds", "improve seconds")}
        )
    return Table.from_dicts(rows)


_COLOURS = {"1-IR": "C3", "2-IR": "C0", "joint": "C1"}
_TITLES = {
    "2": "Figure 2: pairwise rewards",
    "3": "Figure 3: pairwise rewards, all architectures",
    "4": "Figure 4: rewards of the own action, all architectures",
    "ablations": "Pairwise rewards, one change at a time",
}


def plot(record: Record) -> Any:
    """A panel for each figure in the record; for Figure 2 also gaps along training and losses.

    **Example**

    >>> from equipoise.papers import interaction_rank_deep as figures
    >>> small = figures.Config.quick(
    ...     figures=("2",), agents=4, critics=("2-IR-linear",), rows_per_agent=(50,), steps=300
    ... )
    >>> len(figures.plot(figures.run(small)).axes)
    3
    """
    from matplotlib.figure import Figure

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
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(5.4 * columns, 4.2 * lines), layout="constrained")
    for number, draw in enumerate(panels):
        draw(figure.add_subplot(lines, columns, number + 1))
    return figure


def _colour(critic: str) -> str:
    if critic.endswith("linear"):
        return "C2"
    return next(colour for kind, colour in _COLOURS.items() if critic.startswith(kind))


def _against_rows(axes: Any, rows: list[dict[str, Any]], measure: str) -> None:
    """Means over trials against the size of the log, with standard errors of gaps."""
    for critic, recipe in dict.fromkeys((r["critic"], r["recipe"]) for r in rows):
        own = [r for r in rows if (r["critic"], r["recipe"]) == (critic, recipe)]
        own.sort(key=lambda r: r["rows per agent"])
        x = [r["rows per agent"] for r in own]
        mean = np.array([r[measure] for r in own])
        style = "-" if recipe == "ours" else ":"
        colour = _colour(critic)
        axes.plot(x, mean, style, color=colour, marker=".", label=f"{critic}, {recipe}")
        if measure == "max gap":
            error = np.nan_to_num([r["error"] for r in own])
            low, high = np.maximum(mean - error, 0.0), mean + error
            axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
    axes.set_xscale("log")
    if measure == "max gap":
        axes.set_yscale("symlog", linthresh=0.01)
        axes.set_ylim(0.0, None)
        axes.set_title(_TITLES["2"], fontsize=9)
    axes.set_xlabel("rows of the log for each agent (the paper's rule: 10)")
    axes.set_ylabel("max gap" if measure == "max gap" else "held-out mean squared error")
    axes.grid(True, alpha=0.25, lw=0.6)
    axes.legend(fontsize=6, frameon=False)


def _curves(axes: Any, record: Record) -> None:
    """Gaps while actors learn, at the middle size of the log, with our recipe."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in record.arrays:
        kind, *label = name.split("|")
        if kind == "gap" and label[0] == "2" and label[2] == "ours":
            found.setdefault(label[1], []).append((int(label[3]), "|".join(label)))
    for critic, sizes in found.items():
        sizes.sort()
        ratio, label = sizes[(len(sizes) - 1) // 2]
        gaps = record.arrays[f"gap|{label}"]
        mean, colour = gaps.mean(1), _colour(critic)
        error = gaps.std(1, ddof=1) / np.sqrt(gaps.shape[1]) if gaps.shape[1] > 1 else 0.0 * mean
        steps = record.arrays[f"steps|{label}"]
        axes.plot(steps, mean, color=colour, label=f"{critic}, {ratio} rows per agent")
        axes.fill_between(
            steps, np.maximum(mean - error, 0.0), mean + error, color=colour, alpha=0.15, lw=0
        )
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_ylim(0.0, None)
    axes.set_xlabel("steps of the actors")
    axes.set_ylabel("max gap")
    axes.grid(True, alpha=0.25, lw=0.6)
    axes.legend(fontsize=6, frameon=False)


def _bars(axes: Any, rows: list[dict[str, Any]], figure: str) -> None:
    """Means over trials and standard errors, architecture by architecture."""
    labels = [r["change"] or r["recipe"] for r in rows]
    names = [f"{r['critic']}, {label}" for r, label in zip(rows, labels, strict=True)]
    places = np.arange(len(rows))
    worst = [r["max gap"] for r in rows]
    errors = np.nan_to_num([r["error"] for r in rows])
    # The printed recipe is pale.
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
