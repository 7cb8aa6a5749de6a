"""One function certifies a policy in any game of the library."""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from equipoise.certificates._aggregative import certify_aggregative
from equipoise.certificates._aggregative_markov import certify_aggregative_markov
from equipoise.certificates._contextual import certify_contextual
from equipoise.certificates._continuous import certify_continuous
from equipoise.certificates._decoupled import certify_decoupled
from equipoise.certificates._markov import certify_markov
from equipoise.certificates._matrix import certify_matrix
from equipoise.certificates._normal import certify_normal_form
from equipoise.core.results import Certificate
from equipoise.games import (
    AggregativeGame,
    AggregativeMarkovGame,
    ContextualGame,
    ContinuousGame,
    DecoupledMarkovGame,
    MarkovGame,
    MatrixGame,
    NormalFormGame,
)


def certify(game: Any, policy: Any, *, concept: str | None = None) -> Certificate:
    """How much each player could still gain by deviating alone from `policy`.

    Independent of whoever made the policy, and exact: best responses are computed, not learnt.
    The policy is one array of probabilities per player, in the order of the players, with the
    game's batch axes (or with batch axes that broadcast against them: a thousand policies on
    one game, or one policy on a thousand games). Computed in float64.

    The policy of an `AggregativeGame` or `AggregativeMarkovGame` is an `AggregativePolicy`, or an
    array of the actions of every agent, (agents,) or (agents, horizon, states).

    The policy of a `ContextualGame` or `DecoupledMarkovGame` is a product policy, one array for
    all agents, or a `games.Mixture` of them. There `concept` says which deviations are meant:
    "nash" or "cce" those that ignore what is recommended, the first of a product policy and the
    second of a mixture, which are the defaults; "ce" those that depend on it. The gain of a
    mixture over fixed deviations can be negative, and is then left so. Other games have product
    policies alone, and "nash".

    The policy of a `ContinuousGame` is a `games.ContinuousPolicy`, or an array of the actions of
    every agent, (agents,) or (contexts, agents). Where its rewards are a function of the user's,
    gains are bounds: `exact` is false, and `method` says which.

    Raises `ValueError` for a profile in which a player is missing, for arrays of the wrong
    shape, and for probabilities that are negative or do not sum to one.

    **Example**

    >>> import equipoise as eq
    >>> rps = eq.MatrixGame([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    >>> certificate = eq.certify(rps, ([1, 0, 0], [1/3, 1/3, 1/3]))
    >>> certificate.gains.tolist(), certificate.exact
    ([0.0, 1.0], True)
    """
    return _certify(game, policy, concept)


@singledispatch
def _certify(game: Any, policy: Any, concept: str | None) -> Certificate:
    raise ValueError(f"game: expected a game of this library, found {type(game).__name__}")


def _of_product_policies(certify_kind: Callable[..., Certificate]) -> Callable[..., Certificate]:
    """Where policies are products there is one concept."""

    def certified(game: Any, policy: Any, concept: str | None) -> Certificate:
        if concept not in (None, "nash"):
            raise ValueError(
                f'concept: expected "nash" for a {type(game).__name__}, found {concept!r}'
            )
        return certify_kind(game, policy)

    return certified


_certify.register(MatrixGame, _of_product_policies(certify_matrix))
_certify.register(MarkovGame, _of_product_policies(certify_markov))
_certify.register(NormalFormGame, _of_product_policies(certify_normal_form))
_certify.register(AggregativeGame, _of_product_policies(certify_aggregative))
_certify.register(AggregativeMarkovGame, _of_product_policies(certify_aggregative_markov))
_certify.register(ContinuousGame, _of_product_policies(certify_continuous))
_certify.register(ContextualGame, certify_contextual)
_certify.register(DecoupledMarkovGame, certify_decoupled)
