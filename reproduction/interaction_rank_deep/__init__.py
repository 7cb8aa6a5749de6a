"""Figures 2, 3 and 4 of the interaction-rank paper, and ablations that explain their outcome.

N agents choose numbers in [-1, 1]. Logs come from uniform play. Critics of rank 1, of rank 2 and of
all actions at once are fitted to them, and TD3+BC improves every agent's policy against the
critics. Figure 2 shows the largest gap of the learned policies in the game with pairwise rewards,
for one critic of each kind. Here, it is drawn against the number of rows in the log, which decides
the outcome. Figure 3 has all architectures of Appendix B. Figure 4 has the same in a game whose
rewards depend only on the agent's own action. All figures show our recipe and the printed one, the
median agent's gap, held-out losses and times, and a critic that is linear in polynomials of
actions. The ablations change one setting of our recipe at a time.

    python -m reproduction interaction_rank_deep --figures 2 --run runs/deep

Every part has its own record in the run folder, and finished parts are not run again.
"""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from equipoise.certificates import certify
from equipoise.core import InputError
from equipoise.games import ContinuousPolicy, load
from equipoise.offline import collect, deep
from equipoise.offline.deep import ARCHITECTURES, TD3BC, Critic, LinearCritic
from equipoise.runs import Record, Table
from reproduction import kept, rows_of
from reproduction.interaction_networks import count_weights
from reproduction.interaction_rank_deep._plot import plot

__all__ = ["ABLATIONS", "FIGURES", "Config", "plot", "run"]

#: Names that `--figure` accepts.
FIGURES = ("2", "3", "4", "ablations")
#: Training recipes: ours, the one printed in Table 2, and the latter with its patience in epochs.
RECIPES = ("ours", "printed", "epochs")
LINEAR = "2-IR-linear"
#: Ablations, each with one change of our recipe: settings of critics and of actors, or another
#: recipe for them, and the rows of the log.
ABLATIONS: dict[str, dict[str, Any]] = {
    "ours": {},
    "normaliser: policy": {"actors": {"normaliser": "policy"}},
    "alpha: 2.5": {"actors": {"alpha": 2.5}},
    "alpha: 1": {"actors": {"alpha": 1.0}},
    "others: data": {"actors": {"others": "data"}},
    "start: shared": {"actors": {"shared_start": True}},
    "actors: printed": {"actors": "printed"},
    "patience: 20 steps": {"critics": {"patience_unit": "steps"}},
    "critic rate: 1e-4": {"critics": {"learning_rate": 1e-4}},
    "rewards: as they are": {"critics": {"standardise": False}},
    "critics: printed": {"critics": "printed"},
    "rows: 10 per agent": {"rows": 10},
}
#: Memory of an Adam step per weight, in bytes: the weight, its gradient, two moments, the best
#: weight so far, and working memory.
_BYTES = 24


@dataclass(frozen=True)
class Config:
    """Settings of the experiments. `Config.quick()` is for a CPU, `Config()` for a GPU.

    >>> Config().agents, Config.quick().agents
    (50, 10)
    """

    #: Figures to compute.
    figures: tuple[str, ...] = FIGURES
    #: Number of agents.
    agents: int = 50
    #: Half-width of the noise of rewards.
    noise: float = 1.0
    #: Number of trials.
    trials: int = 10
    #: Critics of Figure 2 and of the ablations.
    critics: tuple[str, ...] = ("1-IR-128", "2-IR-64", "joint-2x512", LINEAR)
    #: Critics of Figures 3 and 4. Those with a recipe, as in "1-IR-128, epochs", are trained with
    #: that recipe alone, and all others with all of `recipes`.
    architectures: tuple[str, ...] = (*ARCHITECTURES, LINEAR)
    #: Recipes of training.
    recipes: tuple[str, ...] = ("ours", "printed")
    #: Rows of the log per agent, in Figure 2. The paper uses 10.
    rows_per_agent: tuple[int, ...] = (5, 10, 20, 50, 100)
    #: Rows of the log per agent, in all other figures.
    fixed_rows_per_agent: int = 20
    #: Names of the ablations.
    ablations: tuple[str, ...] = tuple(ABLATIONS)
    #: Number of steps of actors in our recipe; the printed recipe has 500 epochs.
    steps: int = 3000
    #: Largest number of steps of actors in the printed recipe; policies converge much earlier.
    most_steps: int = 20_000
    #: Number of recorded policies.
    snapshots: int = 25
    #: Memory for weights, gradients and moments on the device, in bytes.
    room: float = 60e9

    def __post_init__(self) -> None:
        single = tuple(f"{name}, {recipe}" for name in ARCHITECTURES for recipe in RECIPES)
        for name, values, known in (
            ("figures", self.figures, FIGURES),
            ("critics", self.critics, (*ARCHITECTURES, LINEAR)),
            ("architectures", self.architectures, (*ARCHITECTURES, LINEAR, *single)),
            ("recipes", self.recipes, RECIPES),
            ("ablations", self.ablations, tuple(ABLATIONS)),
        ):
            for value in values:
                if value not in known:
                    raise InputError(name, f"some of {known}", repr(value))
        if "ablations" in self.figures and not set(self.critics) - {LINEAR}:
            raise InputError("critics", "a network among those of ablations", self.critics)

    @classmethod
    def quick(cls, **changes: Any) -> "Config":
        """Return a smaller config, with which Figure 2 takes a minute on a CPU.

        >>> Config.quick(figures=("2",)).trials
        2
        """
        quick: dict[str, Any] = {
            "agents": 10,
            "trials": 2,
            "critics": ("1-IR-128", "2-IR-64", "joint-2x128", LINEAR),
            "architectures": ("1-IR-128", "2-IR-64", "joint-2x128", LINEAR),
            "rows_per_agent": (10, 20),
            "ablations": ("ours", "normaliser: policy", "others: data", "patience: 20 steps"),
            "recipes": ("ours",),
            "steps": 1000,
            "snapshots": 8,
        }
        return cls(**(quick | changes))


def critic_of(name: str, recipe: str) -> Critic | LinearCritic:
    """Return a critic by name, with the settings of a recipe."""
    if name == LINEAR:
        return Critic.linear(rank=2)
    if recipe == "ours":
        return Critic.named(name)
    printed = Critic.paper(name)
    return replace(printed, patience_unit="epochs") if recipe == "epochs" else printed


def method_of(config: Config, recipe: str, samples: int) -> TD3BC:
    """Return the settings of actors in a recipe."""
    if recipe == "ours":
        return TD3BC(steps=config.steps)
    paper = TD3BC.paper()
    return TD3BC.paper(steps=min(paper.steps_for(samples), config.most_steps))


def recipe_of(
    config: Config, name: str, samples: int, recipe: str = "ours", change: str = "ours"
) -> tuple[Critic | LinearCritic, TD3BC]:
    """Return a critic and the settings of actors in a recipe with one change."""
    critics, actors = (ABLATIONS[change].get(what, {}) for what in ("critics", "actors"))
    critic = critic_of(name, "printed" if critics == "printed" else recipe)
    method = method_of(config, "printed" if actors == "printed" else recipe, samples)
    critic = critic if isinstance(critics, str) else replace(critic, **critics)
    return critic, method if isinstance(actors, str) else replace(method, **actors)


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Run the parts of a config that `folder` does not contain; return all parts in one record.

    Gaps are exact gains of `certify` in the paper's units: sqrt(N) times the reward, if rewards are
    divided by sqrt(N).

    **Example**

    >>> from reproduction import interaction_rank_deep as figures
    >>> small = figures.Config.quick(
    ...     figures=("2",), agents=4, critics=("2-IR-linear",), rows_per_agent=(50,), steps=300
    ... )
    >>> figures.run(small).tables["summary"].column("critic")
    ['2-IR-linear']
    """
    # Settings that affect a part; the other requested parts do not.
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
    """Return one row for each critic, recipe, change and size of the log."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    names = ("figure", "critic", "recipe", "change", "rows per agent")
    for named in rows_of(gaps):
        groups.setdefault(tuple(named[n] for n in names), []).append(named)
    rows = [
        dict(zip(names, group, strict=True)) | {"trials": len(found)} | _means(found)
        for group, found in groups.items()
    ]
    return Table.from_dicts(rows)


def _means(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the means over trials, and the standard error of the largest gap."""
    worst = np.array([row["max gap"] for row in rows])
    error = worst.std(ddof=1) / np.sqrt(len(worst)) if len(worst) > 1 else np.nan
    names = ("median gap", "validation", "explained", "rounds", "fit seconds", "improve seconds")
    means = {name: float(np.mean([row[name] for row in rows])) for name in names}
    return {"max gap": float(worst.mean()), "error": float(error), **means}


@dataclass(frozen=True)
class Part:
    """A part of the experiments: a critic and a recipe in one figure, or a critic to ablate."""

    figure: str
    critic: str
    recipe: str

    @property
    def name(self) -> str:
        """Name of the folder of this part."""
        return f"figure-{self.figure}-{self.critic}-{self.recipe}".replace("figure-abl", "abl")


def parts(config: Config) -> Iterator[Part]:
    """Yield all parts of a config."""
    for figure in config.figures:
        if figure == "ablations":
            # A linear critic has almost no settings to change.
            networks = (critic for critic in config.critics if critic != LINEAR)
            yield from (Part(figure, critic, "ours") for critic in networks)
            continue
        names = config.critics if figure == "2" else config.architectures
        for entry in names:
            name, _, single = entry.partition(", ")
            recipes = ("ours",) if name == LINEAR else (single,) if single else config.recipes
            yield from (Part(figure, name, recipe) for recipe in recipes)


def run_part(config: Config, part: Part, key: int) -> Record:
    """Fit, improve and certify; return a row for each trial, and gaps during training."""
    # Rewards have rank 2, and in Figure 4 rank 1.
    name = "square-continuous" if part.figure == "4" else "pairwise-continuous"
    game = load(name, agents=config.agents, noise=config.noise)
    rows: dict[tuple[int, str], list[dict[str, Any]]] = {}
    curves: dict[str, list[np.ndarray]] = {}
    arrays: dict[str, np.ndarray] = {}
    for group in _groups(config, part.critic):
        critics: dict[Any, Any] = {}
        for ratio, change in _cases(config, part):
            found, actors = _learn(config, part, game, ratio, change, group, key, critics)
            rows.setdefault((ratio, change), []).extend(found)
            if part.figure != "ablations":
                label = "|".join((part.figure, part.critic, part.recipe, str(ratio)))
                past = actors.points[None] if actors.history is None else actors.history
                curve = [_gaps(game, [ContinuousPolicy(p) for p in points]) for points in past]
                curves.setdefault(f"gap|{label}", []).append(np.array(curve).max(2))
                arrays[f"steps|{label}"] = actors.recorded
    arrays |= {label: np.concatenate(found, 1) for label, found in curves.items()}
    table = Table.from_dicts(row for found in rows.values() for row in found)
    return Record("interaction-rank-deep", config, {"key": key}, arrays, {"gaps": table})


def _cases(config: Config, part: Part) -> list[tuple[int, str]]:
    """Yield the rows of the log per agent, and the change."""
    fixed = config.fixed_rows_per_agent
    if part.figure == "ablations":
        return [(ABLATIONS[change].get("rows", fixed), change) for change in config.ablations]
    return [(ratio, "") for ratio in (config.rows_per_agent if part.figure == "2" else (fixed,))]


def _groups(config: Config, name: str) -> list[range]:
    """Yield groups of equal size of trials that fit on the device together."""
    together = config.trials
    if name != LINEAR:
        needed = _BYTES * config.agents * count_weights(name, config.agents)[2]
        fitting = [n for n in range(1, config.trials + 1) if config.trials % n == 0]
        together = max([n for n in fitting if n * needed <= config.room], default=1)
    return [range(k, k + together) for k in range(0, config.trials, together)]


def _learn(
    config: Config,
    part: Part,
    game: Any,
    ratio: int,
    change: str,
    group: range,
    key: int,
    known: dict[Any, Any],
) -> tuple[list[dict[str, Any]], Any]:
    """Return a row for each trial, and the actors. Ablations reuse unchanged critics."""
    samples = ratio * config.agents
    logs = [collect(game, "uniform", samples=samples, key=1000 * key + t) for t in group]
    critic, method = recipe_of(config, part.critic, samples, part.recipe, change or "ours")
    most = {"2": max(config.rows_per_agent), "ablations": max(10, config.fixed_rows_per_agent)}
    capacity = config.agents * most[part.figure] if part.figure in most else None
    seed, ablation = 100 * key + group.start, part.figure == "ablations"
    began = time.perf_counter()
    if (critic, ratio) not in known:
        if not ablation:
            known.clear()
        known[critic, ratio] = deep.fit(logs, critic, key=seed, capacity=capacity)
    critics = known[critic, ratio]
    fitted = time.perf_counter()
    snapshots = 0 if ablation else config.snapshots
    actors = deep.improve(
        critics, logs, method, key=seed + 1, capacity=capacity, snapshots=snapshots
    )
    seconds = {"fit seconds": fitted - began, "improve seconds": time.perf_counter() - fitted}
    gaps = _gaps(game, actors.policies)
    rows = [
        {
            **vars(part),
            "change": change,
            "rows per agent": ratio,
            "trial": trial,
            "max gap": float(gaps[k].max()),
            "median gap": float(np.median(gaps[k])),
            "validation": float(critics.validation[k].mean()),
            "explained": float(critics.explained[k].mean()),
            "rounds": float(critics.rounds[k].mean()),
            "parameters": int(critics.parameters),
            **seconds,
        }
        for k, trial in enumerate(group)
    ]
    told = ", ".join(f"{name} {value:.3f}" for name, value in _means(rows).items())
    words = f"figure {part.figure} {part.critic} {part.recipe} {change} M/N {ratio}"
    print(f"{words} trials {group.start}-{group.stop - 1}: {told}", file=sys.stderr, flush=True)
    return rows, actors


def _gaps(game: Any, policies: list[ContinuousPolicy]) -> np.ndarray:
    """(trials, agents): gains in the paper's units, sqrt(N) times pairwise rewards.

    The paper's metric omits the division of its pairwise rewards by sqrt(N).
    """
    scale = np.sqrt(game.agents) if game.rank > 1 else 1.0
    return np.array([np.asarray(certify(game, policy).gains) for policy in policies]) * scale
