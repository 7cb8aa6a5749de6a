"""One function certifies a policy in any game of the library."""

from functools import singledispatch
from typing import Any

from equipoise.certificates._aggregative import certify_aggregative
from equipoise.certificates._aggregative_markov import certify_aggregative_markov
from equipoise.certificates._markov import certify_markov
from equipoise.certificates._matrix import certify_matrix
from equipoise.certificates._normal import certify_normal_form
from equipoise.core.results import Certificate
from equipoise.games import (
    AggregativeGame,
    AggregativeMarkovGame,
    MarkovGame,
    MatrixGame,
    NormalFormGame,
)


def certify(game: Any, policy: Any) -> Certificate:
    """How much each player could still gain by deviating alone from `policy`.

    Independent of whoever made the policy, and exact: best responses are computed, not learnt.
    The policy is one array of probabilities per player, in the order of the players, with the
    game's batch axes (or with batch axes that broadcast against them: a thousand policies on
    one game, or one policy on a thousand games). Computed in float64.

    The policy of an `AggregativeGame` or `AggregativeMarkovGame` is an `AggregativePolicy`, or an
    array of the actions of every agent, (agents,) or (agents, horizon, states).

    Raises `ValueError` for a profile in which a player is missing, for arrays of the wrong
    shape, and for probabilities that are negative or do not sum to one.

    **Example**

    >>> import equipoise as eq
    >>> rps = eq.MatrixGame([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    >>> certificate = eq.certify(rps, ([1, 0, 0], [1/3, 1/3, 1/3]))
    >>> certificate.gains.tolist(), certificate.exact
    ([0.0, 1.0], True)
    """
    return _certify(game, policy)


@singledispatch
def _certify(game: Any, policy: Any) -> Certificate:
    raise ValueError(f"game: expected a game of this library, found {type(game).__name__}")


_certify.register(MatrixGame, certify_matrix)
_certify.register(MarkovGame, certify_markov)
_certify.register(NormalFormGame, certify_normal_form)
_certify.register(AggregativeGame, certify_aggregative)
_certify.register(AggregativeMarkovGame, certify_aggregative_markov)
