"""Exact equilibria: one function, `solve`, for every kind of game that has them."""

from equipoise.solvers._solve import KINDS, solve

__all__ = ["KINDS", "solve"]
