"""Imitation of mirror descent from n fixed trajectories: the in-context paper's Eq. (1).

Theorem 4.2 bounds the gap of players that imitate an expert. One of its terms is statistical: the
logarithm of the covering number of the network class, divided by n. By Lemma B.1 it bounds the
*square* of the imitation error, so that its root belongs beside the total variation. Players are
trained here on n trajectories of mirror descent in independent games, with the expert's policies
as labels or, as printed, with actions drawn from them. The expert is mirror descent itself. Weights
are selected on n / 4 further trajectories, and players are measured on games of their own.

    python -m reproduction in_context_data --run runs/data

Every kind of label and every n has its own record in the run folder.
"""

import os
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Literal

import jax
import numpy as np

from equipoise import certify, dynamics, incontext
from equipoise.core import checks
from equipoise.games import families
from equipoise.incontext import theory
from equipoise.runs import Record, Table
from reproduction import kept
from reproduction._drawing import draw_band, finish, make_panels
from reproduction.in_context import make_key

__all__ = ["Config", "plot", "run"]

#: The expert's answers: its policies, or actions drawn from them, with the colours of the curves.
LABELS = {"policies": "#2b8cc4", "actions": "#d55e00"}
#: Share of all trajectories that select the weights: a quarter of n.
VALIDATION = 0.2


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. `Config.quick()` takes about two minutes.

    **Example**

    >>> from reproduction import in_context_data
    >>> in_context_data.Config().samples
    (16, 64, 256, 1024, 4096)
    """

    #: Numbers of trajectories to learn from.
    samples: tuple[int, ...] = (16, 64, 256, 1024, 4096)
    #: Number of actions of each player.
    actions: int = 3
    #: Length of the trajectories.
    rounds: int = 16
    #: Number of hidden units of the players' MLPs.
    hidden: int = 64
    #: Number of data sets and initial weights.
    seeds: int = 3
    #: Largest number of training steps.
    steps: int = 400
    #: Number of trajectories in a step.
    batch: int = 32
    #: Number of steps between looks at the validation data.
    evaluate_every: int = 40
    #: Training stops after this many looks without a better result.
    patience: int = 4
    #: Number of unseen games for evaluation.
    test_games: int = 256
    #: Floating-point format of matrix products; see `equipoise.incontext.Config`.
    precision: Literal["auto", "float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        for name in ("actions", "rounds", "hidden", "seeds", "steps", "batch", "test_games"):
            checks.check_count(name, getattr(self, name))

    @classmethod
    def quick(cls, **changes: Any) -> "Config":
        """Return a config with fewer and shorter trainings.

        >>> Config.quick().samples
        (16, 256)
        """
        small = cls(samples=(16, 256), rounds=8, seeds=1, steps=200, test_games=64)
        return replace(small, **changes)


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Train on every number of trajectories, with both kinds of labels.

    Arrays named `policies|tv` (or `actions|...`) have shape (seeds, samples): total variation from
    the expert before a round, in the mean over rounds, on unseen play of the expert. `...|gap` is
    the `nash_conv` after the last round of the players' own play, and `...|term` the statistical
    term of Theorem 4.2. `expert` and `uniform` are the gaps of mirror descent and of uniform play.

    **Example**

    >>> from reproduction import in_context_data
    >>> small = in_context_data.Config.quick(
    ...     samples=(8,), rounds=4, steps=4, batch=4, test_games=4
    ... )
    >>> in_context_data.run(small).arrays["actions|tv"].shape
    (1, 1)
    """
    columns = dict[str, list[np.ndarray]]()
    for labels in LABELS:
        for count in config.samples:
            settings = {**vars(config), "samples": (count,), "labels": labels, "key": key}
            make = partial(_one, config, labels, count, key)
            made = kept(folder, f"{labels}-{count}", settings, make)
            for name, values in made.arrays.items():
                columns.setdefault(f"{labels}|{name}", []).append(np.asarray(values))
    arrays = {name: np.stack(values, 1) for name, values in columns.items()}
    arrays |= {"x": np.array(config.samples), **_references(config, key)}
    return Record("in-context-data", config, {"key": key}, arrays, {"errors": summary(arrays)})


def _one(config: Config, labels: str, count: int, key: int) -> Record:
    """Train and measure the players of one number of trajectories."""
    columns: dict[str, list[float]] = {"tv": [], "gap": [], "term": [], "steps": []}
    games = _test_games(config, key)
    expert = _expert(config)
    for seed in range(config.seeds):
        arrays = make_data(config, labels, count, make_key(key, "data", seed))
        players, steps = _train(config, arrays, make_key(key, "train", labels, count, seed))
        apart = theory.realisability(
            expert, players, games, rounds=config.rounds, key=make_key(key, "contexts")
        )
        trace = incontext.play(
            games, players, rounds=config.rounds, key=make_key(key, "play"), record=config.rounds
        )
        columns["tv"].append(float(apart.total_variation[..., :-1].mean()))
        columns["gap"].append(float(np.mean(certify(games, trace.last).nash_conv)))
        columns["term"].append(_term(config, players, count))
        columns["steps"].append(steps)
    return Record("in-context-data", config, arrays={k: np.array(v) for k, v in columns.items()})


def make_data(config: Config, labels: str, count: int, key: Any) -> dict[str, np.ndarray]:
    """Return trajectories of mirror descent with its answers; data sets of one key are nested."""
    how = incontext.Config.paper(
        rounds=config.rounds, expert="omd", training_games=None, batch=config.batch
    )
    family = families.uniform(config.actions)
    batches = list(incontext.dataset(family, how, games=count + count // 4, key=key))
    names = ("actions", "rewards", "labels")
    arrays = {n: np.concatenate([getattr(batch, n) for batch in batches]) for n in names}
    if labels == "actions":
        answers, words = arrays["labels"], np.asarray(jax.random.key_data(make_key(key, "labels")))
        random = np.random.default_rng([int(word) for word in words.ravel()])
        ladder = answers.cumsum(-1)[..., :-1]
        drawn = (random.random(answers.shape[:-1])[..., None] > ladder).sum(-1)
        arrays["labels"] = drawn
    return arrays


def _train(config: Config, arrays: dict[str, np.ndarray], key: Any) -> tuple[Any, int]:
    """Return the players and the number of steps of their training."""
    names = ("rounds", "hidden", "steps", "batch", "evaluate_every", "patience", "precision")
    same = {name: getattr(config, name) for name in names}
    how = incontext.Config(**same, loss="expert", contexts="learners", stop_on="kl")
    data = incontext.Trajectories(arrays, actions=(config.actions, config.actions))
    with TemporaryDirectory() as place:
        options: dict[str, Any] = {"validation": VALIDATION, "run": f"{place}/run"}
        players = incontext.pretrain(config=how, data=data, key=key, **options)
        return players, int(Record.load(f"{place}/run").scalars["steps"])


def _expert(config: Config) -> dynamics.Learner:
    return dynamics.make_learner("omd", markov=False, rounds=config.rounds)


def _test_games(config: Config, key: int) -> Any:
    family = families.uniform(config.actions)
    return family.sample(config.test_games, key=make_key(key, "test"))


def _term(config: Config, players: Any, count: int) -> float:
    """Return the statistical term of Theorem 4.2 for the class of a player's network."""
    model = players.learners()[0].model
    cover = theory.log_covering_number(model, 1.0 / count)
    known = {"distance": 1.0, "realisability": 0.0, "log_cover": cover, "samples": count}
    bound = theory.matrix_bound(config.rounds, config.actions, **known, corrected=False)
    return bound.terms["statistics"]


def _references(config: Config, key: int) -> dict[str, np.ndarray]:
    """Return the gaps of the expert and of uniform play on the same games."""
    games, omd = _test_games(config, key), _expert(config)
    trace = dynamics.play(
        games, omd, omd, rounds=config.rounds, key=make_key(key, "play"), record=config.rounds
    )
    even = np.full(config.actions, 1.0 / config.actions)
    gaps = {"expert": trace.last, "uniform": (even, even)}
    return {name: np.array([certify(games, p).nash_conv.mean()]) for name, p in gaps.items()}


def summary(arrays: dict[str, np.ndarray]) -> Table:
    """Return means over seeds with standard deviations, and the root of the statistical term.

    The last column is the slope of the total variation on logarithmic axes, from the number of
    trajectories before.
    """
    rows = []
    for labels in LABELS:
        tv, gap = np.asarray(arrays[f"{labels}|tv"]), np.asarray(arrays[f"{labels}|gap"])
        spread = tv.std(0, ddof=1) if len(tv) > 1 else np.zeros(tv.shape[1])
        between = gap.std(0, ddof=1) if len(gap) > 1 else np.zeros(gap.shape[1])
        x, means = np.asarray(arrays["x"]), tv.mean(0)
        slopes = [None, *(np.diff(np.log(means)) / np.diff(np.log(x))).tolist()]
        for i, count in enumerate(x):
            rows.append(
                {
                    "labels": labels,
                    "n": int(count),
                    "total variation": float(means[i]),
                    "± of it": float(spread[i]),
                    "NashConv": float(gap.mean(0)[i]),
                    "± of NashConv": float(between[i]),
                    "steps": float(np.mean(arrays[f"{labels}|steps"], 0)[i]),
                    "root of the term": float(np.sqrt(np.mean(arrays[f"{labels}|term"], 0)[i])),
                    "slope": slopes[i],
                }
            )
    return Table.from_dicts(rows)


def plot(record: Record) -> Any:
    """Draw the imitation error and the gap against n, with a line that falls as the bound does.

    **Example**

    >>> from reproduction import in_context_data
    >>> small = in_context_data.Config.quick(
    ...     samples=(8, 16), rounds=4, steps=4, batch=4, test_games=4
    ... )
    >>> len(in_context_data.plot(in_context_data.run(small)).axes)
    2
    """
    figure, panels = make_panels(2, 2, 4.4, 3.6)
    x = np.asarray(record.arrays["x"])
    for name, axes in zip(("tv", "gap"), panels, strict=True):
        for labels, colour in LABELS.items():
            values = np.asarray(record.arrays[f"{labels}|{name}"])
            mean = values.mean(0)
            spread = values.std(0, ddof=1) if len(values) > 1 else np.zeros(len(mean))
            low = np.maximum(mean - spread, mean / 10)
            style: dict[str, Any] = {"color": colour, "marker": "o", "ms": 3}
            draw_band(axes, x, mean, low, mean + spread, label=f"labels: {labels}", **style)
        axes.set_xscale("log", base=4)
    error, gap = panels
    term = np.sqrt(np.mean(record.arrays["policies|term"], 0))
    # The bound is above one at every n: only its slope can be compared.
    first = float(np.mean(np.asarray(record.arrays["actions|tv"])[:, 0]))
    error.plot(x, term * first / term[0], ":", color="0.4", lw=1.2, label="slope of the bound")
    for name, dash in (("expert", "--"), ("uniform", ":")):
        label = "the expert" if name == "expert" else "uniform play"
        gap.axhline(float(record.arrays[name][0]), color="0.3", ls=dash, lw=1.0, label=label)
    settings: dict[str, Any] = {"yscale": "log", "xlabel": "trajectories n"}
    finish(error, 7, ylabel="total variation from the expert", **settings)
    finish(gap, 7, ylabel="NashConv after the last round", **settings)
    return figure
