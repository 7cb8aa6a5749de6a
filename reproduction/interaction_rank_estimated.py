"""Theorem 2 with estimated rewards: the gap against the error of the rewards and the agents.

The theorem bounds the gap of what is learned from rewards with a mean squared error of eps under
the behaviour policy: `C ((2 N^2)^(K-1) eps)^(1/(3K-1))`, up to a constant, where C is at most the
single-agent concentrability. Here a 2-IR critic is fitted to logs of polymatrix games under uniform
play. Its error and the gap of the learned mixture are computed exactly, with the rewards of every
game moved into [0, 1], as the theorem has it. Two learners are compared with the bound: one with a
weak regulariser and many iterations, which leaves the error of the rewards, and one with the
theorem's own parameters for the measured error. Logs with little noise make the errors so small
that the theorem's regulariser lets policies move.
"""

import os
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from equipoise import offline
from equipoise.certificates import certify
from equipoise.core import checks
from equipoise.games import Interactions, families
from equipoise.offline import parameters, theory
from equipoise.runs import Record, Table
from reproduction import kept, rows_of
from reproduction._drawing import finish, make_panels

__all__ = ["Config", "plot", "run"]

RANK = 2


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. `Config.quick()` takes some seconds.

    **Example**

    >>> from reproduction import interaction_rank_estimated
    >>> interaction_rank_estimated.Config().agents
    (3, 5, 10, 20, 50)
    """

    #: Numbers of agents.
    agents: tuple[int, ...] = (3, 5, 10, 20, 50)
    #: Number of actions of each agent, and the single-agent concentrability of uniform play.
    actions: int = 3
    #: Numbers of rows.
    samples: tuple[int, ...] = (300, 3000, 30_000)
    #: Standard deviation of rewards under uniform play.
    scale: float = 0.25
    #: Standard deviations of the noise of rewards.
    noises: tuple[float, ...] = (0.25, 0.0025)
    #: Number of random games of each cell.
    games: int = 3
    #: Weight of the weak regulariser, in units of the range of rewards.
    strength: float = 1e-6
    #: Step size of the first learner, in the same units.
    step: float = 20.0
    #: Number of iterations of the first learner.
    iterations: int = 5000

    def __post_init__(self) -> None:
        checks.check_count("games", self.games)

    @classmethod
    def quick(cls, **changes: Any) -> "Config":
        """Return a config with fewer agents, sizes and games.

        >>> Config.quick().agents
        (3, 10)
        """
        return replace(
            cls(agents=(3, 10), samples=(300, 3000, 30_000), games=1, iterations=1000), **changes
        )


def run(config: Config, key: int = 0, folder: str | os.PathLike[str] | None = None) -> Record:
    """Fit, learn and certify; the table `gaps` has a row for each log.

    Columns: the error of the rewards (the largest of all agents), the gap with the weak
    regulariser, the gap with the theorem's parameters, which are two more columns, and the bound;
    all for rewards in [0, 1].
    The table `slopes` has the powers of the error and of N in a least-squares fit of the logarithm
    of the gap, over the logs with the most noise, and those in print.

    **Example**

    >>> from reproduction import interaction_rank_estimated
    >>> small = interaction_rank_estimated.Config(agents=(3, 4), samples=(300, 3000), games=1)
    >>> record = interaction_rank_estimated.run(small)
    >>> gaps, bounds = (record.tables["gaps"].column(name) for name in ("gap", "bound"))
    >>> len(gaps), all(gap < bound for gap, bound in zip(gaps, bounds, strict=True))
    (8, True)
    """
    rows: list[dict[str, Any]] = []
    for agents in config.agents:
        settings = {**vars(config), "agents": (agents,), "key": key}
        made = kept(folder, f"agents-{agents}", settings, partial(_part, config, agents, key))
        rows += rows_of(made.tables["gaps"])
    slopes = _slopes([row for row in rows if row["noise"] == max(config.noises)])
    tables = {"gaps": Table.from_dicts(rows), "slopes": Table.from_dicts(slopes)}
    return Record("interaction-rank-estimated", config, {"key": key}, {}, tables)


def reward_range(terms: Interactions) -> float:
    """Return the largest difference of an agent's rewards, for terms of one or two agents.

    >>> terms = Interactions({1: [[0], [1]]}, {1: [[[0.0, 1.0], [2.0, 5.0]]]}, 2)
    >>> reward_range(terms)
    3.0
    """
    low = np.zeros((terms.situations, terms.agents, terms.moves))
    high = low.copy()
    for order, scopes in terms.scopes.items():
        table = np.asarray(terms.tables[order])
        for m, scope in enumerate(scopes):
            own = table[:, m]
            low[:, scope[0]] += own if order == 1 else own.min(-1)
            high[:, scope[0]] += own if order == 1 else own.max(-1)
    return float((high.max((0, 2)) - low.min((0, 2))).max())


def mean_squared_errors(true: Interactions, fitted: Interactions, behaviour: Any) -> np.ndarray:
    """Return (contexts, agents): the exact mean squared error under a product policy.

    Both rewards have terms of at most two agents. `behaviour` is (contexts, agents, actions).

    >>> terms = Interactions({1: [[0], [1]]}, {1: [[[0.0, 1.0], [2.0, 5.0]]]}, 2)
    >>> zero = Interactions({1: [[0], [1]]}, {1: [[[0.0, 0.0], [0.0, 0.0]]]}, 2)
    >>> mean_squared_errors(terms, zero, np.full((1, 2, 2), 0.5)).tolist()
    [[0.5, 14.5]]
    """
    behaviour = np.asarray(behaviour, float)
    agents, moves = behaviour.shape[1:]
    size = (len(behaviour), agents, agents, moves, moves)
    pairs, own = np.zeros(size), np.zeros(behaviour.shape)
    for sign, terms in ((1.0, true), (-1.0, fitted)):
        for order, scopes in terms.scopes.items():
            table = sign * np.asarray(terms.tables[order])
            for m, scope in enumerate(scopes):
                if order == 1:
                    own[:, scope[0]] += table[:, m]
                else:
                    pairs[:, scope[0], scope[1]] += table[:, m]
    # Given the own move, the terms of the others are independent.
    mean = np.einsum("cijab,cjb->cija", pairs, behaviour)
    square = np.einsum("cijab,cjb->cija", pairs**2, behaviour)
    total = (own + mean.sum(2)) ** 2 + (square - mean**2).sum(2)
    return np.einsum("cia,cia->ci", total, behaviour)


def _part(config: Config, agents: int, key: int) -> Record:
    """Return the rows of one number of agents."""
    rows = []
    for number in range(config.games):
        for noise in config.noises:
            family = families.polymatrix(agents, config.actions, scale=config.scale, noise=noise)
            game = family.sample(key=key + number)
            for samples in config.samples:
                log = offline.collect(game, "uniform", samples=samples, key=key + 1000 + number)
                cell = {"agents": agents, "game": key + number, "noise": noise, "samples": samples}
                rows.append(cell | _row(config, game, log))
    return Record("interaction-rank-estimated", config, tables={"gaps": Table.from_dicts(rows)})


def _row(config: Config, game: Any, log: Any) -> dict[str, float]:
    """Return the error of the fitted rewards, both gaps and the bound, for rewards in [0, 1]."""
    unit, behaviour = reward_range(game.interactions), game.uniform_policy()
    model: Any = offline.fit(log, RANK, intervals=False)
    errors = mean_squared_errors(game.interactions, model.game.interactions, behaviour)
    error = float(errors.max()) / unit**2
    printed = parameters.paper(game.agents, RANK, error)
    weak = parameters.Parameters(config.iterations, config.step, config.strength)

    def gap(chosen: parameters.Parameters) -> float:
        here = replace(chosen, step=chosen.step / unit, strength=chosen.strength * unit)
        solution = offline.solve(model, force=True, parameters=here)
        return float(certify(game, solution.policy).max_gain) / unit

    ratio = float(config.actions)
    return {
        "error": error,
        "gap": gap(weak),
        "gap, printed": gap(printed),
        "iterations, printed": printed.iterations,
        "strength, printed": printed.strength,
        "bound": theory.printed_gap(game.agents, RANK, error, divergence=ratio),
        "uniform": float(certify(game, behaviour).max_gain) / unit,
    }


def _slopes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fit log gap = constant + a log error + b log N; return a and b beside those in print."""
    found = []
    powers = {"error": 1 / (3 * RANK - 1), "agents": 2 * (RANK - 1) / (3 * RANK - 1)}
    features = np.log([[row[name] for name in powers] for row in rows])
    design = np.column_stack([np.ones(len(rows)), features])
    for gap in ("gap", "gap, printed"):
        values = np.array([row[gap] for row in rows])
        known = values > 0  # the gap of a mixture can be negative
        fit = np.linalg.lstsq(design[known], np.log(values[known]), rcond=None)[0]
        for name, slope in zip(powers, fit[1:], strict=True):
            line = {"of": gap, "in": name, "slope": float(slope), "printed": powers[name]}
            found.append(line)
    return found


def plot(record: Record) -> Any:
    """Draw the gap against the error of the rewards, and the bound, for each number of agents.

    **Example**

    >>> from reproduction import interaction_rank_estimated
    >>> small = interaction_rank_estimated.Config(agents=(3, 4), samples=(300, 3000), games=1)
    >>> record = interaction_rank_estimated.run(small)
    >>> len(interaction_rank_estimated.plot(record).axes)
    2
    """
    rows = rows_of(record.tables["gaps"])
    figure, every = make_panels(2, 2, 4.8, 3.8)
    titles = {"gap": "weak regulariser", "gap, printed": "parameters of Theorem 4"}
    for axes, (name, title) in zip(every, titles.items(), strict=True):
        for k, agents in enumerate(dict.fromkeys(row["agents"] for row in rows)):
            own = sorted(
                (row for row in rows if row["agents"] == agents), key=lambda row: row["error"]
            )
            error, gap, bound = (np.array([r[x] for r in own]) for x in ("error", name, "bound"))
            shown = gap > 0
            axes.plot(error[shown], gap[shown], "o", ms=3, color=f"C{k}", label=f"N = {agents}")
            axes.plot(error, bound, "--", color=f"C{k}", lw=1.0)
        axes.axhline(1.0, color="0.4", lw=0.8, ls=":")
        labels = {"xlabel": "mean squared error of the rewards", "ylabel": "max CCE gap"}
        finish(axes, 7, xscale="log", yscale="log", title=f"{title}; bounds dashed", **labels)
    return figure
