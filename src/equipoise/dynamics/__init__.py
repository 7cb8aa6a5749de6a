"""No-regret learners under bandit or full feedback, and the one loop that runs them."""

from equipoise.dynamics._anchors import Anchor, MovingAnchor, UniformAnchor
from equipoise.dynamics._estimates import ControlVariate, Estimate, ImplicitExploration
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
from equipoise.dynamics._losses import (
    Baseline,
    Gain,
    LossForm,
    PlainLoss,
    PrintedSign,
    Standardised,
)
from equipoise.dynamics._markov import Advantage, MarkovEntropicOMD, MarkovOMD, Shortfall
from equipoise.dynamics._mirror import Entropic, Euclidean, LogBarrier, MirrorMap
from equipoise.dynamics._named import MARKOV_LEARNERS, MATRIX_LEARNERS
from equipoise.dynamics._noise import Bernoulli, Exact, Gaussian, Noise
from equipoise.dynamics._omd import OMD, EntropicOMD, LogBarrierOMD
from equipoise.dynamics._opponents import BestResponder, Fixed, Uniform
from equipoise.dynamics._output import CertifiedOutput, certified_output
from equipoise.dynamics._play import game_keys, play
from equipoise.dynamics._references import OptimisticOMD, RegretMatchingPlus
from equipoise.dynamics._resume import PlayState
from equipoise.dynamics._rollout import History, rollout
from equipoise.dynamics._trace import Recorded, Trace
from equipoise.dynamics._vlearning import VLearning

__all__ = [
    "EXP3IX",
    "MARKOV_LEARNERS",
    "MATRIX_LEARNERS",
    "OMD",
    "Advantage",
    "Anchor",
    "Bandit",
    "Baseline",
    "Bernoulli",
    "BestResponder",
    "CertifiedOutput",
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
    "History",
    "ImplicitExploration",
    "Learner",
    "LogBarrier",
    "LogBarrierOMD",
    "LossForm",
    "MarkovBandit",
    "MarkovEntropicOMD",
    "MarkovOMD",
    "MirrorMap",
    "MovingAnchor",
    "Noise",
    "Nothing",
    "OptimisticOMD",
    "PlainLoss",
    "PlayState",
    "PrintedSign",
    "Recorded",
    "RegretMatchingPlus",
    "Shortfall",
    "Spec",
    "Standardised",
    "Trace",
    "Uniform",
    "UniformAnchor",
    "VLearning",
    "Values",
    "certified_output",
    "game_keys",
    "play",
    "rollout",
]
