"""The largest gain of every pair of strategies in a penalty kick, and the equilibrium."""

import numpy as np
from matplotlib.figure import Figure

import equipoise as eq

game = eq.games.load("penalty-kicks")
left = np.linspace(0, 1, 101)
kicker, keeper = np.meshgrid(left, left, indexing="ij")
batch = eq.MatrixGame(np.broadcast_to(game.payoff, (101, 101, 2, 2)))
policies = (np.stack([kicker, 1 - kicker], -1), np.stack([keeper, 1 - keeper], -1))
gain = eq.certify(batch, policies).max_gain

figure = Figure(figsize=(5.4, 4.0), layout="tight")
axes = figure.subplots()
mesh = axes.pcolormesh(left, left, gain.T, cmap="Blues", shading="auto")
figure.colorbar(mesh, label="largest gain")
x, y = eq.solve(game).policy
axes.plot(x[0], y[0], "*", color="#c65d9c", ms=15, label="equilibrium")
axes.plot(0.5, 0.5, "o", color="#e08a00", ms=8, label="a fair coin each")
axes.set(xlabel="kicker: probability of left", ylabel="goalkeeper: probability of left")
axes.legend(loc="upper left")
