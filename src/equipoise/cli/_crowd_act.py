"""The demo's act about very many agents: a pure equilibrium, and better ones for society."""

import time
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.report import Report, figures
from equipoise.runs import Record, Run, Table

#: Which equilibria are compared, by their names on the page.
WANTED: dict[str, dict[str, Any]] = {
    "least regret": {},
    "best for society": {"objective": "welfare", "sense": "max"},
    "worst for society": {"objective": "welfare", "sense": "min"},
}


def play_crowd(config: dict[str, Any], run: Run) -> Record:
    """A town of households who matter to each other only through their mean demand."""
    game = eq.games.load(config["game"], agents=config["agents"])
    entry = eq.games.describe(config["game"])
    solutions, seconds = {}, []
    for name, options in WANTED.items():
        start = time.perf_counter()
        solutions[name] = eq.solve(game, **options)
        seconds.append(time.perf_counter() - start)
    solution = solutions["least regret"]
    certificate: Any = solution.certificate
    rows = [
        (name, float(np.mean(s.value)), float(s.certificate.max_gain), float(s.stats["bound"]))
        for name, s in solutions.items()
    ]
    columns = ("equilibrium", "mean reward", "largest gain", "largest gain promised")
    arrays = {
        "gains": certificate.class_gains.max(0),
        "certified_value": certificate.class_value.mean(0),
        "value": solution.value,
        "aggregate": solution.stats["aggregate"][..., 0],
        "solved": solution.status.solved,
    }
    scalars = {
        "game": f"{entry.title}, {config['agents']:,} agents, "
        f"{game.states} states, {game.horizon} steps",
        "seconds": seconds[0],
        "first_seconds": seconds[0],
        "method": certificate.method,
        "exact": certificate.exact,
        "title": entry.title,
        "notes": entry.notes.replace("`", ""),
    }
    return Record("crowd", config, scalars, arrays, {"equilibria": Table(columns, rows)})


def show_crowd(page: Report, record: Record) -> None:
    """The equilibria side by side, and the demand in the first."""
    gain = float(record.arrays["gains"].max())
    page.text(
        f"{record.scalars['title']}, {record.config['agents']:,} of them. "
        f"{record.scalars['notes']}\n\n"
        "Each household plays one action in each step and state, nothing is random but the "
        "battery. The certificate solves every agent's own decision problem, with the demand "
        f"shifted by what that agent alone would change: nobody gains more than {gain:.1g}. "
        "Society may prefer another equilibrium, and pay for it in what the best-placed agent "
        "could gain; each comes with its own certificate:"
    )
    page.table(record.tables["equilibria"])
    page.figure(
        figures.heat_map(
            record.arrays["aggregate"].T, title="mean demand", xlabel="step", ylabel="battery"
        ),
        alt="Heat map of the mean demand in every step and state of the battery.",
        caption="The equilibrium of least regret.",
    )
