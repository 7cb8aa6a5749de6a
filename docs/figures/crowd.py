"""All equilibria of a hundred thousand agents who share a public good."""

import equipoise as eq
from equipoise.report import figures

club = eq.games.load("public-good", agents=100_000)
found = eq.aggregative.equilibria(club)
figure = figures.equilibrium_map(
    [one.aggregate for one in found],
    [one.welfare for one in found],
    gains=[one.gain for one in found],
    title="Equilibria of 100,000 agents",
    names=["share of agents who join"],
)
