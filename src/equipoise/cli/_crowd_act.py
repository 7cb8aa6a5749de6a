"""The demo's act about very many agents: of a city's pure equilibria, the best for society."""

import time
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.report import Report, figures
from equipoise.runs import Record, Run, Table

#: Which equilibria are compared, by their names on the page.
WANTED: dict[str, dict[str, Any]] = {
    "best for society": {"objective": "welfare", "sense": "max"},
    "worst for society": {"objective": "welfare", "sense": "min"},
    "least regret": {},
}


def play_crowd(config: dict[str, Any], run: Run) -> Record:
    """A city of households who matter to each other only through their mean demand."""
    game = eq.games.load(config["game"], agents=config["agents"])
    entry = eq.games.describe(config["game"])
    solutions, seconds = {}, []
    for name, options in WANTED.items():
        start = time.perf_counter()
        solutions[name] = eq.solve(game, spacing=config["spacing"], **options)
        seconds.append(time.perf_counter() - start)
    best, *_ = WANTED
    solution = solutions[best]
    certificate: Any = solution.certificate
    rows = [
        (name, float(np.mean(s.value)), float(s.certificate.max_gain), float(s.stats["bound"]))
        for name, s in solutions.items()
    ]
    columns = ("equilibrium", "mean reward", "largest gain", "largest gain promised")
    found = eq.aggregative.equilibria(eq.games.load(config["several"], agents=config["agents"]))
    arrays = {
        "gains": certificate.gains,
        "certified_value": np.asarray(certificate.mean_value),
        "value": solution.value,
        "aggregate": solution.stats["aggregate"],
        "solved": solution.status.solved,
        "map/aggregate": np.stack([one.aggregate for one in found]),
        "map/welfare": np.array([one.welfare for one in found]),
        "map/gain": np.array([one.gain for one in found]),
        "map/region": np.stack([one.region for one in found]),
    }
    scalars = {
        "game": f"{entry.title}, {config['agents']:,} agents, "
        f"{game.states} states, {game.horizon} steps",
        "seconds": seconds[0],
        "method": certificate.method,
        "exact": certificate.exact,
        "concept": certificate.concept,
        "title": entry.title,
        "notes": entry.notes.replace("`horizon`", f"{game.horizon}").replace(
            "`levels`", f"{game.states}"
        ),
        "several": eq.games.describe(config["several"]).title,
    }
    return Record("crowd", config, scalars, arrays, {"equilibria": Table(columns, rows)})


def show_crowd(page: Report, record: Record) -> None:
    """The equilibria side by side, the demand in the best, and a map where there are several."""
    agents = record.config["agents"]
    page.text(
        f"{record.scalars['title']}, {agents:,} of them. {record.scalars['notes']}\n\n"
        "Each household plays one action in each step and state; nothing is random but the "
        "battery. The certificate solves every agent's own decision problem, with the demand "
        "shifted by what that agent alone would change. Of all near-equilibria on the grid, "
        "society may choose:"
    )
    page.table(record.tables["equilibria"])
    page.figure(
        figures.heat_map(
            record.arrays["aggregate"][..., 0].T,
            title="mean demand",
            xlabel="step",
            ylabel="battery",
        ),
        alt="Heat map of the mean demand in every step and state of the battery",
        caption="The equilibrium that is best for society.",
    )
    several = record.scalars["several"]
    page.text(
        "A fine grid asks a household to forgo next to nothing, and here leaves society little to "
        "choose. Where there are several equilibria, the choice is everything:"
    )
    page.figure(
        figures.equilibrium_map(
            record.arrays["map/aggregate"],
            record.arrays["map/welfare"],
            gains=record.arrays["map/gain"],
            regions=record.arrays["map/region"],
            title=several,
        ),
        alt="Equilibria of a second game over its aggregate, with their welfare and the best",
        caption=f"{several}; {agents:,} agents. Shaded are the cells each was found in.",
    )
