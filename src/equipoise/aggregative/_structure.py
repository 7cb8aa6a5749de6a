"""Analysis without cells: a test for a potential, and a solver for monotone games.

Both work in any dimension, and evaluate rewards at some aggregates only.
"""

import numpy as np

from equipoise.aggregative._cells import Stage
from equipoise.core.deadline import Deadline


def has_potential(stage: Stage, cycles: int = 12) -> bool:
    """Whether sampled cycles are consistent with an exact or weighted potential.

    Two agents change actions in turn, and change back (Monderer and Shapley 1996, theorem 2.8).
    With a potential, one agent's gain along the cycle is the other's loss, in a fixed proportion.
    The test samples cycles: it can refute a potential, not prove one.
    """
    rng = np.random.default_rng(11)
    types, actions = stage.influence.shape[:2]
    if actions < 2 or stage.agents < 2:
        return True
    cycles = cycles if types * actions < 100_000 else 2
    for _ in range(cycles):
        i, j = rng.integers(0, types, 2)
        if i == j and stage.counts[i] < 2:
            continue
        ratios = []
        for _ in range(2):
            plays = np.zeros((types, actions), np.int64)
            plays[np.arange(types), rng.integers(0, actions, types)] = stage.counts
            a, c = plays[i].argmax(), plays[j].argmax()
            b, e = (
                (a + rng.integers(1, actions)) % actions,
                (c + rng.integers(1, actions)) % actions,
            )
            f, x = stage.scale * stage.influence, stage.aggregate(plays)
            by_i, by_j = f[i, b] - f[i, a], f[j, e] - f[j, c]
            at = [stage.rewards(p[None])[0] for p in (x, x + by_i, x + by_i + by_j, x + by_j)]
            first = at[1][i, b] - at[0][i, a] + at[3][i, a] - at[2][i, b]
            second = at[2][j, e] - at[1][j, c] + at[0][j, c] - at[3][j, e]
            size = 1e-14 * max(np.abs(at[0]).max(), 1e-300)
            ratios.append((first, second, max(size, 1e-5 * max(abs(first), abs(second)))))
        (a1, b1, s1), (a2, b2, s2) = ratios
        exact = abs(a1 + b1) <= s1 and abs(a2 + b2) <= s2
        sizes = max(abs(a1), abs(b1), abs(a2), abs(b2))
        weighted = abs(a1 * b2 - a2 * b1) <= 2 * max(s1, s2) * sizes and a1 * b1 <= 0 >= a2 * b2
        if not (exact or weighted):
            return False
    return True


def project(stage: Stage, deadline: Deadline, precision: float, rounds: int = 20_000) -> np.ndarray:
    """(types, actions): shares of actions near an equilibrium of a monotone game.

    This is Korpelevich's extragradient method on the product of simplices, with steps that shrink
    until rewards change by less than the shares (Khobotov 1987). It needs no cells. In a monotone
    game, where more agents on an action never make it better on balance, it converges in any
    dimension. It ends when the mean regret is at most `precision`.
    """
    counts = stage.counts.astype(np.float64)[:, None]
    shares = np.full(stage.influence.shape[:2], 1.0 / stage.influence.shape[1])

    def rewards(p: np.ndarray) -> np.ndarray:
        flat = stage.influence.reshape(-1, stage.dimensions)
        return stage.rewards((stage.scale * ((counts * p).ravel() @ flat))[None])[0]

    def norm(p: np.ndarray) -> float:
        return float(np.sqrt((counts * p**2).sum()))

    table = rewards(shares)
    step = 1.0 / max(float(np.ptp(table, axis=1).max()), 1e-300)
    best, least = shares, np.inf
    for _ in range(rounds):
        regret = float((counts * (table.max(1, keepdims=True) - table) * shares).sum())
        if regret < least:
            best, least = shares, regret
        if least <= precision * stage.agents or deadline.over():
            break
        while True:
            ahead = project_rows(shares + step * table)
            there = rewards(ahead)
            if step * norm(there - table) <= 0.9 * norm(ahead - shares) or step < 1e-30:
                break
            step *= 0.5
        shares = project_rows(shares + step * there)
        table = rewards(shares)
        step *= 1.05
    return best


def whole_agents(shares: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(types, actions): round the shares to whole agents; errors carry over to the next row.

    >>> whole_agents(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([1, 1])).tolist()
    [[1, 0], [0, 1]]
    """
    exact = shares * counts[:, None]
    plays = np.floor(exact + 1e-9).astype(np.int64)
    owed = np.zeros(shares.shape[1])
    for row in np.flatnonzero(plays.sum(1) < counts):
        owed += exact[row] - plays[row]
        for _ in range(int(counts[row] - plays[row].sum())):
            action = int(owed.argmax())
            plays[row, action] += 1
            owed[action] -= 1.0
    return plays


def project_rows(points: np.ndarray) -> np.ndarray:
    """Project each row onto the probability simplex.

    >>> project_rows(np.array([[0.9, 0.5, -1.0]])).round(6).tolist()
    [[0.7, 0.3, 0.0]]
    """
    ordered = -np.sort(-points, axis=1)
    excess = (np.cumsum(ordered, 1) - 1.0) / np.arange(1, points.shape[1] + 1)
    last = (ordered > excess).sum(1) - 1
    return np.maximum(points - np.take_along_axis(excess, last[:, None], 1), 0.0)


def row_max(values: np.ndarray) -> np.ndarray:
    """Maximum of each row; faster than `max(1)` for many short rows.

    >>> row_max(np.array([[1.0, 3.0], [2.0, 0.0]])).tolist()
    [3.0, 2.0]
    """
    best = values[:, 0]
    for a in range(1, values.shape[1]):
        best = np.maximum(best, values[:, a])
    return best
