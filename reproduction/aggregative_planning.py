"""Planning in the aggregative paper, measured: gaps, time and welfare against agents.

The paper states theorems and shows no experiment. Here, its subroutine and its Algorithms 1 and 2
run as printed (its slack, its grid, a profile drawn from the mixture), next to the corrected
versions (the slack of Lemma A, the rounded vertex). They search for any equilibrium and for the
best, in named games of one step and in random Markov games. The printed and the proven bounds and
the processor time are recorded. The last panel shows the price of equilibrium: the best and the
worst epsilon-equilibrium found, and the social optimum.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise import aggregative
from equipoise.aggregative import theory
from equipoise.games import load
from equipoise.runs import Record, Table
from reproduction import aggregative_learning, rows_of
from reproduction._drawing import finish, make_panels

__all__ = ["FORMS", "Config", "plan_game", "plot", "run"]

_PRINTED = {"objective": "welfare", "slack": "printed", "rounding": "sample"}
_OURS = {"objective": "welfare", "slack": "lemma"}
#: Name -> options of the solver.
FORMS: dict[str, dict[str, Any]] = {
    "printed": _PRINTED,
    "welfare": _OURS,
    "regret": {},
}
#: The same for Markov games, where the printed slack of Algorithm 2 grows with the horizon.
MARKOV_FORMS: dict[str, dict[str, Any]] = {
    "printed": _PRINTED,
    "printed, state-wise": _PRINTED | {"method": "state-wise"},
    "welfare": _OURS,
    "welfare, state-wise": _OURS | {"method": "state-wise"},
    "regret": {},
}
#: A slack that every action satisfies; it gives the social optimum.
_ANYTHING = 1e9
#: Columns of the table `welfare`.
BEST, WORST = "best ε-equilibrium found", "worst ε-equilibrium found"
#: Options of the plans that are compared: the optimum, and the best and worst equilibrium found.
_WORTHS: tuple[dict[str, Any], ...] = (
    {"slack": _ANYTHING},
    {"slack": "lemma"},
    {"slack": "lemma", "sense": "min"},
)
#: Smallest gap that is drawn; smaller gaps are rounding errors.
_FLOOR = 1e-7


@dataclass(frozen=True)
class Config:
    """Settings of the experiment. The default takes about a minute.

    >>> Config().agents
    (100, 1000, 10000, 100000, 1000000)
    """

    #: Named games of one step.
    games: tuple[str, ...] = ("two-roads", "el-farol", "cournot", "public-good", "beauty-contest")
    #: Numbers of agents.
    agents: tuple[int, ...] = (100, 1000, 10_000, 100_000, 1_000_000)
    #: Number of states of the random Markov games, which are linear in the aggregate.
    states: int = 10
    #: Number of steps of the Markov games.
    horizon: int = 10
    #: Number of types of agents in the Markov games.
    types: int = 5
    #: Side of the cells.
    spacing: float = 0.05
    #: Number of random Markov games.
    seeds: int = 5

    @classmethod
    def quick(cls) -> "Config":
        """Return a config with fewer agents and shorter Markov games.

        >>> Config.quick().horizon
        5
        """
        return cls(agents=(100, 1000, 10_000), states=5, horizon=5, seeds=2)


def run(config: Config, key: int = 0) -> Record:
    """Plan every game in every form. The record has the tables `normal`, `markov`, `welfare`.

    **Example**

    >>> from reproduction import aggregative_planning as paper
    >>> small = paper.Config(games=("el-farol",), agents=(100,), states=2, horizon=2, seeds=1)
    >>> record = paper.run(small)
    >>> record.tables["normal"].column("form")
    ['printed', 'welfare', 'regret']
    """
    normal = [
        {"game": name, "agents": n} | plan_game(form, load(name, agents=n), config.spacing, key)
        for name in config.games
        for n in config.agents
        for form in FORMS.items()
    ]
    markov = [row for n in config.agents for row in _markov(config, n, key)]
    worth = [_worth(name, max(config.agents), config.spacing) for name in config.games]
    tables = {"normal": normal, "markov": markov, "welfare": worth}
    tables = {name: Table.from_dicts(rows) for name, rows in tables.items()}
    return Record("aggregative-planning", config, {"key": key}, {}, tables)


def plan_game(
    form: tuple[str, dict[str, Any]], game: Any, spacing: float, key: int
) -> dict[str, Any]:
    """Return the exact gap, bound, welfare and processor seconds of one game in one form.

    **Example**

    >>> from equipoise.games import load
    >>> from reproduction import aggregative_planning as paper
    >>> found = paper.plan_game(("regret", {}), load("el-farol", agents=100), 0.05, key=0)
    >>> found["gap"] <= found["bound"]
    True
    """
    name, options = form
    markov = hasattr(game, "horizon")
    begun = time.process_time()
    solution = aggregative.solve_aggregative(game, spacing=spacing, key=key, **options)
    seconds = time.process_time() - begun
    bound = solution.stats["bound"]
    if bound is None:  # Theorem 3.1 or 4.1 as printed; in games of one step both are Theorem C.1
        state_wise = not markov or options.get("method") == "state-wise"
        given = {n: getattr(game, n) for n in ("lipschitz", "delta", "agents")}
        bound = (theory.printed_statewise_gap if state_wise else theory.printed_gap)(
            spacing=spacing,
            actions=game.actions[0],
            horizon=game.horizon if markov else 1,
            transition_lipschitz=game.transition_lipschitz if markov else 0.0,
            **given,
        )
    return {
        "form": name,
        "gap": float(solution.certificate.max_gain),
        "bound": float(bound),
        "welfare": float(np.mean(solution.value)),
        "seconds": seconds,
    }


def _markov(config: Config, agents: int, key: int) -> list[dict[str, Any]]:
    """Return the means over the seeds, and the largest gap."""
    setting = aggregative_learning.Config(
        agents=agents, types=config.types, states=config.states, horizon=config.horizon
    )
    games = [aggregative_learning.small_game(setting, key + seed) for seed in range(config.seeds)]
    rows = []
    for form in MARKOV_FORMS.items():
        found = [plan_game(form, game, config.spacing, key) for game in games]
        means = {m: float(np.mean([f[m] for f in found])) for m in found[0] if m != "form"}
        largest = max(f["gap"] for f in found)
        rows.append({"agents": agents, "form": form[0], **means, "largest gap": largest})
    return rows


def _worth(name: str, agents: int, spacing: float) -> dict[str, Any]:
    """Return the mean reward at the optimum, and at the best and worst epsilon-equilibrium found.

    Since cells have a size, epsilon is not zero; its exact value is part of the row.
    """
    game = load(name, agents=agents)
    optimum, best, worst = (
        aggregative.solve_aggregative(game, objective="welfare", spacing=spacing, **options)
        for options in _WORTHS
    )
    rewards = [float(solution.value) for solution in (optimum, best, worst)]
    gains = [float(solution.certificate.max_gain) for solution in (best, worst)]
    single = game.lipschitz * game.delta  # largest effect of one agent's action on another agent
    return {
        "game": name,
        "agents": agents,
        "optimum": rewards[0],
        BEST: rewards[1],
        "ε of the best": gains[0],
        WORST: rewards[2],
        "ε of the worst": gains[1],
        "price of stability": _price(rewards[0], rewards[1], max(gains[0], single)),
        "price of anarchy": _price(rewards[0], rewards[2], max(gains[1], single)),
    }


def _price(optimum: float, found: float, epsilon: float = 0.0) -> float | None:
    """Return the ratio of the optimum to the reward found, or None if their signs differ.

    Return None, too, if epsilon exceeds a tenth of the reward found: the ratio would then reflect
    the grid, or a single agent, rather than the game.
    """
    if epsilon > 0.1 * abs(found):
        return None
    if min(optimum, found) > 0:
        return optimum / found
    return found / optimum if max(optimum, found) < 0 else None


def plot(record: Record) -> Any:
    """Draw gaps, processor time and welfare, and return the Matplotlib figure.

    **Example**

    >>> from reproduction import aggregative_planning as paper
    >>> small = paper.Config(games=("el-farol",), agents=(100,), states=2, horizon=2, seeds=1)
    >>> len(paper.plot(paper.run(small)).axes)
    4
    """
    figure, (normal, markov, clock, worth) = make_panels(4, 4, 4.25, 4.0)
    _draw_normal(normal, rows_of(record.tables["normal"]))
    rows = rows_of(record.tables["markov"])
    for axes, measure in ((markov, "gap"), (clock, "seconds")):
        _draw_markov(axes, rows, measure)
    for axes in (normal, markov, clock):
        finish(axes, xscale="log", yscale="log", xlabel="agents")
    normal.set(title="one step (mean over games)", ylabel="largest gain of any agent")
    markov.set(title="Markov games", ylabel="largest gain of any agent")
    clock.set(title="time of a plan", ylabel="processor seconds")
    normal.legend(fontsize=7, frameon=False)
    _draw_worth(worth, rows_of(record.tables["welfare"]))
    return figure


_STYLES = {"printed": ("C3", "--"), "welfare": ("C0", "-"), "regret": ("C2", "-")}


def _draw_normal(axes: Any, rows: list[dict[str, Any]]) -> None:
    agents = sorted({row["agents"] for row in rows})
    for form in FORMS:
        colour, style = _STYLES[form]
        for measure, width, label in (("gap", 1.4, form), ("bound", 0.8, f"{form}: bound")):
            means = [
                np.mean([r[measure] for r in rows if r["form"] == form and r["agents"] == n])
                for n in agents
            ]
            line = style if measure == "gap" else ":"
            drawn = np.maximum(np.array(means), _FLOOR)
            axes.plot(agents, drawn, line, marker=".", color=colour, lw=width, label=label)


def _draw_markov(axes: Any, rows: list[dict[str, Any]], measure: str) -> None:
    for form in MARKOV_FORMS:
        base, _, how = form.partition(", ")
        own = [row for row in rows if row["form"] == form]
        agents, values = [r["agents"] for r in own], [r[measure] for r in own]
        colour, style = _STYLES[base]
        style = "-." if how else style
        drawn = np.maximum(values, _FLOOR)
        axes.plot(agents, drawn, style, marker=".", color=colour, lw=1.4, label=form)
        if measure == "gap" and not how:
            bounds = [row["bound"] for row in own]
            axes.plot(agents, bounds, ":", color=colour, lw=0.8, label=f"{form}: bound")
    if measure == "gap":
        axes.legend(fontsize=6, frameon=False)


def _draw_worth(axes: Any, rows: list[dict[str, Any]]) -> None:
    places = np.arange(len(rows))
    for i, kind in enumerate(("optimum", BEST, WORST)):
        axes.bar(places + 0.27 * (i - 1), [row[kind] for row in rows], 0.25, label=kind)
    axes.set_xticks(places, [row["game"] for row in rows], rotation=20, fontsize=7)
    axes.axhline(0.0, color="0.4", lw=0.6)
    axes.set(title="price of equilibrium", ylabel="mean reward")
    axes.legend(fontsize=7, frameon=False)
