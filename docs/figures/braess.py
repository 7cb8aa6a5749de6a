"""Braess's paradox: the travel time with and without the shortcut, by the number of travellers."""

import numpy as np
from matplotlib.figure import Figure

import equipoise as eq

demands = np.linspace(0.5, 12, 24)
figure = Figure(figsize=(5.2, 3.6), layout="tight")
axes = figure.subplots()
for shortcut, colour in ((False, "#2b8cc4"), (True, "#e08a00")):
    roads = [
        eq.games.load("braess-network", travellers=float(q), shortcut=shortcut) for q in demands
    ]
    solutions = [eq.solve(game) for game in roads]
    times = [
        game.total_cost(solution.policy.flows) / q
        for game, solution, q in zip(roads, solutions, demands, strict=True)
    ]
    axes.plot(demands, times, color=colour, label="with the shortcut" if shortcut else "without")
axes.set(xlabel="travellers", ylabel="travel time of each")
axes.legend(frameon=False)
axes.grid(True, color="#808080", alpha=0.25)
