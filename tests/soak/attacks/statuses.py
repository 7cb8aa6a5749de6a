"""What is called solved is proven, for every kind of game, and the sentence says what is proven."""

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

import equipoise as eq
from soak.attacks import drawn


def _contradictions(solution: eq.Solution, about: str) -> Iterator[str]:
    """Compare the status with the certificate alone."""
    certificate = solution.certificate
    allowed = solution.stats.get("tolerances", solution.tolerance)
    upper = certificate.upper if np.ndim(allowed) else certificate.max_upper
    proven, message = bool(np.all(upper <= allowed)), solution.status.message
    if proven != solution.solved or proven != (solution.status.name == "solved"):
        yield f"{about}: {solution.status}, with upper {upper} and tolerance {allowed}"
    stated = re.search(r"gains more than ([^;]+); the largest gain found is ([^ ;]+)", message)
    if stated is None:
        if np.isfinite(certificate.max_upper):
            yield f"{about}: {message}"
    elif float(stated[1]) < certificate.max_upper:
        yield f"{about}: upper is {certificate.max_upper}: {message}"


def _draw(rng: np.random.Generator) -> tuple[str, Any, dict[str, Any]]:
    """A game of any kind, and options for `solve` that may end it too early."""
    kind = int(rng.integers(8))
    late = {"time_limit": float(rng.choice([0.0, 0.01, 2.0]))}
    exact = {"tolerance": float(10.0 ** rng.uniform(-18, -1))}
    some = {} if rng.random() < 0.3 else late if rng.random() < 0.5 else exact
    if kind == 0:
        steep = float(10.0 ** rng.uniform(-2, 12))
        base, jam = rng.random((1, 2)), rng.uniform(-0.01, 0.01, (1, 2))
        game: Any = eq.AggregativeGame(
            np.ones((1, 2, 1)), lambda x: base + jam * x[..., 0], steep, counts=[3]
        )
        return f"crowd of constant {steep:.3g}", game, some
    if kind == 1:
        game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=int(rng.integers(99)))
        return "agents in pairs", game, some
    if kind == 2:
        known = [{}, {"lipschitz": 10.0}, {"curvature": 3.0}][int(rng.integers(3))]
        pull = float(rng.uniform(0, 1))
        game = eq.ContinuousGame.from_function(lambda a: -((a - pull * a.mean()) ** 2), 3, **known)
        return f"function with {known}", game, some
    if kind == 3:
        power = [float(p) for p in rng.choice([0.1, 0.5, 1, 2, 4, 10], 2)]
        game = eq.NetworkGame(
            [0, 0], [1, 1], [0], [1], [float(rng.choice([0.01, 1.0]))],
            free_flow=0.0, rise=1.0, capacity=1.0, power=power,
        )  # fmt: skip
        return f"roads of powers {power}", game, some
    if kind == 4:
        chain = rng.dirichlet(np.ones(2), (2, 2, 2))
        return "Markov", eq.MarkovGame(rng.random((2, 2, 2, 2)), chain, 0.9), some
    if kind == 5:
        units = 10.0 ** rng.integers(-9, 9, (2, 1, 1))
        return "bimatrix", eq.NormalFormGame(units * rng.random((2, 5, 5))), some
    if kind == 6:
        options = some | {"concept": "ce", "objective": "welfare"}
        return "correlated", eq.NormalFormGame(rng.random((2, 4, 4))), options
    options = {"tolerance": exact["tolerance"]} if rng.random() < 0.5 else {}
    return "zero-sum", eq.MatrixGame(rng.normal(size=(6, 5)) * 10.0 ** rng.integers(-9, 9)), options


def every_kind(seed: int, seconds: float) -> Iterator[str]:
    """Solutions of every kind of game, with time and without, at any tolerance."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        about, game, options = _draw(rng)
        yield from _contradictions(eq.solve(game, **options), f"{about}, {options}")

    return drawn(seed, seconds, check)


def reductions(seed: int, seconds: float) -> Iterator[str]:
    """Rewards of crowds that are written with reductions or a threshold are read point by point."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        base, jam = rng.random((1, 3)), rng.normal(size=(1, 3))
        influence, edge = np.array([[[1.0], [0.0], [0.5]]]), float(rng.uniform(0.1, 0.95))
        rewards = {
            "max": lambda x: base + jam * np.max(x),
            "mean": lambda x: base + jam * x.mean(),
            "an entry": lambda x: base + jam * x[0],
            "a threshold": lambda x: base + jam * x[..., 0] + 0.4 * bool(np.any(x > edge)),
        }
        play = rng.integers(0, 3, 10)
        x = influence[0, play, 0].sum() / 10
        for name, reward in rewards.items():
            game = eq.AggregativeGame(influence, reward, 1e3, counts=[10], bounds=(-9, 9))
            truth = 0.0
            for own, other in product(np.unique(play), range(3)):
                there = np.array([x + (influence[0, other, 0] - influence[0, own, 0]) / 10])
                now = float(reward(np.array([x]))[0, own])
                truth = max(truth, float(reward(there)[0, other]) - now)
            certificate = eq.certify(game, play)
            if abs(certificate.max_gain - truth) > 1e-9 or certificate.max_upper < truth - 1e-12:
                yield f"{name}: the gain is {truth!r}, not {certificate.max_gain!r}"

    return drawn(seed, seconds, check)


def drivers(seed: int, seconds: float) -> Iterator[str]:
    """Whole drivers on small networks, against all simple paths in rationals."""

    def check(rng: np.random.Generator) -> Iterator[str]:
        links, pairs = int(rng.integers(3, 8)), int(rng.integers(1, 3))
        ends, trips = rng.integers(0, 4, (2, links)), rng.integers(0, 4, (2, pairs))
        costs = {name: rng.integers(0, 4, links).astype(float) for name in ("free_flow", "rise")}
        try:
            game = eq.NetworkGame(
                *ends, *trips, rng.integers(1, 5, pairs).astype(float), atomic=True, **costs,
                capacity=rng.choice([1.0, 2.0, 4.0], links), power=rng.choice([0, 1, 2, 4], links),
                tolls=0.25 * rng.integers(0, 3, links),
            )  # fmt: skip
        except ValueError:  # no path, or a trip to itself
            return
        solution = eq.solve(game, time_limit=5.0)
        policy, starts = solution.policy, solution.policy.path_starts
        used = [
            (int(policy.path_pairs[j]), set(map(int, policy.path_links[starts[j] : starts[j + 1]])))
            for j, cars in enumerate(policy.path_flows)
            for _ in range(int(cars))
        ]
        flow = [sum(link in path for _, path in used) for link in range(game.links)]

        def cost(link: int, cars: int) -> Fraction:
            share = Fraction(cars) / Fraction(float(game.capacity[link]))
            rise = Fraction(float(game.rise[link])) * share ** int(game.power[link])
            return Fraction(float(game.free_flow[link])) + rise + Fraction(float(game.tolls[link]))

        def paths(node: int, end: int, seen: tuple[int, ...]) -> Iterator[list[int]]:
            if node == end:
                yield []
                return
            for link in np.flatnonzero(np.asarray(game.tails) == node):
                if (head := int(game.heads[link])) not in seen:
                    for rest in paths(head, end, (*seen, head)):
                        yield [int(link), *rest]

        worst = Fraction(0)
        for pair, path in used:
            here = sum(cost(link, flow[link]) for link in path)
            start, end = int(game.origins[pair]), int(game.destinations[pair])
            least = min(
                sum(cost(link, flow[link] + (link not in path)) for link in other)
                for other in paths(start, end, (start,))
            )
            worst = max(worst, here - least)
        if Fraction(float(solution.certificate.max_upper)) < worst:
            yield f"a driver gains {float(worst)!r}, upper {solution.certificate.max_upper!r}"
        yield from _contradictions(solution, "drivers")

    return drawn(seed, seconds, check)


ATTACKS = (every_kind, reductions, drivers)
