"""Traffic of a grid city in user equilibrium, by flow over capacity."""

import equipoise as eq
from equipoise.report import figures

city = eq.games.load("grid-city")
solution = eq.solve(city)
figure = figures.network_map(
    city.positions,
    city.tails,
    city.heads,
    solution.policy.flows / city.capacity,
    what="flow over capacity",
    title=f"Relative gap {solution.certificate.relative_gap:.0e}",
)
