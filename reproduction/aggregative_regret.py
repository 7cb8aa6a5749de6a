"""Theorem 5.1 of the aggregative paper, measured: regret against episodes, with its bound.

The theorem bounds the sum of the gaps of the policies that Algorithm 3 (Aggre-VI) plays. Its bound
is below the trivial one, the length of the interval of values, only with many agents and many
episodes. Here, in a small random game of 10,000 agents, Algorithm 3 runs as printed, with rewards
moved into [0, 1] as its proof requires, and as corrected. Gaps are exact: `certify` computes them
in the true game, which no learner sees. Whether each policy's values lie within the bounds that the
learner claims is checked, too; and so it is for the two printed forms in a game of 50 agents.
"""

import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from equipoise import aggregative
from equipoise.aggregative import theory
from equipoise.certificates import certify
from equipoise.games import AggregativeMarkovGame
from equipoise.runs import Record, Table
from reproduction import aggregative_learning, kept
from reproduction._drawing import finish, make_panels

__all__ = ["FORMS", "Config", "plot", "run"]

#: Forms of Algorithm 3, and their names in the figure.
FORMS = {
    "printed": "as printed",
    "printed-rescaled": "with rewards in [0, 1]",
    "corrected": "corrected",
}
#: Numbers of episodes for which the table has rows.
_STOPS = (10, 100, 1000, 3000, 10_000, 30_000, 100_000)
#: Measures by episodes that are recorded for a form; the first two are sums over the episodes.
MEASURES = ("regret", "certificates", "gap", "certificate")
#: Smallest value that is drawn.
_FLOOR = 1e-5


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. The default takes about three minutes on one core.

    >>> Config().episodes
    10000
    """

    #: Number of agents.
    agents: int = 10_000
    #: Number of types of agents.
    types: int = 5
    #: Number of states.
    states: int = 2
    #: Number of steps.
    horizon: int = 2
    #: Number of actions.
    actions: int = 3
    #: Side of the cells.
    spacing: float = 0.05
    #: Number of episodes.
    episodes: int = 10_000
    #: Forms of Algorithm 3, from `FORMS`.
    forms: tuple[str, ...] = tuple(FORMS)
    #: Number of random games.
    seeds: int = 1
    #: Number of runs in which the bounds of the printed forms are checked in a game of 50 agents.
    checked_runs: int = 2
    #: Number of episodes of these runs.
    checked_episodes: int = 60

    @classmethod
    def quick(cls) -> "Config":
        """Return a config with fewer agents and episodes.

        >>> Config.quick().episodes
        300
        """
        return cls(agents=1000, episodes=300, checked_runs=1, checked_episodes=10)

    @property
    def marks(self) -> np.ndarray:
        """Numbers of episodes after which everything is recorded."""
        even = np.geomspace(1, self.episodes, 41).round()
        stops = [k for k in _STOPS if k <= self.episodes]
        return np.unique(np.concatenate([even, stops])).astype(int)

    def game(self, seed: int) -> AggregativeMarkovGame:
        """Return a random game.

        >>> Config.quick().game(seed=0).agents
        1000
        """
        names = ("agents", "types", "states", "horizon", "actions")
        given = {name: getattr(self, name) for name in names}
        return aggregative_learning.small_game(aggregative_learning.Config(**given), seed)


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Run every form and seed, and return sums of gaps and certificates with their bounds.

    Arrays named `printed/regret` have shape (seeds, marks); `marks` holds numbers of episodes.

    **Example**

    >>> from reproduction import aggregative_regret as paper
    >>> small = paper.Config(agents=20, episodes=10, forms=("printed-rescaled",), checked_runs=0)
    >>> record = paper.run(small)
    >>> record.arrays["printed-rescaled/regret"].shape == (1, len(small.marks))
    True
    """
    arrays: dict[str, np.ndarray] = {"marks": config.marks}
    found: dict[str, list[Any]] = {}
    for form in config.forms:
        for seed in range(config.seeds):
            settings = {**vars(config), "forms": (form,), "seeds": 1, "seed": key + seed}
            work = partial(_one, config, form, key + seed)
            made = kept(folder, f"{form}-{seed}", settings, work)
            found.setdefault(form, []).append(made.arrays)
    for form, parts in found.items():
        arrays |= {f"{form}/{name}": np.stack([part[name] for part in parts]) for name in parts[0]}
    arrays |= _bounds(config, key)
    tables = {"results": Table.from_dicts(_rows(config, arrays))}
    if config.checked_runs:
        tables["violations"] = aggregative_learning.violations(
            aggregative_learning.Config(),
            config.checked_runs,
            config.checked_episodes,
            learners=aggregative_learning.PRINTED,
            key=key,
        )
    return Record("aggregative-regret", config, {"key": key}, arrays, tables)


def _one(config: Config, form: str, seed: int) -> Record:
    """Return the curves of one form in one game."""
    game = config.game(seed)
    env = aggregative.Simulator(game, seed)
    options: dict[str, Any] = {"form": form, "spacing": config.spacing, "history": True}
    learned = aggregative.learn(env, config.episodes, **options)
    exact: dict[bytes, Any] = {}
    gaps, widths, wrong = (np.empty(len(learned.history)) for _ in range(3))
    for k, (_, policy, bounds) in enumerate(learned.history):
        name = policy.rows.tobytes() + policy.counts.tobytes() + policy.actions.tobytes()
        if name not in exact:
            exact[name] = certify(game, policy)
        value = exact[name].class_value.T
        outside = (value < bounds.lower - 1e-9) | (value > bounds.upper + 1e-9)
        gaps[k], widths[k], wrong[k] = exact[name].max_gain, bounds.width, outside.any()
    # The policy that each episode played, and the best so far by its certificate.
    began = np.array([k for k, _, _ in learned.history])
    played = np.searchsorted(began, np.arange(config.episodes), side="right") - 1
    best = np.array([widths[: k + 1].argmin() for k in range(len(widths))])
    last = config.marks - 1
    arrays = {
        "regret": np.cumsum(gaps[played])[last],
        "certificates": np.cumsum(widths[played])[last],
        "gap": gaps[best[played]][last],
        "certificate": widths[best[played]][last],
        "policies": np.array(len(gaps)),
        "wrong": np.array(int(wrong.sum())),
        "cells": np.array(learned.stats["cells"]),
        "distinct": np.array(len(exact)),
    }
    return Record("aggregative-regret", config, {"form": form, "seed": seed}, arrays)


def _bounds(config: Config, key: int) -> dict[str, np.ndarray]:
    """(seeds, marks): bounds on the regret by Theorem 5.1, by Theorem 2 here, and by the range."""
    printed, proven = [], []
    for seed in range(config.seeds):
        game = config.game(key + seed)
        given: dict[str, Any] = {
            "lipschitz": game.lipschitz,
            "transition_lipschitz": game.transition_lipschitz,
            "spacing": config.spacing,
            "delta": game.delta,
            "horizon": config.horizon,
        }
        low, high = game.box(0, 0)
        cells = int(np.ceil((high - low).max() / config.spacing))
        size: dict[str, Any] = {"states": config.states, "cells": cells}
        crowd = {"agents": config.agents, "actions": config.actions, "spread": 2.0}
        printed.append(
            [theory.printed_regret(episodes=int(k), **given, **size, **crowd) for k in config.marks]
        )
        proven.append(config.marks * theory.markov_gap(dimensions=1, **given))
    values = 2.0 * config.horizon * np.tile(config.marks.astype(float), (config.seeds, 1))
    return {
        "bound/printed": np.array(printed),
        "bound/planning": np.array(proven),
        "bound/trivial": values,
    }


def _rows(config: Config, arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Return means over the seeds; sums are divided by the number of episodes."""
    rows = []
    for form in config.forms:
        policies, wrong = (int(arrays[f"{form}/{n}"].sum()) for n in ("policies", "wrong"))
        for k in (k for k in _STOPS if k <= config.episodes):
            (at,) = np.flatnonzero(config.marks == k)
            means = {m: float(arrays[f"{form}/{m}"][:, at].mean()) for m in MEASURES}
            bound = {m: float(arrays[f"bound/{m}"][:, at].mean()) / k for m in ("printed",)}
            rows.append(
                {
                    "form": form,
                    "episodes": k,
                    "seeds": config.seeds,
                    "mean gap": means["regret"] / k,
                    "mean certificate": means["certificates"] / k,
                    "gap": means["gap"],
                    "certificate": means["certificate"],
                    "bound of Theorem 5.1": bound["printed"],
                    "largest value": 2.0 * config.horizon,
                    "policies": policies,
                    "policies outside": wrong,
                }
            )
    return rows


def plot(record: Record) -> Any:
    """Draw mean regret with its bounds, and the policy returned, and return the figure.

    **Example**

    >>> from reproduction import aggregative_regret as paper
    >>> small = paper.Config(agents=20, episodes=10, forms=("corrected",), checked_runs=0)
    >>> len(paper.plot(paper.run(small)).axes)
    2
    """
    figure, panels = make_panels(2, 2, 5.0, 4.2)
    k = record.arrays["marks"]
    for colour, form in zip(("C3", "C1", "C0"), FORMS, strict=True):
        if form not in record.config["forms"]:
            continue
        label = FORMS[form]
        curves = {m: record.arrays[f"{form}/{m}"].mean(0) for m in MEASURES}
        for axes, real, claim in (
            (panels[0], curves["regret"] / k, curves["certificates"] / k),
            (panels[1], curves["gap"], curves["certificate"]),
        ):
            axes.plot(k, np.maximum(real, _FLOOR), color=colour, lw=1.4, label=f"{label}: gap")
            axes.plot(k, claim, "--", color=colour, lw=1.0, label=f"{label}: certificate")
    for name, style, label in (
        ("printed", ":", "bound of Theorem 5.1"),
        ("planning", "-.", "bound of Lemma B"),
        ("trivial", "-", "largest value, 2H"),
    ):
        values = record.arrays[f"bound/{name}"].mean(0) / k
        for axes in panels:
            axes.plot(k, values, style, color="0.3", lw=0.9, label=label)
    for axes in panels:
        finish(axes, xscale="log", yscale="log", xlabel="episodes")
    panels[0].set(title="policies played", ylabel="mean over the episodes")
    panels[1].set(title="policy returned", ylabel="largest gain of any agent")
    panels[0].legend(fontsize=6.5, frameon=False)
    return figure
