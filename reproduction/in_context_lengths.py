"""Figure 1 of the in-context paper by its own protocol: one model for each length of trajectory.

The paper trains separate models for trajectories of 8 to 256 rounds, on five games within rho = 0.1
of one base game, and measures the exploitability of their last policies in unseen games of the same
family. It repeats this with five seeds, for matrix games with 2, 3 and 5 actions and for Markov
games with 2, 3 and 5 states. Training stops when the cross-entropy falls below 0.01, or after a
number of steps that the paper does not give (`Config.steps`). Beside these models stand the model
for the longest trajectories after as many rounds, the base game's equilibrium and uniform play.

    python -m reproduction in_context_lengths --run runs/lengths
    python -m reproduction in_context_lengths --scale full --only matrix-3 --run runs/lengths

Every length of every panel has its own record in the run folder. Finished ones are not run again,
and interrupted training resumes.
"""

import os
import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from equipoise import incontext
from equipoise.core import InputError, checks
from equipoise.runs import Record, Run, Table
from equipoise.solvers import solve
from reproduction import kept
from reproduction._drawing import draw_band, finish
from reproduction.in_context import Panel, make_key, mean_gap

__all__ = ["Config", "plot", "run"]

#: Curves, in the order of the legend, with their line styles.
CURVES = {
    "a model for each length": "-",
    "the longest model": "--",
    "base Nash": ":",
    "uniform": "-.",
}
SEPARATE, LONGEST, BASE, UNIFORM = CURVES
COLOURS = ("#2b8cc4", "#d55e00", "#00a878")


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. `Config.quick()` takes a minute.

    **Example**

    >>> from reproduction import in_context_lengths
    >>> in_context_lengths.Config().lengths, in_context_lengths.Config.quick().lengths
    ((8, 16, 32, 64, 128, 256), (8, 32))
    """

    #: Numbers of actions of the matrix games.
    actions: tuple[int, ...] = (2, 3, 5)
    #: Numbers of states of the Markov games.
    states: tuple[int, ...] = (2, 3, 5)
    #: Number of actions in the Markov games.
    markov_actions: int = 3
    #: Discount factor of the Markov games.
    discount: float = 0.9
    #: The paper's rho: the distance of games from their base.
    scale: float = 0.1
    #: Lengths of trajectories. Every length has models of its own.
    lengths: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    #: Number of training seeds, each with its own base game.
    seeds: int = 5
    #: Largest number of training steps.
    steps: int = 400
    #: Cross-entropy below which training stops.
    stop_below: float = 0.01
    #: Number of games per step.
    batch: int = 32
    #: Number of unseen games for evaluation, for every seed.
    test_games: int = 128
    #: Floating-point format of matrix products; see `equipoise.incontext.Config`.
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    #: Panels to run, see `all_parts`. Default: all.
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("seeds", "steps", "batch", "test_games"):
            checks.check_count(name, getattr(self, name))
        unknown = sorted(set(self.only) - set(self.all_parts))
        if unknown:
            raise InputError("only", f"panels among {self.all_parts}", unknown)

    @property
    def all_parts(self) -> tuple[str, ...]:
        """All panels."""
        matrix = tuple(f"matrix-{count}" for count in self.actions)
        return (*matrix, *(f"markov-{count}" for count in self.states))

    @property
    def parts(self) -> tuple[str, ...]:
        """The panels that `run` runs."""
        return self.only or self.all_parts

    @classmethod
    def quick(cls, **changes: Any) -> "Config":
        """Return a config with fewer panels and lengths, at reduced size.

        >>> Config.quick().all_parts
        ('matrix-2', 'matrix-3', 'markov-2')
        """
        fewer: Any = {"actions": (2, 3), "states": (2,), "lengths": (8, 32), "seeds": 2}
        small = cls(**fewer, steps=80, batch=8, test_games=32, precision="float32")
        return replace(small, **changes)

    def panel(self, part: str) -> Panel:
        """Return the games of a panel.

        >>> Config().panel("markov-5").title
        'S=5'
        """
        kind, _, count = part.partition("-")
        if kind == "matrix":
            return Panel(int(count), None, 0.0, max(self.lengths))
        return Panel(self.markov_actions, int(count), self.discount, max(self.lengths))


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Run all panels of a config that `folder` does not contain; return them in one record.

    Arrays named `panel|curve` have shape (seeds, lengths): means over unseen games of the
    `nash_conv` of last policies, in Markov games in units of `1 / (1 - discount)`.

    **Example**

    >>> from reproduction import in_context_lengths
    >>> small = in_context_lengths.Config.quick(
    ...     actions=(2,), states=(), lengths=(4,), steps=4, batch=2, test_games=4
    ... )
    >>> record = in_context_lengths.run(small)
    >>> record.arrays["A=2|a model for each length"].shape
    (2, 1)
    """
    arrays: dict[str, np.ndarray] = {}
    for part in config.parts:
        title = config.panel(part).title
        arrays[f"{title}|x"] = np.array(config.lengths)
        for length in sorted(config.lengths, reverse=True):
            name = f"{part}-{length}"
            settings = {**vars(config), "only": (part,), "length": length, "key": key}
            place = Path(folder, name, "training") if folder is not None else None
            made = kept(folder, name, settings, partial(_one, config, part, length, key, place))
            for curve, gaps in made.arrays.items():
                whole = arrays.setdefault(
                    f"{title}|{curve}", np.zeros((config.seeds, len(config.lengths)))
                )
                at = config.lengths.index(length) if curve == SEPARATE else slice(None)
                whole[:, at] = gaps
    return Record("in-context-lengths", config, {"key": key}, arrays, {"gaps": summary(arrays)})


def _one(config: Config, part: str, length: int, key: int, folder: Path | None) -> Record:
    """Train the models of one length, play unseen games and certify.

    The models of the longest trajectories are also measured after fewer rounds.
    """
    panel, family = config.panel(part), f"rho={config.scale:g}"
    made = [panel.family(family, seed, key) for seed in range(config.seeds)]
    how = incontext.Config.paper(
        rounds=length,
        steps=config.steps,
        batch=config.batch,
        held_out=8,
        precision=config.precision,
        # On an accelerator all seeds train at once: their attention matrices must fit in memory.
        micro_batch=None if jax.default_backend() == "cpu" else 32,
        stop_on="cross-entropy",
        stop_below=config.stop_below,
        patience=None,
    )
    options: Any = {"key": make_key(key, "train", "length", part, length)}
    if folder is None:
        players = incontext.sweep(made, how, **options)
    else:
        with Run.start(folder, {**vars(config), "length": length, "key": key}) as training:
            players = incontext.sweep(made, how, **options, run=training)
        shutil.rmtree(folder, ignore_errors=True)
    whole = length == max(config.lengths)
    rounds = sorted(config.lengths) if whole else [length]
    curves = []
    for seed, pair in enumerate(players):
        games = panel.test_games(family, seed, config.test_games, key)
        options = {"key": make_key(key, "play", seed), "precision": config.precision}
        episode = incontext.play(games, pair, rounds=length, record=rounds, **options)
        policies = zip(*episode.recorded.last, strict=True)
        curves.append([mean_gap(panel, games, policy) for policy in policies])
    gaps = np.array(curves)
    arrays = {SEPARATE: gaps[:, -1]}
    if whole:
        order = [rounds.index(length) for length in config.lengths]
        arrays[LONGEST] = gaps[:, order]
        arrays |= _static(config, panel, family, key)
    return Record("in-context-lengths", config, {"part": part, "length": length}, arrays)


def _static(config: Config, panel: Panel, family: str, key: int) -> dict[str, np.ndarray]:
    """Return the gaps of the base game's equilibrium and of uniform play at every length."""
    columns: dict[str, list[float]] = {BASE: [], UNIFORM: []}
    for seed in range(config.seeds):
        games = panel.test_games(family, seed, config.test_games, key)
        center = panel.family(family, seed, key).base
        if center is None:
            raise ValueError("the paper's families lie around a base game")
        base = solve(center).policy
        columns[BASE].append(mean_gap(panel, games, base))
        states = () if panel.states is None else (panel.states,)
        even = np.full((*states, panel.actions), 1.0 / panel.actions)
        columns[UNIFORM].append(mean_gap(panel, games, (even, even)))
    count = len(config.lengths)
    return {name: np.repeat(np.array(c)[:, None], count, 1) for name, c in columns.items()}


def summary(arrays: dict[str, np.ndarray]) -> Table:
    """Return the mean and standard deviation over seeds of every curve at every length."""
    rows = []
    for name, values in arrays.items():
        panel, _, curve = name.partition("|")
        if curve != "x":
            spread = values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
            for x, mean, between in zip(arrays[f"{panel}|x"], values.mean(0), spread, strict=True):
                rows.append((panel, curve, int(x), float(mean), float(between)))
    return Table(("panel", "player", "length", "gap", "between seeds"), rows)


def plot(record: Record) -> Any:
    """Draw the paper's two panels: matrix games on the left, Markov games on the right.

    Bands are one standard deviation between seeds, as in the paper.

    **Example**

    >>> from reproduction import in_context_lengths
    >>> from equipoise.runs import Record
    >>> arrays = {"A=2|x": [8, 16], "A=2|a model for each length": [[0.3, 0.2], [0.2, 0.2]]}
    >>> len(in_context_lengths.plot(Record("in-context-lengths", arrays=arrays)).axes)
    1
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    panels = list(dict.fromkeys(name.partition("|")[0] for name in record.arrays))
    sides = {
        "matrix games": [p for p in panels if p.startswith("A")],
        "Markov games": [p for p in panels if p.startswith("S")],
    }
    shown = {title: side for title, side in sides.items() if side}
    figure = Figure(figsize=(4.2 * max(len(shown), 1), 3.8), layout="constrained")
    first: Any = None
    for i, (title, side) in enumerate(shown.items()):
        axes = figure.add_subplot(1, len(shown), 1 + i, sharey=first)
        first = first or axes
        for colour, panel in zip(COLOURS, side, strict=False):
            for curve, dash in CURVES.items():
                _draw(axes, record, panel, curve, dash, colour)
        colours = [
            Line2D([], [], color=colour, label=p) for colour, p in zip(COLOURS, side, strict=False)
        ]
        axes.set_xscale("log", base=2)
        axes.set_title(title, fontsize=9)
        finish(axes, None, yscale="log", xlabel="length of the trajectory", ylabel="gap")
        axes.legend(handles=colours, loc="lower right", fontsize=7, frameon=False)
    lines = [Line2D([], [], color="#404040", ls=dash, label=c) for c, dash in CURVES.items()]
    place = {"loc": "outside upper center", "ncols": 4, "fontsize": 8, "frameon": False}
    figure.legend(handles=lines, **place)
    return figure


def _draw(axes: Any, record: Record, panel: str, curve: str, dash: str, colour: str) -> None:
    values = record.arrays.get(f"{panel}|{curve}")
    if values is None:
        return
    mean, spread = values.mean(0), np.zeros(values.shape[1])
    style: dict[str, Any] = {"color": colour, "lw": 1.0}
    if curve == SEPARATE:
        spread = values.std(0, ddof=1) if len(values) > 1 else spread
        style |= {"marker": "o", "ms": 3, "lw": 2.0}
    low = np.maximum(mean - spread, mean / 10)
    draw_band(axes, record.arrays[f"{panel}|x"], mean, low, mean + spread, dash, **style)
