"""Build a page from the record that `resumable_run.py` wrote, without the game or the learner.

python examples/own_report.py runs/weights
"""

import sys

from equipoise.report import Report, figures
from equipoise.runs import Record, Table


def main(folder: str) -> None:
    record = Record.load(folder)
    rounds, gaps = record.arrays["rounds"], record.arrays["nash_conv"]
    slope, _ = figures.fit_slope(rounds, gaps)
    page = (
        Report("Multiplicative weights", "The average play of both players, with certificates.")
        .section("Learning")
        .text(f"On logarithmic axes the gap falls with slope {slope:.2f}.")
        .figure(
            figures.learning_curves(rounds, {"average play": gaps}),
            alt=f"The gap falls from {gaps[0]:.3g} to {gaps[-1]:.3g} on logarithmic axes.",
        )
        .figure(
            figures.simplex_plot(
                record.arrays["policy"],
                equilibrium=record.arrays["equilibrium"],
                actions=("rock", "paper", "scissors"),
            ),
            alt="The average policy moves towards the equilibrium in the simplex.",
        )
        .table(Table(("round", "NashConv"), list(zip(rounds[::20], gaps[::20], strict=True))))
        .config(record.config)
        .reproduce(
            [
                f"python examples/resumable_run.py {folder}",
                f"python examples/own_report.py {folder}",
            ]
        )
    )
    page.write(f"{folder}/report.html")
    print(f"{folder}/report.html")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/weights")
