"""Equilibria of every kind of game: `solve` finds one, `equilibria` lists them."""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use
from equipoise.solvers._general import (
    Equilibria,
    list_equilibria,
    solve_continuous,
    solve_interaction,
    solve_markov,
    solve_matrix,
    solve_normal_form,
)
from equipoise.solvers._solve import equilibria, prices, solve

if TYPE_CHECKING:
    from equipoise.solvers import no_regret as no_regret

__all__ = [
    "Equilibria",
    "equilibria",
    "list_equilibria",
    "no_regret",
    "prices",
    "solve",
    "solve_continuous",
    "solve_interaction",
    "solve_markov",
    "solve_matrix",
    "solve_normal_form",
]

__getattr__, __dir__ = load_on_first_use(__name__, {"no_regret": None})  # it imports JAX
