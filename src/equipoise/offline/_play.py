"""Occupancies, values and best responses of policies in a fitted model."""

from typing import Any

import numpy as np

from equipoise.offline._model import Model
from equipoise.solvers.no_regret import Dynamics

#: Largest number of values held at once: components times situations, agents and moves.
_CHUNK = 4_000_000


def terms_of(model: Model) -> Any:
    """Return the rewards of a model: `Interactions` or an `Aggregate`."""
    return model.rewards if model.game is None else model.game.interactions


def occupancies(dynamics: Dynamics, policies: np.ndarray) -> np.ndarray:
    """Probabilities of state and action of each agent, for policies with any leading axes."""
    here, found = np.asarray(dynamics.initial), []
    for h in range(policies.shape[-4]):
        joint = here[..., None] * policies[..., h, :, :, :]
        found.append(joint)
        if h + 1 < policies.shape[-4]:
            here = np.einsum("...cnsa,cnsat->...cnt", joint, dynamics.transitions[:, h])
    return np.stack(found, -4)


def averaged(dynamics: Dynamics, policies: np.ndarray) -> np.ndarray:
    """Product policy whose state-action occupancies are the means over the given policies."""
    found = occupancies(dynamics, policies).mean(0)
    total = found.sum(-1, keepdims=True)
    return np.where(total > 0, found / np.where(total > 0, total, 1.0), policies.mean(0))


def best_reply(
    dynamics: Dynamics,
    rewards: np.ndarray,
    allowed: np.ndarray,
    otherwise: np.ndarray | float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Best deterministic policy of each agent against expected rewards, and its value.

    All arrays are (contexts, horizon, agents, states, actions). In places where no action is
    allowed, the policy is `otherwise`, by default uniform. The value is (contexts, agents).
    """
    actions = rewards.shape[-1]
    ahead = np.zeros(rewards[:, 0, ..., 0].shape)
    chosen = np.empty_like(rewards)
    usual = np.broadcast_to(1.0 / actions if otherwise is None else otherwise, rewards.shape)
    for h in reversed(range(rewards.shape[1])):
        q = rewards[:, h] + np.einsum("cnsat,cnt->cnsa", dynamics.transitions[:, h], ahead)
        masked = np.where(allowed[:, h], q, -np.inf)
        anything: np.ndarray = np.asarray(allowed[:, h].any(-1))
        pure: np.ndarray = np.eye(actions)[masked.argmax(-1)]
        chosen[:, h] = np.where(anything[..., None], pure, usual[:, h])
        ahead = (chosen[:, h] * q).sum(-1)
    return chosen, (np.asarray(dynamics.initial) * ahead).sum(-1)


def model_gains(
    model: Model, policies: np.ndarray, dynamics: Dynamics | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(agents,): largest gains and values of a mixture of policies in a fitted model.

    `policies` are (components, contexts, horizon, agents, states, actions) with equal weights.
    `dynamics` are by default those of the model.
    """
    dynamics, terms = dynamics or model.dynamics, terms_of(model)
    assert dynamics is not None  # only models with networks have none
    count, shape = len(policies), policies.shape[1:]
    flat = (shape[0] * shape[1], shape[2], shape[3] * shape[4])
    chances = np.repeat(model.context_probabilities, shape[1])
    rewards, value = np.zeros(flat), np.zeros(shape[2])
    size = max(1, _CHUNK // int(np.prod(flat)))
    for at in range(0, count, size):
        some = occupancies(dynamics, policies[at : at + size]).reshape(-1, *flat)
        expected = terms.expected(some)
        rewards += expected.sum(0) / count
        value += np.einsum("s,tsnu,tsnu->n", chances, some, expected) / count
    allowed = model.behaviour.reshape(shape) > 0
    best = best_reply(dynamics, rewards.reshape(shape), allowed)[1]
    return model.context_probabilities @ best - value, value
