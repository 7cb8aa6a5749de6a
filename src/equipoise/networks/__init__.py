"""Road networks: equilibria and optima of flows, whole drivers, tolls and capacity design.

`equipoise.solve` and `equipoise.certify` accept a `NetworkGame`. This package contains the solver
and the tools for planners: price of anarchy, tolls, capacities and sensitivities.
"""

from equipoise.networks._best import best_capacities, best_tolls
from equipoise.networks._design import (
    Anarchy,
    Design,
    first_best_tolls,
    given_tolls,
    price_of_anarchy,
)
from equipoise.networks._drivers import whole_drivers
from equipoise.networks._entropy import entropy_paths
from equipoise.networks._oracle import solve_oracle
from equipoise.networks._sensitivity import Sensitivity, sensitivity
from equipoise.networks._solve import solve_network

__all__ = [
    "Anarchy",
    "Design",
    "Sensitivity",
    "best_capacities",
    "best_tolls",
    "entropy_paths",
    "first_best_tolls",
    "given_tolls",
    "price_of_anarchy",
    "sensitivity",
    "solve_network",
    "solve_oracle",
    "whole_drivers",
]
