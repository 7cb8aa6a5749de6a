"""Equilibria of every kind of game: `solve` finds one, `equilibria` all of a normal-form game."""

from equipoise.solvers import no_regret
from equipoise.solvers._general import Equilibria, equilibria
from equipoise.solvers._solve import KINDS as KINDS
from equipoise.solvers._solve import solve

__all__ = ["Equilibria", "equilibria", "no_regret", "solve"]
