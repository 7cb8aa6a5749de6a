"""The demo's act about learning: players who see only their own rewards approach equilibrium."""

import time
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.report import Report, figures
from equipoise.runs import Record, Run

#: Names on the page, in the order of the curves.
LEARNERS = {
    "OMD, last policy": lambda: eq.dynamics.OMD(),
    "OMD, vanishing regulariser": lambda: eq.dynamics.OMD.vanishing(),
    "EXP3-IX, last policy": lambda: eq.dynamics.EXP3IX(),
}
ROUNDS = tuple(round(10 ** (k / 4)) for k in range(4, 17))
#: What the mean gap of the default learner's last policies must have come down to.
TOLERANCE = 0.05


def play_learning(config: dict[str, Any], run: Run) -> Record:
    """Three learners, each against itself, on games made on the spot."""
    games = eq.games.families.uniform(actions=3).sample(config["games"], key=config["seed"])
    uniform = np.full(3, 1 / 3)

    def play(learner: eq.dynamics.Learner) -> tuple[eq.dynamics.Trace, float]:
        start = time.perf_counter()
        key = config["seed"] + 1
        trace = eq.dynamics.play(games, learner, learner, rounds=ROUNDS[-1], key=key, record=ROUNDS)
        return trace, time.perf_counter() - start

    _, first_seconds = play(eq.dynamics.OMD())
    ours, seconds = play(eq.dynamics.OMD())
    curves = {name: play(make())[0].curve for name, make in LEARNERS.items()}
    certificate = eq.certify(games, ours.last)
    nash = eq.solve(games).policy[0]
    # The game with the most mixed equilibrium makes the path worth seeing.
    shown = int(np.argmin(np.max(nash, -1)))
    arrays = {
        "gains": certificate.gains,
        "certified_value": certificate.value,
        "solved": np.asarray(certificate.nash_conv.mean() <= TOLERANCE),
        "path": np.concatenate([uniform[None], ours.recorded.last[0][:, shown]]),
        "nash": nash[shown],
        "uniform": np.asarray(np.mean(eq.certify(games, (uniform, uniform)).nash_conv)),
    } | {f"curve/{name}": curve.T for name, curve in curves.items()}
    scalars = {
        "game": f"{config['games']} random 3x3 games, {ROUNDS[-1]:,} rounds",
        "seconds": seconds,
        "first_seconds": first_seconds,
        "method": certificate.method,
        "exact": certificate.exact,
    }
    return Record("learning", config, scalars, arrays)


def show_learning(page: Report, record: Record) -> None:
    """How fast the last policies approach equilibrium, and one path in its triangle."""
    curves = {name: record.arrays[f"curve/{name}"] for name in LEARNERS}
    first = next(iter(curves.values()))
    uniform = float(record.arrays["uniform"])
    page.text(
        f"Two players repeat a game that neither knows: {len(first)} games made on the spot. "
        "Each sees its own action and its own reward and nothing else. What counts is the policy "
        "each holds after the final round, not an average over all of them: its mean NashConv, "
        f"certified on the true games, is {first[:, -1].mean():.3f} after {ROUNDS[-1]:,} rounds, "
        f"where uniform play has {uniform:.3f}."
    )
    page.figure(
        figures.learning_curves(ROUNDS, curves, references={"t^-1/4": -0.25}),
        alt="NashConv of the last policies against rounds, on logarithmic axes",
        caption="Median over games, with a band from the 10% to the 90% quantile.",
    )
    page.figure(
        figures.simplex_plot(record.arrays["path"], equilibrium=record.arrays["nash"]),
        alt="Path of the row player's policy in the triangle of three actions, towards Nash",
        caption="The row player's policy in one of the games.",
    )
