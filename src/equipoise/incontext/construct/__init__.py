"""Transformers built by hand: the weights that the in-context paper's theorems speak of."""

from equipoise.incontext.construct._fine_tune import fine_tune
from equipoise.incontext.construct._hand_built import HandBuilt, Size
from equipoise.incontext.construct._markov import omd_markov
from equipoise.incontext.construct._omd import omd

__all__ = ["HandBuilt", "Size", "fine_tune", "omd", "omd_markov"]
