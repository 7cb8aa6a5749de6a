"""The demo's act about a family of similar games: a frozen player meets games it has never seen."""

import time
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.report import Report, figures
from equipoise.runs import Record, Run

#: What the player is compared with at equal rounds; averages where they are the better policies.
LEARNERS = {
    "OMD, last policy": (lambda: eq.dynamics.OMD(), "curve"),
    "EXP3-IX, average policy": (lambda: eq.dynamics.EXP3IX(), "average_curve"),
}
OURS = "in-context player, last policy"
ROUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def play_in_context(config: dict[str, Any], run: Run) -> Record:
    """The player that comes with the package, against itself, and learners on the same games."""
    players = eq.incontext.load(config["players"])
    family = eq.incontext.family_of(config["players"])
    games = family.sample(config["games"], key=config["seed"])
    key, rounds = config["seed"] + 1, ROUNDS[-1]

    def play() -> tuple[eq.incontext.Episode, float]:
        start = time.perf_counter()
        episode = eq.incontext.play(players, games, rounds=rounds, key=key, record=ROUNDS)
        return episode, time.perf_counter() - start

    _, first_seconds = play()
    episode, seconds = play()
    certificate = eq.certify(games, episode.last)
    curves = {OURS: np.asarray(episode.curve)}
    for name, (make, which) in LEARNERS.items():
        learner = make()
        trace = eq.dynamics.play(games, learner, learner, rounds=rounds, key=key, record=ROUNDS)
        curves[name] = np.asarray(getattr(trace, which))
    last = {name: float(curve[-1].mean()) for name, curve in curves.items()}
    arrays = {
        "gains": certificate.gains,
        "certified_value": certificate.value,
        "solved": np.asarray(last[OURS] < min(last[name] for name in LEARNERS)),
    } | {f"curve/{name}": curve.T for name, curve in curves.items()}
    scalars = {
        "game": f"{config['games']} unseen 3x3 games, {rounds} rounds",
        "seconds": seconds,
        "first_seconds": first_seconds,
        "method": certificate.method,
        "exact": certificate.exact,
    }
    return Record("in-context", config, scalars, arrays)


def show_in_context(page: Report, record: Record) -> None:
    """The gap against rounds, beside the learners'."""
    curves = {name: record.arrays[f"curve/{name}"] for name in (OURS, *LEARNERS)}
    last = {name: float(curve[:, -1].mean()) for name, curve in curves.items()}
    others = ", ".join(f"{last[name]:.3f} ({name})" for name in LEARNERS)
    page.text(
        "A transformer was trained once, on games drawn from a family. Its weights are frozen now. "
        f"It sits on both sides of {record.config['games']} games that it has never seen, and "
        "each side sees its own actions and rewards and nothing else. After "
        f"{ROUNDS[-1]} rounds the mean NashConv of the policies it would play next is "
        f"{last[OURS]:.3f}; learners that know nothing of the family have {others} after as many."
    )
    page.figure(
        figures.learning_curves(ROUNDS, curves),
        alt="NashConv against rounds, of the in-context player and of two learners",
        caption="Median over games, with a band from the 10% to the 90% quantile.",
    )
