"""Learners by name, for matrix games and for Markov games."""

from collections.abc import Callable
from typing import NamedTuple

from equipoise.core import InputError
from equipoise.core.errors import named_arguments
from equipoise.dynamics import _references as references
from equipoise.dynamics._learner import Learner
from equipoise.dynamics._markov import MarkovEntropicOMD, MarkovOMD, VLearning
from equipoise.dynamics._omd import EXP3IX, OMD, EntropicOMD, LogBarrierOMD

#: A function that makes a learner from the number of rounds, on which printed constants depend.
Maker = Callable[[int], Learner]


class Named(NamedTuple):
    """A named learner: its title in tables, and a function to make it for each kind of game.

    **Example**

    >>> import equipoise as eq
    >>> named = eq.dynamics.LEARNERS["v-learning"]
    >>> named.title, named.matrix is None
    ('V-learning', True)
    """

    #: Title in tables.
    title: str
    #: Function that makes the learner for matrix games; None if it does not play them.
    matrix: Maker | None = None
    #: Function that makes the learner for Markov games; None if it does not play them.
    markov: Maker | None = None


#: Learners by name.
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
    "omd-printed-regulariser": Named(
        "OMD, printed regulariser",
        lambda _: OMD.printed_regulariser(),
        lambda _: MarkovOMD.printed_regulariser(),
    ),
    "omd-plain": Named("OMD, no baseline", lambda _: OMD.plain(), lambda _: MarkovOMD.plain()),
    "cai-euclidean": Named("OMD, exponents of Cai et al.", lambda _: OMD.cai_exponents()),
    "log-barrier": Named("log-barrier OMD", lambda _: LogBarrierOMD()),
    "entropic": Named("entropic OMD", lambda _: EntropicOMD(), lambda _: MarkovEntropicOMD()),
    "exp3-ix": Named("EXP3-IX", lambda _: EXP3IX()),
    "v-learning": Named("V-learning", None, lambda _: VLearning()),
    "optimistic": Named("optimistic OMD", lambda _: references.OptimisticOMD()),
    "regret-matching": Named("regret matching+", lambda _: references.RegretMatchingPlus()),
    "uniform": Named("uniform", lambda _: references.Uniform(), lambda _: references.Uniform()),
    "best-responder": Named(
        "best responder", lambda _: references.BestResponder(), lambda _: references.BestResponder()
    ),
}


@named_arguments
def make_learner(name: str, *, markov: bool, rounds: int, argument: str = "learner") -> Learner:
    """Return a learner by its name; errors call the argument `argument`.

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
        raise InputError(
            argument, f"for {kind} games one of {', '.join(sorted(known))}", repr(name)
        )
    return known[name](rounds)
