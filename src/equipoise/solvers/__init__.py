"""Exact equilibria: one function, `solve`, for every kind of game that has them."""

from equipoise.solvers._solve import KINDS as KINDS
from equipoise.solvers._solve import solve

__all__ = ["solve"]
