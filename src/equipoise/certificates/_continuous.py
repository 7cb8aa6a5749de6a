"""Gains where actions are numbers: best replies on the whole interval, not on a grid.

Agents choose independently, so that the expected reward of an agent is a polynomial of its own
action, whose coefficients are moments of what the others do. Its maximum on [-1, 1] is at an end
or at a zero of the derivative. With local states that own actions alone move, the others' moments
in each step do not depend on an agent either, and a dynamic program over its own states, with
such a maximum in each, gives its best reply.
"""

from typing import Any

import numpy as np

from equipoise.certificates._continuous_bounds import certify_function
from equipoise.core import polynomials
from equipoise.core.results import Certificate
from equipoise.games import ContinuousGame, ContinuousPolicy, PolynomialTerms


def certify_continuous(game: ContinuousGame, policy: Any) -> Certificate:
    """Gains of every agent, expected over contexts, with the best reply in each context.

    Exact for polynomial terms. In the game of section 6 of the interaction-rank paper the largest
    gain, times sqrt(N), is the metric of its appendix B.
    """
    policy = game.as_policy(policy)
    if not isinstance(game.terms, PolynomialTerms):
        return certify_function(game, game.terms, policy)
    if game.transitions is None:
        return _certify_once(game, game.terms, policy)
    return _certify_steps(game, game.terms, game.transitions, policy)


def _certify_once(
    game: ContinuousGame, terms: PolynomialTerms, policy: ContinuousPolicy
) -> Certificate:
    points, chances = (array[:, :, None] for array in policy.support())  # one state
    replies = terms.own_polynomials(terms.moments(points, chances))
    value = _mean(replies, points, chances)[..., 0]
    best = polynomials.maximum(replies)[0][..., 0]
    contexts = game.context_probabilities
    return Certificate(
        gains=contexts @ (best - value),
        value=contexts @ value,
        method="best reply in every context: the maximum of a polynomial on [-1, 1]",
        exact=True,
    )


def _certify_steps(
    game: ContinuousGame,
    terms: PolynomialTerms,
    transitions: np.ndarray,
    policy: ContinuousPolicy,
) -> Certificate:
    points, chances = policy.support()  # (contexts, horizon, agents, states, support)
    here = np.array(game.initial)
    rewards, value = [], np.zeros(here.shape[:2])
    for h in range(game.horizon):
        reached = here[..., None] * chances[:, h]
        rewards.append(terms.own_polynomials(terms.moments(points[:, h], reached)))
        value += (here * _mean(rewards[h], points[:, h], chances[:, h])).sum(-1)
        here = _move(transitions, here, points[:, h], chances[:, h])
    ahead = np.zeros(here.shape)
    for h in reversed(range(game.horizon)):
        later = np.einsum("cnstp,cnt->cnsp", transitions, ahead)
        ahead = polynomials.maximum(_sum(rewards[h], later))[0]
    best = (np.array(game.initial) * ahead).sum(-1)
    contexts = game.context_probabilities
    return Certificate(
        gains=contexts @ (best - value),
        value=contexts @ value,
        method="best replies by dynamic programming, each the maximum of a polynomial on [-1, 1]",
        exact=True,
    )


def _mean(replies: np.ndarray, points: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """(contexts, agents, states): what the policy earns of the polynomials of own actions."""
    return (polynomials.evaluate(replies[..., None, :], points) * chances).sum(-1)


def _move(
    transitions: np.ndarray, here: np.ndarray, points: np.ndarray, chances: np.ndarray
) -> np.ndarray:
    """(contexts, agents, states): the chances of states after a step."""
    powers = points[..., None] ** np.arange(transitions.shape[-1])
    moments = np.einsum("cns,cnsk,cnskp->cnsp", here, chances, powers)
    return np.einsum("cnsp,cnstp->cnt", moments, transitions)


def _sum(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The sum of polynomials of different lengths."""
    longer, shorter = (first, second) if first.shape[-1] >= second.shape[-1] else (second, first)
    result = np.array(longer)
    result[..., : shorter.shape[-1]] += shorter
    return result
