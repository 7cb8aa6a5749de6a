"""Learners by the names they have on the command line and in configs."""

from collections.abc import Callable

from equipoise.dynamics._exp3 import EXP3IX
from equipoise.dynamics._learner import Learner
from equipoise.dynamics._markov import MarkovEntropicOMD, MarkovOMD
from equipoise.dynamics._omd import OMD, EntropicOMD, LogBarrierOMD
from equipoise.dynamics._opponents import BestResponder, Uniform
from equipoise.dynamics._references import OptimisticOMD, RegretMatchingPlus
from equipoise.dynamics._vlearning import VLearning

#: Name -> learner of matrix games, given the number of rounds (which printed constants need).
MATRIX_LEARNERS: dict[str, Callable[[int], Learner]] = {
    "omd": lambda rounds: OMD(),
    "omd-vanishing": lambda rounds: OMD.vanishing(),
    "omd-printed-constants": OMD.printed_constants,
    "omd-printed-signs": lambda rounds: OMD.printed_signs(),
    "cai-euclidean": lambda rounds: OMD.cai_exponents(),
    "entropic": lambda rounds: EntropicOMD(),
    "log-barrier": lambda rounds: LogBarrierOMD(),
    "exp3-ix": lambda rounds: EXP3IX(),
    "optimistic": lambda rounds: OptimisticOMD(),
    "regret-matching": lambda rounds: RegretMatchingPlus(),
    "uniform": lambda rounds: Uniform(),
    "best-responder": lambda rounds: BestResponder(),
}
#: The same for Markov games.
MARKOV_LEARNERS: dict[str, Callable[[int], Learner]] = {
    "omd": lambda rounds: MarkovOMD(),
    "omd-vanishing": lambda rounds: MarkovOMD.vanishing(),
    "omd-printed-constants": MarkovOMD.printed_constants,
    "omd-printed-signs": lambda rounds: MarkovOMD.printed_signs(),
    "entropic": lambda rounds: MarkovEntropicOMD(),
    "v-learning": lambda rounds: VLearning(),
    "uniform": lambda rounds: Uniform(),
}
