"""No-regret learners under bandit or full feedback, and the one loop that runs them."""

from equipoise.dynamics._engine import PlayState
from equipoise.dynamics._exp3 import EXP3IX
from equipoise.dynamics._learner import (
    Bandit,
    Foresight,
    Learner,
    MarkovBandit,
    Nothing,
    Spec,
    Values,
)
from equipoise.dynamics._noise import Bernoulli, Exact, Gaussian, Noise
from equipoise.dynamics._omd import OMD, EntropicOMD, LogBarrierOMD
from equipoise.dynamics._opponents import BestResponder, Fixed, Uniform
from equipoise.dynamics._parts import (
    Baseline,
    ControlVariate,
    Entropic,
    Estimate,
    Euclidean,
    Gain,
    ImplicitExploration,
    LogBarrier,
    LossForm,
    MirrorMap,
    PlainLoss,
    PrintedSign,
)
from equipoise.dynamics._play import game_keys, play
from equipoise.dynamics._references import OptimisticOMD, RegretMatchingPlus
from equipoise.dynamics._trace import Recorded, Trace

__all__ = [
    "EXP3IX",
    "OMD",
    "Bandit",
    "Baseline",
    "Bernoulli",
    "BestResponder",
    "ControlVariate",
    "Entropic",
    "EntropicOMD",
    "Estimate",
    "Euclidean",
    "Exact",
    "Fixed",
    "Foresight",
    "Gain",
    "Gaussian",
    "ImplicitExploration",
    "Learner",
    "LogBarrier",
    "LogBarrierOMD",
    "LossForm",
    "MarkovBandit",
    "MirrorMap",
    "Noise",
    "Nothing",
    "OptimisticOMD",
    "PlainLoss",
    "PlayState",
    "PrintedSign",
    "Recorded",
    "RegretMatchingPlus",
    "Spec",
    "Trace",
    "Uniform",
    "Values",
    "game_keys",
    "play",
]
