"""The noise of rewards in the experiments of the interaction-rank paper, which it does not state.

The paper draws the noise of rewards uniformly from [-sigma, sigma] and prints only the ratio
sigma N / M = 0.1 of noise and agents to rows of the log. All figures here use sigma = 1 and
therefore M = 10 N. This experiment varies sigma at the printed ratio: the log of N agents has
M = 10 sigma N rows. Critics, recipes and measure are those of `interaction_rank_deep`.

    equipoise reproduce interaction-rank --figure noise --scale full

Every part has its own record in the run folder, and finished parts are not run again.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import InputError, checks
from equipoise.runs import Record, Table
from reproduction import interaction_rank_deep as deep
from reproduction import rows_of
from reproduction._drawing import draw_band, finish, make_panels

__all__ = ["Config", "plot", "run"]

_COLOURS = {"1-IR-128": "C3", "2-IR-64": "C0", "joint-2x128": "C1", deep.LINEAR: "C2"}


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. `Config.quick()` takes a minute.

    >>> from reproduction import interaction_rank_noise
    >>> interaction_rank_noise.Config().rows_per_agent(0.5)
    5
    """

    #: Half-widths of the noise of rewards. Rewards without noise lie within sqrt(N).
    noises: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0)
    #: Rows of the log for each agent, divided by the half-width of the noise: the paper's M.
    ratio: float = 10.0
    #: Number of agents.
    agents: int = 20
    #: Number of trials.
    trials: int = 10
    #: Critics. Those with a recipe, as in "2-IR-128, ours", are trained with that recipe alone.
    critics: tuple[str, ...] = ("1-IR-128", "2-IR-64", "joint-2x128", deep.LINEAR)
    #: Recipes of training.
    recipes: tuple[str, ...] = ("ours", "printed")
    #: Number of steps of actors in our recipe.
    steps: int = 3000

    def __post_init__(self) -> None:
        for name in ("agents", "trials", "steps"):
            checks.check_count(name, getattr(self, name))
        for noise in self.noises:
            rows = self.ratio * noise
            if rows < 1 or abs(rows - round(rows)) > 1e-9:
                whole = "numbers whose product with the ratio is a whole number of rows"
                raise InputError("noises", whole, repr(noise))

    @classmethod
    def quick(cls, **changes: Any) -> "Config":
        """Return a config with fewer trials, critics and values of the noise.

        >>> Config.quick().trials
        2
        """
        few = cls((0.5, 2.0), agents=10, trials=2, recipes=("ours",), steps=1000)
        return replace(few, **changes)

    def rows_per_agent(self, noise: float) -> int:
        """Return the rows of the log for each agent at a half-width of the noise."""
        return round(self.ratio * noise)

    def with_noise(self, noise: float) -> deep.Config:
        """Return the config of the experiments with deep critics at a half-width of the noise."""
        return deep.Config(
            figures=("3",),
            agents=self.agents,
            noise=noise,
            trials=self.trials,
            architectures=self.critics,
            recipes=self.recipes,
            fixed_rows_per_agent=self.rows_per_agent(noise),
            steps=self.steps,
            snapshots=2,
        )


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Run the parts of a config that `folder` does not contain; return all parts in one record.

    **Example**

    >>> from reproduction import interaction_rank_noise
    >>> small = interaction_rank_noise.Config.quick(
    ...     noises=(1.0, 2.0), agents=4, critics=("2-IR-linear",), steps=200
    ... )
    >>> interaction_rank_noise.run(small).tables["summary"].column("rows per agent")
    [10, 20]
    """
    found: dict[str, list[dict[str, Any]]] = {"gaps": [], "summary": []}
    for noise in config.noises:
        place = None if folder is None else Path(folder) / f"noise-{noise:g}"
        record = deep.run(config.with_noise(noise), key, place)
        for name, rows in found.items():
            rows += [{"noise": noise} | row for row in rows_of(record.tables[name])]
    tables = {name: Table.from_dicts(rows) for name, rows in found.items()}
    return Record("interaction-rank-noise", config, {"key": key}, {}, tables)


def plot(record: Record) -> Any:
    """Draw the largest gap and the median agent's gap against the noise, for every recipe.

    **Example**

    >>> from reproduction import interaction_rank_noise
    >>> small = interaction_rank_noise.Config.quick(
    ...     noises=(1.0, 2.0), agents=4, critics=("2-IR-linear",), steps=200
    ... )
    >>> len(interaction_rank_noise.plot(interaction_rank_noise.run(small)).axes)
    2
    """
    rows = rows_of(record.tables["summary"])
    drawn, every = make_panels(2, 2, 5.4, 4.2)
    for axes, measure in zip(every, ("max gap", "median gap"), strict=True):
        for critic, recipe in dict.fromkeys((r["critic"], r["recipe"]) for r in rows):
            own = [r for r in rows if (r["critic"], r["recipe"]) == (critic, recipe)]
            mean = np.array([r[measure] for r in own])
            error = np.nan_to_num([r["error"] for r in own]) if measure == "max gap" else 0.0
            style = {"color": _COLOURS.get(critic), "marker": ".", "label": f"{critic}, {recipe}"}
            dash = "-" if recipe == "ours" else ":"
            noises = [r["noise"] for r in own]
            draw_band(axes, noises, mean, np.maximum(mean - error, 0), mean + error, dash, **style)
        axes.set_yscale("symlog", linthresh=0.01)
        axes.set_ylim(0.0, None)
        label = r"noise $\sigma$, with $M = 10 \sigma N$ rows"
        finish(axes, 6, xscale="log", xlabel=label, ylabel=measure)
        noises = sorted({r["noise"] for r in rows})
        axes.set_xticks(noises, [f"{noise:g}" for noise in noises])
        axes.set_xticks([], minor=True)
    return drawn
