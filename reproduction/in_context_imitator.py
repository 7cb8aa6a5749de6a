"""Trained imitators of the paper's mirror descent: Theorems 4.2 and 4.4 of the in-context paper.

Theorem 4.1 builds a network that runs mirror descent. Theorems 4.2 and 4.4 are about networks that
are trained to imitate it: their gap is at most the learner's, plus an error of imitation. Here,
networks are trained on trajectories of `OMD.vanishing()`, the paper's learner with its errata
corrected, and labelled with that learner's policies (Eq. 1 with the policy in place of a sample).
Games are independent and new in every step. For every network, three numbers are measured on unseen
games: the realisability of Definition 4.1 and the total variation to the learner, on histories of
the learner; the total variation on its own play; and the NashConv of its last policies. Beside them
stand the learner, the hand-built network, uniform play and the bounds.

Attention is the paper's ReLU, without normalisation (Definition 3.1), or the usual softmax with
normalisation.

Every network has its own record in the run folder. Finished ones are not run again.
"""

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from equipoise import dynamics, incontext
from equipoise.core import InputError, checks
from equipoise.games import families
from equipoise.incontext import construct, theory
from equipoise.runs import Record, Table
from equipoise.solvers import solve
from reproduction import kept, rows_of
from reproduction._drawing import finish, make_panels
from reproduction.in_context import Panel, make_key, mean_gap

__all__ = ["Config", "plot", "run"]

#: Kinds of attention, with their colours.
ATTENTION = {"softmax": "#2b8cc4", "relu": "#d55e00"}
#: Name of the expert among the learners.
EXPERT = "omd-vanishing"
#: What is measured on unseen games.
MEASURES = ("total variation", "realisability", "last", "own play", "gap")


class Cell(NamedTuple):
    """The size of a network, and the length of its trajectories."""

    rounds: int
    layers: int
    width: int


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. `Config.quick()` takes a minute.

    **Example**

    >>> from reproduction import in_context_imitator
    >>> in_context_imitator.Config().rounds, in_context_imitator.Config.quick().rounds
    ((8, 16, 32), (4, 8))
    """

    #: Numbers of actions of the matrix games.
    actions: tuple[int, ...] = (2, 3, 5)
    #: Numbers of states of the Markov games.
    states: tuple[int, ...] = (2, 3, 5)
    #: Number of actions in the Markov games.
    markov_actions: int = 3
    #: Discount factor of the Markov games.
    discount: float = 0.9
    #: Lengths of trajectories. Every length has networks of its own.
    rounds: tuple[int, ...] = (8, 16, 32)
    #: Numbers of layers, for the panels in `sized`.
    layers: tuple[int, ...] = (1, 2, 4)
    #: Widths, for the panels in `sized`. MLPs have four times the width.
    widths: tuple[int, ...] = (16, 32, 64)
    #: Number of rounds, of layers, and width of the networks where another of these is varied.
    default: tuple[int, int, int] = (32, 2, 64)
    #: Panels in which the size of the network is varied too.
    sized: tuple[str, ...] = ("matrix-3",)
    #: Kinds of attention.
    attention: tuple[str, ...] = ("softmax", "relu")
    #: Number of networks of each kind and size.
    seeds: int = 2
    #: Number of training steps.
    steps: int = 300
    #: Number of games per step.
    batch: int = 32
    #: Number of unseen games for evaluation.
    test_games: int = 128
    #: Number of unseen games that the hand-built network plays.
    built_games: int = 16
    #: Panels to run, see `all_parts`. Default: all.
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("seeds", "steps", "batch", "test_games", "built_games"):
            checks.check_count(name, getattr(self, name))
        for name, known in (("only", self.all_parts), ("attention", tuple(ATTENTION))):
            unknown = sorted(set(getattr(self, name)) - set(known))
            if unknown:
                raise InputError(name, f"some of {known}", unknown)

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
        """Return a config with fewer, shorter and smaller trainings.

        >>> Config.quick().all_parts
        ('matrix-3', 'markov-2')
        """
        small = cls(
            actions=(3,),
            states=(2,),
            rounds=(4, 8),
            layers=(1, 2),
            widths=(32,),
            default=(8, 2, 32),
            seeds=1,
            steps=80,
            batch=16,
            test_games=64,
            built_games=8,
        )
        return replace(small, **changes)

    def panel(self, part: str) -> Panel:
        """Return the games of a panel.

        >>> Config().panel("markov-5").title
        'S=5'
        """
        kind, _, count = part.partition("-")
        if kind == "matrix":
            return Panel(int(count), None, 0.0, max(self.rounds))
        return Panel(self.markov_actions, int(count), self.discount, max(self.rounds))

    def cells(self, part: str) -> list[Cell]:
        """Return the networks of a panel: one thing differs from the default at a time.

        >>> [tuple(cell) for cell in Config.quick().cells("matrix-3")]
        [(4, 2, 32), (8, 2, 32), (8, 1, 32)]
        """
        middle = Cell(*self.default)
        found = [middle._replace(rounds=rounds) for rounds in self.rounds]
        if part in self.sized:
            found += [middle._replace(layers=layers) for layers in self.layers]
            found += [middle._replace(width=width) for width in self.widths]
        return list(dict.fromkeys(found))


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Train and measure all networks of a config that `folder` does not contain.

    The table `networks` has a row for each network, and the table `references` one for each panel
    and number of rounds. Gaps are those of the last policies, in Markov games in units of
    `1 / (1 - discount)`.

    **Example**

    >>> from reproduction import in_context_imitator
    >>> small = in_context_imitator.Config.quick(
    ...     actions=(2,), states=(), rounds=(4,), default=(4, 1, 8), attention=("relu",), steps=4,
    ...     batch=2, test_games=4, built_games=2
    ... )
    >>> record = in_context_imitator.run(small)
    >>> record.tables["networks"].column("panel"), record.tables["references"].column("rounds")
    (['A=2'], [4])
    """
    networks, references = [], []
    for part in config.parts:
        # What a part depends on: a larger grid uses the parts of a smaller one.
        games = ("markov_actions", "discount", "test_games")
        common = {name: getattr(config, name) for name in games} | {"key": key}
        for rounds in config.rounds:
            settings = common | {"part": part, "built_games": config.built_games}
            make = partial(_references, config, part, rounds, key)
            made = kept(folder, f"{part}-references-{rounds}", settings, make)
            references += rows_of(made.tables["references"])
        common |= {name: getattr(config, name) for name in ("seeds", "steps", "batch")}
        for attention in config.attention:
            for cell in config.cells(part):
                name = f"{part}-{attention}-{cell.rounds}-{cell.layers}x{cell.width}"
                make = partial(_train, config, part, attention, cell, key)
                made = kept(folder, name, common | {"part": name}, make)
                networks += rows_of(made.tables["networks"])
    tables = {"networks": Table.from_dicts(networks), "references": Table.from_dicts(references)}
    tables["means"] = _means(networks, references, config)
    return Record("in-context-imitator", config, {"key": key}, {}, tables)


def _family(panel: Panel) -> families.Family:
    if panel.states is None:
        return families.uniform(panel.actions)
    return families.uniform(panel.actions, states=panel.states, discount=panel.discount)


def _test_games(config: Config, panel: Panel, key: Any) -> Any:
    """Return unseen games, the same for all networks of a panel."""
    return _family(panel).sample(config.test_games, key=make_key(key, panel.title, "test"))


def _expert(panel: Panel, rounds: int) -> Any:
    return dynamics.make_learner(EXPERT, markov=panel.states is not None, rounds=rounds)


def _references(config: Config, part: str, rounds: int, key: Any) -> Record:
    """Measure the learner, the network that is built by hand, and uniform play."""
    panel = config.panel(part)
    games, expert = _test_games(config, panel, key), _expert(panel, rounds)
    own = make_key(key, "play", part)
    learned = dynamics.play(games, expert, expert, rounds=rounds, key=own).last
    equilibria = solve(games).policy
    shape = games.actions[:1] if panel.states is None else (panel.states, panel.actions)
    even = np.full(shape, 1.0 / panel.actions)
    few = games[: config.built_games]
    built = _built(panel, rounds, expert)
    played = incontext.play(few, built.players, rounds=rounds, key=own).last
    apart = theory.realisability(expert, built.players, few, rounds=rounds, key=own)
    row = {
        "panel": panel.title,
        "rounds": rounds,
        "expert": mean_gap(panel, games, learned),
        "uniform": mean_gap(panel, games, (even, even)),
        "distance": float(np.sqrt(sum(((p - even) ** 2).sum(-1) for p in equilibria)).mean()),
        "hand-built": mean_gap(panel, few, played),
        "expert, the same games": mean_gap(panel, few, tuple(p[: len(few)] for p in learned)),
        "hand-built realisability": apart.epsilon,
        "hand-built layers": built.size.layers * built.size.blocks,
        "hand-built width": built.size.width,
    }
    tables = {"references": Table.from_dicts([row])}
    return Record("in-context-imitator", config, {"part": part}, {}, tables)


def _built(panel: Panel, rounds: int, learner: Any) -> Any:
    if panel.states is None:
        return construct.omd(panel.actions, rounds, learner=learner)
    sizes = (panel.states, panel.actions, rounds)
    return construct.omd_markov(*sizes, discount=panel.discount, learner=learner)


def training(config: Config, attention: str, cell: Cell) -> incontext.Config:
    """Return the training config of a network.

    >>> how = training(Config(), "relu", Cell(32, 2, 64))
    >>> how.layer_norm, how.hidden, how.expert
    (False, 256, 'omd-vanishing')
    """
    found = incontext.Config(
        rounds=cell.rounds,
        layers=cell.layers,
        width=cell.width,
        hidden=4 * cell.width,
        head_groups=None,
        layer_norm=attention == "softmax",
        loss="expert",
        expert=EXPERT,
        contexts="learners",
        learners=(EXPERT,),
        steps=config.steps,
        batch=config.batch,
        warmup=config.steps // 8,
        held_out=8,
        precision="float32",
    )
    return replace(found, attention="relu" if attention == "relu" else "softmax")


def _train(config: Config, part: str, attention: str, cell: Cell, key: Any) -> Record:
    """Train the networks of one kind and size, and measure them on unseen games."""
    panel, how = config.panel(part), training(config, attention, cell)
    own = make_key(key, "train", part, attention, *cell)
    trained = incontext.sweep([_family(panel)] * config.seeds, how, key=own)
    rows = []
    for seed, players in enumerate(trained):
        row = {"panel": panel.title, "attention": attention, **cell._asdict(), "seed": seed}
        rows.append(row | _measure(config, panel, cell, how, players, key))
    tables = {"networks": Table.from_dicts(rows)}
    return Record("in-context-imitator", config, {"part": part}, {}, tables)


def _measure(
    config: Config,
    panel: Panel,
    cell: Cell,
    how: incontext.Config,
    players: incontext.Players,
    key: Any,
) -> dict[str, Any]:
    """Return the distances to the learner, the gap of the last policies, and the size of a class.

    `samples` is the n of the theorems: the number of trajectories that the network has learned
    from. `log covering number` is that of Definition 4.2 for the radius `1 / n`, as estimated.
    """
    rounds, expert = cell.rounds, _expert(panel, cell.rounds)
    games, own = _test_games(config, panel, key), make_key(key, "play", panel.title)
    apart = theory.realisability(expert, players, games, rounds=rounds, key=own)
    trace = incontext.play(games, players, rounds=rounds, key=own, precision="float32")
    samples = 2 * how.total_steps * how.batch
    model = players.learners()[0].model
    return {
        "total variation": float(apart.total_variation.mean()),
        "realisability": apart.epsilon,
        "last": float(apart.total_variation[..., -1].mean()),
        "own play": float(theory.distance(trace, expert).mean()),
        "gap": mean_gap(panel, games, trace.last),
        "parameters": players.parameters,
        "samples": samples,
        "log covering number": theory.log_covering_number(model, 1.0 / samples),
    }


def _bounds(network: dict[str, Any], reference: dict[str, Any], config: Config) -> dict[str, float]:
    """Return the bounds on the gap of a network, with the constants of `O(.)` taken as one.

    `transferred` is proven for matrix games and the network's policies after histories of the
    learner: the learner's gap plus the two total variations. The others are the sums of the terms
    of Theorems 4.2 and 4.4, printed and corrected, with and without the error of finitely many
    samples. The travel time of Markov games is taken as one, the smallest that is possible.
    """
    panel, count = network["panel"][0], int(network["panel"][2:])
    known = {name: network[name] for name in ("rounds", "realisability")}
    known["distance"] = reference["distance"]
    found: dict[str, float] = {}
    if panel == "A":
        bound, known["actions"] = theory.matrix_bound, count
        found["transferred"] = reference["expert"] + 2.0 * network["last"]
    else:
        bound, known["actions"] = theory.markov_bound, config.markov_actions
        known |= {"states": count, "discount": config.discount, "travel": 1.0}
    samples = {"log_cover": network["log covering number"], "samples": network["samples"]}
    for form in ("printed", "corrected"):
        how = {**known, "corrected": form == "corrected"}
        found[f"{form} bound"] = bound(**how, **samples).total
        found[f"{form} bound, unlimited samples"] = bound(**how, log_cover=0.0, samples=1e300).total
    return found


def _means(
    networks: list[dict[str, Any]], references: list[dict[str, Any]], config: Config
) -> Table:
    """Return the means over seeds, beside the references and the bounds."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in networks:
        cells.setdefault(
            tuple(row[name] for name in ("panel", "attention", *Cell._fields)), []
        ).append(row)
    rows = []
    for found in cells.values():
        row = {name: value for name, value in found[0].items() if name != "seed"}
        row |= {name: float(np.mean([own[name] for own in found])) for name in MEASURES}
        row["largest gap"] = max(own["gap"] for own in found)
        (beside,) = (
            own for own in references if all(own[name] == row[name] for name in ("panel", "rounds"))
        )
        rows.append(beside | row | _bounds(row, beside, config))
    return Table.from_dicts(rows)


def plot(record: Record) -> Any:
    """Draw gaps against rounds for all panels, and the realisability against rounds and size.

    **Example**

    >>> from reproduction import in_context_imitator
    >>> from equipoise.runs import Record, Table
    >>> row = {"panel": "S=2", "attention": "relu", "rounds": 8, "layers": 2, "width": 64}
    >>> names = ("gap", "expert", "hand-built", "uniform", "realisability", "own play")
    >>> row |= dict.fromkeys(names, 0.2) | {"printed bound, unlimited samples": 5.0}
    >>> means = Table.from_dicts([row | {"parameters": 1000}])
    >>> record = Record(
    ...     "in-context-imitator", in_context_imitator.Config(), tables={"means": means}
    ... )
    >>> len(in_context_imitator.plot(record).axes)
    3
    """
    rows = rows_of(record.tables["means"])
    rounds, layers, width = record.config["default"]
    by_rounds = [r for r in rows if (r["layers"], r["width"]) == (layers, width)]
    titles = list(dict.fromkeys(row["panel"] for row in rows))
    kinds = [kind for kind in "AS" if any(title[0] == kind for title in titles)]
    figure, panels = make_panels(len(titles) + len(kinds) + 1, 3, 3.6, 3.3)
    for axes, title in zip(panels, titles, strict=False):
        _draw_gaps(axes, [row for row in by_rounds if row["panel"] == title], title)
    panels[0].legend(fontsize=6, frameon=False)
    for axes, kind in zip(panels[len(titles) :], kinds, strict=False):
        _draw_distances(axes, [row for row in by_rounds if row["panel"][0] == kind])
    sized = [row for row in rows if row["rounds"] == rounds]
    _draw_sizes(panels[-1], sized, layers, width)
    return figure


def _draw_gaps(axes: Any, rows: list[dict[str, Any]], title: str) -> None:
    """Draw the gaps of networks, learner, hand-built network, and the bounds."""
    for attention, colour in ATTENTION.items():
        own = [row for row in rows if row["attention"] == attention]
        x = [row["rounds"] for row in own]
        axes.plot(
            x, [r["gap"] for r in own], "o-", ms=4, color=colour, label=f"trained, {attention}"
        )
        if own and own[0].get("transferred") is not None:
            axes.plot(x, [r["transferred"] for r in own], "--", lw=1.0, color=colour)
        bound = [r["printed bound, unlimited samples"] for r in own]
        axes.plot(x, bound, ":", lw=1.0, color=colour)
    own = [row for row in rows if row["attention"] == rows[0]["attention"]]
    x = [row["rounds"] for row in own]
    axes.plot(x, [r["expert"] for r in own], "-", lw=1.0, color="0.2", label="mirror descent")
    axes.plot(x, [r["hand-built"] for r in own], "x", color="0.2", label="hand-built")
    axes.plot(x, [r["uniform"] for r in own], "-.", lw=1.0, color="0.5", label="uniform")
    axes.set_xscale("log", base=2)
    finish(axes, yscale="log", title=title, xlabel="rounds", ylabel="gap")


def _draw_distances(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw the realisability and the total variation in the networks' own play."""
    titles = list(dict.fromkeys(row["panel"] for row in rows))
    for title, mark in zip(titles, "os^v", strict=False):
        for attention, colour in ATTENTION.items():
            own = [r for r in rows if (r["panel"], r["attention"]) == (title, attention)]
            x = [row["rounds"] for row in own]
            label = f"{title}, {attention}"
            axes.plot(
                x, [r["realisability"] for r in own], mark + "-", ms=4, color=colour, label=label
            )
            axes.plot(x, [r["own play"] for r in own], mark + ":", ms=3, lw=0.8, color=colour)
    axes.set_xscale("log", base=2)
    finish(
        axes, 6, title="realisability (dotted: own play)", xlabel="rounds", ylabel="total variation"
    )


def _draw_sizes(axes: Any, rows: list[dict[str, Any]], layers: int, width: int) -> None:
    """Draw the realisability against the number of weights, by layers and by width."""
    for attention, colour in ATTENTION.items():
        for name, mark, fixed in (("layers", "o-", "width"), ("width", "s--", "layers")):
            default = {"layers": layers, "width": width}[fixed]
            own = [r for r in rows if r["attention"] == attention and r[fixed] == default]
            several = [r for r in own if sum(o["panel"] == r["panel"] for o in own) > 1]
            several.sort(key=lambda row: row[name])
            x = [row["parameters"] for row in several]
            label = f"{attention}, by {name}"
            axes.plot(
                x, [r["realisability"] for r in several], mark, ms=4, color=colour, label=label
            )
            for row in several:
                axes.annotate(
                    f" {row[name]}", (row["parameters"], row["realisability"]), fontsize=6
                )
    finish(axes, 6, xscale="log", title="size", xlabel="weights", ylabel="realisability")
