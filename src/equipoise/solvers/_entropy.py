"""The correlated equilibrium of maximum entropy, by a primal-dual interior-point method.

Maximum entropy means that nothing is assumed about the joint distribution except that no deviation
gains (Ortiz, Schapire and Kakade, 2007). The dual is smooth and convex, with one multiplier y >= 0
for each deviation; probabilities are proportional to exp(-y G). The method keeps probabilities,
slacks and multipliers as separate unknowns, as for linear programs (Mehrotra, 1992). One iteration
solves a system with one row per deviation.

If some cells have probability zero in every equilibrium, or some deviations gain exactly nothing in
every equilibrium, the optimal y is infinite and the iteration may stall. One linear program then
finds these cells and deviations, and the iteration is repeated without the cells and with equations
for the deviations. The linear program is homogeneous: it scales equilibria by any number, so that
as many probabilities and slacks as possible reach one.
"""

import time
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import linprog
from scipy.sparse import block_array, csr_array, eye_array

from equipoise.core import InputError

#: Maximum number of entries (deviations times cells) for which the entropy is maximised.
LIMIT = 40_000_000
#: Probabilities below this are treated as zero.
_LEAST = 1e-250


def most_entropy(
    payoffs: np.ndarray,
    concept: str,
    *,
    tolerance: float = 1e-9,
    iterations: int = 200,
    time_limit: float = np.inf,
) -> tuple[np.ndarray, float, float, int, str]:
    """Return the equilibrium of maximum entropy for payoffs that range over [0, 1].

    Returns the joint distribution, its entropy, an upper bound on the entropy of every
    equilibrium, the number of iterations, and "optimal", "out of time" or "interrupted".

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
    rows = deviation_rows(payoffs, concept)
    deadline = time.monotonic() + time_limit
    goal = 1e-2 * tolerance
    found = _ascend(rows, np.ones(len(rows), bool), goal, iterations, deadline)
    used = np.ones(rows.shape[1], bool)
    if found.ended == "stalled":
        used, loose = _face(rows)
        tight = rows[~loose][:, used]
        basis = np.linalg.svd(tight, full_matrices=False) if len(tight) else None
        equal = tight[:0] if basis is None else basis[2][basis[1] > 1e-9 * basis[1].max(initial=0)]
        reduced = np.concatenate([rows[loose][:, used], equal])
        kind = np.arange(len(reduced)) < loose.sum()
        again = _ascend(reduced, kind, goal, iterations, deadline)
        if again.error < found.error or not np.isfinite(found.error):
            rows, found = reduced, again
        else:
            used[:] = True
    chances = np.maximum(found.x, 0.0) / found.x.sum()
    some = chances[chances > 0]
    entropy = float(-(some * np.log(some)).sum())
    # Every y >= 0 gives a bound on the entropy: the logarithm of the sum of exp(-y G).
    exponent = -(found.y @ rows)
    bound = float(np.log(np.exp(exponent - exponent.max()).sum()) + exponent.max())
    joint = np.zeros(payoffs[0].size)
    joint[used] = chances
    ended = "optimal" if found.ended == "stalled" else found.ended
    return joint.reshape(payoffs.shape[1:]), entropy, max(bound, entropy), found.done, ended


class _Point(NamedTuple):
    """A point of the iteration, its optimality error, and why the iteration ended."""

    x: np.ndarray
    y: np.ndarray
    error: float
    done: int
    ended: str


def _ascend(
    rows: np.ndarray, loose: np.ndarray, goal: float, iterations: int, deadline: float
) -> _Point:
    """Maximise the entropy subject to rows x <= 0 where `loose`, and = 0 elsewhere.

    Ends as "optimal", "out of time", "interrupted", or "stalled" if the error no longer falls.
    """
    count, cells = rows.shape
    seconds = 2e-10 * count**2 * cells  # estimate for one iteration, until one was timed
    # Minimise sum x log x with rows x + s = 0, sum x = 1, s >= 0; multipliers y >= 0 and z.
    x, s, y, z = np.full(cells, 1.0 / cells), 0.1 * loose, 0.1 * loose, 0.0
    best, since = _Point(x, y, np.inf, 0, "stalled"), 0
    try:
        for done in range(iterations):
            now = time.monotonic()
            if now + seconds > deadline:
                return best._replace(ended="out of time")
            newton = _Newton(rows, loose, x, s, y, z)
            if not np.isfinite(newton.error):
                break
            if newton.error < best.error:
                since = since if newton.error > 0.5 * best.error else done
                best = _Point(x, y, newton.error, done + 1, "stalled")
            if newton.error < goal:
                return best._replace(ended="optimal")
            if done > since + 25:
                break
            newton.factorise()
            dx, ds, dy, dz = newton.direction(np.zeros(count))
            length = min(_length(x, dx), _length(s[loose], ds[loose]), _length(y[loose], dy[loose]))
            ahead = float((s + length * ds) @ (y + length * dy)) / count
            centre = (ahead / newton.mu) ** 3 * newton.mu if newton.mu else 0.0
            dx, ds, dy, dz = newton.direction(centre - ds * dy * (length > 0.1))
            length = min(_length(x, dx), _length(s[loose], ds[loose]), _length(y[loose], dy[loose]))
            # A full step is taken only if no bound blocks it.
            length *= 1.0 if length == 1.0 and not loose.any() else 0.995
            x = np.maximum(x + length * dx, _LEAST)
            s, y, z = s + length * ds, y + length * dy, z + length * dz
            seconds = time.monotonic() - now
    except KeyboardInterrupt:
        return best._replace(ended="interrupted")
    except (LinAlgError, ZeroDivisionError):
        pass
    return best


def _face(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells that some equilibrium uses, and deviations that lose something in some equilibrium."""
    count, cells = rows.shape
    # Unknowns x >= 0, and 0 <= u, v <= 1 with u <= x and v <= -rows x; maximise their sum.
    body = block_array(
        [[-eye_array(cells), eye_array(cells), None], [csr_array(rows), None, eye_array(count)]]
    )
    cost = np.concatenate([np.zeros(cells), -np.ones(cells + count)])
    bounds = np.zeros((len(cost), 2))
    bounds[:, 1] = np.where(cost < 0, 1.0, np.inf)
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    for chosen in (options, {}):
        found = linprog(
            cost, csr_array(body), np.zeros(count + cells), bounds=bounds, options=chosen
        )
        if found.status == 0:
            used, loose = np.split(found.x[cells:] > 0.5, [cells])
            return used, loose
    return np.ones(cells, bool), np.ones(count, bool)


class _Newton:
    """Newton's equations at one point, with everything but the multipliers eliminated."""

    def __init__(
        self,
        rows: np.ndarray,
        loose: np.ndarray,
        x: np.ndarray,
        s: np.ndarray,
        y: np.ndarray,
        z: float,
    ):
        self.rows, self.loose, self.x, self.s, self.y = rows, loose, x, s, y
        self.dual = np.log(x) + 1.0 + y @ rows + z
        self.primal, self.total = rows @ x + s, float(x.sum()) - 1.0
        self.mu = float(s @ y) / max(len(y), 1)
        gaps = (np.abs(self.primal).max(initial=0.0), np.abs(x * self.dual).max())
        self.error = float(max(*gaps, abs(self.total), self.mu))

    def factorise(self) -> None:
        """Prepare for `direction`."""
        self.weighted = self.rows * self.x
        normal = self.weighted @ self.rows.T
        # Equations have no slack.
        self.ratio = np.divide(self.s, self.y, out=np.zeros(len(self.y)), where=self.loose)
        normal[np.diag_indices(len(self.y))] += self.ratio + 1e-14
        self.factor = cho_factor(normal, check_finite=False)
        self.mass = self.weighted.sum(1)
        self.ones = cho_solve(self.factor, self.mass, check_finite=False)

    def direction(self, target: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return the step to s y = `target`."""
        lack = target - self.s * self.y
        lack = np.divide(lack, self.y, out=np.zeros(len(self.y)), where=self.loose)
        aim = self.primal - self.weighted @ self.dual + lack
        free = cho_solve(self.factor, aim, check_finite=False)
        corner = float(self.x.sum() - self.mass @ self.ones)
        dz = float(self.total - self.x @ self.dual - self.mass @ free) / corner
        dy = free - self.ones * dz
        dx = -self.x * (self.dual + dy @ self.rows + dz)
        return dx, lack - self.ratio * dy, dy, dz


def deviation_rows(payoffs: np.ndarray, concept: str) -> np.ndarray:
    """(deviations, cells): gain of each deviation in each cell."""
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
    """Return the longest step, up to one, that keeps `value` positive."""
    shrinking = step < 0
    if not shrinking.any():
        return 1.0
    return float(min(1.0, (-value[shrinking] / step[shrinking]).min()))
