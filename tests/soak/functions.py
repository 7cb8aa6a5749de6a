"""Crowds and continuous games: certificates against loops over all deviations, in rationals.

Rewards of crowds are functions that fractions can go through, and sums of numbers of one sign, so
that their own rounding stays within a unit or two. Rewards of continuous actions are polynomials,
whose maxima rational arithmetic finds, or sines, whose maxima are known.
"""

import itertools
import math
from fractions import Fraction
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

import equipoise as eq
from soak.exact import Case, chances, exact, interpolate, maximum, scale, strategies, value_at


def _same_sign(rng: np.random.Generator, shape: tuple[int, ...], awkward: bool) -> np.ndarray:
    numbers = rng.uniform(0.1, 1.0, size=shape)
    if not awkward:
        return numbers
    kind = rng.integers(3)
    if kind == 0:
        return numbers * 10.0 ** rng.integers(-12, 6, size=shape)
    if kind == 1:
        return 1.0 + 1e-13 * numbers
    return np.round(4 * numbers)


def _influence(rng: np.random.Generator, shape: tuple[int, ...], awkward: bool) -> np.ndarray:
    if not awkward:
        return rng.uniform(0.0, 1.0, size=shape)
    numbers = 10.0 ** rng.uniform(-14, 0, size=shape)
    return np.where(rng.random(shape) < 0.3, 1.0 - numbers, numbers)


def _counts(rng: np.random.Generator, types: int, awkward: bool) -> np.ndarray:
    most = 10 ** int(rng.integers(1, 13 if awkward else 4))
    return rng.integers(1, most + 1, size=types)


def crowd(rng: np.random.Generator, awkward: bool) -> Case:
    """Very many agents, in one step."""
    types, actions, d = (int(n) for n in rng.integers(1, 4, size=3))
    influence = _influence(rng, (types, actions, d), awkward)
    counts = _counts(rng, types, awkward)
    unit = scale(rng) * float(rng.choice([-1, 1]))
    base = unit * _same_sign(rng, (types, actions), awkward)
    slope = unit * _same_sign(rng, (d, types, actions), awkward)

    def reward(x: Any) -> Any:
        total = base
        for k in range(d):
            total = total + slope[k] * x[..., k]
        return total

    most = 2.0 * (np.abs(base).max() + np.abs(slope).sum(0).max())
    game = eq.AggregativeGame(
        influence, reward, float(np.abs(slope).sum(0).max()), counts=counts, bounds=(-most, most)
    )
    rows, size, played = [], [], []
    for row in range(types):
        split = rng.multinomial(int(counts[row]), rng.dirichlet(np.ones(actions)))
        for action in np.flatnonzero(split):
            rows.append(row)
            size.append(int(split[action]))
            played.append(int(action))
    certificate = eq.certify(game, eq.AggregativePolicy(rows, size, played))
    f, base, slope = exact(influence), exact(base), exact(slope)
    factor = Fraction(game.scale)
    x = factor * sum(n * f[row, a] for row, n, a in zip(rows, size, played, strict=True))
    truth = []
    for row, action in zip(rows, played, strict=True):
        earned = []
        for other in range(actions):
            moved = x + factor * (f[row, other] - f[row, action])
            earned.append(base[row, other] + (slope[:, row, other] * moved).sum())
        truth.append(max(earned) - earned[action])
    return Case(certificate.class_gains, certificate.class_upper, truth, certificate.exact)


def crowd_markov(rng: np.random.Generator, awkward: bool) -> Case:
    """Very many agents, in two steps and two states: all policies of one agent are tried."""
    types, actions, horizon, states = int(rng.integers(1, 3)), int(rng.integers(1, 4)), 2, 2
    influence = _influence(rng, (types, actions, 1), awkward)
    counts = _counts(rng, types, awkward)
    unit = scale(rng) * float(rng.choice([-1, 1]))
    base = unit * _same_sign(rng, (horizon, states, types, actions), awkward)
    slope = unit * _same_sign(rng, (horizon, states, types, actions), awkward)
    chance, rise = rng.uniform(0.0, 0.5, size=(2, horizon, states))

    def reward(h: int, s: int, x: Any) -> Any:
        return base[h, s] + slope[h, s] * x[..., 0]

    def transition(h: int, s: int, x: Any) -> Any:
        up = chance[h, s] + rise[h, s] * x[..., 0]
        return np.stack([1.0 - up, up], -1)

    most = 2.0 * (np.abs(base).max() + np.abs(slope).max())
    game = eq.AggregativeMarkovGame(
        influence, reward, transition, horizon, states, counts,
        lipschitz=float(np.abs(slope).max()), transition_lipschitz=float(rise.max()),
        bounds=(-most, most),
    )  # fmt: skip
    rows, size, plans = [], [], []
    for row in range(types):
        for part in rng.multinomial(int(counts[row]), [0.5, 0.5]):
            if part:
                rows.append(row)
                size.append(int(part))
                plans.append(rng.integers(actions, size=(horizon, states)))
    certificate = eq.certify(game, eq.AggregativePolicy(rows, size, plans))
    f, base, slope = exact(influence)[..., 0], exact(base), exact(slope)
    chance, rise, factor = exact(chance), exact(rise), Fraction(game.scale)
    stages = list(itertools.product(range(horizon), range(states)))
    x = {
        (h, s): factor * sum(n * f[r, p[h, s]] for r, n, p in zip(rows, size, plans, strict=True))
        for h, s in stages
    }

    def value(row: int, kept: np.ndarray, own: np.ndarray) -> list[Fraction]:
        ahead = [Fraction(0)] * states
        for h in reversed(range(horizon)):
            now = []
            for s in range(states):
                a = own[h, s]
                moved = x[h, s] + factor * (f[row, a] - f[row, kept[h, s]])
                up = chance[h, s] + rise[h, s] * moved
                later = (1 - up) * ahead[0] + up * ahead[1]
                now.append(base[h, s, row, a] + slope[h, s, row, a] * moved + later)
            ahead = now
        return ahead

    truth = np.full((states, len(rows)), Fraction(0))
    for c, (row, plan) in enumerate(zip(rows, plans, strict=True)):
        kept = value(row, plan, plan)
        for choice in itertools.product(range(actions), repeat=horizon * states):
            tried = value(row, plan, np.reshape(choice, (horizon, states)))
            truth[:, c] = [max(t, a - b) for t, a, b in zip(truth[:, c], tried, kept, strict=True)]
    upper, exactly = certificate.class_upper, certificate.exact
    return Case(certificate.class_gains.ravel(), upper.ravel(), truth.ravel(), exactly)


# Continuous actions.


class _Terms:
    """Random polynomial terms, and their rewards in rationals."""

    def __init__(self, rng: np.random.Generator, states: int, awkward: bool):
        self.agents, self.contexts = int(rng.integers(2, 4)), int(rng.integers(1, 3))
        unit = scale(rng)
        n, c = self.agents, self.contexts

        def numbers(*shape: int) -> np.ndarray:
            table = unit * rng.normal(size=shape)
            return table * 10.0 ** rng.integers(-9, 3, size=shape) if awkward else table

        own = numbers(c, n, states, int(rng.integers(1, 5)))
        pairs = {(1, 1): numbers(c, n, n)}
        if rng.random() < 0.5:
            pairs[int(rng.integers(3)), int(rng.integers(3))] = numbers(c, n, n)
        groups = {}
        if n == 3 and rng.random() < 0.5:
            scopes = np.array([rng.permutation(3) for _ in range(2)])
            groups[3] = scopes, rng.integers(0, 3, size=(2, 3)), numbers(c, 2)
        effects = None
        if states > 1 or rng.random() < 0.3:
            effects = rng.uniform(-1.0, 1.0, size=(n, states, 2))
        self.terms = eq.games.PolynomialTerms(n, own, pairs, groups, effects)
        plain = np.broadcast_to([0.0, 1.0], (n, states, 2))
        self.own, self.effects = exact(own), exact(plain if effects is None else effects)
        self.pairs = {power: exact(w) for power, w in pairs.items()}
        self.groups = {k: (s, p, exact(w)) for k, (s, p, w) in groups.items()}

    def reward(self, c: int, i: int, z: list[Fraction], s: list[int]) -> Fraction:
        """What agent i receives of actions z in local states s."""
        x = [value_at(list(self.effects[j, s[j]]), z[j]) for j in range(self.agents)]
        total = value_at(list(self.own[c, i, s[i]]), z[i])
        for (p, q), w in self.pairs.items():
            total += x[i] ** p * sum(w[c, i, j] * x[j] ** q for j in range(self.agents))
        for scopes, powers, w in self.groups.values():
            for t in np.flatnonzero(scopes[:, 0] == i):
                factors = zip(scopes[t], powers[t], strict=True)
                total += w[c, t] * math.prod(
                    (x[j] ** int(p) for j, p in factors), start=Fraction(1)
                )
        return total

    def mean(self, c: int, i: int, others: list[list], z: Fraction, s: int) -> Fraction:
        """The same on average, where each of the others has (chance, action, state) at random."""
        total = Fraction(0)
        for met in itertools.product(*others):
            joint, places = [Fraction(0)] * self.agents, [0] * self.agents
            weight = Fraction(1)
            for j, (chance, action, place) in zip(
                [j for j in range(self.agents) if j != i], met, strict=True
            ):
                joint[j], places[j] = action, place
                weight *= chance
            joint[i], places[i] = z, s
            if weight:
                total += weight * self.reward(c, i, joint, places)
        return total


def polynomial(rng: np.random.Generator, awkward: bool) -> Case:
    """Polynomial rewards of one step."""
    made = _Terms(rng, 1, awkward)
    support = int(rng.integers(1, 4))
    shape = (made.contexts, made.agents, support)
    points, weights = rng.uniform(-1, 1, size=shape), strategies(rng, shape, awkward)
    if awkward and rng.random() < 0.5:
        points = np.sign(points)
    prior = strategies(rng, (made.contexts,), awkward)
    game = eq.ContinuousGame(made.terms, prior)
    certificate = eq.certify(game, eq.ContinuousPolicy(points, weights))
    z, w, c0 = exact(points), chances(weights), chances(prior)
    truth = []
    for i in range(made.agents):
        gain = Fraction(0)
        for c in range(made.contexts):
            others = [
                [(w[c, j, k], z[c, j, k], 0) for k in range(support)]
                for j in range(made.agents)
                if j != i
            ]
            degree = made.terms.degree
            curve = interpolate(lambda a, c=c, o=others, i=i: made.mean(c, i, o, a, 0), degree)
            value = sum(w[c, i, k] * value_at(curve, z[c, i, k]) for k in range(support))
            gain += c0[c] * (maximum(curve) - value)
        truth.append(gain)
    return Case(certificate.gains, certificate.upper, truth, certificate.exact)


def polynomial_steps(rng: np.random.Generator, awkward: bool) -> Case:
    """Polynomial rewards with two local states that own actions move, for two steps."""
    states, horizon = 2, 2
    made = _Terms(rng, states, awkward)
    n, contexts = made.agents, made.contexts
    # The chance of state 1 is a quadratic of the own action; that of state 0 is the rest, exactly.
    up = np.stack([rng.integers(200, 800, size=(n, states)) / 1024.0,
                   *rng.uniform(-0.09, 0.09, size=(2, n, states))], -1)  # fmt: skip
    moves = np.stack([np.array([1.0, 0.0, 0.0]) - up, up], -2)
    initial = strategies(rng, (n, states), awkward)
    points = rng.uniform(-1, 1, size=(contexts, horizon, n, states))
    prior = strategies(rng, (contexts,), awkward)
    game = eq.ContinuousGame(made.terms, prior, moves, initial, horizon)
    certificate = eq.certify(game, eq.ContinuousPolicy(points))
    z, t, s0, c0 = exact(points), exact(moves), chances(initial), chances(prior)
    degree = max(made.terms.degree, 2)
    truth = []
    for i in range(n):
        gain = Fraction(0)
        for c in range(contexts):
            here, curves = [s0[j] for j in range(n)], []
            for h in range(horizon):
                others = [
                    [(here[j][s], z[c, h, j, s], s) for s in range(states)]
                    for j in range(n)
                    if j != i
                ]
                curves.append([
                    interpolate(lambda a, s=s, o=others, c=c, i=i: made.mean(c, i, o, a, s), degree)
                    for s in range(states)
                ])  # fmt: skip
                here = [
                    sum(
                        here[j][s] * np.array([value_at(list(q), z[c, h, j, s]) for q in t[j, s]])
                        for s in range(states)
                    )
                    for j in range(n)
                ]
            best = value = [Fraction(0)] * states
            for h in reversed(range(horizon)):
                worth, kept = [], []
                for s in range(states):
                    for ahead, out in ((best, worth), (value, kept)):
                        curve = list(curves[h][s])
                        for target in range(states):
                            for p in range(3):
                                curve[p] += t[i, s, target, p] * ahead[target]
                        out.append(
                            maximum(curve) if out is worth else value_at(curve, z[c, h, i, s])
                        )
                best, value = worth, kept
            gain += c0[c] * sum(s0[i, s] * (best[s] - value[s]) for s in range(states))
        truth.append(gain)
    return Case(certificate.gains, certificate.upper, truth, certificate.exact)


#: Different functions, since each is compiled.
_FUNCTIONS = 6
_EPS = float(np.finfo(float).eps)


@cache
def _sines(number: int) -> tuple[eq.ContinuousGame, np.ndarray, np.ndarray, np.ndarray, float]:
    """Agent i of a context earns size * sin(w_i a_i + sum_j v_ij a_j), v_ii = 0."""
    rng = np.random.default_rng(number)
    agents, contexts, size = 2, 2, float(10.0 ** rng.integers(-3, 4))
    w = rng.uniform(0.5, 12.0, size=(contexts, agents))
    v = rng.uniform(-3.0, 3.0, size=(contexts, agents, agents))
    v[:, np.arange(agents), np.arange(agents)] = 0.0
    slope = size * float(w.max()) * (1.0 + 1e-9)
    bent: Any = {"curvature": slope * float(w.max())} if number else {"lipschitz": slope}

    def reward(a: Any, context: Any) -> Any:
        return size * jnp.sin(jnp.asarray(w)[context] * a + jnp.asarray(v)[context] @ a)

    game = eq.ContinuousGame.from_function(reward, agents, contexts, **bent)
    return game, w, v, game.context_probabilities, size


def function(rng: np.random.Generator, awkward: bool) -> Case:
    """Rewards that are a function with a stated slope or curvature; their maxima are known."""
    game, w, v, prior, size = _sines(int(rng.integers(_FUNCTIONS)))
    support = int(rng.integers(1, 4))
    shape = (*game.policy_shape, support)
    points, weights = rng.uniform(-1, 1, size=shape), strategies(rng, shape, awkward)
    if awkward:
        points = np.sign(points) * 10.0 ** rng.uniform(-15, 0, size=shape)
    certificate = eq.certify(game, eq.ContinuousPolicy(points, weights))
    truth = np.zeros(game.agents)
    for c in range(game.contexts):
        for i in range(game.agents):
            j = 1 - i
            phases, mass = v[c, i, j] * points[c, j], weights[c, j] / weights[c, j].sum()
            # A mean of sines of one frequency is a sine again.
            wave = complex((mass * np.exp(1j * phases)).sum())
            height, phase = abs(wave), math.atan2(wave.imag, wave.real)
            low, high = phase - w[c, i], phase + w[c, i]
            top = math.ceil((low - math.pi / 2) / (2 * math.pi))
            crest = math.pi / 2 + 2 * math.pi * top <= high
            best = 1.0 if crest else max(math.sin(low), math.sin(high))
            own = weights[c, i] / weights[c, i].sum()
            value = float((own * np.sin(w[c, i] * points[c, i] + phase)).sum())
            truth[i] += prior[c] * size * height * (best - value)
    # The sines here are as good as those of the function: both are rounded.
    slack = 64 * _EPS * size
    return Case(certificate.gains - slack, certificate.upper + slack, truth, certificate.exact)
