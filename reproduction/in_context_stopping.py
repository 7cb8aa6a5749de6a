"""When the in-context paper's rule stops training: at a cross-entropy below 0.01.

The paper's players are trained by their preset around many base games. Labels are samples of an
equilibrium of the game. With new data in every step the expected cross-entropy is therefore at
least the mean entropy of the training games' equilibria, and the rule stops only where nearly all
of them are pure. With a fixed set of trajectories and labels, as in the paper's Eq. (1), a model
can also memorise labels, but trajectories that agree up to a round share their prediction: the
cross-entropy is at least the mean entropy of the labels within such groups, a floor that is
computed exactly. Training does not stop here, so that the whole curves are on record.

    python -m reproduction in_context_stopping --run runs/stopping

Every number of actions has its own record in the run folder.
"""

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import jax
import numpy as np
from scipy.special import xlogy

from equipoise import incontext
from equipoise.core import checks
from equipoise.runs import Record, Run, Table
from reproduction import kept
from reproduction._drawing import finish, make_panels
from reproduction.in_context import Panel, make_key

__all__ = ["Config", "plot", "run"]

#: Whether data are drawn anew, and the colour of their points.
DATA = {"fresh": "#2b8cc4", "fixed": "#d55e00"}


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. `Config.quick()` takes half a minute.

    **Example**

    >>> from reproduction import in_context_stopping
    >>> in_context_stopping.Config().bases, in_context_stopping.Config.quick().bases
    (12, 4)
    """

    #: Numbers of actions.
    actions: tuple[int, ...] = (2, 3, 5)
    #: Number of base games. The first five are those of Figure 1.
    bases: int = 12
    #: The paper's rho: the distance of games from their base.
    scale: float = 0.1
    #: Length of the trajectories.
    rounds: int = 16
    #: Length of trajectories for which the floor of fixed data is computed too.
    long_rounds: int = 256
    #: Number of training steps.
    steps: int = 200
    #: Number of games per step.
    batch: int = 16
    #: Number of batches that are played together. Fixed data consist of `batch * play_ahead` games.
    play_ahead: int = 4
    #: Cross-entropy below which the paper stops.
    stop_below: float = 0.01
    #: Floating-point format of matrix products; see `equipoise.incontext.Config`.
    precision: Literal["auto", "float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        for name in ("bases", "rounds", "long_rounds", "steps", "batch", "play_ahead"):
            checks.check_count(name, getattr(self, name))

    @classmethod
    def quick(cls, **changes: Any) -> "Config":
        """Return a config with fewer and shorter trainings.

        >>> Config.quick().actions
        (2,)
        """
        small = cls(actions=(2,), bases=4, rounds=8, long_rounds=32, steps=80)
        return replace(small, **changes)

    @property
    def cycles(self) -> int:
        """Number of points of a curve; each is the mean over `play_ahead` steps."""
        return -(-self.steps // self.play_ahead)


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Train around every base game, with fresh and with fixed data.

    Arrays named `A=2|fresh` have shape (bases, cycles): mean cross-entropies of the updates of each
    cycle. Arrays named `A=2|entropy` have shape (bases,): mean entropies of the equilibria of the
    training games. Arrays named `A=2|floor` have shape (bases, 2): floors of fixed data with short
    and with long trajectories.

    **Example**

    >>> from reproduction import in_context_stopping
    >>> small = in_context_stopping.Config.quick(actions=(2,), bases=1, steps=8, batch=4)
    >>> record = in_context_stopping.run(small)
    >>> record.arrays["A=2|fixed"].shape, record.tables["stops"].column("data")
    ((1, 2), ['fresh', 'fixed'])
    """
    arrays: dict[str, np.ndarray] = {}
    for actions in config.actions:
        settings = {**vars(config), "actions": (actions,), "key": key}
        made = kept(folder, f"A-{actions}", settings, partial(_one, config, actions, key))
        arrays |= made.arrays
    tables = {"stops": summary(config, arrays)}
    return Record("in-context-stopping", config, {"key": key}, arrays, tables)


def _one(config: Config, actions: int, key: int) -> Record:
    """Return the curves of one number of actions."""
    panel = Panel(actions, None, 0.0, config.rounds)
    entropies, floors, curves = [], [], {data: [] for data in DATA}
    for seed in range(config.bases):
        family = panel.family(f"rho={config.scale:g}", seed, key)
        own = make_key(key, "stopping", actions, seed)
        for data, losses in curves.items():
            how = _training(config, fixed_data=data == "fixed")
            with TemporaryDirectory() as place, Run.start(Path(place, "run"), {}) as training:
                incontext.sweep([family], how, key=own, run=training)
                losses.append([row["loss"] for row in training.metrics()])
        entropies.append(_entropy(config, family, own))
        lengths = (config.rounds, config.long_rounds)
        floors.append([_floor(config, family, own, rounds) for rounds in lengths])
    found: dict[str, Any] = {"entropy": entropies, "floor": floors, **curves}
    arrays = {f"{panel.title}|{name}": np.array(values) for name, values in found.items()}
    return Record("in-context-stopping", config, arrays=arrays)


def _training(config: Config, **changes: Any) -> incontext.Config:
    names = ("rounds", "steps", "batch", "play_ahead", "precision")
    same = {name: getattr(config, name) for name in names}
    return incontext.Config.paper(**same | changes, held_out=8, patience=None)


def _entropy(config: Config, family: Any, key: Any) -> float:
    """Return the mean entropy of the equilibria of the training games, over both players."""
    # As `sweep` trains its first family.
    own, how = jax.random.fold_in(key, 0), _training(config, expert="nash")
    found: dict[int, float] = {}
    for batch in incontext.dataset(family, how, games=config.batch * 4, key=own):
        policies = np.asarray(batch.labels)[:, :, 0]
        for number, entropy in zip(
            batch.number, -xlogy(policies, policies).sum(-1).mean(1), strict=True
        ):
            found[int(number)] = float(entropy)
    return float(np.mean(list(found.values())))


def _floor(config: Config, family: Any, key: Any, rounds: int) -> float:
    """Return the smallest cross-entropy on the fixed data: labels given equal histories."""
    own, how = jax.random.fold_in(key, 0), _training(config, rounds=rounds, fixed_data=True)
    count = config.batch * config.play_ahead
    data = list(incontext.dataset(family, how, games=count, key=own))
    actions, rewards, labels = (
        np.concatenate([getattr(batch, name) for batch in data])
        for name in ("actions", "rewards", "labels")
    )
    total = 0.0
    for seat in (0, 1):
        group = np.zeros(count, int)
        for t in range(rounds + 1):
            if t > 0:
                happened = np.stack([group, actions[:, seat, t - 1], rewards[:, seat, t - 1]], 1)
                group = np.unique(happened, axis=0, return_inverse=True)[1].ravel()
            counts = np.zeros((group.max() + 1, labels.shape[-1]))
            np.add.at(counts, group, labels[:, seat, t])
            total -= xlogy(counts, counts / counts.sum(1, keepdims=True)).sum()
    return float(total / (2 * count * (rounds + 1)))


def summary(config: Config, arrays: dict[str, np.ndarray]) -> Table:
    """Return how often the rule stops: of all bases, and of those with nearly pure equilibria.

    A base is nearly pure if the mean entropy of its training games' equilibria is below the
    threshold. `lowest` is the smallest cross-entropy that was reached. For fixed data, the last two
    columns count the bases whose floor is below the threshold.
    """
    rows = []
    for actions in config.actions:
        entropy = np.asarray(arrays[f"A={actions}|entropy"])
        limit = config.stop_below
        pure = entropy < limit
        for data in DATA:
            floors = np.asarray(arrays[f"A={actions}|floor"]) if data == "fixed" else None
            curve = np.asarray(arrays[f"A={actions}|{data}"])
            below = curve < limit
            stops = below.any(1)
            first = np.where(stops, (below.argmax(1) + 1) * config.play_ahead, 0)
            rows.append(
                {
                    "actions": actions,
                    "data": data,
                    "bases": len(entropy),
                    "nearly pure": int(pure.sum()),
                    "stops": int(stops.sum()),
                    "stops, nearly pure": int((stops & pure).sum()),
                    "median step": float(np.median(first[stops])) if stops.any() else None,
                    "lowest": float(curve.min()),
                    "lowest, not pure": float(curve[~pure].min()) if (~pure).any() else None,
                    "floor below": None if floors is None else int((floors[:, 0] < limit).sum()),
                    "long floor below": None
                    if floors is None
                    else int((floors[:, 1] < limit).sum()),
                }
            )
    return Table.from_dicts(rows)


def plot(record: Record) -> Any:
    """Draw the lowest cross-entropy of every base game against the entropy of its equilibria.

    **Example**

    >>> from reproduction import in_context_stopping
    >>> small = in_context_stopping.Config.quick(actions=(2,), bases=1, steps=8, batch=4)
    >>> len(in_context_stopping.plot(in_context_stopping.run(small)).axes)
    1
    """
    titles = [name.removesuffix("|entropy") for name in record.arrays if name.endswith("|entropy")]
    figure, panels = make_panels(len(titles), 3, 3.6, 3.4)
    for axes, title in zip(panels, titles, strict=True):
        entropy = record.arrays[f"{title}|entropy"]
        for data, colour in DATA.items():
            lowest = record.arrays[f"{title}|{data}"].min(1)
            axes.plot(entropy, lowest, "o", ms=4, color=colour, label=f"{data} data")
        line = np.geomspace(1e-3, 2.0, 100)
        axes.plot(line, line, ":", color="0.4", lw=1.0, label="the entropy")
        axes.axhline(0.01, color="0.2", lw=1.0, ls="--", label="the paper's threshold")
        finish(
            axes,
            yscale="log",
            title=title,
            xlabel="mean entropy of the equilibria",
            ylabel="lowest cross-entropy",
        )
        axes.set_xlim(-0.03, max(0.1, 1.1 * float(np.max(entropy))))
        axes.legend(fontsize=7, frameon=False)
    return figure
