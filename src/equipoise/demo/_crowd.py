"""The demo's act about very many agents: choose a city's best pure equilibrium for society."""

from typing import Any

import numpy as np

import equipoise as eq
from equipoise.demo._acts import Act, Settings, Tell, timed
from equipoise.report import Report, figures, format_value
from equipoise.runs import Record, Run, Table

#: The equilibria compared, by their names on the page; the first is the one certified.
WANTED: dict[str, dict[str, Any]] = {
    "best for society": {"objective": "welfare", "sense": "max"},
    "worst for society": {"objective": "welfare", "sense": "min"},
    "any: least regret": {},
}
BEST, WORST, ANY = WANTED


class Crowd(Act):
    """A city of commuters who interact only through the share of them who ride."""

    name = "crowd"
    steps = (*WANTED, "a map of the first day")

    def config(self, settings: Settings) -> dict[str, Any]:
        """The city."""
        return {"game": "bus-or-car", "agents": 100_000}

    def play(self, config: dict[str, Any], run: Run, tell: Tell) -> Record:
        """Find three equilibria of the city, and map the equilibria of the first day."""
        game = eq.games.load(config["game"], agents=config["agents"])
        entry = eq.games.describe(config["game"])
        solutions, seconds = {}, []
        for name, options in WANTED.items():
            tell(name)
            solutions[name], taken = timed(lambda options=options: eq.solve(game, **options))
            seconds.append(taken)
        tell(self.steps[-1])
        points = eq.aggregative.equilibria(game.stage(0, 0))
        days = {name: _days(game, solution) for name, solution in solutions.items()}
        rows = []
        for name, s in solutions.items():
            found = (s.value[0], days[name][0].mean(), s.certificate.max_gain, s.stats["bound"])
            rows.append((name, *map(float, found)))
        gains = ("largest gain", "bound on the gain")
        columns = ("equilibrium", "mean reward", "share who ride", *gains)
        best = solutions[BEST]
        arrays = {
            "aggregate": best.stats["aggregate"],
            **{
                f"map/{part}": np.stack([getattr(one, part) for one in points])
                for part in ("aggregate", "welfare", "gain", "region")
            },
            **{f"cost/{name}": cost for name, (_, cost) in days.items()},
        }
        fleet, notes = f"{game.states} sizes of the fleet", entry.notes
        for name, size in (("`horizon`", game.horizon), ("`levels`", game.states)):
            notes = notes.replace(name, str(size))
        scalars = {
            "game": f"{entry.title}; {config['agents']:,} commuters, {fleet}, {game.horizon} days",
            "seconds": seconds[0],
            "title": entry.title,
            "source": entry.source,
            "as announced": float(best.certificate.max_upper) <= best.stats["bound"],
            "notes": notes,
        }
        tables = {"equilibria": Table(columns, rows)}
        return Record("crowd", config, scalars, arrays, tables, best.to_plain())

    def outcome(self, record: Record) -> str:
        """State the mean reward of each equilibrium, and the largest gain."""
        rows = record.tables["equilibria"].rows
        worth = {row[0]: format_value(row[1], 3) for row in rows}
        gain, promised = (format_value(max(row[k] for row in rows), 2) for k in (3, 4))
        return (
            f"The mean reward is {worth[BEST]} in the best equilibrium, {worth[WORST]} in the "
            f"worst and {worth[ANY]} in one found without an objective; nobody gains more than "
            f"{gain} by leaving any of them (the theory guarantees {promised})."
        )

    def show(self, page: Report, record: Record) -> None:
        """Show the equilibria side by side, the cost of each day, and a map of the first day."""
        page.table(record.tables["equilibria"])
        costs = {name: record.arrays[f"cost/{name}"] for name in (BEST, WORST)}
        days = [str(day + 1) for day in range(len(costs[BEST]))]
        points = [record.arrays[f"map/{name}"] for name in ("aggregate", "welfare")]
        found = {f"{name}s": record.arrays[f"map/{name}"] for name in ("gain", "region")}
        page.figure(
            figures.policy_bars(costs, actions=days, title="mean cost by day", ylabel="cost"),
            alt="Bars of a commuter's mean cost on each day, falling in the best equilibrium and "
            "larger in the worst",
            caption="More riders bring more buses, and more buses more riders: day by day, from "
            "the smallest fleet.",
        )
        page.figure(
            figures.equilibrium_map(
                *points, title="equilibria of the first day", names=["share who ride"], **found
            ),
            alt="Equilibria of the first day over the share who ride, with their welfare",
            caption="The first day with the smallest fleet. The shaded areas are the cells in "
            "which each equilibrium was found.",
        )


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
