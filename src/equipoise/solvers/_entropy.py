"""The correlated equilibrium of largest entropy, by a primal-dual interior-point method.

Maximum entropy means: given that no deviation gains, nothing else is assumed about the joint
distribution (Ortiz, Schapire and Kakade, 2007). The dual is smooth and convex, with one
multiplier y >= 0 for each deviation, and chances are proportional to exp(-y G). Where some
cells have chance zero in every equilibrium, the best y is infinite; the method therefore keeps
chances, slacks and multipliers apart, as for linear programs (Mehrotra, 1992), and approaches
such a boundary without reaching it. One iteration solves a system with one row a deviation.
"""

import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from equipoise.core import InputError

#: Up to this many numbers (deviations times cells) the entropy is maximised.
LIMIT = 40_000_000


def most_entropy(
    payoffs: np.ndarray,
    concept: str,
    *,
    tolerance: float = 1e-9,
    iterations: int = 200,
    time_limit: float = np.inf,
) -> tuple[np.ndarray, float, float, int, str]:
    """The equilibrium of largest entropy for payoffs that range over [0, 1].

    Returns the joint distribution, its entropy, an upper bound on the entropy of every
    equilibrium, how many iterations it took, and "optimal", "time" or "interrupted".

    >>> joint, entropy, *_ = most_entropy(np.array([[[1.0, 0], [0, 1]], [[1, 0], [0, 1]]]), "ce")
    >>> joint.round(4).tolist(), round(entropy, 6)
    ([[0.25, 0.25], [0.25, 0.25]], 1.386294)
    """
    count = sum(a * (a - 1) if concept == "ce" else a for a in payoffs.shape[1:])
    if count * payoffs[0].size > LIMIT:
        raise InputError(
            "objective",
            f'at most {LIMIT:,} numbers for "entropy" (deviations times joint actions)',
            f"{count:,} times {payoffs[0].size:,}",
        )
    if count == 0 or payoffs[0].size == 1:
        return np.ones(payoffs.shape[1:]), 0.0, 0.0, 0, "optimal"
    begun, ended = time.monotonic(), "optimal"
    rows = deviation_rows(payoffs, concept)
    cells = rows.shape[1]
    seconds = 2e-10 * count**2 * cells  # of one iteration, until one was timed
    # Minimise sum x log x with rows x + s = 0, sum x = 1, s >= 0; multipliers y >= 0 and z.
    x, s, y, z = np.full(cells, 1.0 / cells), np.full(count, 0.1), np.full(count, 0.1), 0.0
    done = 0
    while done < iterations:
        now = time.monotonic()
        if now + seconds > begun + time_limit:
            ended = "time"
            break
        try:
            newton = _Newton(rows, x, s, y, z)
        except KeyboardInterrupt:
            ended = "interrupted"
            break
        done += 1
        seconds = time.monotonic() - now
        if newton.error < 1e-2 * tolerance:
            break
        dx, ds, dy, dz = newton.direction(np.zeros(count))
        length = min(_length(x, dx), _length(s, ds), _length(y, dy))
        ahead = float((s + length * ds) @ (y + length * dy)) / count
        centre = (ahead / newton.mu) ** 3 * newton.mu
        dx, ds, dy, dz = newton.direction(centre - ds * dy * (length > 0.1))
        length = 0.995 * min(_length(x, dx), _length(s, ds), _length(y, dy))
        x, s, y, z = x + length * dx, s + length * ds, y + length * dy, z + length * dz
    x = np.maximum(x, 0.0) / x.sum()
    used = x[x > 0]
    entropy = float(-(used * np.log(used)).sum())
    # Every y >= 0 bounds the entropy, by the logarithm of the sum of exp(-y G).
    exponent = -(y @ rows)
    bound = float(np.log(np.exp(exponent - exponent.max()).sum()) + exponent.max())
    return x.reshape(payoffs.shape[1:]), entropy, max(bound, entropy), done, ended


class _Newton:
    """Newton's equations at one point, with everything but the multipliers eliminated."""

    def __init__(self, rows: np.ndarray, x: np.ndarray, s: np.ndarray, y: np.ndarray, z: float):
        self.rows, self.x, self.s, self.y = rows, x, s, y
        self.dual = np.log(x) + 1.0 + y @ rows + z
        self.primal, self.total = rows @ x + s, float(x.sum()) - 1.0
        self.mu = float(s @ y) / max(len(y), 1)
        parts = (np.abs(self.primal).max(), abs(self.total), np.abs(x * self.dual).max(), self.mu)
        self.error = float(max(parts))
        self.weighted = rows * x
        normal = self.weighted @ rows.T
        normal[np.diag_indices(len(y))] += s / y + 1e-14
        self.factor = cho_factor(normal, check_finite=False)
        self.mass = self.weighted.sum(1)
        self.ones = cho_solve(self.factor, self.mass)

    def direction(self, target: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """The step to s y = `target`."""
        lack = (target - self.s * self.y) / self.y
        free = cho_solve(self.factor, self.primal - self.weighted @ self.dual + lack)
        corner = float(self.x.sum() - self.mass @ self.ones)
        dz = float(self.total - self.x @ self.dual - self.mass @ free) / corner
        dy = free - self.ones * dz
        dx = -self.x * (self.dual + dy @ self.rows + dz)
        return dx, lack - self.s * dy / self.y, dy, dz


def deviation_rows(payoffs: np.ndarray, concept: str) -> np.ndarray:
    """(deviations, cells): what each deviation gains in each cell."""
    shape = payoffs.shape[1:]
    found = []
    for i, own in enumerate(payoffs):
        actions = np.indices(shape)[i]
        for b in range(shape[i]):
            gain = np.take(own, [b], axis=i) - own
            if concept == "cce":
                found.append(gain.reshape(-1))
            else:
                found += [
                    np.where(actions == a, gain, 0.0).reshape(-1) for a in range(shape[i]) if a != b
                ]
    return np.array(found)


def _length(value: np.ndarray, step: np.ndarray) -> float:
    """The longest step, up to one, that keeps `value` positive."""
    shrinking = step < 0
    if not shrinking.any():
        return 1.0
    return float(min(1.0, (-value[shrinking] / step[shrinking]).min()))
