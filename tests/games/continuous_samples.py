"""Small games of continuous actions without any symmetry, and their rewards written out."""

import numpy as np

import equipoise as eq
from equipoise.games import PolynomialTerms


def rich_terms(rng, agents=4, contexts=2, states=1) -> PolynomialTerms:
    """Terms of every kind and order, without any symmetry."""
    scopes3 = np.array([[0, 1, 2], [3, 0, 2], [0, 3, 1], [2, 3, 0]])
    scopes4 = np.array([[1, 0, 2, 3]])
    return PolynomialTerms(
        agents,
        rng.normal(size=(contexts, agents, states, 4)),
        {
            (1, 1): rng.normal(size=(contexts, agents, agents)),
            (2, 1): rng.normal(size=(agents, agents)),
            (0, 3): rng.normal(size=(agents, agents)),
            (1, 0): rng.normal(size=(agents, agents)),
        },
        {
            3: (scopes3, rng.integers(0, 3, scopes3.shape), rng.normal(size=(contexts, 4))),
            4: (scopes4, np.array([[2, 1, 1, 2]]), rng.normal(size=1)),
        },
        rng.normal(size=(agents, states, 3)),
    )


def rich_game(rng, states=1, horizon=1, contexts=2) -> eq.ContinuousGame:
    terms = rich_terms(rng, contexts=contexts, states=states)
    if states == 1:
        return eq.ContinuousGame(terms, rng.dirichlet(np.ones(contexts)))
    level = rng.dirichlet(np.ones(states), (contexts, 4, states))
    slope = rng.uniform(-1, 1, (contexts, 4, states, states))
    slope -= slope.mean(-1, keepdims=True)
    bend = np.zeros_like(slope)
    # 0.5 level + 0.5 / states, and a slope that cannot make it negative.
    level = 0.5 * level + 0.5 / states
    slope *= 0.2 / states
    bend[..., 0], bend[..., 1] = 0.1 / states, -0.1 / states
    return eq.ContinuousGame(
        terms,
        rng.dirichlet(np.ones(contexts)),
        np.stack([level, slope, bend], -1),
        rng.dirichlet(np.ones(states), (contexts, 4)),
        horizon,
    )


def written_out(terms: PolynomialTerms, actions, context=0, states=None) -> np.ndarray:
    """Rewards of one profile, term by term."""
    states = np.zeros(terms.agents, int) if states is None else states
    x = [
        np.polyval(terms.effects[j, s][::-1], a)
        for j, (s, a) in enumerate(zip(states, actions, strict=True))
    ]
    rewards = np.zeros(terms.agents)
    for i in range(terms.agents):
        rewards[i] = np.polyval(terms.own[context, i, states[i]][::-1], actions[i])
        for (p, q), weights in terms.pairs.items():
            for j in range(terms.agents):
                rewards[i] += weights[context, i, j] * x[i] ** p * x[j] ** q
    for group in terms.groups.values():
        for t, scope in enumerate(group.scopes):
            factors = [x[j] ** power for j, power in zip(scope, group.powers[t], strict=True)]
            rewards[scope[0]] += group.weights[context, t] * np.prod(factors)
    return rewards
