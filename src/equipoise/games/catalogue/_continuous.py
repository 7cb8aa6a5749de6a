"""Games of many agents whose actions are numbers from -1 to 1."""

from itertools import combinations
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.games._continuous_terms import PolynomialTerms
from equipoise.games.catalogue._parameters import check_table


def _agreement(agents: int, signs: np.ndarray, noise: float) -> dict[str, Any]:
    """Pairs of agents receive a_i a_j / sqrt(N), times signs (contexts, agents, agents)."""
    weights = np.broadcast_to(signs / np.sqrt(agents), (len(signs), agents, agents))
    return {"terms": PolynomialTerms(agents, pairs={(1, 1): weights}), "noise": noise}


def pairwise(agents: int, noise: float) -> dict[str, Any]:
    """All agents want to agree."""
    check_table("agents", agents, agents)
    return _agreement(agents, np.ones((1, 1, 1)), noise)


def signed(agents: int, noise: float) -> dict[str, Any]:
    """Agents want to agree in one context and to differ in the other."""
    check_table("agents", 2, agents, agents)
    return _agreement(agents, np.array([1.0, -1.0])[:, None, None], noise)


def communities(agents: int, contexts: int, noise: float) -> dict[str, Any]:
    """Agents want to agree with their own side."""
    if contexts > 63 or 2 ** (contexts - 1) >= agents:
        raise InputError(
            "contexts", f"a number with 2^(contexts - 1) < {agents}, the number of agents", contexts
        )
    check_table("agents", contexts, agents, agents)
    # In context c, binary digit c of an agent's number determines its side.
    sides = 1.0 - 2.0 * ((np.arange(agents) >> np.arange(contexts)[:, None]) & 1)
    return _agreement(agents, sides[:, :, None] * sides[:, None, :], noise)


def square(agents: int, noise: float) -> dict[str, Any]:
    """Agents do not interact."""
    return {"terms": PolynomialTerms(agents, [0, 0, 1]), "noise": noise}


def triple(agents: int, neighbours: int, noise: float) -> dict[str, Any]:
    """Agents want to agree in triples, with neighbours on a ring."""
    if neighbours >= agents:
        raise InputError("neighbours", f"fewer than the {agents} agents", neighbours)
    check_table("neighbours", 3, agents, neighbours, neighbours)
    ahead = np.array([(0, *pair) for pair in combinations(range(1, neighbours + 1), 2)])
    scopes = (np.arange(agents)[:, None, None] + ahead).reshape(-1, 3) % agents
    weights = np.full(len(scopes), 1.0 / np.sqrt(len(ahead)))
    groups = {3: (scopes, np.ones_like(scopes), weights)}
    return {"terms": PolynomialTerms(agents, groups=groups), "noise": noise}


def stamina(agents: int, states: int, horizon: int, noise: float) -> dict[str, Any]:
    """Agents' efforts move their local states."""
    check_table("agents", agents, agents)
    check_table("states", agents, states, states)
    strength = (np.arange(states) + 1.0) / states
    # An action a is an effort of (1 + a) / 2, weighted by the agent's strength.
    effects = strength[:, None] * np.array([0.5, 0.5])
    own = -0.5 * np.array([0.25, 0.5, 0.25])
    pairs = {(1, 1): (1.0 - np.eye(agents)) / np.sqrt(agents)}
    transitions = np.zeros((states, states, 2))
    for s in range(states):
        transitions[s, max(s - 1, 0)] += [0.3, 0.3]
        transitions[s, min(s + 1, states - 1)] += [0.3, -0.3]
        transitions[s, s, 0] += 0.4
    return {
        "terms": PolynomialTerms(agents, own, pairs, effects=effects),
        "transitions": transitions,
        "horizon": horizon,
        "noise": noise,
    }
