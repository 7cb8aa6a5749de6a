"""What low interaction rank buys: gaps of K-IR, joint and 1-IR critics learned from logs.

The interaction-rank paper has one experiment, with continuous actions. These are the figures its
theorems ask for, in discrete games whose equilibrium gaps are computed exactly:

- `gap against agents`: at a fixed number of samples per parameter of the 2-IR class, and the
  time that one iteration takes;
- `gap against samples`, at a fixed number of agents;
- `on and off support`: the model's gap split as in Theorem 2, and the true gap, against lambda;
- `Markov`: the same against samples, with local states and decoupled transitions.

Games are polymatrix (rank 2), so that rank 1 is wrong, rank 2 is right, and the joint critic, a
network of all moves, is right and does not know it.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise import offline
from equipoise.certificates import certify
from equipoise.games import families
from equipoise.runs import Record, Table

__all__ = ["Config", "plot", "run"]

PANELS = ("agents", "samples", "strength", "markov")
CRITICS = ("1-IR", "2-IR", "joint", "behaviour")


@dataclass(frozen=True)
class Config:
    """What is learned. `Config.quick()` takes about two minutes on two cores.

    >>> Config().agents
    (5, 10, 20, 50, 100, 200)
    """

    panels: tuple[str, ...] = PANELS
    agents: tuple[int, ...] = (5, 10, 20, 50, 100, 200)
    #: Up to so many agents the joint critic is learned too.
    joint_agents: int = 100
    actions: int = 4
    contexts: int = 1
    #: Standard deviation of rewards under uniform play, and of their noise.
    scale: float = 0.25
    noise: float = 0.15
    #: Rows per parameter of the 2-IR class in each cell, for the first panel.
    samples_per_parameter: float = 6.0
    #: Number of agents of the other panels, and of Markov games.
    fixed_agents: int = 20
    markov_agents: int = 10
    samples: tuple[int, ...] = (300, 1000, 3000, 10_000)
    episodes: tuple[int, ...] = (1000, 4000, 16_000)
    strengths: tuple[float, ...] = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
    states: int = 3
    horizon: int = 4
    games: int = 3
    iterations: int = 200
    simulations: int = 16

    @classmethod
    def quick(cls) -> "Config":
        """The same panels, smaller.

        >>> Config.quick().agents
        (5, 10, 20)
        """
        return cls(
            agents=(5, 10, 20),
            fixed_agents=10,
            markov_agents=4,
            samples=(300, 3000),
            episodes=(1000, 4000),
            strengths=(0.001, 0.01, 0.1),
            games=1,
        )


def run(config: Config, key: int = 0) -> Record:
    """Collect logs, fit, learn and certify; the record holds one row for each policy.

    **Example**

    >>> from equipoise.papers import interaction_rank
    >>> small = interaction_rank.Config(
    ...     panels=("samples",), fixed_agents=4, samples=(500,), games=1, joint_agents=0
    ... )
    >>> record = interaction_rank.run(small)
    >>> record.tables["gaps"].column("critic")
    ['1-IR', '2-IR', 'behaviour']
    """
    rows: list[dict[str, Any]] = []
    for panel in config.panels:
        if panel not in PANELS:
            raise ValueError(f"panels: expected some of {PANELS}, found {panel!r}")
        for game in range(config.games):
            rows += _RUNS[panel](config, key + game)
    for row in rows:
        row.setdefault("seconds per iteration", float("nan"))
        row.setdefault("on support", float("nan"))
        row.setdefault("off support", float("nan"))
        row.setdefault("estimated", float("nan"))
    return Record("interaction-rank", config, {"key": key}, {}, {"gaps": Table.from_dicts(rows)})


def _contextual(config: Config, agents: int, key: int) -> Any:
    family = families.polymatrix(
        agents, config.actions, config.contexts, scale=config.scale, noise=config.noise
    )
    return family.sample(key=key)


def _learned(
    config: Config, panel: str, at: float, game: Any, log: Any, key: int, joint: bool
) -> list[dict[str, Any]]:
    """One row for each critic, and for the behaviour policy."""
    rows = []
    for name, rank in (("1-IR", 1), ("2-IR", 2), ("joint", "joint")):
        if rank == "joint" and not joint:
            continue
        model = (
            offline.fit(log, "joint", kind="mlp", key=key)
            if rank == "joint"
            else offline.fit(log, rank, intervals=False)
        )
        options: dict[str, Any] = {
            "iterations": config.iterations,
            "simulations": config.simulations,
        }
        offline.solve(model, force=True, key=key, **options)  # compiled here, timed below
        start = time.process_time()
        solution = offline.solve(model, force=True, key=key, **options)
        seconds = (time.process_time() - start) / config.iterations
        row = _row(panel, at, name, log, certify(game, solution.policy).max_gain)
        rows.append(row | {"seconds per iteration": seconds})
    gap = certify(game, game.uniform_policy()).max_gain
    return [*rows, _row(panel, at, "behaviour", log, gap)]


def _row(panel: str, at: float, critic: str, log: Any, gap: Any) -> dict[str, Any]:
    return {
        "panel": panel,
        "at": float(at),
        "critic": critic,
        "samples": log.samples,
        "gap": float(gap),
    }


def _agents(config: Config, key: int) -> list[dict[str, Any]]:
    rows = []
    for agents in config.agents:
        game = _contextual(config, agents, key)
        columns = 1 + (agents - 1) * (config.actions - 1)
        cells = config.actions * config.contexts
        samples = int(config.samples_per_parameter * columns * cells)
        log = offline.collect(game, "uniform", samples=samples, key=key + 1000)
        joint = agents <= config.joint_agents
        rows += _learned(config, "agents", agents, game, log, key, joint)
    return rows


def _samples(config: Config, key: int) -> list[dict[str, Any]]:
    game = _contextual(config, config.fixed_agents, key)
    rows = []
    for samples in config.samples:
        log = offline.collect(game, "uniform", samples=samples, key=key + 1000)
        joint = config.fixed_agents <= config.joint_agents
        rows += _learned(config, "samples", samples, game, log, key, joint)
    return rows


def _strength(config: Config, key: int) -> list[dict[str, Any]]:
    game = _contextual(config, config.fixed_agents, key)
    log = offline.collect(game, "uniform", samples=max(config.samples) // 3, key=key + 1000)
    rows = []
    for name, rank in (("1-IR", 1), ("2-IR", 2)):
        model = offline.fit(log, rank, intervals=False)
        for strength in config.strengths:
            solution = offline.solve(
                model, strength=strength, iterations=config.iterations, force=True
            )
            estimate = solution.stats["gap"]
            row = _row("strength", strength, name, log, certify(game, solution.policy).max_gain)
            row |= {"on support": estimate["on_support"], "off support": estimate["off_support"]}
            rows.append(row | {"estimated": estimate["gap"]})
    gap = certify(game, game.uniform_policy()).max_gain
    return rows + [_row("strength", s, "behaviour", log, gap) for s in config.strengths]


def _markov(config: Config, key: int) -> list[dict[str, Any]]:
    family = families.polymatrix(
        config.markov_agents,
        3,
        states=config.states,
        horizon=config.horizon,
        scale=config.scale,
        noise=config.noise,
    )
    game = family.sample(key=key)
    rows = []
    for episodes in config.episodes:
        log = offline.collect(game, "uniform", samples=episodes, key=key + 1000)
        rows += _learned(config, "markov", episodes, game, log, key, joint=False)
    return rows


_RUNS = {"agents": _agents, "samples": _samples, "strength": _strength, "markov": _markov}
_LABELS = {
    "agents": "agents (fixed samples per parameter)",
    "samples": "samples",
    "strength": "lambda",
    "markov": "episodes (Markov game)",
}
_COLOURS = {"1-IR": "C3", "2-IR": "C0", "joint": "C1", "behaviour": "0.5"}


def plot(record: Record) -> Any:
    """One panel for each sweep, and one for the time of an iteration; a Matplotlib figure.

    **Example**

    >>> from equipoise.papers import interaction_rank
    >>> small = interaction_rank.Config(
    ...     panels=("samples",), fixed_agents=4, samples=(500,), games=1, joint_agents=0
    ... )
    >>> len(interaction_rank.plot(interaction_rank.run(small)).axes)
    1
    """
    from matplotlib.figure import Figure

    table = record.tables["gaps"]
    panels = list(dict.fromkeys(table.column("panel")))
    kinds = [(panel, "gap") for panel in panels]
    if "agents" in panels:
        kinds.insert(1 + panels.index("agents"), ("agents", "seconds per iteration"))
    columns = min(3, len(kinds))
    lines = -(-len(kinds) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * lines), layout="constrained")
    for number, (panel, measure) in enumerate(kinds):
        axes = figure.add_subplot(lines, columns, number + 1)
        for critic in CRITICS:
            _draw(axes, table, panel, critic, measure)
        if panel == "strength":
            for part, style in (("on support", ":"), ("off support", "--")):
                _draw(axes, table, panel, "2-IR", part, style, label=f"2-IR model: {part}")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(_LABELS[panel])
        axes.set_ylabel("max CCE gap" if measure == "gap" else "CPU seconds per iteration")
        axes.grid(True, alpha=0.25, lw=0.6)
        axes.legend(fontsize=7, frameon=False)
    return figure


def _draw(
    axes: Any,
    table: Any,
    panel: str,
    critic: str,
    measure: str,
    style: str = "-",
    label: str | None = None,
) -> None:
    columns = ("panel", "critic", "at", measure)
    found: dict[float, list[float]] = {}
    for own_panel, own_critic, at, value in zip(*map(table.column, columns), strict=True):
        if own_panel == panel and own_critic == critic and np.isfinite(value):
            found.setdefault(at, []).append(value)
    if not found:
        return
    x = sorted(found)
    mean = np.array([np.mean(found[at]) for at in x])
    low, high = (np.array([extreme(found[at]) for at in x]) for extreme in (min, max))
    # What is at most zero is no gap at all, and has no place on a logarithmic axis.
    least = 1e-9 if measure.startswith("seconds") else 1e-4
    colour = _COLOURS[critic]
    axes.plot(x, np.maximum(mean, least), style, color=colour, lw=1.4, label=label or critic)
    if label is None:
        axes.fill_between(
            x, np.maximum(low, least), np.maximum(high, least), color=colour, alpha=0.15, lw=0
        )
