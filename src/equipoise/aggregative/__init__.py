"""Games with very many agents who interact only through an aggregate.

`equipoise.solve` finds a pure near-equilibrium of such a game: any one, or the best one for
society. This package contains the solvers, a map of the equilibria found, mean-field limits and the
bounds of the theory. `design` chooses tolls and subsidies, and `learn` finds equilibria from
samples of a simulator.
"""

from equipoise.aggregative import theory
from equipoise.aggregative._cells import lipschitz_envelope
from equipoise.aggregative._design import Design, design
from equipoise.aggregative._map import Compared, Equilibrium, Listing, Study, equilibria, study
from equipoise.aggregative._mean_field import MeanField, from_mean_field, mean_field, sampled_gain
from equipoise.aggregative._solve import solve_aggregative
from equipoise.aggregative.learning._learn import Learned, learn
from equipoise.aggregative.learning._pettingzoo import from_pettingzoo, to_pettingzoo
from equipoise.aggregative.learning._spec import Environment, Simulator, Spec

__all__ = [
    "Compared",
    "Design",
    "Environment",
    "Equilibrium",
    "Learned",
    "Listing",
    "MeanField",
    "Simulator",
    "Spec",
    "Study",
    "design",
    "equilibria",
    "from_mean_field",
    "from_pettingzoo",
    "learn",
    "lipschitz_envelope",
    "mean_field",
    "sampled_gain",
    "solve_aggregative",
    "study",
    "theory",
    "to_pettingzoo",
]
