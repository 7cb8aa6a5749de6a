"""The demo's act about a log: what many agents did and earned becomes a certified policy."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.report import Report, figures, format_value
from equipoise.runs import Record, Run, Table

#: Critics by their names on the page; the first is the one whose policy is certified.
CRITICS: dict[str, Any] = {"pairs (rank 2)": 2, "each agent alone (rank 1)": 1, "joint": "joint"}
BEHAVIOUR = "none: what the log shows"
STEPS = ("collecting the log", *CRITICS)


def play_log(config: dict[str, Any], run: Run, tell: Callable[[str], None]) -> Record:
    """Fit critics of several ranks to one log, learn from each, and certify in the true game."""
    tell(STEPS[0])
    family = eq.games.families.polymatrix(config["agents"], 3, 2, scale=0.25)
    game = family.sample(key=config["seed"])
    log = eq.offline.collect(game, "uniform", samples=config["rows"], key=config["seed"] + 1)
    log.write(run.path / "log.npz")  # to be tried with `equipoise offline`
    before = eq.certify(game, game.uniform_policy())
    rows, answers, seconds = [], {}, {}
    strength = np.zeros((config["agents"], config["agents"]))
    for name, rank in CRITICS.items():
        tell(name)
        start = time.perf_counter()
        model = eq.offline.fit(log, rank=rank)
        # A wrong critic is followed as far as the right one: that is the comparison.
        answer = eq.offline.solve(model, force=rank != 2)
        seconds[name] = time.perf_counter() - start
        true = eq.certify(game, answer.policy)
        answers[name] = replace(answer, value=true.value, certificate=true)
        rows.append((name, float(true.max_gain), seconds[name]))
        if rank == 2 and model.interactions is not None:
            strength = np.asarray(model.interactions.strength)
    rows.append((BEHAVIOUR, float(before.max_gain), 0.0))
    best, *_ = CRITICS
    gains = [gain for _, gain, _ in rows]
    scalars = {
        "game": f"{config['agents']} agents, a log of {config['rows']:,} rows",
        "seconds": seconds[best],
        "as announced": gains[0] < min(gains[1:]),
    }
    table = Table(("critic", "largest gain in the true game", "seconds"), rows)
    arrays, plain = {"strength": strength}, answers[best].to_plain()
    return Record("log", config, scalars, arrays, {"critics": table}, plain)


def log_outcome(record: Record) -> str:
    """What could be gained by leaving what each critic advises."""
    gains = {row[0]: format_value(row[1], 2) for row in record.tables["critics"].rows}
    pairs, alone, joint = (gains[name] for name in CRITICS)
    return (
        f"The largest gain left is {pairs} with the critic of pairs, {joint} with the joint one "
        f"and {alone} with the one of each agent alone; in the log's own play it is "
        f"{gains[BEHAVIOUR]}."
    )


def show_log(page: Report, record: Record) -> None:
    """The critics side by side, and who matters to whom."""
    agents, rows = record.config["agents"], record.config["rows"]
    page.text(
        f"A log tells what {agents} agents did, at random, and what each earned, in {rows:,} rows. "
        "Nobody can experiment any more. A critic is fitted to the log, and the agents learn "
        "against it without a single new sample. Rewards are sums of terms of two agents each, "
        "and a critic of that form, of interaction rank 2, needs few rows. One of all actions at "
        f"once would have to tell 3^{agents} joint actions apart, and one that ignores the others "
        "is wrong with any number of rows. The game is known here, so that every answer can be "
        "certified:"
    )
    page.table(record.tables["critics"])
    page.figure(
        figures.interaction_map(record.arrays["strength"]),
        alt="Heat map of how much each agent's action matters to each other agent's reward",
        caption="Who matters to whom, as found in the log.",
    )
    page.text(
        "The log is kept: `equipoise offline` given the file `log.npz` of this act's run folder "
        "chooses the rank by held-out error and estimates the gap without knowing the game."
    )
