"""Markov games at discounts near one, with horizons, and crowds over steps, in exact arithmetic."""

import time
from collections.abc import Iterator
from fractions import Fraction
from functools import reduce

import numpy as np

import equipoise as eq
from soak.attacks import drawn
from soak.exact import chances, exact, payoffs, strategies
from soak.processes import process_gains

DISCOUNTS = (0.0, 0.5, 0.9, 0.99, 0.999, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12, 1 - 2.0**-50, 1 - 2.0**-53)


def _transition(rng: np.random.Generator, shape: tuple[int, ...], states: int) -> np.ndarray:
    """Random, deterministic, or hardly ever leaving a state."""
    kind = rng.integers(3)
    if kind == 0:
        return rng.dirichlet(np.full(states, rng.choice([0.05, 1.0])), shape)
    if kind == 1:
        return np.eye(states)[rng.integers(states, size=shape)]
    stay = np.zeros((*shape, states))
    for s in range(states):
        stay[s, ..., s] = 1.0
    if states > 1:
        stay[0, ..., 0], stay[0, ..., 1] = 1 - 1e-12, 1e-12
    return stay


def _missed(certificate: eq.Certificate, truth: list[Fraction], about: str) -> Iterator[str]:
    for i, gain in enumerate(truth):
        upper = float(certificate.upper[i])
        if np.isnan(upper) or (np.isfinite(upper) and Fraction(upper) < gain):
            yield f"{about}: player {i} gains {float(gain):.17g}, and upper is {upper:.17g}"


def endless(seed: int, seconds: float) -> Iterator[str]:
    """Games without a horizon: bounds of solutions and of random policies, and refusals."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        players = int(rng.choice([2, 2, 2, 3]))
        actions = tuple(int(n) for n in rng.integers(1, 4, size=players))
        states, discount = int(rng.integers(1, 4)), float(rng.choice(DISCOUNTS))
        zero_sum = players == 2 and rng.random() < 0.5
        shape = (states, *actions)
        reward = payoffs(rng, shape if zero_sum else (players, *shape), bool(rng.integers(2)))
        transition, about = _transition(rng, shape, states), f"{shape} at {discount!r}"
        if discount > 1 - 2.0**-40:
            try:
                eq.MarkovGame(reward, transition, discount)
            except ValueError as error:
                if "horizon=" not in str(error):
                    yield f"{about}: {error}"
            else:
                yield f"{about}: not refused"
            return
        game = eq.MarkovGame(reward, transition, discount)
        profile = [strategies(rng, (states, n), True) for n in actions]
        if rng.random() < 0.4:
            start = time.perf_counter()
            solution = eq.solve(game, **({} if zero_sum else {"time_limit": 4.0}))
            if (spent := time.perf_counter() - start) > 30.0:
                yield f"{about}: {spent:.0f} s of 4"
            within = solution.certificate.upper <= solution.stats.get(
                "tolerances", solution.tolerance
            )
            if solution.solved != bool(np.all(within)):
                yield f"{about}: {solution.status}"
            own = [np.asarray(p) for p in solution.policy]
            profile = own if own[0].ndim == 2 else profile
        joint = np.full(shape, Fraction(1))
        for i, own in enumerate(profile):
            others = [1 if j != i else actions[i] for j in range(players)]
            joint = joint * chances(own).reshape(states, *others)
        table = exact(np.stack([reward, -reward]) if zero_sum else reward)
        truth = process_gains(table, chances(transition), joint[None], Fraction(discount))
        yield from _missed(eq.certify(game, profile), truth, about)

    return drawn(seed, seconds, check)


def horizons(seed: int, seconds: float) -> Iterator[str]:
    """Games of a few steps, solved for every concept: all are solved, and bounds hold."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        actions = tuple(int(n) for n in rng.integers(1, 4, size=2))
        states, horizon = (int(n) for n in rng.integers(1, 4, size=2))
        shape = (states, *actions)
        reward = payoffs(rng, (2, *shape), bool(rng.integers(2)))
        transition, discount = (
            _transition(rng, shape, states),
            float(rng.choice([1, 0.5, 0, 0.999])),
        )
        game = eq.MarkovGame(reward, transition, discount, horizon=horizon)
        concept = str(rng.choice(["nash", "ce", "cce"]))
        solution = eq.solve(game, concept=concept)
        about = f"{concept} of {shape}, {horizon} steps"
        if not solution.solved:
            yield f"{about}: {solution.status}"
        if concept == "nash":
            each = [chances(np.asarray(own)) for own in solution.policy]
            joint = each[0][..., :, None] * each[1][..., None, :]
        else:
            flat = np.asarray(solution.policy.joint).reshape(horizon, states, -1)
            joint = chances(flat).reshape(horizon, *shape)
        gamma = Fraction(discount)
        truth = process_gains(
            exact(reward), chances(transition), joint, gamma, concept, finite=True
        )
        yield from _missed(solution.certificate, truth, about)

    return drawn(seed, seconds, check)


def crowds_over_steps(seed: int, seconds: float) -> Iterator[str]:
    """Gains of every agent of a small crowd, by dynamic programming over its own states."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        types, states, horizon = int(rng.integers(1, 3)), int(rng.integers(1, 3)), 3
        counts = rng.integers(1, 4, types)
        influence = rng.integers(0, 3, (types, 2, 1)).astype(float)
        base = rng.uniform(-0.4, 0.4, (horizon, states, types, 2))
        jam = rng.uniform(-0.1, 0.1, base.shape)
        pull = rng.uniform(0.0, 0.3, (horizon, states, states))

        def reward(h, s, x):
            return base[h, s] + jam[h, s] * x[..., 0]

        def transition(h, s, x):
            each = [1 + pull[h, s, z] * x[..., 0] * (z + 1) for z in range(states)]
            return np.stack(each, -1) / reduce(np.add, each)[..., None]

        game = eq.AggregativeMarkovGame(
            influence, reward, transition, horizon=horizon, states=states, counts=counts,
            lipschitz=0.1, transition_lipschitz=3.0,
        )  # fmt: skip
        rows = np.repeat(np.arange(types), counts)
        agents = len(rows)
        play = rng.integers(0, 2, (agents, horizon, states))
        certificate = eq.certify(game, play)
        for i in range(agents):
            value = best = np.zeros(states)
            for h in reversed(range(horizon)):
                here, top = np.zeros(states), np.zeros(states)
                for s in range(states):
                    own = play[i, h, s]
                    x = np.array([influence[rows, play[:, h, s], 0].sum() / agents])
                    here[s] = reward(h, s, x)[rows[i], own] + transition(h, s, x) @ value
                    there = [
                        x + (influence[rows[i], a] - influence[rows[i], own]) / agents
                        for a in range(2)
                    ]
                    top[s] = max(
                        reward(h, s, y)[rows[i], a] + transition(h, s, y) @ best
                        for a, y in enumerate(there)
                    )
                value, best = here, top
            gain = float((best - value).max())
            if gain > certificate.upper[i] + 1e-12 or abs(gain - certificate.gains[i]) > 1e-9:
                yield f"agent {i} gains {gain!r}, not {certificate.gains[i]!r}"

    return drawn(seed, seconds, check)


ATTACKS = (endless, horizons, crowds_over_steps)
