"""Games with very many agents who interact only through an aggregate.

`equipoise.solve` finds a pure near-equilibrium of such a game: any one, or the best one for
society. This package contains the solvers, a map of the equilibria found, mean-field limits and the
bounds of the theory. `design` chooses tolls and subsidies, and `learn` finds equilibria from
samples of a simulator.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use

if TYPE_CHECKING:
    from equipoise.aggregative import theory as theory
    from equipoise.aggregative._cells import lipschitz_envelope as lipschitz_envelope
    from equipoise.aggregative._design import Design as Design
    from equipoise.aggregative._design import design as design
    from equipoise.aggregative._map import Compared as Compared
    from equipoise.aggregative._map import Equilibrium as Equilibrium
    from equipoise.aggregative._map import Listing as Listing
    from equipoise.aggregative._map import Study as Study
    from equipoise.aggregative._map import equilibria as equilibria
    from equipoise.aggregative._map import study as study
    from equipoise.aggregative._mean_field import MeanField as MeanField
    from equipoise.aggregative._mean_field import from_mean_field as from_mean_field
    from equipoise.aggregative._mean_field import mean_field as mean_field
    from equipoise.aggregative._mean_field import sampled_gain as sampled_gain
    from equipoise.aggregative._solve import prices as prices
    from equipoise.aggregative._solve import solve_aggregative as solve_aggregative
    from equipoise.aggregative.learning._learn import Learned as Learned
    from equipoise.aggregative.learning._learn import learn as learn
    from equipoise.aggregative.learning._pettingzoo import from_pettingzoo as from_pettingzoo
    from equipoise.aggregative.learning._pettingzoo import to_pettingzoo as to_pettingzoo
    from equipoise.aggregative.learning._spec import Environment as Environment
    from equipoise.aggregative.learning._spec import Simulator as Simulator
    from equipoise.aggregative.learning._spec import Spec as Spec

_HOMES = {
    "_cells": "lipschitz_envelope",
    "_design": "Design design",
    "_map": "Compared Equilibrium Listing Study equilibria study",
    "_mean_field": "MeanField from_mean_field mean_field sampled_gain",
    "_solve": "prices solve_aggregative",
    "learning._learn": "Learned learn",
    "learning._pettingzoo": "from_pettingzoo to_pettingzoo",
    "learning._spec": "Environment Simulator Spec",
}
_PUBLIC: dict[str, str | None] = {"theory": None} | {
    name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names.split()
}

__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = load_on_first_use(__name__, _PUBLIC)
