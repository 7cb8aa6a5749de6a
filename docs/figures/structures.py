"""How much of the rewards each class explains: in a log of pairs, and in a log of a crowd."""

import numpy as np
from matplotlib.figure import Figure

import equipoise as eq

pairs = eq.games.families.polymatrix(agents=8, actions=3, scale=0.25).sample(key=0)
rng = np.random.default_rng(0)
go = rng.integers(0, 2, (1_000, 8))
pay = go * np.where(go.sum(1, keepdims=True) <= 5, 1.0, -1.0)
logs = {
    "eight agents in pairs": eq.offline.collect(pairs, "uniform", samples=3_000, key=1),
    "eight guests of a bar": eq.offline.Log(None, go, pay + rng.normal(0, 0.15, pay.shape)),
}
classes = {
    1: "own action",
    2: "pairs",
    3: "triples",
    "sum": "sum of others",
    "joint": "joint action",
}

figure = Figure(figsize=(7.2, 3.2), layout="tight")
panels = figure.subplots(1, 2, sharey=True)
panels[0].invert_yaxis()
for axes, (title, log) in zip(panels, logs.items(), strict=True):
    structure = eq.offline.discover(log)
    found = {one["class"]: one["explained"] for one in structure.classes}
    colours = ["#00a878" if key == structure.chosen else "#2b8cc4" for key in classes]
    axes.barh(list(classes.values()), [found[key] for key in classes], color=colours)
    axes.set(title=title, xlabel="explained share of rewards", xlim=(0, 1))
