"""Random general-sum games of two to four players: every concept, certified and compared.

`main(cases, seed)` draws games of several families, ties, duplicates and dominated actions among
them, solves each for Nash, correlated and coarse correlated equilibria, and checks the proven
gains, the bounds and the order of the concepts. Each game is solved again with players whose units
differ by up to 1e12, and for the correlated equilibrium of largest entropy.
"""

from typing import Any

import numpy as np

import equipoise as eq

#: The largest proven gain allowed, as a share of the range of payoffs, by concept and players.
LIMITS = {"nash2": 1e-9, "nash": 1e-7, "ce": 1e-9, "cce": 1e-9}


def draw(rng: np.random.Generator) -> np.ndarray:
    """A game of two to four players, at most 400 cells, of one of several families."""
    players = int(rng.integers(2, 5))
    most = {2: 10, 3: 6, 4: 4}[players]
    shape = tuple(int(a) for a in rng.integers(1, most + 1, players))
    family = rng.integers(6)
    if family == 0:
        payoffs = rng.integers(0, 3, (players, *shape)).astype(float)  # ties
    elif family == 1:
        payoffs = np.repeat(rng.random((1, *shape)), players, 0)  # common interest
    elif family == 2:
        first = rng.normal(size=shape)
        rest = [-first / (players - 1)] * (players - 1)
        payoffs = np.stack([first, *rest])  # constant sum
    else:
        payoffs = rng.normal(size=(players, *shape)) * 10.0 ** rng.integers(-3, 4)
    if family == 4:  # one action of the first player twice
        payoffs = np.concatenate([payoffs, payoffs[:, :1]], 1)
    if family == 5:  # and one that is dominated
        payoffs = np.concatenate([payoffs, payoffs[:, :1]], 1)
        payoffs[0, -1] -= np.ptp(payoffs)
    return payoffs


def check(payoffs: np.ndarray) -> tuple[dict[str, float], list[str]]:
    """The largest gains by concept, as shares of the range of payoffs, and what was wrong."""
    game = eq.NormalFormGame(payoffs, players=len(payoffs))
    spread = max(float(np.ptp(payoffs.reshape(len(payoffs), -1), -1).max()), 1e-300)
    gains, welfare, wrong = {}, [], []
    for concept in ("nash", "ce", "cce"):
        objective = None if concept == "nash" else "welfare"
        limit = 0.1 * LIMITS[concept] * spread
        solution = eq.solve(game, concept=concept, objective=objective, tolerance=limit)
        name = "nash2" if concept == "nash" and len(payoffs) == 2 else concept
        gains[name] = float(solution.certificate.max_upper) / spread
        if gains[name] > LIMITS[name]:
            wrong.append(f"{name}: {solution.status}")
        welfare.append(float(solution.value.sum()))
        if objective and solution.objective.upper < welfare[-1] - 1e-7 * spread:
            wrong.append(f"{name}: welfare {welfare[-1]} above its bound")
    if (np.diff(welfare) < -1e-7 * spread * len(payoffs)).any():
        wrong.append(f"welfare falls from concept to concept: {welfare}")
    return gains, wrong


def check_units(payoffs: np.ndarray, rng: np.random.Generator) -> list[str]:
    """Solve with very different units; "solved" must hold for every player in its own."""
    players = len(payoffs)
    units = 10.0 ** -rng.integers(0, 13, players).astype(float)
    scaled = units.reshape(-1, *[1] * players) * payoffs
    ranges = np.ptp(scaled.reshape(players, -1), -1)
    wrong = []
    for options in ({}, {"method": "logit"}, {"concept": "ce"}):
        solution = eq.solve(eq.NormalFormGame(scaled, players=len(scaled)), **options)
        share = np.asarray(solution.certificate.upper) / np.maximum(ranges, 1e-300)
        if solution.status.ok and share[ranges > 0].max(initial=0.0) > 2e-7:  # 16 times 1e-8
            wrong.append(f"units {units.tolist()}, {options}: solved, with a gain of {share}")
    return wrong


def check_entropy(payoffs: np.ndarray) -> tuple[bool, list[str]]:
    """Whether the largest entropy was found, and what was wrong with what was found."""
    game = eq.NormalFormGame(payoffs, players=len(payoffs))
    solution = eq.solve(game, concept="ce", objective="entropy")
    gap = solution.objective.upper - solution.objective.lower
    if solution.status.ok and not gap <= 1e-6:
        return False, [f"entropy {solution.objective.lower}, bound {solution.objective.upper}"]
    return bool(solution.status.ok), []


def main(cases: int = 1000, seed: int = 0) -> dict[str, Any]:
    """Solve and check that many games."""
    worst, failures, found = dict.fromkeys(LIMITS, 0.0), [], 0
    for case in range(cases):
        payoffs = draw(np.random.default_rng([seed, case]))
        gains, wrong = check(payoffs)
        wrong += check_units(payoffs, np.random.default_rng([seed, case, 1]))
        solved, more = check_entropy(payoffs)
        found, wrong = found + solved, wrong + more
        worst |= {name: max(worst[name], gain) for name, gain in gains.items()}
        failures += [f"case {case}: {what}" for what in wrong]
    return {"games": cases, "failures": failures, "largest gains": worst, "entropy found": found}
