"""Equilibria of every kind of game: `solve` finds one, `equilibria` all of a normal form."""

from equipoise.solvers._general import Equilibria, equilibria
from equipoise.solvers._solve import KINDS, solve

__all__ = ["KINDS", "Equilibria", "equilibria", "solve"]
