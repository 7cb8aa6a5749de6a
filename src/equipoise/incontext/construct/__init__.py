"""Transformers built by hand: the weights that the in-context paper's theorems speak of."""

from equipoise.incontext.construct._hand_built import HandBuilt, Size
from equipoise.incontext.construct._markov import omd_markov
from equipoise.incontext.construct._omd import omd

__all__ = ["HandBuilt", "Size", "omd", "omd_markov"]
