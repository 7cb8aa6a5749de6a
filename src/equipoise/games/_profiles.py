"""Pure strategies and payoff tables of small games with interaction terms."""

import math

import numpy as np

from equipoise.games._interactions import Interactions
from equipoise.games._normal import NormalFormGame

#: The largest number of strategy profiles that is tabulated.
PROFILES_LIMIT = 1_000_000


def pure_occupancies(
    initial: np.ndarray, transitions: np.ndarray | None, actions: int, width: int
) -> np.ndarray:
    """(strategies, situations, moves): the chance of each move under every pure strategy.

    `initial` is (contexts, states); `transitions` (contexts, horizon, states, actions, states)
    of one agent, or None where there is one step. A strategy says what to do in every context,
    step and state.
    """
    contexts, states = initial.shape
    horizon = 1 if transitions is None else transitions.shape[1]
    places = contexts * horizon * states
    if actions**places > PROFILES_LIMIT:
        raise ValueError(
            f"game: expected at most {PROFILES_LIMIT} strategies of an agent, "
            f"found {actions}^{places}"
        )
    number = np.arange(actions**places)
    chosen = (number[:, None] // actions ** np.arange(places)) % actions
    policy = np.eye(width)[chosen].reshape(len(number), contexts, horizon, states, width)
    here = np.broadcast_to(initial, (len(number), contexts, states))
    moves = []
    for h in range(horizon):
        joint = here[..., None] * policy[:, :, h]
        moves.append(joint.reshape(len(number), contexts, states * width))
        if transitions is not None:
            here = np.einsum("pcsa,csat->pct", joint, transitions[:, h])
    return np.stack(moves, 2).reshape(len(number), contexts * horizon, states * width)


def normal_form(terms: Interactions, weights: np.ndarray, pure: list[np.ndarray]) -> NormalFormGame:
    """The payoff table of all profiles of pure strategies; `weights` are those of situations."""
    shape = [len(strategies) for strategies in pure]
    if math.prod(shape) * terms.agents > PROFILES_LIMIT:
        raise ValueError(
            f"game: expected at most {PROFILES_LIMIT} payoffs, found {terms.agents} for each of "
            f"{' x '.join(map(str, shape))} profiles"
        )
    payoffs = np.zeros((terms.agents, *shape))
    for order, scopes in terms.scopes.items():
        for m, scope in enumerate(scopes):
            payoff = weights.reshape(-1, *[1] * order) * np.asarray(terms.tables[order])[:, m]
            # Move axes become strategy axes one by one, from the first; the context stays first.
            for j in scope:
                payoff = np.einsum("cu...,pcu->c...p", payoff, pure[j])
            payoff = payoff.sum(0).transpose(np.argsort(scope))
            view = [shape[j] if j in scope else 1 for j in range(terms.agents)]
            payoffs[scope[0]] += payoff.reshape(view)
    return NormalFormGame(payoffs)
