"""Total travel time of a city under the best tolls on one to four streets."""

from matplotlib.figure import Figure

import equipoise as eq

city = eq.games.load("grid-city", rows=4, columns=4, zones=6)
untolled = city.total_cost(eq.solve(city).policy.flows)
optimum = city.total_cost(eq.solve(city, concept="optimum").policy.flows)
counts = [1, 2, 3, 4]
reached = [eq.networks.best_tolls(city, links=k, time_limit=20).total_cost for k in counts]

figure = Figure(figsize=(5.2, 3.4), layout="tight")
axes = figure.subplots()
axes.plot([0, *counts], [untolled, *reached], "o-", color="#2b8cc4", label="best tolls found")
axes.axhline(optimum, color="#00a878", ls="--", label="system optimum: no tolls do better")
axes.set(xlabel="streets with a toll", ylabel="total travel time", xticks=[0, *counts])
axes.legend(frameon=False)
axes.grid(True, color="#808080", alpha=0.25)
