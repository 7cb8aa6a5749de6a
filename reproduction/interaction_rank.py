"""Benefits of low interaction rank: gaps of K-IR, joint and 1-IR critics learned from logs.

The interaction-rank paper has one experiment, with continuous actions. These figures test its
theorems in discrete games, whose gaps are computed exactly:

- `gap against agents`: at a fixed number of samples per parameter of the 2-IR class, and the
  time of one iteration;
- `gap against samples`, at a fixed number of agents;
- `on and off support`: the model's gap split as in Theorem 2, and the true gap, against lambda;
- `Markov`: the same against samples, with local states and decoupled transitions.

Games are polymatrix (rank 2). Rank 1 is therefore misspecified, and rank 2 is correct. The joint
critic, a network of all actions, can represent the rewards but does not know their structure.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from equipoise import offline
from equipoise.certificates import certify
from equipoise.core import InputError
from equipoise.games import families
from equipoise.runs import Record, Table
from reproduction._drawing import draw_band, finish, make_panels

__all__ = ["Config", "plot", "run"]

PANELS = ("agents", "samples", "strength", "markov")
CRITICS = ("1-IR", "2-IR", "joint", "behaviour")


@dataclass(frozen=True)
class Config:
    """Settings of the experiments. `Config.quick()` takes about two minutes on two cores.

    >>> Config().agents
    (5, 10, 20, 50, 100, 200)
    """

    #: Panels to compute.
    panels: tuple[str, ...] = PANELS
    #: Numbers of agents of the first panel.
    agents: tuple[int, ...] = (5, 10, 20, 50, 100, 200)
    #: Largest number of agents for which the joint critic is learned, too.
    joint_agents: int = 100
    #: Number of actions of each agent.
    actions: int = 4
    #: Number of contexts.
    contexts: int = 1
    #: Standard deviation of rewards under uniform play.
    scale: float = 0.25
    #: Standard deviation of the noise of rewards.
    noise: float = 0.15
    #: Rows per parameter of the 2-IR class in each cell, for the first panel.
    samples_per_parameter: float = 6.0
    #: Number of agents of the other panels.
    fixed_agents: int = 20
    #: Number of agents of the Markov games.
    markov_agents: int = 10
    #: Numbers of rows.
    samples: tuple[int, ...] = (300, 1000, 3000, 10_000)
    #: Numbers of episodes of the Markov games.
    episodes: tuple[int, ...] = (1000, 4000, 16_000)
    #: Strengths of the regularisation.
    strengths: tuple[float, ...] = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
    #: Number of local states in the Markov games.
    states: int = 3
    #: Number of steps of the Markov games.
    horizon: int = 4
    #: Number of random games of each setting.
    games: int = 3
    #: Number of iterations of the learner.
    iterations: int = 200
    #: Number of simulations with which values are estimated.
    simulations: int = 16

    @classmethod
    def quick(cls) -> "Config":
        """Return a smaller config with the same panels.

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
    """Collect logs, fit, learn and certify. The record has one row for each policy.

    **Example**

    >>> from reproduction import interaction_rank
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
            raise InputError("panels", f"panels among {PANELS}", repr(panel))
        for seed in range(key, key + config.games):
            if panel == "strength":
                rows += _strength(config, seed)
                continue
            for case in _cases(config, panel, seed):
                rows += _learned(config, panel, *case, seed)
    for row in rows:
        for name in ("seconds per iteration", "on support", "off support", "estimated"):
            row.setdefault(name, float("nan"))
    return Record("interaction-rank", config, {"key": key}, {}, {"gaps": Table.from_dicts(rows)})


def _contextual(config: Config, agents: int, key: int) -> Any:
    family = families.polymatrix(
        agents, config.actions, config.contexts, scale=config.scale, noise=config.noise
    )
    return family.sample(key=key)


def _learned(
    config: Config, panel: str, at: float, game: Any, samples: int, joint: bool, key: int
) -> list[dict[str, Any]]:
    """Return one row for each critic, and one for the behaviour policy."""
    log = offline.collect(game, "uniform", samples=samples, key=key + 1000)
    plain: dict[str, Any] = {"intervals": False}
    critics = {"1-IR": (1, plain), "2-IR": (2, plain)}
    critics |= {"joint": ("joint", {"kind": "mlp", "key": key})} if joint else {}
    iterations, simulations, rows = config.iterations, config.simulations, []
    for name, (rank, how) in critics.items():
        model = offline.fit(log, rank, **how)
        solve = partial(offline.solve, model, force=True, key=key, iterations=iterations)
        solve(simulations=simulations)  # compile here; the time is measured below
        start = time.process_time()
        solution = solve(simulations=simulations)
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


def _cases(config: Config, panel: str, key: int) -> Iterator[tuple[float, Any, int, bool]]:
    """Yield the position on the axis, the game, the rows, and whether to use the joint critic."""
    if panel == "agents":
        for agents in config.agents:
            columns = 1 + (agents - 1) * (config.actions - 1)
            cells = config.actions * config.contexts
            samples = int(config.samples_per_parameter * columns * cells)
            joint = agents <= config.joint_agents
            yield agents, _contextual(config, agents, key), samples, joint
    elif panel == "samples":
        game = _contextual(config, config.fixed_agents, key)
        joint = config.fixed_agents <= config.joint_agents
        yield from ((samples, game, samples, joint) for samples in config.samples)
    else:
        sizes = {"states": config.states, "horizon": config.horizon}
        family = families.polymatrix(
            config.markov_agents, 3, scale=config.scale, noise=config.noise, **sizes
        )
        game = family.sample(key=key)
        yield from ((episodes, game, episodes, False) for episodes in config.episodes)


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


_LABELS = {
    "agents": "agents (fixed samples per parameter)",
    "samples": "samples",
    "strength": "lambda",
    "markov": "episodes (Markov game)",
}
_COLOURS = {"1-IR": "C3", "2-IR": "C0", "joint": "C1", "behaviour": "0.5"}


def plot(record: Record) -> Any:
    """Draw a panel for each sweep and for the time of an iteration; return the figure.

    **Example**

    >>> from reproduction import interaction_rank
    >>> small = interaction_rank.Config(
    ...     panels=("samples",), fixed_agents=4, samples=(500,), games=1, joint_agents=0
    ... )
    >>> len(interaction_rank.plot(interaction_rank.run(small)).axes)
    1
    """
    table = record.tables["gaps"]
    panels = list(dict.fromkeys(table.column("panel")))
    kinds = [(panel, "gap") for panel in panels]
    if "agents" in panels:
        kinds.insert(1 + panels.index("agents"), ("agents", "seconds per iteration"))
    figure, every = make_panels(len(kinds), 3, 4.6, 3.6)
    for axes, (panel, measure) in zip(every, kinds, strict=True):
        for critic in CRITICS:
            _draw(axes, table, panel, critic, measure)
        if panel == "strength":
            for part, style in (("on support", ":"), ("off support", "--")):
                _draw(axes, table, panel, "2-IR", part, style)
        what = "max CCE gap" if measure == "gap" else "CPU seconds per iteration"
        finish(axes, 7, xscale="log", yscale="log", xlabel=_LABELS[panel], ylabel=what)
    return figure


def _draw(axes: Any, table: Any, panel: str, critic: str, measure: str, style: str = "-") -> None:
    """Draw the mean and range over games; for parts of the model's gap only the mean."""
    columns = ("panel", "critic", "at", measure)
    found: dict[float, list[float]] = {}
    for own_panel, own_critic, at, value in zip(*map(table.column, columns), strict=True):
        if own_panel == panel and own_critic == critic and np.isfinite(value):
            found.setdefault(at, []).append(value)
    if not found:
        return
    x = sorted(found)
    # Gaps of at most zero cannot be drawn on a logarithmic axis.
    least = 1e-9 if measure.startswith("seconds") else 1e-4
    mean, low, high = (
        np.maximum([float(of(found[at])) for at in x], least) for of in (np.mean, np.min, np.max)
    )
    edges = (low, high) if style == "-" else (mean, mean)
    label = critic if style == "-" else f"{critic} model: {measure}"
    draw_band(axes, x, mean, *edges, style, color=_COLOURS[critic], lw=1.4, label=label)
