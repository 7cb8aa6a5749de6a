"""Figure 1 of the in-context paper, and what it needs beside it.

Exploitability against the length of the trajectory, for matrix games with 2, 3 and 5 actions and
Markov games with 2, 3 and 5 states, on the same axes and over several seeds. The paper trains on
five games within rho = 0.1 of one base game, where the base game's equilibrium, memorised, is
already good: so the figure has families with larger rho and independent games as well, and draws
static policies (uniform, base Nash, mean Nash, the best there is) and no-regret learners (mirror
descent, EXP3-IX, V-learning) that need no training. Players are trained with the paper's preset
and with ours. Three more panels: players trained at shorter trajectories, models of several
sizes, and the number of training games.

    python -m equipoise.papers in_context --run runs/figure1
    python -m equipoise.papers in_context --scale full --only matrix-3 --run runs/figure1

Every part leaves a record of its own in the run folder, and one that is there is not run again.
"""

import os
from functools import partial

from equipoise.papers import kept
from equipoise.papers.in_context._parts import run_part, summary
from equipoise.papers.in_context._plot import plot
from equipoise.papers.in_context._settings import Config
from equipoise.runs import Record

__all__ = ["Config", "plot", "run"]


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Run the parts of a config that `folder` does not hold yet; returns all parts in one record.

    Gaps are `nash_conv` of last policies by `certify`, means over unseen games; in Markov games
    in units of `1 / (1 - discount)`, so that all panels share their axes.

    **Example**

    >>> from equipoise.papers import in_context
    >>> small = in_context.Config.quick(
    ...     actions=(2,), states=(), rounds=8, test_games=8, only=("baselines",)
    ... )
    >>> record = in_context.run(small)
    >>> record.arrays["A=2|iid|omd"].shape, record.arrays["A=2|x"].tolist()
    ((2, 4), [1, 2, 4, 8])
    """
    records = [
        kept(
            *(folder, part, {**vars(config), "only": (part,), "key": key}),
            partial(run_part, config, part, key),
        )
        for part in config.parts
    ]
    arrays = {name: array for record in records for name, array in record.arrays.items()}
    return Record("in-context", config, {"key": key}, arrays, {"gaps": summary(arrays)})
