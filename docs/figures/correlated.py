"""Payoffs of all correlated equilibria of the game of chicken, and its Nash equilibria."""

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial import ConvexHull

import equipoise as eq

game = eq.games.load("chicken")
directions = np.linspace(0, 2 * np.pi, 73)
weights = np.stack([np.cos(directions), np.sin(directions)], 1)
corners = np.array([eq.solve(game, concept="ce", objective=w).value for w in weights])
cells = np.asarray(game.payoffs).reshape(2, -1).T

figure = Figure(figsize=(5.2, 3.8), layout="tight")
axes = figure.subplots()
axes.fill(*cells[ConvexHull(cells).vertices].T, color="#7f8790", alpha=0.2, label="all payoffs")
axes.fill(*corners.T, color="#2b8cc4", alpha=0.4, label="correlated equilibria")
nash = np.array([solution.value for solution in eq.equilibria(game)])
axes.plot(*nash.T, "*", color="#c65d9c", ms=14, label="Nash equilibria")
best = eq.solve(game, concept="ce", objective="welfare").value
axes.plot(*best, "o", color="#00a878", ms=9, label="best correlated equilibrium")
axes.set(xlabel="payoff of the first player", ylabel="payoff of the second player")
axes.legend(frameon=False, loc="lower left")
axes.grid(True, color="#808080", alpha=0.25)
