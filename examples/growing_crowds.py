"""Measure how the time to solve and certify grows with the number of distinct agents.

    python examples/growing_crowds.py [LARGEST] [REPORT]

solves Markov games of 1,000 agents and more, up to LARGEST (default: 100,000), and plots the
seconds on logarithmic axes in REPORT (default: crowds.html). A slope of one means linear growth.
"""

import sys
import time

import numpy as np

import equipoise as eq
from equipoise.report import Report, figures
from equipoise.runs import Table


def city(agents: int, states: int = 5, horizon: int = 5) -> eq.AggregativeMarkovGame:
    rng = np.random.default_rng(agents)
    shape = (horizon, states, agents, 3)
    base, slopes = rng.uniform(-0.5, 0.5, (2, *shape))
    calm, busy = rng.dirichlet(np.ones(states), (2, horizon, states))
    return eq.AggregativeMarkovGame(
        rng.random((agents, 3, 1)),
        lambda h, s, x: base[h, s] + slopes[h, s] * x[..., 0],
        lambda h, s, x: calm[h, s] + x[..., :1] * (busy[h, s] - calm[h, s]),
        horizon,
        states,
        lipschitz=0.5,
        transition_lipschitz=1.0,
    )


def main() -> None:
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    report = sys.argv[2] if len(sys.argv) > 2 else "crowds.html"
    sizes = [n for n in (1_000, 3_000, 10_000, 30_000, 100_000) if n <= largest]
    rows = []
    for agents in sizes:
        game = city(agents)
        start = time.process_time()
        solution = eq.solve(game)
        seconds = time.process_time() - start
        gain = float(solution.certificate.max_gain)
        rows.append((agents, seconds, gain, solution.stats["bound"]))
        print(f"{agents:>7,} agents: {seconds:6.2f} s, nobody gains more than {gain:.1e}")
    table = Table(("agents", "processor seconds", "largest gain", "bound"), rows)
    curve = {"solve and certify": table.column("processor seconds")}
    page = Report("Growing crowds", "Distinct agents, five steps and five states.").section("Time")
    if len(sizes) > 2:
        figure = figures.learning_curves(
            sizes, curve, xlabel="agents", ylabel="seconds", references={"linear": 1.0}
        )
        page.figure(figure, alt="Seconds against the number of agents, on logarithmic axes.")
    page.table(table).write(report)
    print(f"Report: {report}")


if __name__ == "__main__":
    main()
