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
from equipoise.papers.interaction_rank_deep._parts import parts, run_part
from equipoise.papers.interaction_rank_deep._plot import plot
from equipoise.papers.interaction_rank_deep._settings import ABLATIONS, FIGURES, Config
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
