"""The aggregative paper in several dimensions: plans and learning against n and d.

The paper's grids, programs and bounds grow as (2W/alpha)^d; no experiment shows how. Here, random
Markov games of one, two and three coordinates are planned with Algorithm 2 (Aggre-BI) as printed
and as corrected, and learned from samples, with known and with unknown rewards, for several numbers
of agents. Gaps are exact, with the bounds that are proven for them.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from equipoise import aggregative
from equipoise.certificates import certify
from equipoise.games import AggregativeMarkovGame
from equipoise.runs import Record, Table
from reproduction import aggregative_learning, kept, rows_of
from reproduction._drawing import finish, make_panels
from reproduction.aggregative_planning import plan_game

__all__ = ["LEARNERS", "PLANS", "Config", "plot", "run"]

#: Name -> options of the solver.
PLANS: dict[str, dict[str, Any]] = {
    "printed": {"objective": "welfare", "slack": "printed", "rounding": "sample"},
    "welfare": {"objective": "welfare", "slack": "lemma"},
    "regret": {},
}
#: Name -> options of `learn`.
LEARNERS: dict[str, dict[str, Any]] = {
    "known": {},
    "unknown, scouts": {"rewards": "unknown"},
}
#: Smallest gap that is drawn.
_FLOOR = 1e-6


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. The default takes about two minutes on one core.

    >>> Config().dimensions
    (1, 2, 3)
    """

    #: Numbers of coordinates of the aggregate.
    dimensions: tuple[int, ...] = (1, 2, 3)
    #: Side of the cells, for each number of coordinates.
    spacings: tuple[float, ...] = (0.05, 0.1, 0.2)
    #: Numbers of agents of the games that are planned.
    agents: tuple[int, ...] = (100, 1000)
    #: Numbers of agents of the games that are learned.
    learning_agents: tuple[int, ...] = (50, 500)
    #: Largest number of agents that learn unknown rewards, for each number of coordinates: with
    #: several coordinates every plan solves thousands of programs.
    most_unknown: tuple[int, ...] = (500, 50, 50)
    #: Number of types of agents.
    types: int = 5
    #: Number of states.
    states: int = 3
    #: Number of steps.
    horizon: int = 3
    #: Number of episodes.
    episodes: int = 30
    #: Number of random games.
    seeds: int = 2

    @classmethod
    def quick(cls) -> "Config":
        """Return a config with fewer agents, episodes and seeds.

        >>> Config.quick().dimensions
        (1, 2)
        """
        fewer: dict[str, Any] = {"agents": (100, 1000), "learning_agents": (20, 50)}
        shorter: dict[str, Any] = {"most_unknown": (50, 20), "episodes": 10, "seeds": 1}
        return cls(dimensions=(1, 2), spacings=(0.1, 0.2), **fewer, **shorter)

    def game(self, agents: int, dimensions: int, seed: int) -> AggregativeMarkovGame:
        """Return a random game.

        >>> Config().game(agents=100, dimensions=3, seed=0).influence.shape
        (5, 3, 3)
        """
        given: dict[str, Any] = {n: getattr(self, n) for n in ("types", "states", "horizon")}
        setting = aggregative_learning.Config(agents=agents, **given)
        # With a small own part, what is best depends on what the others do.
        return aggregative_learning.small_game(setting, seed, dimensions=dimensions, own_part=0.1)


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Plan and learn every game. The record has the tables `planning` and `learning`.

    **Example**

    >>> from reproduction import aggregative_dimensions as paper
    >>> small = paper.Config(dimensions=(2,), spacings=(0.5,), agents=(20,), learning_agents=(20,),
    ...     most_unknown=(20,), states=2, horizon=2, episodes=3, seeds=1)
    >>> record = paper.run(small)
    >>> record.tables["planning"].column("form")
    ['printed', 'welfare', 'regret']
    """
    parts: list[Record] = []
    for d, spacing, most in zip(
        config.dimensions, config.spacings, config.most_unknown, strict=True
    ):
        alone = replace(config, dimensions=(d,), spacings=(spacing,), most_unknown=(most,))
        settings = {**vars(alone), "key": key}
        parts.append(kept(folder, f"d-{d}", settings, partial(_one, alone, key)))
    tables = {
        name: Table.from_dicts([row for part in parts for row in rows_of(part.tables[name])])
        for name in ("planning", "learning")
    }
    return Record("aggregative-dimensions", config, {"key": key}, {}, tables)


def _one(config: Config, key: int) -> Record:
    """Return the rows of a config with one number of coordinates."""
    (d,), (spacing,), (most,) = config.dimensions, config.spacings, config.most_unknown

    def means(agents: int, measure: Callable[[Any, int], dict[str, float]]) -> dict[str, float]:
        seeds = range(key, key + config.seeds)
        found = [measure(config.game(agents, d, seed), seed) for seed in seeds]
        mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
        return mean | {"largest gap": max(one["gap"] for one in found)}

    def planned(form: str, game: Any, seed: int) -> dict[str, float]:
        found = plan_game((form, PLANS[form]), game, spacing, seed)
        return {name: found[name] for name in ("gap", "bound", "welfare", "seconds")}

    def learned(name: str, game: Any, seed: int) -> dict[str, float]:
        env, begun = aggregative.Simulator(game, seed), time.process_time()
        result = aggregative.learn(env, config.episodes, spacing=spacing, **LEARNERS[name])
        exact: Any = certify(game, result.policy)
        return {
            "gap": float(exact.max_gain),
            "bound": result.bound,
            "certificate": result.width,
            "welfare": float(np.mean(exact.mean_value)),
            "visited cells": float(result.stats["visited_cells"]),
            "seconds": time.process_time() - begun,
        }

    same: dict[str, Any] = {"dimensions": d, "spacing": spacing, "seeds": config.seeds}
    plans = [
        same | {"agents": n, "form": form} | means(n, partial(planned, form))
        for n in config.agents
        for form in PLANS
    ]
    lessons = [
        same | {"agents": n, "learner": name} | means(n, partial(learned, name))
        for n in config.learning_agents
        for name, options in LEARNERS.items()
        if n <= most or options.get("rewards") != "unknown"
    ]
    tables = {"planning": Table.from_dicts(plans), "learning": Table.from_dicts(lessons)}
    return Record("aggregative-dimensions", config, {"dimensions": d}, {}, tables)


def plot(record: Record) -> Any:
    """Draw gaps and bounds of plans, their time, and gaps of learners, and return the figure.

    **Example**

    >>> from reproduction import aggregative_dimensions as paper
    >>> small = paper.Config(dimensions=(1,), spacings=(0.5,), agents=(20,), learning_agents=(20,),
    ...     most_unknown=(20,), states=2, horizon=2, episodes=3, seeds=1)
    >>> len(paper.plot(paper.run(small)).axes)
    3
    """
    figure, (plans, clock, learners) = make_panels(3, 3, 4.4, 4.2)
    styles = dict(zip(record.config["dimensions"], ("-", "--", ":"), strict=False))
    for axes, table, name, kinds, measure in (
        (plans, "planning", "form", PLANS, "gap"),
        (clock, "planning", "form", PLANS, "seconds"),
        (learners, "learning", "learner", LEARNERS, "gap"),
    ):
        rows = rows_of(record.tables[table])
        for d, style in styles.items():
            for number, kind in enumerate(kinds):
                own = [row for row in rows if row["dimensions"] == d and row[name] == kind]
                values = [max(row[measure], _FLOOR) for row in own]
                drawn: dict[str, Any] = {"color": f"C{number}", "marker": ".", "lw": 1.3}
                axes.plot(
                    [row["agents"] for row in own], values, style, label=f"{kind}, d = {d}", **drawn
                )
        finish(axes, xscale="log", yscale="log", xlabel="agents")
        axes.legend(fontsize=6, frameon=False)
    plans.set(title="plans", ylabel="largest gain of any agent")
    clock.set(title="time of a plan", ylabel="processor seconds")
    learners.set(title=f"after {record.config['episodes']} episodes", ylabel="largest gain")
    return figure
