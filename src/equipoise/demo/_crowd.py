"""The demo's act about very many agents: of a city's pure equilibria, the best for society."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.report import Report, figures, format_value
from equipoise.runs import Record, Run, Table

#: Which equilibria are compared, by their names on the page; the first is the one certified.
WANTED: dict[str, dict[str, Any]] = {
    "best for society": {"objective": "welfare", "sense": "max"},
    "worst for society": {"objective": "welfare", "sense": "min"},
    "any: least regret": {},
}
BEST, WORST, ANY = WANTED
STEPS = (*WANTED, "a map of the first day")


def play_crowd(config: dict[str, Any], run: Run, tell: Callable[[str], None]) -> Record:
    """A city of commuters who matter to each other only through how many of them ride."""
    game = eq.games.load(config["game"], agents=config["agents"])
    entry = eq.games.describe(config["game"])
    solutions, seconds = {}, []
    for name, options in WANTED.items():
        tell(name)
        start = time.perf_counter()
        solutions[name] = eq.solve(game, spacing=config["spacing"], **options)
        seconds.append(time.perf_counter() - start)
    tell(STEPS[-1])
    found = eq.aggregative.equilibria(game.stage(0, 0))
    days = {name: _days(game, solution) for name, solution in solutions.items()}
    rows = [
        (
            name,
            float(s.value[0]),
            float(days[name][0].mean()),
            float(s.certificate.max_gain),
            float(s.stats["bound"]),
        )
        for name, s in solutions.items()
    ]
    columns = (
        "equilibrium", "mean reward", "share who ride", "largest gain", "largest gain promised",
    )  # fmt: skip
    best = solutions[BEST]
    arrays = {
        "aggregate": best.stats["aggregate"],
        "map/aggregate": np.stack([one.aggregate for one in found]),
        "map/welfare": np.array([one.welfare for one in found]),
        "map/gain": np.array([one.gain for one in found]),
        "map/region": np.stack([one.region for one in found]),
    } | {f"cost/{name}": cost for name, (_, cost) in days.items()}
    scalars = {
        "game": f"{entry.title}; {config['agents']:,} commuters, {game.states} sizes of the fleet, "
        f"{game.horizon} days",
        "seconds": seconds[0],
        "title": entry.title,
        "source": entry.source,
        "as announced": float(best.certificate.max_upper) <= best.stats["bound"],
        "notes": entry.notes.replace("`horizon`", f"{game.horizon}").replace(
            "`levels`", f"{game.states}"
        ),
    }
    tables = {"equilibria": Table(columns, rows)}
    return Record("crowd", config, scalars, arrays, tables, best.to_plain())


def _days(game: eq.AggregativeMarkovGame, solution: eq.Solution) -> tuple[np.ndarray, np.ndarray]:
    """(horizon,) each: the share who ride and the mean cost of a day, from the smallest fleet."""
    types, actions = game.types, game.actions[0]
    aggregate = solution.stats["aggregate"]
    chances = np.eye(game.states)[0]
    share, cost = np.zeros(game.horizon), np.zeros(game.horizon)
    for h in range(game.horizon):
        following = np.zeros(game.states)
        for s, chance in enumerate(chances):
            plays = solution.policy.plays(types, actions, h, s)
            share[h] += chance * aggregate[h, s, 0]
            rewards = game.rewards(h, s, aggregate[h, s])
            cost[h] -= chance * float((plays * rewards).sum() / game.agents)
            following += chance * game.transitions(h, s, aggregate[h, s])
        chances = following
    return share, cost


def crowd_outcome(record: Record) -> str:
    """What the choice of the equilibrium is worth."""
    rows = record.tables["equilibria"].rows
    worth = {row[0]: format_value(row[1], 3) for row in rows}
    gain, promised = (format_value(max(row[k] for row in rows), 2) for k in (3, 4))
    return (
        f"The mean reward is {worth[BEST]} in the best equilibrium, {worth[WORST]} in the worst "
        f"and {worth[ANY]} in the one found where nobody chooses; nobody gains more than {gain} "
        f"by leaving any of them ({promised} was promised)."
    )


def show_crowd(page: Report, record: Record) -> None:
    """The equilibria side by side, what each day costs in them, and a map of the first day."""
    agents = record.config["agents"]
    page.text(
        f"{record.scalars['title']}: {agents:,} commuters ({record.scalars['source']}). "
        f"{record.scalars['notes']}\n\n"
        "Each commuter plays one action on each day and with each size of the fleet; nothing is "
        "random but the fleet. The certificate solves every commuter's own decision problem, with "
        "the share who ride shifted by what that one alone would change. The city begins with the "
        "smallest fleet. Of all near-equilibria on the grid, society may choose:"
    )
    page.table(record.tables["equilibria"])
    names = (BEST, WORST)
    costs = {name: record.arrays[f"cost/{name}"] for name in names}
    days = [str(day + 1) for day in range(len(costs[BEST]))]
    page.figure(
        figures.policy_bars(costs, actions=days, title="mean cost by day", ylabel="cost"),
        alt="Bars of a commuter's mean cost on each day, falling in the best equilibrium and "
        "larger in the worst",
        caption="Riders bring buses, and buses riders: from the smallest fleet, day by day.",
    )
    page.figure(
        figures.equilibrium_map(
            record.arrays["map/aggregate"],
            record.arrays["map/welfare"],
            gains=record.arrays["map/gain"],
            regions=record.arrays["map/region"],
            title="equilibria of the first day",
            names=["share who ride"],
        ),
        alt="Equilibria of the first day over the share who ride, with their welfare and the best",
        caption=f"The first day with the smallest fleet; {agents:,} commuters. Shaded are the "
        "cells each equilibrium was found in.",
    )
