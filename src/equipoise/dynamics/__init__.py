"""No-regret learners under bandit or full feedback, and the loop that plays them."""

from types import ModuleType as _Module

from equipoise.core import values as _values
from equipoise.dynamics import loop as loop
from equipoise.dynamics._learner import NOISES as NOISES
from equipoise.dynamics._learner import Bandit as Bandit
from equipoise.dynamics._learner import Bernoulli as Bernoulli
from equipoise.dynamics._learner import ContextLearner as ContextLearner
from equipoise.dynamics._learner import Exact as Exact
from equipoise.dynamics._learner import Foresight as Foresight
from equipoise.dynamics._learner import Gaussian as Gaussian
from equipoise.dynamics._learner import JointBandit as JointBandit
from equipoise.dynamics._learner import JointMarkovBandit as JointMarkovBandit
from equipoise.dynamics._learner import Learner as Learner
from equipoise.dynamics._learner import MarkovBandit as MarkovBandit
from equipoise.dynamics._learner import Noise as Noise
from equipoise.dynamics._learner import Nothing as Nothing
from equipoise.dynamics._learner import Pair as Pair
from equipoise.dynamics._learner import PolicyLearner as PolicyLearner
from equipoise.dynamics._learner import Spec as Spec
from equipoise.dynamics._learner import Values as Values
from equipoise.dynamics._learner import explored_share as explored_share
from equipoise.dynamics._markov import Advantage as Advantage
from equipoise.dynamics._markov import MarkovEntropicOMD as MarkovEntropicOMD
from equipoise.dynamics._markov import MarkovOMD as MarkovOMD
from equipoise.dynamics._markov import Shortfall as Shortfall
from equipoise.dynamics._markov import VLearning as VLearning
from equipoise.dynamics._named import LEARNERS as LEARNERS
from equipoise.dynamics._named import Named as Named
from equipoise.dynamics._named import make_learner as make_learner
from equipoise.dynamics._omd import EXP3IX as EXP3IX
from equipoise.dynamics._omd import OMD as OMD
from equipoise.dynamics._omd import EntropicOMD as EntropicOMD
from equipoise.dynamics._omd import LogBarrierOMD as LogBarrierOMD
from equipoise.dynamics._online import Online as Online
from equipoise.dynamics._output import CertifiedOutput as CertifiedOutput
from equipoise.dynamics._output import certified_output as certified_output
from equipoise.dynamics._parts import Anchor as Anchor
from equipoise.dynamics._parts import Baseline as Baseline
from equipoise.dynamics._parts import ControlVariate as ControlVariate
from equipoise.dynamics._parts import Entropic as Entropic
from equipoise.dynamics._parts import Estimate as Estimate
from equipoise.dynamics._parts import Euclidean as Euclidean
from equipoise.dynamics._parts import Gain as Gain
from equipoise.dynamics._parts import ImplicitExploration as ImplicitExploration
from equipoise.dynamics._parts import LogBarrier as LogBarrier
from equipoise.dynamics._parts import LossForm as LossForm
from equipoise.dynamics._parts import MirrorMap as MirrorMap
from equipoise.dynamics._parts import MovingAnchor as MovingAnchor
from equipoise.dynamics._parts import PlainLoss as PlainLoss
from equipoise.dynamics._parts import PrintedSign as PrintedSign
from equipoise.dynamics._parts import Standardised as Standardised
from equipoise.dynamics._parts import UniformAnchor as UniformAnchor
from equipoise.dynamics._play import game_keys as game_keys
from equipoise.dynamics._play import play as play
from equipoise.dynamics._references import BestResponder as BestResponder
from equipoise.dynamics._references import Fixed as Fixed
from equipoise.dynamics._references import OptimisticOMD as OptimisticOMD
from equipoise.dynamics._references import RegretMatchingPlus as RegretMatchingPlus
from equipoise.dynamics._references import Uniform as Uniform
from equipoise.dynamics._self_play import SelfPlay as SelfPlay
from equipoise.dynamics._self_play import record_rounds as record_rounds
from equipoise.dynamics._self_play import self_play as self_play
from equipoise.dynamics._trace import History as History
from equipoise.dynamics._trace import Mean as Mean
from equipoise.dynamics._trace import PlayState as PlayState
from equipoise.dynamics._trace import Recorded as Recorded
from equipoise.dynamics._trace import Trace as Trace

_values.register_all()  # games that are older than JAX

#: Every name imported above except modules; modules are listed by hand.
_NAMES = [n for n, v in vars().items() if n[0] != "_" and not isinstance(v, _Module)]
__all__ = sorted(["loop", *_NAMES])  # pyright: ignore[reportUnsupportedDunderAll]
