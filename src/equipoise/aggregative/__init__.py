"""Games of very many agents who feel each other through an aggregate only.

`equipoise.solve` finds pure near-equilibria of them, any or the best for society; this package
holds the solvers, a map of the equilibria found, mean-field views, the bounds of the theory,
`design`, which chooses tolls and subsidies, and `learn`, which finds equilibria from samples of a
simulator.
"""

from equipoise.aggregative import theory
from equipoise.aggregative._cells import lipschitz_envelope
from equipoise.aggregative._design import Design, design
from equipoise.aggregative._map import Compared, Equilibrium, Study, equilibria, study
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
