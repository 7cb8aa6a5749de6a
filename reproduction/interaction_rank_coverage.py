"""How many rows a critic needs as the coverage of single actions gets worse: Table 1.

Table 1 of the interaction-rank paper says that rewards of rank K need `C^K` rows and that rewards
without structure need `C^N`, where C is the single-agent coverage coefficient, the largest
`1 / nu_i(a)`. Here C is varied in two ways, for polymatrix games (K = 2) of few agents, so that a
table of all joint actions can be learned too:

- `skew`: every agent plays one action most of the time, and C is 1, 2, 4 and 8 times the number of
  actions. The frequent action is the one that an equilibrium of the game plays least, so that the
  learned policies differ from the log as much as they can.
- `actions`: play is uniform, so that C is the number of actions.

In each cell, logs double until the mean gap over games falls below a threshold. The logarithm of
the rows needed against the logarithm of C has a slope, to be compared with K and N. The weight of
the regulariser falls as 1 / C, so that its price is at most a fixed share of the threshold.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from equipoise import offline
from equipoise.certificates import certify
from equipoise.core import InputError, checks
from equipoise.games import families
from equipoise.runs import Record, Table
from reproduction import kept, rows_of
from reproduction._drawing import finish, make_panels

__all__ = ["Config", "plot", "run"]

PANELS = ("skew", "actions")
#: Critic -> arguments of `offline.fit`.
CRITICS: dict[str, tuple[int | str, dict[str, Any]]] = {
    "2-IR": (2, {"intervals": False}),
    "joint": ("joint", {"kind": "table"}),
}
RANK = 2


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. `Config.quick()` takes less than half a minute.

    **Example**

    >>> from reproduction import interaction_rank_coverage
    >>> interaction_rank_coverage.Config().skews
    (1.0, 2.0, 4.0, 8.0)
    """

    #: Panels to compute.
    panels: tuple[str, ...] = PANELS
    #: Numbers of agents.
    agents: tuple[int, ...] = (3, 4, 5)
    #: C divided by the number of actions, for the first panel.
    skews: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    #: Number of actions of each agent in the first panel.
    skewed_actions: int = 2
    #: Numbers of actions of the second panel.
    actions: tuple[int, ...] = (2, 3, 4, 6)
    #: Standard deviation of rewards under uniform play.
    scale: float = 0.25
    #: Standard deviation of the noise of rewards.
    noise: float = 0.25
    #: Mean gap that must be reached.
    threshold: float = 0.02
    #: Largest price of the regulariser, as a share of the threshold.
    share: float = 0.2
    #: Number of rows of the smallest logs.
    smallest: int = 16
    #: Largest number of rows that is tried.
    largest: int = 1 << 21
    #: Number of random games of each cell.
    games: int = 16
    #: Number of iterations of the learner.
    iterations: int = 400
    #: Step size of the learner.
    step: float = 5.0

    def __post_init__(self) -> None:
        for panel in self.panels:
            if panel not in PANELS:
                raise InputError("panels", f"panels among {PANELS}", repr(panel))
        for name in ("smallest", "largest", "games", "iterations"):
            checks.check_count(name, getattr(self, name))

    @classmethod
    def quick(cls, **changes: Any) -> "Config":
        """Return a config with fewer agents, games and cells.

        >>> Config.quick().agents
        (3,)
        """
        small = cls(agents=(3,), skews=(1.0, 2.0, 4.0), actions=(2, 3), games=4, largest=1 << 16)
        return replace(small, **changes)

    def cells(self, panel: str) -> Iterator[tuple[int, float]]:
        """Yield the number of actions and the coefficient C of each cell of a panel."""
        if panel == "skew":
            yield from ((self.skewed_actions, self.skewed_actions * skew) for skew in self.skews)
        else:
            yield from ((actions, float(actions)) for actions in self.actions)


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Find the rows that each critic needs, for every C, and fit slopes.

    Tables: `gaps` has a row for each size of log that was tried, with the mean gap over games and
    its standard error; `needs` has the rows at which the mean gap crosses the threshold, by
    interpolation, or None if the largest log is not enough; `slopes` has least-squares slopes of
    log rows against log C.

    **Example**

    >>> from reproduction import interaction_rank_coverage
    >>> small = interaction_rank_coverage.Config.quick(panels=("actions",), games=1, largest=128)
    >>> record = interaction_rank_coverage.run(small)
    >>> record.tables["slopes"].column("critic")
    ['2-IR', 'joint']
    """
    gaps: list[dict[str, Any]] = []
    for panel in config.panels:
        for agents in config.agents:
            settings = {**vars(config), "panels": (panel,), "agents": (agents,), "key": key}
            make = partial(_part, config, panel, agents, key)
            made = kept(folder, f"{panel}-{agents}", settings, make)
            gaps += rows_of(made.tables["gaps"])
    needs = _needs(config, gaps)
    tables = {"gaps": gaps, "needs": needs, "slopes": _slopes(needs)}
    found = {name: Table.from_dicts(rows) for name, rows in tables.items()}
    return Record("interaction-rank-coverage", config, {"key": key}, {}, found)


def avoiding(game: Any, ratio: float) -> np.ndarray:
    """Return a behaviour policy with C = `ratio` that avoids an equilibrium of the game.

    All actions have the probability 1 / C, except the one that a coarse correlated equilibrium
    plays least, which has the rest.

    >>> game = families.polymatrix(agents=3, actions=2).sample(key=0)
    >>> avoiding(game, 8.0).min().item()
    0.125
    """
    solution = offline.solve(game, behaviour="uniform", strength=1e-4, step=5.0, iterations=400)
    played = np.asarray(solution.policy.policies).mean(0)
    rare = np.full(played.shape, 1.0 / ratio)
    rest = 1.0 - (played.shape[-1] - 1) / ratio
    np.put_along_axis(rare, played.argmin(-1)[..., None], rest, -1)
    return rare


def _part(config: Config, panel: str, agents: int, key: int) -> Record:
    """Return the gaps of one panel and number of agents."""
    rows = []
    for actions, ratio in config.cells(panel):
        family = families.polymatrix(agents, actions, scale=config.scale, noise=config.noise)
        games = [family.sample(key=key + number) for number in range(config.games)]
        plays = [avoiding(game, ratio) for game in games]
        cell = {"panel": panel, "agents": agents, "actions": actions, "C": ratio}
        waiting, samples = list(CRITICS), config.smallest
        while waiting and samples <= config.largest:
            # Both critics learn from the same logs.
            gaps: dict[str, list[float]] = {name: [] for name in waiting}
            for number, (game, play) in enumerate(zip(games, plays, strict=True)):
                log = offline.collect(game, play, samples=samples, key=key + 1000 + number)
                for name, found in gaps.items():
                    found.append(_gap(config, game, log, name, ratio))
            for name, found in gaps.items():
                error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
                mean = float(np.mean(found))
                row = {"critic": name, "rows": samples, "gap": mean, "error": float(error)}
                rows.append(cell | row)
                if mean < config.threshold:
                    waiting.remove(name)
            samples *= 2
    return Record("interaction-rank-coverage", config, tables={"gaps": Table.from_dicts(rows)})


def _gap(config: Config, game: Any, log: Any, critic: str, ratio: float) -> float:
    """Return the true gap of what DR-AC learns from a log with a critic."""
    rank, how = CRITICS[critic]
    solution = offline.solve(
        offline.fit(log, rank, **how),
        force=True,
        iterations=config.iterations,
        step=config.step,
        strength=config.share * config.threshold / ratio,
    )
    return float(certify(game, solution.policy).max_gain)


def _needs(config: Config, gaps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows at which each critic's mean gap crosses the threshold, for every cell."""
    names = ("panel", "agents", "actions", "C", "critic")
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in gaps:
        cells.setdefault(tuple(row[name] for name in names), []).append(row)
    found = []
    for cell, rows in cells.items():
        need = None
        if rows[-1]["gap"] < config.threshold:
            need = float(rows[-1]["rows"])
            if len(rows) > 1:
                (low, high), sizes = np.log([r["gap"] for r in rows[-2:]]), rows[-2]["rows"]
                part = (low - np.log(config.threshold)) / (low - high)
                need = float(sizes * 2.0**part)
        found.append(dict(zip(names, cell, strict=True)) | {"rows": need})
    return found


def _slopes(needs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fit log rows against log C, over the cells where the threshold was reached."""
    lines: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for row in needs:
        points = lines.setdefault((row["panel"], row["agents"], row["critic"]), [])
        if row["rows"] is not None:
            points.append((row["C"], row["rows"]))
    found = []
    for (panel, agents, critic), points in lines.items():
        slope = last = None
        if len(points) > 1:
            x, y = np.log(points).T
            slope = float(np.polyfit(x, y, 1)[0])
            last = float((y[-1] - y[-2]) / (x[-1] - x[-2]))
        found.append(
            {
                "panel": panel,
                "agents": agents,
                "critic": critic,
                "cells": len(points),
                "slope": slope,
                "last slope": last,
                "printed": RANK if critic == "2-IR" else agents,
            }
        )
    return found


_COLOURS = {"2-IR": "C0", "joint": "C1"}
_LABELS = {"skew": "C (skewed play)", "actions": "C = number of actions (uniform play)"}


def plot(record: Record) -> Any:
    """Draw the rows needed against C, with slopes, in a panel for each number of agents.

    **Example**

    >>> from reproduction import interaction_rank_coverage
    >>> small = interaction_rank_coverage.Config.quick(panels=("actions",), games=1, largest=128)
    >>> record = interaction_rank_coverage.run(small)
    >>> len(interaction_rank_coverage.plot(record).axes)
    1
    """
    needs, slopes = rows_of(record.tables["needs"]), rows_of(record.tables["slopes"])
    places = list(dict.fromkeys((row["panel"], row["agents"]) for row in needs))
    figure, every = make_panels(len(places), 3, 4.2, 3.4)
    for axes, (panel, agents) in zip(every, places, strict=True):
        where = {"panel": panel, "agents": agents}
        for critic, colour in _COLOURS.items():
            wanted = where | {"critic": critic}
            own = [r for r in needs if wanted.items() <= r.items() and r["rows"] is not None]
            (line,) = [r for r in slopes if wanted.items() <= r.items()]
            if not own:
                continue
            x, y = (np.array([r[name] for r in own]) for name in ("C", "rows"))
            slope = "" if line["slope"] is None else f", slope {line['slope']:.1f}"
            axes.plot(x, y, "o-", ms=4, color=colour, lw=1.4, label=critic + slope)
            power, name = line["printed"], "K" if critic == "2-IR" else "N"
            axes.plot(x, y[0] * (x / x[0]) ** power, ":", color=colour, lw=1.0, label=f"$C^{name}$")
        title = f"{agents} agents"
        labels = {"xlabel": _LABELS[panel], "ylabel": "rows needed", "title": title}
        finish(axes, 7, xscale="log", yscale="log", **labels)
        ticks = sorted({row["C"] for row in needs if where.items() <= row.items()})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
    return figure
