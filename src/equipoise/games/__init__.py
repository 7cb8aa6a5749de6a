"""Kinds of games, families that generate them, named games, files in and out."""

from equipoise.games import families
from equipoise.games._markov import MarkovGame
from equipoise.games._matrix import MatrixGame
from equipoise.games._normal import NormalFormGame

__all__ = ["MarkovGame", "MatrixGame", "NormalFormGame", "families"]
