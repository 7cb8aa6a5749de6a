"""Random games given by payoff tables, with their certificates and their exact gains."""

from fractions import Fraction
from typing import Any

import numpy as np

import equipoise as eq
from soak.exact import Case, case, chances, exact, payoffs, strategies
from soak.processes import markov_gains

#: Games of a batch that are computed exactly.
_SAMPLED = 4


def matrix(rng: np.random.Generator, awkward: bool) -> Case:
    """A zero-sum matrix game."""
    rows, columns = rng.integers(1, 6, size=2)
    payoff = payoffs(rng, (rows, columns), awkward)
    x, y = strategies(rng, (rows,), awkward), strategies(rng, (columns,), awkward)
    return case(eq.certify(eq.MatrixGame(payoff), (x, y)), matrix_gains(payoff, x, y), payoff)


def matrix_gains(payoff: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[Fraction]:
    """Exact gains of both players."""
    a, p, q = exact(payoff), chances(x), chances(y)
    value = p @ a @ q
    return [max(a @ q) - value, value - min(p @ a)]


def normal_form(rng: np.random.Generator, awkward: bool) -> Case:
    """A general-sum game of two or three players."""
    actions = _actions(rng)
    table = np.stack([payoffs(rng, actions, awkward) for _ in actions])
    profile = tuple(strategies(rng, (n,), awkward) for n in actions)
    own = [chances(part) for part in profile]
    return case(
        eq.certify(eq.NormalFormGame(table, players=table.ndim - 1), profile),
        table_gains(table, own),
        table,
    )


def _actions(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, 4, size=int(rng.integers(2, 4))))


def table_gains(table: np.ndarray, profile: list[np.ndarray]) -> list[Fraction]:
    """Exact gains in a normal form."""
    truth = []
    for i, payoff in enumerate(exact(table)):
        replies = expected(payoff, profile, i)
        truth.append(max(replies) - replies @ profile[i])
    return truth


def expected(payoff: np.ndarray, profile: list[np.ndarray], i: int) -> np.ndarray:
    """What each action of player i earns against the others."""
    replies = np.moveaxis(payoff, i, 0)
    for j in reversed([j for j in range(len(profile)) if j != i]):
        replies = np.tensordot(replies, profile[j], axes=(1 + j - (j > i), 0))
    return replies


def joint(rng: np.random.Generator, awkward: bool) -> Case:
    """Correlated play of a normal form or a matrix game, with and without recommendations."""
    zero_sum = rng.random() < 0.3
    actions = _actions(rng)[:2] if zero_sum else _actions(rng)
    if zero_sum:
        payoff = payoffs(rng, actions, awkward)
        game, table = eq.MatrixGame(payoff), np.stack([payoff, -payoff])
    else:
        table = np.stack([payoffs(rng, actions, awkward) for _ in actions])
        game = eq.NormalFormGame(table, players=table.ndim - 1)
    policy = strategies(rng, (int(np.prod(actions)),), awkward)
    weights = chances(policy).reshape(actions)
    concept = str(rng.choice(["ce", "cce"]))
    truth = []
    for i, payoff in enumerate(exact(table)):
        own = np.moveaxis(payoff, i, 0).reshape(actions[i], -1)
        told = np.moveaxis(weights, i, 0).reshape(actions[i], -1)
        value = (own * told).sum()
        told = told if concept == "ce" else told.sum(0, keepdims=True)
        truth.append(sum(max(own @ row) for row in told) - value)
    correlated = eq.JointPolicy(policy.reshape(actions), len(actions))
    return case(eq.certify(game, correlated, concept=concept), truth, table)


def batch(rng: np.random.Generator, awkward: bool) -> Case:
    """Many games at once, some with one policy for all; a few of them are looked at."""
    kind = str(rng.choice(["matrix", "bimatrix", "markov"]))
    games = {"matrix": int(rng.integers(2, 60)), "bimatrix": 2300, "markov": 12}[kind]
    discount = float(rng.choice([0.5, 0.9, 0.99, 0.999]))
    shape, players = (3, 3), 2
    if kind == "markov":
        shape = (2, 2, 3)
    table = payoffs(rng, (games, *(players,) * (kind == "bimatrix"), *shape), awkward)
    if awkward:
        table = table * 2.0 ** rng.integers(-40, 40, size=(games, *[1] * (table.ndim - 1)))
    shared = rng.random() < 0.2
    lead = () if shared else (games,)
    states = shape[:-2]
    policy = tuple(strategies(rng, (*lead, *states, n), awkward) for n in shape[-2:])
    transition = strategies(rng, (games, *shape, 2), awkward) if kind == "markov" else None
    game: Any
    if kind == "markov":
        game = eq.MarkovGame(table, transition, discount)
    else:
        game = eq.MatrixGame(table) if kind == "matrix" else eq.NormalFormGame(table, players=2)
    certificate = eq.certify(game, policy)
    chosen = rng.choice(games, size=min(_SAMPLED, games), replace=False)
    truth = []
    for g in chosen:
        x, y = (part if shared else part[g] for part in policy)
        if kind == "matrix":
            truth.append(matrix_gains(table[g], x, y))
        elif kind == "bimatrix":
            truth.append(table_gains(table[g], [chances(x), chances(y)]))
        else:
            truth.append(markov_gains(game[g], x, y))
    return Case(certificate.gains[chosen], certificate.upper[chosen], truth, certificate.exact)


def contextual(rng: np.random.Generator, awkward: bool) -> Case:
    """A contextual game under a mixture, with all three concepts."""
    contexts, agents, actions = int(rng.integers(1, 3)), int(rng.integers(2, 4)), 2
    terms, table = _terms(rng, contexts, agents, actions, awkward)
    components = int(rng.integers(1, 4))
    policies = strategies(rng, (components, contexts, agents, actions), awkward)
    weights = strategies(rng, (components,), awkward)
    prior = strategies(rng, (contexts,), awkward)
    concept = str(rng.choice(["nash", "cce", "ce"] if components == 1 else ["cce", "ce"]))
    game = eq.ContextualGame(terms, prior)
    certificate = eq.certify(game, eq.games.Mixture(policies, weights), concept=concept)
    w, pi, c0 = chances(weights), chances(policies), chances(prior)
    truth = []
    for i in range(agents):
        gain = Fraction(0)
        for c in range(contexts):
            earned, swapped = Fraction(0), np.full((actions, actions), Fraction(0))
            for k in range(components):
                own = [pi[k, c, j] for j in range(agents)]
                replies = expected(table[c, i], own, i)
                earned += w[k] * (replies @ own[i])
                heard = own[i] if concept == "ce" else [Fraction(1), Fraction(0)]
                swapped += w[k] * np.multiply.outer(np.array(heard), replies)
            gain += c0[c] * (sum(max(row) for row in swapped) - earned)
        truth.append(gain)
    return Case(certificate.gains, certificate.upper, truth, certificate.exact)


def _terms(
    rng: np.random.Generator, situations: int, agents: int, moves: int, awkward: bool
) -> tuple[eq.games.Interactions, np.ndarray]:
    """Interaction terms, and the exact rewards (situations, agents, moves, ...) that they make."""
    if rng.random() < 0.5:
        table = payoffs(rng, (situations, agents, *[moves] * agents), awkward)
        return eq.games.Interactions.from_dense(table), exact(table)
    scopes = {1: [[int(rng.integers(agents))]]}
    scopes[2] = [[int(n) for n in rng.permutation(agents)[:2]] for _ in range(3)]
    tables = {
        k: payoffs(rng, (situations, len(s), *[moves] * k), awkward) for k, s in scopes.items()
    }
    dense = np.full((situations, agents, *[moves] * agents), Fraction(0))
    for order, scope in scopes.items():
        for term, members in enumerate(scope):
            for s in range(situations):
                part = exact(tables[order][s, term])
                for cell in np.ndindex(*[moves] * agents):
                    dense[(s, members[0], *cell)] += part[tuple(cell[j] for j in members)]
    return eq.games.Interactions(scopes, tables, agents), dense


def decoupled(rng: np.random.Generator, awkward: bool) -> Case:
    """Two agents with local states, under a mixture that may recommend."""
    agents, actions, states, horizon = 2, 2, 2, 2
    moves = states * actions
    terms, table = _terms(rng, horizon, agents, moves, awkward)
    transitions = strategies(rng, (horizon, agents, states, actions, states), awkward)
    initial = strategies(rng, (agents, states), awkward)
    components = int(rng.integers(1, 3))
    policies = strategies(rng, (components, 1, horizon, agents, states, actions), awkward)
    weights = strategies(rng, (components,), awkward)
    concept = str(rng.choice(["nash", "cce", "ce"] if components == 1 else ["cce", "ce"]))
    game = eq.DecoupledMarkovGame(terms, transitions, initial)
    certificate = eq.certify(game, eq.games.Mixture(policies, weights), concept=concept)
    t, s0, w, pi = (chances(part) for part in (transitions, initial, weights, policies[:, 0]))

    def occupancy(i: int, plan: np.ndarray) -> list[np.ndarray]:
        here, met = s0[i], []
        for h in range(horizon):
            both = here[:, None] * plan[h]
            met.append(both.reshape(-1))
            here = np.einsum("sa,sat->t", both, t[h, i])
        return met

    def best(i: int, rewards: np.ndarray, heard: np.ndarray, h: int, s: int) -> Fraction:
        """The most from state s on, where `heard` is what each component has come to be worth."""
        if h == horizon:
            return Fraction(0)
        told = [heard * pi[:, h, i, s, a] for a in range(actions)]
        told = told if concept == "ce" else [heard]
        return sum(
            max(
                (belief * rewards[:, h, s, a]).sum()
                + sum(t[h, i, s, a, z] * best(i, rewards, belief, h + 1, z) for z in range(states))
                for a in range(actions)
            )
            for belief in told
        )

    truth = []
    for i in range(agents):
        other = [occupancy(1 - i, pi[k, :, 1 - i]) for k in range(components)]
        own = [occupancy(i, pi[k, :, i]) for k in range(components)]
        replies = np.array(
            [[np.moveaxis(table[h, i], i, 0) @ met[h] for h in range(horizon)] for met in other]
        )
        earned = sum(
            w[k] * (replies[k, h] @ own[k][h]) for k in range(components) for h in range(horizon)
        )
        rewards = replies.reshape(components, horizon, states, actions)
        truth.append(sum(s0[i, s] * best(i, rewards, w, 0, s) for s in range(states)) - earned)
    return Case(certificate.gains, certificate.upper, truth, certificate.exact)
