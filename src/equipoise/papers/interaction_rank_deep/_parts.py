"""The parts of the figures: one critic, one recipe, all sizes of logs and all trials."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.certificates import certify
from equipoise.games import ContinuousPolicy, load
from equipoise.offline import collect, deep
from equipoise.offline.deep import ARCHITECTURES, TD3BC, Critic, LinearCritic
from equipoise.papers.interaction_networks import count_weights
from equipoise.runs import Record, Table

#: What `--figure` may name.
FIGURES = ("2", "3", "4", "ablations")
#: Ways to train: ours, and what is printed in Table 2.
RECIPES = ("ours", "printed")
LINEAR = "2-IR-linear"
#: What is changed, one thing at a time, from our recipe.
ABLATIONS = (
    "ours",
    "normaliser: policy",
    "alpha: 2.5",
    "alpha: 1",
    "others: data",
    "start: shared",
    "actors: printed",
    "patience: 20 steps",
    "critic rate: 1e-4",
    "rewards: as they are",
    "critics: printed",
    "rows: 10 per agent",
)


@dataclass(frozen=True)
class Config:
    """What is run. `Config.quick()` is for a CPU, `Config()` for a GPU.

    >>> Config().agents, Config.quick().agents
    (50, 20)
    """

    figures: tuple[str, ...] = FIGURES
    agents: int = 50
    noise: float = 1.0
    trials: int = 10
    #: Critics of Figure 2 and of the ablations.
    critics: tuple[str, ...] = ("1-IR-128", "2-IR-64", "joint-2x512", LINEAR)
    #: Critics of Figures 3 and 4.
    architectures: tuple[str, ...] = (*ARCHITECTURES, LINEAR)
    recipes: tuple[str, ...] = RECIPES
    #: Rows of the log for each agent: of Figure 2, and of all else. The paper's rule is 10.
    rows_per_agent: tuple[int, ...] = (5, 10, 20, 50, 100)
    fixed_rows_per_agent: int = 20
    ablations: tuple[str, ...] = ABLATIONS
    #: Steps of actors in our recipe; the printed one has 500 epochs.
    steps: int = 3000
    #: At most so many steps of actors in the printed recipe; the policies have long settled.
    most_steps: int = 20_000
    snapshots: int = 25
    #: Bytes of weights, gradients and moments that are on the device at a time.
    room: float = 60e9

    def __post_init__(self) -> None:
        for name, values, known in (
            ("figures", self.figures, FIGURES),
            ("critics", self.critics, (*ARCHITECTURES, LINEAR)),
            ("architectures", self.architectures, (*ARCHITECTURES, LINEAR)),
            ("recipes", self.recipes, RECIPES),
            ("ablations", self.ablations, ABLATIONS),
        ):
            for value in values:
                if value not in known:
                    raise ValueError(f"{name}: expected some of {known}, found {value!r}")
        if "ablations" in self.figures and not set(self.critics) - {LINEAR}:
            raise ValueError(
                f"critics: expected a network among those of ablations, found {self.critics}"
            )

    @classmethod
    def quick(cls, **changes: Any) -> "Config":
        """Fewer agents, trials, architectures and sizes: a minute or two for Figure 2 on a CPU.

        >>> Config.quick(figures=("2",)).trials
        3
        """
        quick: dict[str, Any] = {
            "agents": 20,
            "trials": 3,
            "critics": ("1-IR-128", "2-IR-64", "joint-2x128", LINEAR),
            "architectures": ("1-IR-128", "1-IR-256", "2-IR-64", "joint-2x128", LINEAR),
            "rows_per_agent": (10, 20, 50),
            "ablations": ("ours", "normaliser: policy", "others: data", "patience: 20 steps"),
            "recipes": ("ours",),
            "steps": 1500,
            "snapshots": 12,
        }
        return cls(**(quick | changes))


def critic_of(name: str, recipe: str) -> Critic | LinearCritic:
    """A critic by name, trained by a recipe."""
    if name == LINEAR:
        return Critic.linear(rank=2)
    return Critic.paper(name) if recipe == "printed" else Critic.named(name)


def method_of(config: Config, recipe: str, samples: int) -> TD3BC:
    """How actors improve, by a recipe."""
    if recipe == "ours":
        return TD3BC(steps=config.steps)
    paper = TD3BC.paper()
    return TD3BC.paper(steps=min(paper.steps_for(samples), config.most_steps))


def ablated(
    config: Config, change: str, name: str, samples: int
) -> tuple[Critic | LinearCritic, TD3BC]:
    """Our recipe with one thing changed."""
    critic, method = critic_of(name, "ours"), method_of(config, "ours", samples)
    if isinstance(critic, Critic):
        critics = {
            "patience: 20 steps": {"patience_unit": "steps"},
            "critic rate: 1e-4": {"learning_rate": 1e-4},
            "rewards: as they are": {"standardise": False},
        }
        critic = replace(critic, **critics.get(change, {}))
        critic = critic_of(name, "printed") if change == "critics: printed" else critic
    methods: dict[str, dict[str, Any]] = {
        "normaliser: policy": {"normaliser": "policy"},
        "alpha: 2.5": {"alpha": 2.5},
        "alpha: 1": {"alpha": 1.0},
        "others: data": {"others": "data"},
        "start: shared": {"shared_start": True},
    }
    method = replace(method, **methods.get(change, {}))
    if change == "actors: printed":
        method = method_of(config, "printed", samples)
    return critic, method


#: Which game a figure is about: rewards of rank 2, and of rank 1.
GAMES = {"2": "pairwise-continuous", "3": "pairwise-continuous", "4": "square-continuous"}
#: What an Adam step keeps of every weight, in bytes: itself, its gradient, two moments, the best
#: so far, and something to work with.
_BYTES = 24


@dataclass(frozen=True)
class Part:
    """A critic and a recipe, in one of the figures; of the ablations, a critic."""

    figure: str
    critic: str
    recipe: str

    @property
    def name(self) -> str:
        """A name for a folder."""
        return f"figure-{self.figure}-{self.critic}-{self.recipe}".replace("figure-abl", "abl")


def parts(config: Config) -> Iterator[Part]:
    """All parts that a config asks for."""
    for figure in config.figures:
        if figure == "ablations":
            # A linear critic has next to nothing that could be changed.
            networks = (critic for critic in config.critics if critic != LINEAR)
            yield from (Part(figure, critic, "ours") for critic in networks)
            continue
        names = config.critics if figure == "2" else config.architectures
        for name in names:
            recipes = ("ours",) if name == LINEAR else config.recipes
            yield from (Part(figure, name, recipe) for recipe in recipes)


def run_part(config: Config, part: Part, key: int) -> Record:
    """Fit, improve and certify; a row for each trial, and the gaps along the way."""
    rows: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    if part.figure == "ablations":
        for group in _groups(config, part.critic):
            rows += _ablations(config, part, group, key)
    else:
        sweep = config.rows_per_agent if part.figure == "2" else (config.fixed_rows_per_agent,)
        for ratio in sweep:
            curves = []
            for group in _groups(config, part.critic):
                found, curve, steps = _learn(config, part, ratio, group, key)
                rows += found
                curves.append(curve)
                arrays["steps|" + _label(part, ratio)] = steps
            arrays["gap|" + _label(part, ratio)] = np.concatenate(curves, 1)
    table = Table.from_dicts(rows)
    return Record("interaction-rank-deep", config, {"key": key}, arrays, {"gaps": table})


def _label(part: Part, ratio: int) -> str:
    return f"{part.figure}|{part.critic}|{part.recipe}|{ratio}"


def _groups(config: Config, name: str) -> list[range]:
    """Trials that fit on the device together; all groups are of one size."""
    together = config.trials
    if name != LINEAR:
        needed = _BYTES * config.agents * count_weights(name, config.agents)[2]
        fitting = [n for n in range(1, config.trials + 1) if config.trials % n == 0]
        together = max([n for n in fitting if n * needed <= config.room], default=1)
    return [range(k, k + together) for k in range(0, config.trials, together)]


def _logs(config: Config, game: Any, ratio: int, group: range, key: int) -> list[Any]:
    samples = ratio * config.agents
    return [collect(game, "uniform", samples=samples, key=1000 * key + t) for t in group]


def _learn(
    config: Config, part: Part, ratio: int, group: range, key: int
) -> tuple[list[dict[str, Any]], np.ndarray, np.ndarray]:
    """Rows, gaps (snapshots, trials) along the way, and after how many steps those were."""
    game = load(GAMES[part.figure], agents=config.agents, noise=config.noise)
    logs = _logs(config, game, ratio, group, key)
    most = config.agents * max(config.rows_per_agent)
    capacity = most if part.figure == "2" else None
    critic = critic_of(part.critic, part.recipe)
    method = method_of(config, part.recipe, logs[0].samples)
    seed = 100 * key + group.start
    began = time.perf_counter()
    critics = deep.fit(logs, critic, key=seed, capacity=capacity)
    fitted = time.perf_counter()
    actors = deep.improve(
        critics, logs, method, key=seed + 1, capacity=capacity, snapshots=config.snapshots
    )
    ended = time.perf_counter()
    gaps = _gaps(game, actors.policies)
    seconds = {"fit seconds": fitted - began, "improve seconds": ended - fitted}
    rows = _rows(part, "", ratio, group, critics, gaps, seconds)
    past = actors.history if actors.history is not None else actors.points[None]
    curve = np.array([_gaps(game, [ContinuousPolicy(p) for p in points]).max(1) for points in past])
    _say(part, ratio, group, critics, gaps, seconds)
    return rows, curve, actors.recorded


def _ablations(config: Config, part: Part, group: range, key: int) -> list[dict[str, Any]]:
    """All changes, for one critic; critics that do not change are fitted once."""
    game = load("pairwise-continuous", agents=config.agents, noise=config.noise)
    known: dict[Any, Any] = {}
    rows = []
    for change in config.ablations:
        ratio = 10 if change == "rows: 10 per agent" else config.fixed_rows_per_agent
        logs = _logs(config, game, ratio, group, key)
        capacity = config.agents * max(10, config.fixed_rows_per_agent)
        critic, method = ablated(config, change, part.critic, logs[0].samples)
        seed = 100 * key + group.start
        began = time.perf_counter()
        if (critic, ratio) not in known:
            known[critic, ratio] = deep.fit(logs, critic, key=seed, capacity=capacity)
        critics = known[critic, ratio]
        fitted = time.perf_counter()
        actors = deep.improve(critics, logs, method, key=seed + 1, capacity=capacity)
        ended = time.perf_counter()
        gaps = _gaps(game, actors.policies)
        seconds = {"fit seconds": fitted - began, "improve seconds": ended - fitted}
        rows += _rows(part, change, ratio, group, critics, gaps, seconds)
        _say(part, ratio, group, critics, gaps, seconds, change)
    return rows


def _gaps(game: Any, policies: list[ContinuousPolicy]) -> np.ndarray:
    """(trials, agents): gains in the paper's units, root N times rewards where those are divided.

    The paper's metric leaves out the division by root N of its pairwise rewards.
    """
    scale = np.sqrt(game.agents) if game.rank > 1 else 1.0
    return np.array([np.asarray(certify(game, policy).gains) for policy in policies]) * scale


def _rows(
    part: Part,
    change: str,
    ratio: int,
    group: range,
    critics: Any,
    gaps: np.ndarray,
    seconds: dict[str, float],
) -> list[dict[str, Any]]:
    return [
        {
            "figure": part.figure,
            "critic": part.critic,
            "recipe": part.recipe,
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


def _say(
    part: Part,
    ratio: int,
    group: range,
    critics: Any,
    gaps: np.ndarray,
    seconds: dict[str, float],
    change: str = "",
) -> None:
    """One line on the standard error stream, as results come."""
    worst = gaps.max(1)
    error = worst.std(ddof=1) / np.sqrt(len(worst)) if len(worst) > 1 else float("nan")
    print(
        f"figure {part.figure:9} {part.critic:12} {part.recipe:8} {change:22} "
        f"M/N {ratio:3d} trials {group.start}-{group.stop - 1} "
        f"max gap {worst.mean():7.3f} +- {error:.3f} median {np.median(gaps):7.3f} "
        f"validation {critics.validation.mean():.4f} "
        f"fit {seconds['fit seconds']:6.1f} s improve {seconds['improve seconds']:6.1f} s",
        file=sys.stderr,
        flush=True,
    )
