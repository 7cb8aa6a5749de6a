"""The demo's act about a log: what many agents did and earned becomes a certified policy."""

import time
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.report import Report, figures
from equipoise.runs import Record, Run, Table

#: Critics by their names on the page; the first is the one whose policy is certified.
CRITICS: dict[str, Any] = {"pairs (rank 2)": 2, "each agent alone (rank 1)": 1, "joint": "joint"}


def play_log(config: dict[str, Any], run: Run) -> Record:
    """Fit critics of several ranks to one log, learn from each, and certify in the true game."""
    family = eq.games.families.polymatrix(
        agents=config["agents"], actions=3, contexts=2, scale=0.25
    )
    game = family.sample(key=config["seed"])
    log = eq.offline.collect(game, "uniform", samples=config["rows"], key=config["seed"] + 1)
    before = eq.certify(game, game.uniform_policy())
    rows, answers, seconds = [], {}, {}
    strength = np.zeros((config["agents"], config["agents"]))
    for name, rank in CRITICS.items():
        start = time.perf_counter()
        model = eq.offline.fit(log, rank=rank)
        # A wrong critic is followed as far as the right one: that is the comparison.
        answer = eq.offline.solve(model, log, bootstrap=0, force=True)
        seconds[name] = time.perf_counter() - start
        answers[name] = eq.certify(game, answer.policy)
        rows.append((name, float(answers[name].max_gain), seconds[name]))
        if rank == 2 and model.interactions is not None:
            strength = np.asarray(model.interactions.strength)
    rows.append(("none: what the log shows", float(before.max_gain), 0.0))
    best, *_ = CRITICS
    certificate = answers[best]
    gains = [float(answers[name].max_gain) for name in CRITICS]
    arrays = {
        "gains": certificate.gains,
        "certified_value": certificate.value,
        "strength": strength,
        "solved": np.asarray(gains[0] < min(*gains[1:], float(before.max_gain))),
    }
    scalars = {
        "game": f"{config['agents']} agents, a log of {config['rows']:,} rows",
        "seconds": seconds[best],
        "first_seconds": seconds[best],
        "method": certificate.method,
        "exact": certificate.exact,
    }
    table = Table(("critic", "largest gain in the true game", "seconds"), rows)
    return Record("log", config, scalars, arrays, {"critics": table})


def show_log(page: Report, record: Record) -> None:
    """The critics side by side, and who matters to whom."""
    page.text(
        f"A log tells what {record.config['agents']} agents did, at random, and what each earned, "
        f"in {record.config['rows']:,} rows. Nobody can experiment any more. A critic is fitted to "
        "the log, and the agents learn against it without a single new sample. Where rewards are "
        "sums of terms of two agents each, a critic of that form needs few rows; one of all "
        "actions at once needs more than anybody has, and one that ignores the others is wrong "
        "with any number. The game is known here, so that every answer can be certified:"
    )
    page.table(record.tables["critics"])
    page.figure(
        figures.heat_map(
            record.arrays["strength"], title="strength", xlabel="with whom", ylabel="whose reward"
        ),
        alt="Heat map of how much each agent's action matters to each other agent's reward",
        caption="Who matters to whom, as found in the log.",
    )
