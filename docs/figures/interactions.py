"""Interactions between ten agents on a ring, found in a log."""

import numpy as np

import equipoise as eq
from equipoise.report import figures

ring = np.roll(np.eye(10), 1, 1) + np.roll(np.eye(10), -1, 1)
game = eq.games.families.network(10, 3, graph=ring, scale=0.25).sample(key=0)
log = eq.offline.collect(game, "uniform", samples=3_000, key=1)
model = eq.offline.fit(log, rank=2)
figure = figures.interaction_map(model.interactions.strength, title="Found in 3,000 rows")
