"""The path of a no-regret learner in rock, paper, scissors, and the equilibrium."""

import equipoise as eq
from equipoise.report import figures

game = eq.games.load("rock-paper-scissors")
omd = eq.dynamics.OMD()
rounds = [2 ** (k / 8) for k in range(24, 100)]
trace = eq.dynamics.play(
    game,
    omd,
    omd,
    rounds=6_000,
    key=3,
    reward_range=(-1, 1),
    record=sorted({int(t) for t in rounds}),
)
figure = figures.simplex_plot(
    trace.recorded.last[0],
    equilibrium=[1 / 3, 1 / 3, 1 / 3],
    actions=("rock", "paper", "scissors"),
    title="Mirror descent, rounds 8 to 5,000",
)
