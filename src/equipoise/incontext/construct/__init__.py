"""Hand-built transformers: explicit weights for the constructions of the in-context paper."""

from types import ModuleType as _Module

from equipoise.incontext.construct._arithmetic import Logarithm as Logarithm
from equipoise.incontext.construct._arithmetic import Reciprocal as Reciprocal
from equipoise.incontext.construct._hand_built import HandBuilt as HandBuilt
from equipoise.incontext.construct._hand_built import PositionTokens as PositionTokens
from equipoise.incontext.construct._hand_built import Size as Size
from equipoise.incontext.construct._hand_built import fine_tune as fine_tune
from equipoise.incontext.construct._markov import omd_markov as omd_markov
from equipoise.incontext.construct._omd import omd as omd
from equipoise.incontext.construct._picture import picture as picture
from equipoise.incontext.construct._surrogate import FittedStep as FittedStep
from equipoise.incontext.construct._surrogate import fitted_step as fitted_step
from equipoise.incontext.construct._surrogate import (
    printed_surrogate_step as printed_surrogate_step,
)
from equipoise.incontext.construct._surrogate import surrogate_bound as surrogate_bound
from equipoise.incontext.construct._surrogate import surrogate_step as surrogate_step

#: Every name imported above except modules.
_NAMES = [n for n, v in vars().items() if n[0] != "_" and not isinstance(v, _Module)]
__all__ = sorted(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll]
