"""Crowds: lists of equilibria, prices and optima, against all profiles by the definition."""

import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

import equipoise as eq


def draw(rng: np.random.Generator, d: int, constant: bool = True) -> eq.AggregativeGame:
    """A small crowd with wavy rewards; `constant` declares a valid Lipschitz constant."""
    types, actions = int(rng.integers(1, 3)), int(rng.integers(2, 4))
    counts = rng.integers(1, {2: 16, 3: 7}[actions] if types == 2 else 20, types)
    influence, base = rng.random((types, actions, d)), rng.uniform(-0.2, 0.2, (types, actions))
    slopes, speed = rng.normal(size=(types, actions, d)), rng.uniform(1.0, 6.0, (types, actions))

    def reward(x: Any) -> Any:
        along = (slopes * x).sum(-1)
        return base + 0.2 * along + 0.3 * np.sin(speed * along)

    lipschitz = float(((0.2 + 0.3 * speed) * np.abs(slopes).sum(-1)).max())
    return eq.AggregativeGame(
        influence, reward, lipschitz if constant else None, counts=counts, bounds=(-20, 20)
    )


def profiles_of(game: eq.AggregativeGame) -> Iterator[np.ndarray]:
    """All profiles, (types, actions) numbers of agents."""
    ways = [
        [row for row in product(range(n + 1), repeat=game.actions[0]) if sum(row) == n]
        for n in map(int, game.counts)
    ]
    return map(np.array, product(*ways))


def gain_of(game: eq.AggregativeGame, plays: np.ndarray) -> float:
    """The largest gain of any agent, each deviation at its own aggregate."""
    x = game.scale * np.einsum("ta,tad->d", plays, game.influence)
    now, gain = game.rewards(x), 0.0
    for t, a, b in product(range(plays.shape[0]), *[range(plays.shape[1])] * 2):
        if plays[t, a] and a != b:
            there = x + game.scale * (game.influence[t, b] - game.influence[t, a])
            gain = max(gain, float(game.rewards(there)[t, b] - now[t, a]))
    return gain


def gains_of(game: eq.AggregativeGame) -> dict[tuple[int, ...], float]:
    """The largest gain in every profile."""
    return {tuple(map(int, one.ravel())): gain_of(game, one) for one in profiles_of(game)}


def truth_of(game: eq.AggregativeGame, tolerance: float) -> tuple[float, float]:
    """The prices of anarchy and of stability; NaN without equilibria, or where signs differ."""
    worths, stable = [], []
    for plays in profiles_of(game):
        x = game.scale * np.einsum("ta,tad->d", plays, game.influence)
        worths.append(float((plays * game.rewards(x)).sum() / plays.sum()))
        stable.append(gain_of(game, plays) <= tolerance)
    most, met = max(worths), np.array(worths)[np.array(stable)]
    if not len(met) or most * met.min() <= 0.0:
        return np.nan, np.nan
    ratios = (most / met.min(), most / met.max())
    anarchy, stability = ratios if most > 0.0 else (1 / ratios[0], 1 / ratios[1])
    return float(anarchy), float(stability)


def _cases(
    seed: int, seconds: float, check: Callable[[np.random.Generator, int], Iterator[str]]
) -> Iterator[str]:
    """Check one drawn case after the other until the time is over."""
    end, case = time.perf_counter() + seconds, 0
    while case == 0 or time.perf_counter() < end:
        for line in check(np.random.default_rng([seed, case]), case):
            yield f"case {case}: {line}"
        case += 1


def lists(seed: int, seconds: float) -> Iterator[str]:
    """`equilibria` of small crowds, of one to four coordinates."""

    def check(rng: np.random.Generator, case: int) -> Iterator[str]:
        game = draw(rng, 1 + case % 4, bool(case % 3))
        gains, listing = gains_of(game), eq.aggregative.equilibria(game)
        plays = [one.policy.plays(game.types, game.actions[0]) for one in listing]
        keys = {tuple(map(int, one.ravel())) for one in plays}
        for key in keys:
            if gains[key] > listing.tolerance:
                yield f"{key} is listed, and its largest gain is {gains[key]:.3g}"
        missed = {key for key, gain in gains.items() if gain <= 1e-12} - keys
        if listing.complete and missed:
            yield f"the list is complete without {sorted(missed)}"

    return _cases(seed, seconds, check)


def waves(seed: int, seconds: float) -> Iterator[str]:
    """Forty agents of one type, each of whose actions has a coordinate: a sine of its own load."""

    def check(rng: np.random.Generator, case: int) -> Iterator[str]:
        m = 3 + case % 2
        ends = ((-0.2, 0.2), (0.3, 0.8), (4, 9), (0, 6))
        base, size, speed, phase = (rng.uniform(low, high, m) for low, high in ends)

        def reward(x: np.ndarray) -> np.ndarray:
            if x.ndim > 1:  # each action at its own aggregate
                x = np.broadcast_to(x, (*np.broadcast_shapes(x.shape[:-1], (1, m)), m))
                x = x[..., range(m), range(m)]
            return np.atleast_2d(base + size * np.sin(speed * x + phase))

        game = eq.AggregativeGame(np.eye(m)[None], reward, counts=[40], bounds=(-5, 5))
        loads = np.arange(41)[:, None] / 40
        tables = base + size * np.sin(speed * loads + phase)

        def gain(q: np.ndarray) -> float:
            moves = ((k, j) for k in range(m) if q[k] for j in range(m) if j != k)
            return max(float(tables[q[j] + 1, j] - tables[q[k], k]) for k, j in moves)

        truth = {tuple(map(int, q[0])) for q in profiles_of(game) if gain(q[0]) <= 1e-9}
        listing = eq.aggregative.equilibria(game)
        keys = {tuple(map(int, one.policy.plays(1, m)[0])) for one in listing}
        if wrong := [key for key in keys if gain(np.array(key)) > listing.tolerance]:
            yield f"{wrong} are listed, and are no equilibria"
        if listing.complete and truth - keys:
            yield f"the list is complete without {sorted(truth - keys)}"

    return _cases(seed, seconds, check)


def prices(seed: int, seconds: float) -> Iterator[str]:
    """Prices of small crowds, at several time limits, with and without declared constants."""

    def check(rng: np.random.Generator, case: int) -> Iterator[str]:
        game = draw(rng, 1 + case % 2, bool(case % 3))
        tolerance = 0.01
        truths = truth_of(game, tolerance)
        for limit in (0.0, 0.1, 1.0, 10.0):
            found = eq.prices(game, tolerance=tolerance, time_limit=limit)
            for known, truth in zip((found.anarchy, found.stability), truths, strict=True):
                if known is not None and not (
                    known.lower <= truth <= known.upper or truth != truth
                ):
                    yield f"{limit:g} s: price {known}, truth {truth:.9g}"

    return _cases(seed, seconds, check)


def climbed(game: eq.AggregativeGame, plays: np.ndarray) -> float:
    """The largest mean reward that moves of agents lead to, in ever smaller groups."""

    def worth(q: np.ndarray) -> float:
        x = game.scale * np.einsum("ta,tad->d", q, game.influence)
        return float((q * game.rewards(x)).sum() / q.sum())

    best, step = worth(plays), max(1, int(plays.sum()) // 20)
    while step:
        moved = False
        for t, a, b in np.ndindex(*plays.shape, plays.shape[1]):
            if a != b and plays[t, a] >= step:
                trial = plays.copy()
                trial[t, a] -= step
                trial[t, b] += step
                if (new := worth(trial)) > best + 1e-12:
                    plays, best, moved = trial, new, True
        step = step if moved else step // 2
    return best


def roads(seed: int, seconds: float) -> Iterator[str]:
    """Large crowds on parallel roads: a better profile than the optimum found widens the price."""

    def check(rng: np.random.Generator, case: int) -> Iterator[str]:
        agents, count = int(rng.choice([2000, 20_000])), int(rng.integers(3, 6))
        game = eq.games.load("parallel-roads", agents=agents, roads=count, types=3)
        for limit in (0.0, 0.1, 1.0):
            found = eq.prices(game, time_limit=limit)
            if found.best is None or "best" not in found.solutions:
                continue
            policy: Any = found.solutions["best"].policy
            best = climbed(game, policy.plays(game.types, game.actions[0]))
            known, equilibrium = found.stability, found.best.lower
            if known is not None and known.upper < equilibrium / best * (1 - 1e-9):
                truth = equilibrium / best
                yield f"{agents} on {count}, {limit:g} s: {known}, and a profile shows {truth:.6g}"

    return _cases(seed, seconds, check)


def peaks(seed: int, seconds: float) -> Iterator[str]:
    """A narrow peak of rewards that samples miss, without a declared constant."""

    def check(rng: np.random.Generator, case: int) -> Iterator[str]:
        n, width = 100_000, float(rng.uniform(1e-4, 1e-3))
        k = int(rng.integers(0.1 * n, 0.9 * n))

        def reward(x: np.ndarray) -> np.ndarray:
            s = x[..., 0]
            peak = 0.5 * np.maximum(0.0, 1.0 - np.abs(s - k / n) / width)
            return np.stack([0.2 - 0.3 * s + peak, 0.1 + 0.0 * s + peak], -1)[..., None, :]

        game = eq.AggregativeGame([[[1.0], [0.0]]], reward, counts=[n])
        mean = float(np.array([k, n - k]) @ reward(np.array([k / n]))[0] / n)
        found = eq.solve(game, concept="optimum")
        if found.status.ok and found.stats["objective"] < mean - found.tolerance:
            yield f"{found.status}; a profile has {mean:.6g}"
        if "declare" not in found.status.message and found.stats["best_possible"] < mean:
            yield f"called a bound: {found.status}; a profile has {mean:.6g}"

    return _cases(seed, seconds, check)


def cycles(seed: int, seconds: float) -> Iterator[str]:
    """Populations that would meet the next but not the last: best replies go round, for ever."""

    def check(rng: np.random.Generator, case: int) -> Iterator[str]:
        sizes = rng.integers(1, 40, 2)
        influence = np.zeros((2, 2, 2))
        influence[[0, 1], 1, [0, 1]] = 1.0 / sizes
        sign, pull = np.array([-1.0, 1.0]), rng.uniform(0.5, 1.5, 2)

        def reward(x: np.ndarray) -> np.ndarray:
            first, second = pull * (2 * x[..., ::-1] - 1) * np.array([1.0, -1.0])
            return np.stack([first * sign, second * sign])

        game = eq.AggregativeGame(
            influence, reward, 3.0, counts=sizes, scale=1.0, bounds=(-2, 2), elementwise=False
        )
        start = time.perf_counter()
        found = eq.solve(game, potential=True, time_limit=np.inf)
        if time.perf_counter() - start > 60.0:
            yield f"{sizes.tolist()}: it took more than a minute"
        truth = min(gains_of(game).values())
        if found.certificate.max_upper < truth - 1e-12:
            yield f"{sizes.tolist()}: {found.status}; the least gain is {truth:.6g}"

    return _cases(seed, seconds, check)


def busy(seed: int, seconds: float) -> Iterator[str]:
    """The same crowd with rewards that sleep: the answer must be the same."""

    def check(rng: np.random.Generator, case: int) -> Iterator[str]:
        types = int(rng.integers(4, 40))
        influence, base = rng.random((types, 3, 3)), rng.uniform(-0.5, 0.5, (types, 3))
        slopes, answers = rng.uniform(-0.5, 0.5, (types, 3, 3)), []
        lipschitz = float(3 * np.abs(slopes).sum(-1).max())
        for pause in (0.0, 0.004):

            def reward(x: Any, pause: float = pause) -> Any:
                time.sleep(pause * (np.ndim(x) == 1))
                return base + np.sin(3 * (slopes * x).sum(-1))

            counts = [60] * types
            game = eq.AggregativeGame(influence, reward, lipschitz, counts=counts, bounds=(-3, 3))
            solution = eq.solve(game, objective="welfare", time_limit=120.0)
            stats = solution.stats
            answers.append([stats[n] for n in ("cells", "best_possible", "objective")])
            if "the time limit" in solution.status.message:
                return
        if answers[0] != answers[1]:
            yield f"{types} types: {answers[0]}, and with a pause {answers[1]}"

    return _cases(seed, seconds, check)


ATTACKS = (lists, waves, prices, roads, peaks, cycles, busy)
