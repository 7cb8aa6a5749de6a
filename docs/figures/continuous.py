"""Share of held-out rewards that critics explain, by the number of rows and the rank."""

from matplotlib.figure import Figure

import equipoise as eq

deep = eq.offline.deep
game = eq.games.load("pairwise-continuous", agents=6, noise=0.5)
rows = [50, 100, 200, 400, 800, 1600]
logs = [eq.offline.collect(game, "uniform", samples=n, key=0) for n in rows]

figure = Figure(figsize=(5.2, 3.4), layout="tight")
axes = figure.subplots()
for rank, colour in ((1, "#e08a00"), (2, "#2b8cc4"), (3, "#00a878")):
    critic = deep.Critic.linear(rank=rank, degree=2)
    explained = [deep.fit(log, critic, key=1).explained.mean() for log in logs]
    axes.plot(rows, explained, "o-", color=colour, label=f"rank {rank}")
axes.set(xlabel="rows", ylabel="explained share of rewards", xscale="log", ylim=(-0.3, 0.7))
axes.set_xticks(rows, [f"{n:,}" for n in rows])
axes.minorticks_off()
axes.legend(frameon=False, loc="lower right")
axes.grid(True, color="#808080", alpha=0.25)
