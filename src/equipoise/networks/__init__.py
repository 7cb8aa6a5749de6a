"""Road networks: equilibria and optima of flows, whole drivers, tolls and capacity design.

`equipoise.solve` and `equipoise.certify` accept a `NetworkGame`. This package contains the solver
and the tools for planners: price of anarchy, tolls, capacities and sensitivities.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use

if TYPE_CHECKING:
    from equipoise.networks._best import best_capacities as best_capacities
    from equipoise.networks._best import best_tolls as best_tolls
    from equipoise.networks._design import Design as Design
    from equipoise.networks._design import first_best_tolls as first_best_tolls
    from equipoise.networks._design import given_tolls as given_tolls
    from equipoise.networks._design import price_of_anarchy as price_of_anarchy
    from equipoise.networks._drivers import whole_drivers as whole_drivers
    from equipoise.networks._entropy import entropy_paths as entropy_paths
    from equipoise.networks._oracle import solve_oracle as solve_oracle
    from equipoise.networks._sensitivity import Sensitivity as Sensitivity
    from equipoise.networks._sensitivity import sensitivity as sensitivity
    from equipoise.networks._solve import solve_network as solve_network

_HOMES = {
    "_best": "best_capacities best_tolls",
    "_design": "Design first_best_tolls given_tolls price_of_anarchy",
    "_drivers": "whole_drivers",
    "_entropy": "entropy_paths",
    "_oracle": "solve_oracle",
    "_sensitivity": "Sensitivity sensitivity",
    "_solve": "solve_network",
}
_RENAMED = {"Anarchy": "core.Prices"}
_PUBLIC: dict[str, str | None] = {
    name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names.split()
}

__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = load_on_first_use(__name__, _PUBLIC, _RENAMED)
