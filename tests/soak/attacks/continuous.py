"""Games with continuous actions: rewards that cancel, many agents, and textbook equilibria."""

from collections.abc import Iterator
from fractions import Fraction

import jax.numpy as jnp
import numpy as np

import equipoise as eq
from soak.attacks import drawn


def cancelling(seed: int, seconds: float) -> Iterator[str]:
    """A slope of 1/4 beside a large term of the other agent, whose mean is about zero."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        size = float(2.0 ** rng.uniform(10, 44))
        other = np.array([-1.0, 0.5, 0.0])
        least = rng.uniform(0.05, 0.33)
        weights = np.array([least, 2 * least, 1 - 3 * least])
        known = [{"lipschitz": 0.25}, {"curvature": 1e-3}][int(rng.integers(2))]
        game = eq.ContinuousGame.from_function(
            lambda a: jnp.stack([0.25 * a[0] + size * a[1], 0.0 * a[1]]), 2, **known
        )
        policy = eq.ContinuousPolicy([[0.0] * 3, other], [[1.0, 0.0, 0.0], weights])
        points, chances = (part[0, 1] for part in policy.support())

        def mean(a: float) -> Fraction:
            pairs = zip(chances, points, strict=True)
            rewards = [Fraction(float(w)) * Fraction(float(0.25 * a + size * b)) for w, b in pairs]
            return sum(rewards) / sum(Fraction(float(w)) for w in chances)

        certificate = eq.certify(game, policy)
        gain = max(mean(float(a)) for a in np.linspace(-1, 1, 129)) - mean(0.0)
        if Fraction(float(certificate.upper[0])) < gain:
            yield f"at {size:.3g}: the gain is {float(gain)!r}, upper {certificate.upper[0]!r}"

    return drawn(seed, seconds, check)


def many_agents(seed: int, seconds: float) -> Iterator[str]:
    """Reward functions of more agents than an array of NumPy has axes."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        agents, pull = int(rng.integers(25, 45)), float(rng.uniform(0.0, 0.9))
        game = eq.ContinuousGame.from_function(
            lambda a: -((a - pull * a.mean()) ** 2), agents, curvature=3.0
        )
        solution = eq.solve(game)
        if not solution.solved or np.abs(solution.policy.points).max() > 0.02:
            yield f"{agents} agents: {solution.status}"

    return drawn(seed, seconds, check)


def cournot(seed: int, seconds: float) -> Iterator[str]:
    """Equal firms: what is called solved is within its tolerance of the textbook's quantities."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        firms, price, cost = int(rng.integers(2, 20)), 100.0, float(rng.uniform(1, 60))
        quantity = (price - cost) / (firms + 1)
        half = 2 * quantity  # quantities are half (1 + a)
        own = [0.0, half * (price - cost) - half**2 * (firms + 1), -(half**2)]
        weights = -(half**2) * (1 - np.eye(firms))
        terms = eq.games.PolynomialTerms(firms, np.tile(own, (firms, 1)), {(1, 1): weights})
        game = eq.ContinuousGame(terms)
        exactly = eq.certify(game, np.full(firms, quantity / half - 1))
        if exactly.max_gain > 1e-9 * price**2:
            yield f"{firms} firms: a gain of {exactly.max_gain:.3g} at the equilibrium"
        solution = eq.solve(game)
        if solution.solved != bool(solution.certificate.max_upper <= solution.tolerance):
            yield f"{firms} firms: {solution.status}"

    return drawn(seed, seconds, check)


ATTACKS = (cancelling, many_agents, cournot)
