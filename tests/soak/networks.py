"""Random small road networks, with their certificates and their exact gains over all paths."""

from fractions import Fraction

import numpy as np

import equipoise as eq
from soak.exact import Case, exact, scale

#: How many travel: sizes of flows, which units of cost do not change.
_AMOUNTS = (1e-100, 1e-12, 1.0, 1.0, 1e3, 1e12, 1e100)
#: Widest bracket of flows, as a share of their cost.
_NARROW = Fraction(1, 10**9)


class _City:
    """A network in which somebody can travel, and the links of all its paths."""

    def __init__(self, rng: np.random.Generator, awkward: bool, atomic: bool):
        while True:
            nodes, links = int(rng.integers(2, 6)), int(rng.integers(2, 11))
            tails, heads = rng.integers(0, nodes, size=(2, links))
            self.tails, self.heads = tails[tails != heads], heads[tails != heads]
            pairs = [tuple(rng.choice(nodes, 2, replace=False)) for _ in range(3)]
            self.choices = [c for pair in pairs if (c := self._paths(*pair, {pair[0]}))]
            if self.choices:
                break
        links, count = len(self.tails), len(self.choices)
        self.unit, self.amount = scale(rng), 1.0 if atomic else float(rng.choice(_AMOUNTS))
        powers = [0, 1, 2, 4, 30, 200] if awkward else [1, 4]
        self.power = rng.choice(powers, size=links)
        self.free = self.unit * rng.uniform(0.0, 2.0, links) * rng.choice([0, 1e-9, 1], size=links)
        self.rise = self.unit * rng.random(links) * rng.choice([0, 1e-6, 1, 1e3], size=links)
        self.fixed = self.unit * rng.random(links) * rng.integers(0, 2, size=links)
        self.tolls = self.unit * rng.random(links) * rng.integers(0, 2)
        self.classes = rng.integers(0, 2, size=count) * (count > 1)
        self.values = rng.uniform(0.3, 3.0, 2)
        self.demand = self.amount * rng.uniform(0.1, 1.0, count)
        if atomic:
            self.demand = rng.integers(1, 5, size=count).astype(float)
        self.capacity = rng.uniform(0.5, 3.0, links) * self.amount * (4.0 if atomic else 1.0)
        self.game = eq.NetworkGame(
            self.tails, self.heads,
            [self.tails[c[0][0]] for c in self.choices],
            [self.heads[c[0][-1]] for c in self.choices],
            self.demand,
            free_flow=self.free, rise=self.rise, capacity=self.capacity, power=self.power,
            fixed=self.fixed, tolls=self.tolls, classes=self.classes, values_of_time=self.values,
            atomic=atomic,
        )  # fmt: skip

    def _paths(self, node: int, target: int, seen: set) -> list[list[int]]:
        if node == target:
            return [[]]
        return [
            [int(link), *rest]
            for link in np.flatnonzero(self.tails == node)
            if self.heads[link] not in seen
            for rest in self._paths(self.heads[link], target, seen | {self.heads[link]})
        ]

    def costs(self, flows: np.ndarray, marginal: bool) -> np.ndarray:
        """(classes, links): exact costs at exact flows."""
        part = flows / exact(self.capacity)
        grown = [p ** int(k) for p, k in zip(part, self.power, strict=True)]
        risen = exact(self.rise) * np.array(grown)
        plain = exact(self.free) + exact(self.fixed)
        if marginal:
            return np.stack([plain + risen * (1 + self.power)] * 2)
        return plain + risen + exact(self.tolls) / exact(self.values)[:, None]


def flows(rng: np.random.Generator, awkward: bool) -> Case:
    """Flows on paths, at an equilibrium or an optimum of travellers who can be divided."""
    city = _City(rng, awkward, atomic=False)
    pairs, amounts, paths = [], [], []
    for k, choices in enumerate(city.choices):
        some = [path for path in choices if rng.random() < 0.7] or choices[:1]
        paths += some
        pairs += [k] * len(some)
        amounts += list(city.demand[k] * rng.dirichlet(np.ones(len(some))))
    if awkward:  # some travellers are missing, as far as that is let pass
        amounts = np.array(amounts) * (1.0 + rng.uniform(-9e-7, 9e-7))
    concept = str(rng.choice(["nash", "optimum"]))
    starts = np.cumsum([0, *map(len, paths)])
    policy = eq.FlowPolicy.of_paths(city.game, pairs, amounts, np.concatenate(paths), starts)
    certificate = eq.certify(city.game, policy, concept=concept)
    sums = [sum(exact(amounts)[np.array(pairs) == k]) for k in range(len(city.choices))]
    used = np.zeros(city.game.links, int) + Fraction(0)
    for k, amount, path in zip(pairs, exact(amounts), paths, strict=True):
        used[path] += amount * Fraction(city.demand[k]) / sums[k]
    costs, truth = city.costs(used, concept == "optimum"), []
    for k, choices in enumerate(city.choices):
        own = costs[city.classes[k]]
        dear = max(own[path].sum() for j, path in zip(pairs, paths, strict=True) if j == k)
        truth.append(dear - min(own[path].sum() for path in choices))
    widest = max(costs[:, path].sum(1).max() for path in paths) * _NARROW
    return Case(certificate.gains, certificate.upper, truth, certificate.exact, widest)


def link_flows(rng: np.random.Generator, awkward: bool) -> Case:
    """Flows on links, of which only the mean gain of all travellers is known."""
    city = _City(rng, awkward, atomic=False)
    flows = np.zeros((len(city.game.values_of_time), city.game.links))
    for k, choices in enumerate(city.choices):
        shares = rng.dirichlet(np.full(len(choices), rng.choice([0.1, 1.0])))
        for share, path in zip(shares, choices, strict=True):
            flows[city.classes[k], path] += share * city.demand[k]
    if awkward:  # some travellers are missing, as far as that is let pass
        flows *= 1.0 + rng.uniform(-1e-7, 1e-7)
    concept = str(rng.choice(["nash", "optimum"]))
    certificate = eq.certify(city.game, flows, concept=concept)
    costs, demand = city.costs(exact(flows).sum(0), concept == "optimum"), exact(city.demand)
    total = sum((own * cost).sum() for own, cost in zip(exact(flows), costs, strict=False))
    least = [
        min(costs[m][path].sum() for path in choices)
        for m, choices in zip(city.classes, city.choices, strict=True)
    ]
    truth = [(total - demand @ np.array(least)) / demand.sum()]
    widest = abs(truth[0]) / 10**6 + total / demand.sum() * _NARROW
    widest = widest if certificate.exact else None
    return Case(certificate.gains, certificate.upper, truth, certificate.exact, widest)


def drivers(rng: np.random.Generator, awkward: bool) -> Case:
    """Whole drivers, whose own car counts."""
    city = _City(rng, awkward, atomic=True)
    chosen = [(k, p) for k, choices in enumerate(city.choices) for p in choices]
    taken = [
        rng.multinomial(int(n), np.ones(len(c)) / len(c))
        for n, c in zip(city.demand, city.choices, strict=True)
    ]
    amounts = np.concatenate(taken).astype(float)
    starts = np.cumsum([0, *(len(path) for _, path in chosen)])
    links = np.concatenate([path for _, path in chosen])
    policy = eq.FlowPolicy.of_paths(city.game, [k for k, _ in chosen], amounts, links, starts)
    certificate = eq.certify(city.game, policy)
    used = exact(policy.total)
    now, more = city.costs(used, False), city.costs(used + 1, False)
    truth = []
    for (k, path), amount in zip(chosen, amounts, strict=True):
        if amount:
            own = np.array(more[city.classes[k]])
            own[path] = now[city.classes[k]][path]
            truth.append(own[path].sum() - min(own[other].sum() for other in city.choices[k]))
    return Case(certificate.class_gains, certificate.class_upper, truth, certificate.exact)
