"""Learners by the names they have on the command line, in configs and in tables: the one list."""

from collections.abc import Callable
from typing import NamedTuple

from equipoise.dynamics._learner import Learner
from equipoise.dynamics._markov import MarkovEntropicOMD, MarkovOMD, VLearning
from equipoise.dynamics._omd import EXP3IX, OMD, EntropicOMD, LogBarrierOMD
from equipoise.dynamics._references import (
    BestResponder,
    OptimisticOMD,
    RegretMatchingPlus,
    Uniform,
)

#: Makes a learner, given the number of rounds, which printed constants need.
Maker = Callable[[int], Learner]


class Named(NamedTuple):
    """A learner that has a name: its title in tables, and how to make it for each kind of game.

    **Example**

    >>> import equipoise as eq
    >>> named = eq.dynamics.LEARNERS["v-learning"]
    >>> named.title, named.matrix is None
    ('V-learning', True)
    """

    title: str
    matrix: Maker | None = None
    markov: Maker | None = None


#: Name -> learner.
LEARNERS: dict[str, Named] = {
    "omd": Named("OMD", lambda _: OMD(), lambda _: MarkovOMD()),
    "omd-vanishing": Named(
        "OMD, vanishing", lambda _: OMD.vanishing(), lambda _: MarkovOMD.vanishing()
    ),
    "omd-printed-constants": Named(
        "OMD, printed constants", OMD.printed_constants, MarkovOMD.printed_constants
    ),
    "omd-printed-signs": Named(
        "OMD, printed signs", lambda _: OMD.printed_signs(), lambda _: MarkovOMD.printed_signs()
    ),
    "cai-euclidean": Named("OMD, exponents of Cai et al.", lambda _: OMD.cai_exponents()),
    "log-barrier": Named("log-barrier OMD", lambda _: LogBarrierOMD()),
    "entropic": Named("entropic OMD", lambda _: EntropicOMD(), lambda _: MarkovEntropicOMD()),
    "exp3-ix": Named("EXP3-IX", lambda _: EXP3IX()),
    "v-learning": Named("V-learning", None, lambda _: VLearning()),
    "optimistic": Named("optimistic OMD", lambda _: OptimisticOMD()),
    "regret-matching": Named("regret matching+", lambda _: RegretMatchingPlus()),
    "uniform": Named("uniform", lambda _: Uniform(), lambda _: Uniform()),
    "best-responder": Named("best responder", lambda _: BestResponder(), lambda _: BestResponder()),
}


def make_learner(name: str, *, markov: bool, rounds: int, argument: str = "learner") -> Learner:
    """A learner by its name; `argument` is what errors call it.

    **Example**

    >>> import equipoise as eq
    >>> type(eq.dynamics.make_learner("exp3-ix", markov=False, rounds=10)).__name__
    'EXP3IX'
    """
    known = {
        key: found
        for key, named in LEARNERS.items()
        if (found := named.markov if markov else named.matrix) is not None
    }
    if name not in known:
        kind = "Markov" if markov else "matrix"
        raise ValueError(
            f"{argument}: expected for {kind} games one of {sorted(known)}, found {name!r}"
        )
    return known[name](rounds)
