"""Equilibria of every kind of game: `solve` finds one, `equilibria` all of a normal-form game."""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use
from equipoise.solvers._general import Equilibria, equilibria
from equipoise.solvers._solve import KINDS as KINDS
from equipoise.solvers._solve import solve

if TYPE_CHECKING:
    from equipoise.solvers import no_regret as no_regret

__all__ = ["Equilibria", "equilibria", "no_regret", "solve"]

__getattr__, __dir__ = load_on_first_use(__name__, {"no_regret": None})  # it imports JAX
