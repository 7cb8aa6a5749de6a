"""What episodes prove about a policy for 1,000 agents, and the truth."""

import numpy as np
from matplotlib.figure import Figure

import equipoise as eq

city = eq.games.load("demand-response", agents=1000, horizon=4)
run = eq.learn(eq.aggregative.Simulator(city, key=0), episodes=120, rewards="unknown")
truth = eq.certify(city, run.policy).max_gain
figure = Figure(figsize=(5.2, 3.4), layout="tight")
axes = figure.subplots()
episodes = np.arange(1, len(run.curve["bound"]) + 1)
axes.plot(episodes, run.curve["bound"], color="#2b8cc4", label="proven from the episodes")
axes.axhline(truth, color="#00a878", ls="--", label="true gain of the policy returned")
axes.set(xlabel="episodes", ylabel="largest gain of any agent", xscale="log", yscale="log")
axes.legend(frameon=False)
axes.grid(True, color="#808080", alpha=0.25)
