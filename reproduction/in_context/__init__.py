"""Figure 1 of the in-context paper, with baselines and further panels.

The figure shows exploitability against the length of the trajectory, for matrix games with 2, 3 and
5 actions and Markov games with 2, 3 and 5 states, on the same axes and over several seeds. The
paper trains on five games within rho = 0.1 of one base game. There, the memorised equilibrium of
the base game is already good. The figure therefore includes families with larger rho and
independent games. It also shows static policies (uniform, base Nash, mean Nash, the best one) and
no-regret learners (mirror descent, EXP3-IX, V-learning), which need no training. Players are
trained with the paper's preset and with ours. Three more panels vary the length of training
trajectories, the size of the model, and the number of training games.

    python -m reproduction in_context --run runs/figure1
    python -m reproduction in_context --scale full --only matrix-3 --run runs/figure1

Every part has its own record in the run folder. Finished parts are not run again, and interrupted
training resumes.
"""

import os
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np

from equipoise import dynamics, incontext
from equipoise.certificates import certify
from equipoise.core import InputError, checks
from equipoise.core.randomness import as_key
from equipoise.games import MarkovGame, MatrixGame, families
from equipoise.games.families import Family
from equipoise.incontext import Config as Training
from equipoise.runs import Record, Run, Table
from reproduction import kept
from reproduction.in_context._plot import plot

__all__ = ["Config", "plot", "run"]

#: Name of the family of independent games.
IID = "iid"
PRESETS = ("paper", "ours")
#: Stands for fresh games in place of the size of a training set.
FRESH = 0


@dataclass(frozen=True)
class Config:
    """Settings of the experiments. `Config.quick()` takes some minutes on two cores.

    **Example**

    >>> from reproduction import in_context
    >>> in_context.Config().parts[:3], in_context.Config.quick().seeds
    (('matrix-2', 'matrix-3', 'matrix-5'), 1)
    """

    #: Numbers of actions of the matrix games, one part for each.
    actions: tuple[int, ...] = (2, 3, 5)
    #: Numbers of states of the Markov games, one part for each.
    states: tuple[int, ...] = (2, 3, 5)
    #: Number of actions in the Markov games.
    markov_actions: int = 3
    #: Discount factor of the Markov games.
    discount: float = 0.9
    #: The paper's rho: the distance of games from their base.
    scales: tuple[float, ...] = (0.1, 0.3, 1.0)
    #: Number of training seeds.
    seeds: int = 5
    #: Number of rounds of matrix games.
    rounds: int = 256
    #: Number of rounds of Markov games.
    markov_rounds: int = 128
    #: Lengths of shorter training trajectories, in a separate part (3 actions).
    lengths: tuple[int, ...] = (16, 64)
    #: (layers, width) of the models in a separate part; MLPs have four times the width.
    sizes: tuple[tuple[int, int], ...] = ((1, 32), (2, 64), (4, 128))
    #: Sizes of the training set in a separate part, in addition to fresh games.
    training_games: tuple[int, ...] = (5, 50, 500)
    #: Number of training steps.
    steps: int = 400
    #: Floating-point format of matrix products; see `equipoise.incontext.Config`.
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    #: Number of games per step with our preset.
    batch: int = 64
    #: Number of games per step with the paper's preset.
    paper_batch: int = 32
    #: Number of unseen games for evaluation, for every family and seed.
    test_games: int = 128
    #: Number of games from which static policies are computed.
    memory_games: int = 500
    #: Parts to run, see `all_parts`. Default: all.
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("seeds", "rounds", "markov_rounds", "steps", "test_games", "memory_games"):
            checks.check_count(name, getattr(self, name))
        unknown = sorted(set(self.only) - set(self.all_parts))
        if unknown:
            raise InputError("only", f"parts among {self.all_parts}", unknown)

    @property
    def all_parts(self) -> tuple[str, ...]:
        """All parts: one for each panel of the figure, three more panels, and the baselines."""
        matrix = tuple(f"matrix-{count}" for count in self.actions)
        markov = tuple(f"markov-{count}" for count in self.states)
        return (*matrix, *markov, "lengths", "sizes", "games", "baselines")

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that `run` runs."""
        return self.only or self.all_parts

    @classmethod
    def quick(cls, **changes: Any) -> "Config":
        """Return a config with fewer panels, at reduced size.

        >>> Config.quick().rounds
        16
        """
        small = cls(
            actions=(2, 3),
            states=(2,),
            scales=(0.1,),
            seeds=1,
            rounds=16,
            markov_rounds=16,
            lengths=(8,),
            sizes=((1, 32), (2, 64)),
            training_games=(5,),
            steps=80,
            precision="float32",
            batch=16,
            paper_batch=16,
            test_games=64,
            memory_games=200,
        )
        return replace(small, **changes)


@dataclass(frozen=True)
class Panel:
    """The games of one panel.

    >>> Panel(3, None, 0.0, 256).title
    'A=3'
    """

    actions: int
    states: int | None
    discount: float
    #: Length of the trajectories.
    rounds: int

    @property
    def title(self) -> str:
        """The title above the axes."""
        return f"A={self.actions}" if self.states is None else f"S={self.states}"

    def family(self, name: str, seed: int, key: Any) -> Family:
        """Return a family by name: `rho=0.1` around the base game of this seed, or `iid`.

        One function makes all families, so that one compiled program serves all. Independent
        rewards lie within 0.5 of 0.5, and for independent transitions the base has weight 1e-6.
        """
        if name != IID:
            more = {} if self.states is None else {"states": self.states, "discount": self.discount}
            uniform = families.uniform(self.actions, **more)
            base = uniform.sample(key=make_key(key, self.title, "base", seed))
            return families.perturbed(base, float(name.removeprefix("rho=")))
        if self.states is None:
            return families.perturbed(MatrixGame(np.full((self.actions,) * 2, 0.5)), 0.5)
        shape = (self.states, self.actions, self.actions)
        even = np.full((*shape, self.states), 1.0 / self.states)
        near = families.perturbed(MarkovGame(np.full(shape, 0.5), even, self.discount), 0.5)
        return eqx.tree_at(lambda f: f.transitions.scale, near, 1e6)

    def test_games(self, name: str, seed: int, count: int, key: Any) -> Any:
        """Return unseen games of a family, the same for all players and baselines."""
        own = make_key(key, self.title, name, "test", seed)
        return self.family(name, seed, key).sample(count, key=own)


def make_panel(config: Config, part: str) -> Panel:
    """Return the games of a part, with three actions unless the part says otherwise.

    >>> make_panel(Config(), "markov-5").title
    'S=5'
    """
    kind, _, count = part.partition("-")
    if kind == "markov":
        return Panel(config.markov_actions, int(count), config.discount, config.markov_rounds)
    return Panel(int(count) if count else 3, None, 0.0, config.rounds)


def family_names(config: Config) -> tuple[str, ...]:
    """Return the names of the families, from similar games to independent ones.

    >>> family_names(Config.quick())
    ('rho=0.1', 'iid')
    """
    return (*(f"rho={scale:g}" for scale in config.scales), IID)


def training(config: Config, preset: str, rounds: int, **changes: Any) -> Training:
    """Return the training config of the paper or ours, with models of the paper's size.

    >>> training(Config(), "ours", 64).loss, training(Config(), "paper", 64).tokens
    ('exploitability', 'vocabulary')
    """
    common: dict[str, Any] = {"steps": config.steps, "held_out": 8, "precision": config.precision}
    if jax.default_backend() != "cpu":
        common["micro_batch"] = 32  # many pairs at once: attention matrices must fit in memory
    if preset == "paper":
        made = Training.paper(rounds=rounds, batch=config.paper_batch, patience=None, **common)
    else:
        warmup = min(100, config.steps // 5)
        common |= {"head_groups": None, "optimiser": "adam", "shared": False, "warmup": warmup}
        made = Training(rounds=rounds, batch=config.batch, **common)
    return replace(made, **changes)


def make_key(key: Any, *words: Any) -> jax.Array:
    """Return a key for a purpose that is named by words.

    >>> bool((make_key(0, "a") == make_key(0, "a")).all())
    True
    """
    return jax.random.fold_in(as_key(key), zlib.crc32(repr(words).encode()))


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Run the parts of a config that `folder` does not contain; return all parts in one record.

    Gaps are means over unseen games of the `nash_conv` of last policies. In Markov games, they are
    in units of `1 / (1 - discount)`, so that all panels share their axes.

    **Example**

    >>> from reproduction import in_context
    >>> small = in_context.Config.quick(
    ...     actions=(2,), states=(), rounds=8, test_games=8, only=("baselines",)
    ... )
    >>> record = in_context.run(small)
    >>> record.arrays["A=2|iid|omd"].shape, record.arrays["A=2|x"].tolist()
    ((1, 4), [1, 2, 4, 8])
    """
    records = [
        kept(
            *(folder, part, {**vars(config), "only": (part,), "key": key}),
            partial(run_part, config, part, key, Path(folder, part, "sweeps") if folder else None),
        )
        for part in config.parts
    ]
    arrays = {name: array for record in records for name, array in record.arrays.items()}
    return Record("in-context", config, {"key": key}, arrays, {"gaps": summary(arrays)})


def run_part(config: Config, part: str, key: Any, folder: Path | None = None) -> Record:
    """Run one part. Arrays named `panel|family|player` have shape (seeds, x): means over games.

    Interrupted training resumes from its checkpoints in `folder`.
    """
    kind = part.partition("-")[0]
    own = {"lengths": _lengths, "sizes": _sizes, "games": _games, "baselines": _baselines}
    measure: Callable[..., dict[str, np.ndarray]] = own.get(kind, _curves)
    arrays = measure(config, part, key, folder)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    return Record("in-context", config, {"part": part}, arrays, {"gaps": summary(arrays)})


def summary(arrays: dict[str, np.ndarray]) -> Table:
    """Return the mean and standard deviation over seeds of every curve at every x."""
    rows = []
    for name, values in arrays.items():
        panel, _, rest = name.partition("|")
        family, _, player = rest.partition("|")
        if player:
            spread = values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
            for x, mean, between in zip(arrays[f"{panel}|x"], values.mean(0), spread, strict=True):
                rows.append((panel, family, player, int(x), float(mean), float(between)))
    return Table(("panel", "family", "player", "x", "gap", "between seeds"), rows)


def record_rounds(rounds: int) -> np.ndarray:
    """Return the powers of two up to the last round, and the last round.

    >>> record_rounds(20).tolist()
    [1, 2, 4, 8, 16, 20]
    """
    powers = [2**k for k in range(31) if 2**k < rounds]
    return np.array([*powers, rounds])


def mean_gap(panel: Panel, games: Any, policies: Any) -> float:
    """Return the mean of `nash_conv`, in units of 1/(1 - discount) in Markov games."""
    return float(np.mean(certify(games, policies).nash_conv) * (1.0 - panel.discount))


def _curves(config: Config, part: str, key: Any, folder: Path | None) -> dict[str, np.ndarray]:
    """Return the gap at every recorded round, for every family and both presets."""
    panel, names = make_panel(config, part), family_names(config)
    arrays = {f"{panel.title}|x": record_rounds(panel.rounds)}
    for preset in PRESETS:
        how = training(config, preset, panel.rounds)
        trained = _train(config, panel, names, how, key, (part, preset), folder)
        for name, gaps in zip(names, trained, strict=True):
            arrays[f"{panel.title}|{name}|{preset}"] = gaps
    return arrays


def _lengths(config: Config, part: str, key: Any, folder: Path | None) -> dict[str, np.ndarray]:
    """Return the gaps after the last round of players trained on shorter trajectories."""
    panel = make_panel(config, part)
    names = (family_names(config)[0], IID)
    found: dict[str, list[np.ndarray]] = {}
    for length in config.lengths:
        for preset in PRESETS:
            how = training(config, preset, length)
            trained = _train(config, panel, names, how, key, (part, length, preset), folder)
            for name, gaps in zip(names, trained, strict=True):
                found.setdefault(f"{part}|{name}|{preset}", []).append(gaps[:, -1])
    arrays = {name: np.stack(columns, 1) for name, columns in found.items()}
    return {f"{part}|x": np.array(config.lengths), **arrays}


def _sizes(config: Config, part: str, key: Any, folder: Path | None) -> dict[str, np.ndarray]:
    """Return the gaps of models of several sizes on independent games, with our preset."""
    panel = make_panel(config, part)
    arrays = {f"{part}|x": record_rounds(config.rounds)}
    for layers, width in config.sizes:
        size = {"layers": layers, "width": width, "hidden": 4 * width}
        how = training(config, "ours", config.rounds, **size)
        (gaps,) = _train(config, panel, (IID,), how, key, (part, layers, width), folder)
        arrays[f"{part}|{IID}|{layers} x {width}"] = gaps
    return arrays


def _games(config: Config, part: str, key: Any, folder: Path | None) -> dict[str, np.ndarray]:
    """Return the gaps for training sets of several sizes, and for fresh games.

    The families are the most similar games, from which the paper's five are drawn, and independent
    games.
    """
    panel = make_panel(config, part)
    arrays = {f"{part}|x": np.array([*config.training_games, FRESH])}
    for name in (IID, family_names(config)[0]):
        for preset in PRESETS:
            how = training(config, preset, config.rounds, training_games=None)
            counts = np.repeat(config.training_games, config.seeds)
            names = [name] * len(config.training_games)
            words = (part, preset) if name == IID else (part, name.replace("=", "-"), preset)
            columns = _train(config, panel, names, how, key, words, folder, counts.tolist())
            columns += _train(config, panel, [name], how, key, (*words, "fresh"), folder)
            arrays[f"{part}|{name}|{preset}"] = np.stack([gaps[:, -1] for gaps in columns], 1)
    return arrays


def _train(
    config: Config,
    panel: Panel,
    names: Sequence[str],
    how: Any,
    key: Any,
    words: Any,
    folder: Path | None,
    training_games: list[int] | None = None,
) -> list[np.ndarray]:
    """Train, play unseen games and certify; return (seeds, recorded rounds) for every name.

    Every seed has its own base game, training set, weights and random draws.
    """
    pairs = [(name, seed) for name in names for seed in range(config.seeds)]
    made = [panel.family(name, seed, key) for name, seed in pairs]
    options: Any = {"key": make_key(key, "train", *words), "training_games": training_games}
    if folder is None:
        players = incontext.sweep(made, how, **options)
    else:
        asked = {**vars(config), "only": words[:1], "key": key}
        with Run.start(folder / "-".join(map(str, words)), asked) as run:
            players = incontext.sweep(made, how, **options, run=run)
    curves = []
    for (name, seed), pair in zip(pairs, players, strict=True):
        games = panel.test_games(name, seed, config.test_games, key)
        options = {"key": make_key(key, "play", seed), "precision": config.precision}
        record = record_rounds(how.rounds).tolist()
        episode = incontext.play(games, pair, rounds=how.rounds, record=record, **options)
        policies = zip(*episode.recorded.last, strict=True)
        curves.append([mean_gap(panel, games, policy) for policy in policies])
    return list(np.array(curves).reshape(len(names), config.seeds, -1))


def _baselines(config: Config, part: str, key: Any, folder: Path | None) -> dict[str, np.ndarray]:
    """Return the gaps of static policies, and of learners that need no training."""
    arrays: dict[str, np.ndarray] = {}
    for name in (n for n in config.all_parts if n.startswith(("matrix", "markov"))):
        panel = make_panel(config, name)
        x = record_rounds(panel.rounds)
        arrays[f"{panel.title}|x"] = x
        for family in family_names(config):
            found: dict[str, list[Any]] = {}
            for seed in range(config.seeds):
                games = panel.test_games(family, seed, config.test_games, key)
                base = panel.family(family, seed, key)
                memory = base.sample(
                    config.memory_games, key=make_key(key, panel.title, family, "memory")
                )
                static = incontext.static_policies(memory, None if family == IID else base)
                for who, pair in static.items():
                    gap = np.full(len(x), mean_gap(panel, games, pair))
                    found.setdefault(who, []).append(gap)
                for who, curve in _learners(panel, games, x, seed, key).items():
                    found.setdefault(who, []).append(curve)
            for who, curves in found.items():
                arrays[f"{panel.title}|{family}|{who}"] = np.stack(curves)
    return arrays


def _learners(
    panel: Panel, games: Any, rounds: np.ndarray, seed: int, key: Any
) -> dict[str, np.ndarray]:
    if panel.states is None:
        learners = {"omd": dynamics.OMD(), "exp3-ix (average)": dynamics.EXP3IX()}
    else:
        learners = {"omd": dynamics.MarkovOMD(), "v-learning": dynamics.VLearning()}
    curves = {}
    for name, learner in learners.items():
        how = {"key": make_key(key, "play", seed), "record": rounds.tolist()}
        trace = dynamics.play(games, learner, learner, rounds=int(rounds[-1]), **how)
        gaps = trace.average_curve if name.endswith("(average)") else trace.curve
        curves[name] = np.asarray(gaps).mean(1) * (1.0 - panel.discount)
    return curves
