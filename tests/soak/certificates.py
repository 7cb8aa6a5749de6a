"""Certificates against exact rationals: games given by tables, of every kind and scale.

Every case is certified in float64 and again with `fractions.Fraction`, where probabilities stand
for themselves divided by their exact sum. The truth must not exceed `upper`, and must not be less
than `gains` by more than the width of the bracket. `main` runs many cases and prints how close
`upper` came to the truth; the suite runs a few hundred.
"""

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import equipoise as eq

DISCOUNTS = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1 - 1e-5, 1 - 1e-6)
EXPONENTS = (-150, -100, -30, -8, 0, 0, 0, 8, 30, 100, 150)


def exact(array: Any) -> np.ndarray:
    """The same numbers as fractions."""
    return np.vectorize(Fraction, otypes=[object])(np.asarray(array, float))


def chances(array: Any) -> np.ndarray:
    """Weights divided by their exact sums over the last axis."""
    values = exact(array)
    return values / values.sum(-1, keepdims=True)


# Random tables, and awkward ones.


def payoffs(rng: np.random.Generator, shape: tuple[int, ...], awkward: bool) -> np.ndarray:
    scale = 10.0 ** rng.choice(EXPONENTS)
    if not awkward:
        return scale * rng.normal(size=shape)
    kind = rng.integers(5)
    if kind == 0:  # a large offset
        return scale * (10.0 ** rng.integers(3, 15) + rng.normal(size=shape))
    if kind == 1:  # all scales in one game
        return scale * rng.normal(size=shape) * 10.0 ** rng.integers(-9, 9, size=shape)
    if kind == 2:  # ties, but for rounding
        return scale * (rng.integers(-1, 2, size=shape) + 1e-16 * rng.normal(size=shape))
    if kind == 3:  # nearly constant
        return scale * (1.0 + 1e-12 * rng.normal(size=shape))
    return scale * rng.integers(-2, 3, size=shape).astype(float)


def strategies(rng: np.random.Generator, shape: tuple[int, ...], awkward: bool) -> np.ndarray:
    if not awkward or rng.random() < 0.3:
        return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
    kind = rng.integers(3)
    if kind == 0:
        return np.eye(shape[-1])[rng.integers(shape[-1], size=shape[:-1])]
    if kind == 1:  # sums that are off by rounding
        return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]) * (1 + rng.uniform(-1, 1) * 1e-14)
    weights = 10.0 ** rng.uniform(-12, 0, size=shape)
    return weights / weights.sum(-1, keepdims=True)


# One function for each kind: a certificate, and the exact gains of every player.

Case = tuple[Any, list[Fraction]]


def matrix(rng: np.random.Generator, awkward: bool) -> Case:
    """A zero-sum matrix game."""
    rows, columns = rng.integers(1, 6, size=2)
    payoff = payoffs(rng, (rows, columns), awkward)
    x, y = strategies(rng, (rows,), awkward), strategies(rng, (columns,), awkward)
    a, p, q = exact(payoff), chances(x), chances(y)
    value = p @ a @ q
    truth = [max(a @ q) - value, value - min(p @ a)]
    return eq.certify(eq.MatrixGame(payoff), (x, y)), truth


def normal_form(rng: np.random.Generator, awkward: bool) -> Case:
    """A general-sum game of two or three players."""
    players = int(rng.integers(2, 4))
    actions = tuple(int(n) for n in rng.integers(1, 4, size=players))
    table = np.stack([payoffs(rng, actions, awkward) for _ in range(players)])
    profile = tuple(strategies(rng, (n,), awkward) for n in actions)
    own = [chances(part) for part in profile]
    return eq.certify(eq.NormalFormGame(table), profile), table_gains(table, own)


def table_gains(table: np.ndarray, profile: list[np.ndarray]) -> list[Fraction]:
    """Exact gains in a normal form."""
    truth = []
    for i, payoff in enumerate(exact(table)):
        replies = np.moveaxis(payoff, i, 0)
        for j in reversed([j for j in range(len(profile)) if j != i]):
            axis = 1 + j - (j > i)
            replies = np.tensordot(replies, profile[j], axes=(axis, 0))
        truth.append(max(replies) - replies @ profile[i])
    return truth


def markov(rng: np.random.Generator, awkward: bool) -> Case:
    """A zero-sum Markov game, with best responses by policy iteration in rationals."""
    states, rows, columns = (int(n) for n in rng.integers(1, 4, size=3))
    discount = float(rng.choice(DISCOUNTS))
    reward = payoffs(rng, (states, rows, columns), awkward)
    transition = strategies(rng, (states, rows, columns, states), awkward)
    x, y = strategies(rng, (states, rows), awkward), strategies(rng, (states, columns), awkward)
    game = eq.MarkovGame(reward, transition, discount)
    return eq.certify(game, (x, y)), markov_gains(game, x, y)


def markov_gains(game: eq.MarkovGame, x: np.ndarray, y: np.ndarray) -> list[Fraction]:
    """Exact gains of the worst starting state."""
    r, t, gamma = exact(game.reward), chances(game.transition), Fraction(game.discount)
    p, q = chances(x), chances(y)
    own = np.einsum("sab,sb->sa", r, q), np.einsum("sabt,sb->sat", t, q)
    other = np.einsum("sab,sa->sb", -r, p), np.einsum("sabt,sa->sbt", t, p)
    chain = np.einsum("sa,sa->s", p, own[0]), np.einsum("sa,sat->st", p, own[1])
    value = solve_exactly(chain[0], chain[1], gamma)
    rows, columns = best_value(*own, gamma), best_value(*other, gamma)
    return [max(rows - value), max(columns + value)]


def best_value(reward: np.ndarray, transition: np.ndarray, gamma: Fraction) -> np.ndarray:
    """Policy iteration without rounding: it ends at the optimum."""
    here = np.arange(len(reward))
    choice = np.zeros(len(reward), int)
    while True:
        value = solve_exactly(reward[here, choice], transition[here, choice], gamma)
        q = reward + gamma * (transition @ value)
        better = [max(row) > row[c] for row, c in zip(q, choice, strict=True)]
        if not any(better):
            return value
        best = [list(row).index(max(row)) for row in q]
        choice = np.where(better, best, choice)


def solve_exactly(reward: np.ndarray, chain: np.ndarray, gamma: Fraction) -> np.ndarray:
    """(I - gamma P)^-1 r by elimination; diagonals never vanish."""
    size = len(reward)
    rows = np.array([[Fraction(int(i == j)) for j in range(size)] for i in range(size)])
    rows = np.concatenate([rows - gamma * chain, reward[:, None]], 1)
    for i in range(size):
        rows[i] = rows[i] / rows[i, i]
        for j in range(size):
            if j != i:
                rows[j] = rows[j] - rows[j, i] * rows[i]
    return rows[:, -1]


def contextual(rng: np.random.Generator, awkward: bool) -> Case:
    """A contextual game under a mixture, with all three concepts."""
    contexts, agents, actions = int(rng.integers(1, 3)), int(rng.integers(2, 4)), 2
    table = payoffs(rng, (contexts, agents, *[actions] * agents), awkward)
    components = int(rng.integers(1, 4))
    policies = strategies(rng, (components, contexts, agents, actions), awkward)
    weights = strategies(rng, (components,), awkward)
    prior = strategies(rng, (contexts,), awkward)
    concept = str(rng.choice(["nash", "cce", "ce"] if components == 1 else ["cce", "ce"]))
    game = eq.ContextualGame(eq.games.Interactions.from_dense(table), prior)
    certificate = eq.certify(game, eq.games.Mixture(policies, weights), concept=concept)
    w, pi, c0, r = chances(weights), chances(policies), chances(prior), exact(table)
    truth = []
    for i in range(agents):
        gain = Fraction(0)
        for c in range(contexts):
            earned, swapped = Fraction(0), np.full((actions, actions), Fraction(0))
            for k in range(components):
                own = [pi[k, c, j] for j in range(agents)]
                replies = np.moveaxis(r[c, i], i, 0)
                for j in reversed([j for j in range(agents) if j != i]):
                    replies = np.tensordot(replies, own[j], axes=(1 + j - (j > i), 0))
                earned += w[k] * (replies @ own[i])
                heard = own[i] if concept == "ce" else [Fraction(1), Fraction(0)]
                swapped += w[k] * np.multiply.outer(np.array(heard), replies)
            gain += c0[c] * (sum(max(row) for row in swapped) - earned)
        truth.append(gain)
    return certificate, truth


def decoupled(rng: np.random.Generator, awkward: bool) -> Case:
    """Two agents with local states, by all pure strategies of the same game as one table."""
    agents, actions, states, horizon = 2, 2, 2, 2
    moves = states * actions
    table = payoffs(rng, (horizon, agents, moves, moves), awkward)
    transitions = strategies(rng, (horizon, agents, states, actions, states), awkward)
    initial = strategies(rng, (agents, states), awkward)
    policy = strategies(rng, (1, horizon, agents, states, actions), awkward)
    terms = eq.games.Interactions.from_dense(table)
    game = eq.DecoupledMarkovGame(terms, transitions, initial)
    certificate = eq.certify(game, policy)
    r, t, s0, pi = exact(table), chances(transitions), chances(initial), chances(policy)[0]

    def occupancy(i: int, plan: np.ndarray) -> list[np.ndarray]:
        here, met = s0[i], []
        for h in range(horizon):
            joint = here[:, None] * plan[h]
            met.append(joint.reshape(-1))
            here = np.einsum("sa,sat->t", joint, t[h, i])
        return met

    met = [occupancy(i, pi[:, i]) for i in range(agents)]
    truth = []
    for i in range(agents):
        replies = [np.moveaxis(r[h, i], i, 0) @ met[1 - i][h] for h in range(horizon)]
        earned = sum(replies[h] @ met[i][h] for h in range(horizon))
        best = None
        for plan in itertools.product(range(actions), repeat=horizon * states):
            pure = exact(np.eye(actions)[list(plan)]).reshape(horizon, states, actions)
            found = sum(a @ b for a, b in zip(replies, occupancy(i, pure), strict=True))
            best = found if best is None else max(best, found)
        truth.append(best - earned)
    return certificate, truth


KINDS: dict[str, Callable[[np.random.Generator, bool], Case]] = {
    "matrix": matrix,
    "normal-form": normal_form,
    "markov": markov,
    "contextual": contextual,
    "decoupled-markov": decoupled,
}


def check(kind: str, seed: int, awkward: bool) -> float:
    """Certify one case; raise if the bracket misses the truth.

    Returns how far up the truth lies in the bracket: 0 at `gains`, 1 at `upper`.
    """
    rng = np.random.default_rng([seed, awkward])
    certificate, truth = KINDS[kind](rng, awkward)
    used = 0.0
    for gain, upper, true in zip(certificate.gains, certificate.upper, truth, strict=True):
        low, high = Fraction(float(gain)), Fraction(float(upper))
        width = high - low
        if true > high or true < low - width:
            raise AssertionError(
                f"{kind}, seed {seed}, awkward {awkward}: the gain is {float(true)!r}, "
                f"the certificate says {gain!r} to {upper!r}"
            )
        if width:
            used = max(used, float((true - low) / width))
    return used


def cases(count: int, adversarial: int, seed: int) -> Iterator[tuple[str, int, bool]]:
    """Kinds in turn, with seeds of their own."""
    kinds = itertools.cycle(KINDS)
    for number in range(count + adversarial):
        yield next(kinds), seed + number, number >= count


def main(cases_: int = 10_000, seed: int = 0, adversarial: int | None = None) -> dict[str, Any]:
    """Check many cases and print the worst of each kind; an under-report raises."""
    adversarial = cases_ // 10 if adversarial is None else adversarial
    worst = dict.fromkeys(KINDS, 0.0)
    for kind, number, awkward in cases(cases_, adversarial, seed):
        worst[kind] = max(worst[kind], check(kind, number, awkward))
    for kind, used in worst.items():
        print(f"{kind}: the truth uses at most {used:.3f} of the bracket")
    print(f"{cases_} random, {adversarial} adversarial cases, seed {seed}: none under-reported")
    return {"failures": 0, "random": cases_, "adversarial": adversarial, "share_used": worst}


if __name__ == "__main__":
    import sys

    main(*(int(word) for word in sys.argv[1:3]))
