"""Transformers built by hand: the weights that the in-context paper's theorems speak of."""

from equipoise.incontext.construct._arithmetic import Reciprocal
from equipoise.incontext.construct._fine_tune import fine_tune
from equipoise.incontext.construct._hand_built import HandBuilt, PositionTokens, Size
from equipoise.incontext.construct._markov import omd_markov
from equipoise.incontext.construct._omd import omd
from equipoise.incontext.construct._picture import picture
from equipoise.incontext.construct._surrogate import (
    FittedStep,
    fitted_step,
    printed_surrogate_step,
    surrogate_bound,
    surrogate_step,
)

__all__ = [
    "FittedStep",
    "HandBuilt",
    "PositionTokens",
    "Reciprocal",
    "Size",
    "fine_tune",
    "fitted_step",
    "omd",
    "omd_markov",
    "picture",
    "printed_surrogate_step",
    "surrogate_bound",
    "surrogate_step",
]
