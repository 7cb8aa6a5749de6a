"""Random crowds against all their profiles: what is solved, chosen, and proven of the rest.

`main(cases, seed)` draws aggregative games with few enough profiles to list, of one or two
coordinates, one to three types and two or three actions. It lists the gain and the welfare of every
profile by the definition, and checks `solve` for any equilibrium, for the best and the worst by
welfare and by the least reward, and for the social optimum.
"""

from itertools import product
from typing import Any

import numpy as np

import equipoise as eq

#: Gains up to this count as equilibria. Rewards are between -1 and 1.
TOLERANCE = 0.02


def draw(rng: np.random.Generator) -> eq.AggregativeGame:
    """Rewards linear in the aggregate, or with a bend, with a valid Lipschitz constant."""
    types, actions = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    d, most = int(rng.integers(1, 3)), {1: 40, 2: 9, 3: 4}[types]
    counts = rng.integers(1, most // (actions - 1) + 1, types)
    influence = rng.random((types, actions, d))
    base = rng.uniform(-0.5, 0.5, (types, actions))
    slopes = rng.uniform(-0.5, 0.5, (types, actions, d)) / d
    bend = float(rng.integers(2)) * rng.uniform(0.0, 1.0)

    def reward(x: Any) -> Any:
        along = (slopes * x).sum(-1)
        return base + along * (1.0 - bend) + bend * np.maximum(along, 0.0)

    lipschitz = float(np.abs(slopes).sum(-1).max())
    return eq.AggregativeGame(influence, reward, lipschitz, counts=counts)


def profiles(game: eq.AggregativeGame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The largest gain, the mean and the least reward in every profile, by the definition."""
    counts, actions = np.asarray(game.counts), game.actions[0]
    rows = [[row for row in product(range(n + 1), repeat=actions) if sum(row) == n] for n in counts]
    found = []
    for plays in map(np.array, product(*rows)):
        x = game.scale * np.einsum("ta,tad->d", plays, game.influence)
        rewards, gain = game.rewards(x), 0.0
        for t, a, b in product(range(len(counts)), range(actions), range(actions)):
            if plays[t, a] and a != b:
                there = x + game.scale * (game.influence[t, b] - game.influence[t, a])
                gain = max(gain, float(game.rewards(there)[t, b] - rewards[t, a]))
        found.append((gain, (plays * rewards).sum() / counts.sum(), rewards[plays > 0].min()))
    gains, mean, least = np.array(found).T
    return gains, mean, least


def check(game: eq.AggregativeGame) -> list[str]:
    """What was wrong."""
    gains, mean, least = profiles(game)
    stable, wrong = gains <= TOLERANCE, []
    options: dict[str, Any] = {"tolerance": TOLERANCE}
    found = eq.solve(game, tolerance=TOLERANCE)
    if found.status.ok and not stable.any():
        wrong.append("solved, and no profile is an equilibrium")
    for (objective, worth), (sense, sign) in product(
        (("welfare", mean), ("egalitarian", least)), (("max", 1.0), ("min", -1.0))
    ):
        options |= {"objective": objective, "sense": sense}
        found, name = eq.solve(game, **options), sense
        if found.status.ok and not stable.any():
            wrong.append(f"{name} {objective}: solved, and no profile is an equilibrium")
        if not stable.any():
            continue
        best = (sign * worth[stable]).max()
        if sign * found.stats["best_possible"] < best - 1e-9:
            wrong.append(f"{name} {objective}: an equilibrium beats what is proven")
        if found.status.ok and sign * found.stats["objective"] > best + 1e-9:
            wrong.append(f"{name} {objective}: better than all equilibria")
    optimum = eq.solve(game, concept="optimum", tolerance=TOLERANCE)
    if optimum.stats["best_possible"] < mean.max() - 1e-9:
        wrong.append("optimum: a profile beats what is proven")
    if optimum.status.ok and optimum.stats["objective"] < mean.max() - TOLERANCE - 1e-9:
        wrong.append("optimum: solved, and not within the tolerance")
    return wrong


def main(cases: int = 472, seed: int = 0) -> dict[str, Any]:
    """Solve and check that many games."""
    failures = [
        f"case {case}: {what}"
        for case in range(cases)
        for what in check(draw(np.random.default_rng([seed, case])))
    ]
    return {"games": cases, "failures": failures}
