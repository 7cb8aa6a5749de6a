"""Learning equilibria of very many agents from samples: Algorithms 3 and 4 of the paper."""

from equipoise.aggregative.learning._learn import learn
from equipoise.aggregative.learning._pettingzoo import from_pettingzoo, to_pettingzoo
from equipoise.aggregative.learning._result import Learned
from equipoise.aggregative.learning._simulator import Simulator
from equipoise.aggregative.learning._spec import Environment, Spec

__all__ = [
    "Environment",
    "Learned",
    "Simulator",
    "Spec",
    "from_pettingzoo",
    "learn",
    "to_pettingzoo",
]
