"""Nash equilibria of normal-form games with any number of players.

`pure_equilibria` finds all pure equilibria by comparing best responses. `logit_path` follows the
branch of quantal response equilibria that starts at the uniform profile with rationality zero
(McKelvey and Palfrey, 1995; Turocy, 2005): log p_ij - log p_ik = rationality * (u_ij - u_ik). Its
end is a Nash equilibrium, which for almost all games is unique.

The unknowns are log probabilities, so that no probability reaches zero and none loses digits. The
path is parametrised by its arc length, so that it may turn back in rationality: a predictor step
follows the tangent, and Newton's method leads back to the path (Allgower and Georg, 1990). As soon
as the support can be identified, Newton's method on its indifference conditions jumps to the end of
the path, if its result is close and no deviation gains.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

#: Path points with larger gains (for a payoff range of one) are not worth polishing.
_WORTH_POLISHING = 0.05
#: Rationality, in units of one over the payoff range, at which the path ends.
_FAR = 1e10
#: Gain, for a payoff range of one, at which a polished profile counts as exact.
_EXACT = 1e-12
#: A change of orientation within a step shorter than this is a bifurcation, not a jump.
_CROSSING = 1e-3


@dataclass(frozen=True)
class Path:
    """The points of a logit path, the profile found, and why the search ended."""

    #: One array per player: the best profile found.
    profile: tuple[np.ndarray, ...]
    #: Largest gain of any player at `profile`, in units of payoff.
    gain: float
    #: (points,): rationality, in units of one over payoff.
    rationality: np.ndarray
    #: (points, actions of all players): the quantal response equilibria on the path.
    points: np.ndarray
    #: "solved", "time", "interrupted" or "stuck".
    ended: str


def pure_equilibria(payoffs: np.ndarray) -> np.ndarray:
    """(equilibria, players): all pure Nash equilibria, in order.

    >>> pure_equilibria(np.array([[[2, 0], [0, 1]], [[1, 0], [0, 2]]])).tolist()
    [[0, 0], [1, 1]]
    """
    best = np.ones(payoffs.shape[1:], bool)
    for i, own in enumerate(payoffs):
        best &= own == own.max(i, keepdims=True)
    return np.argwhere(best)


def pure_profile(payoffs: np.ndarray, pure: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return one strategy per player, with all probability on the given action.

    >>> [s.tolist() for s in pure_profile(np.zeros((2, 2, 3)), np.array([1, 0]))]
    [[0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    return tuple(np.eye(a)[k] for a, k in zip(payoffs.shape[1:], pure, strict=True))


class Replies:
    """Expected payoffs of own actions, and how they change with one other player's strategy."""

    def __init__(self, payoffs: np.ndarray):
        self.payoffs = payoffs
        self.sizes = payoffs.shape[1:]
        self.players = len(payoffs)
        starts = np.cumsum([0, *self.sizes])
        self.parts = [slice(a, b) for a, b in pairwise(starts)]
        self._pairs = {}
        for i in range(self.players):
            for k in range(self.players):
                if i != k:
                    rest = [j for j in range(self.players) if j not in (i, k)]
                    table = np.ascontiguousarray(payoffs[i].transpose(i, k, *rest))
                    self._pairs[i, k] = (table, rest[::-1])

    def pair(self, i: int, k: int, profile: list[np.ndarray]) -> np.ndarray:
        """(A_i, A_k): player i's payoffs, averaged over all players but i and k."""
        table, rest = self._pairs[i, k]
        for j in rest:
            table = table @ profile[j]
        return table

    def own(self, profile: list[np.ndarray]) -> np.ndarray:
        """(actions of all players,): the expected payoff of each own action."""
        if self.players == 1:
            return self.payoffs[0].astype(np.float64)
        found = []
        for i in range(self.players):
            k = 1 if i == 0 else 0
            found.append(self.pair(i, k, profile) @ profile[k])
        return np.concatenate(found)

    def jacobian(self, profile: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Expected payoffs of own actions, and their derivatives in all probabilities."""
        total = self.parts[-1].stop
        slopes, worth = np.zeros((total, total)), np.zeros(total)
        for i, rows in enumerate(self.parts):
            for k, columns in enumerate(self.parts):
                if i != k:
                    slopes[rows, columns] = self.pair(i, k, profile)
            k = 1 if i == 0 else 0
            if self.players > 1:
                worth[rows] = slopes[rows, self.parts[k]] @ profile[k]
            else:
                worth[rows] = self.payoffs[0]
        return worth, slopes

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """Split a flat array into one array per player."""
        return [flat[part] for part in self.parts]

    def gain(self, profile: list[np.ndarray]) -> float:
        """Largest gain of any player."""
        worth = self.split(self.own(profile))
        return float(max(w.max() - w @ p for w, p in zip(worth, profile, strict=True)))


def polish(
    replies: Replies, profile: list[np.ndarray], used: np.ndarray, *, near: float = 0.3
) -> list[np.ndarray] | None:
    """Newton's method on the indifference conditions of the actions `used`; None if it fails.

    The unknowns are the probabilities of the actions used and each player's value. The result is an
    equilibrium up to rounding; None also if Newton's method moves further than `near`.
    """
    players, parts = replies.players, replies.parts
    total = parts[-1].stop
    owner = np.concatenate([np.full(part.stop - part.start, i) for i, part in enumerate(parts)])
    flat = np.where(used, np.concatenate(profile), 0.0)
    begin = np.concatenate(profile)
    size = int(used.sum())
    member = np.zeros((players, total))
    member[owner, np.arange(total)] = 1.0
    system = np.zeros((size + players, size + players))
    system[:size, size:] = -member[:, used].T
    system[size:, :size] = member[:, used]
    values = np.zeros(players)
    last = np.inf
    for _ in range(30):
        worth, slopes = replies.jacobian(replies.split(flat))
        if not np.isfinite(worth).all():
            return None
        if last == np.inf:
            values = np.array([worth[p] @ flat[p] for p in parts])
        error = np.concatenate([(worth - values[owner])[used], member @ flat - 1.0])
        size_of = float(np.abs(error).max())
        settled = size_of < 1e-15 or (size_of < 1e-11 and size_of >= last)
        last = min(last, size_of) if settled else size_of
        if settled:
            break
        system[:size, :size] = slopes[np.ix_(used, used)]
        try:
            step = np.linalg.solve(system, -error)
        except np.linalg.LinAlgError:
            step = np.linalg.lstsq(system, -error, rcond=1e-12)[0]
        if not np.isfinite(step).all() or np.abs(step[:size]).max() > 10.0:
            return None
        flat[used] += step[:size]
        values += step[size:]
    if last > 1e-8 or np.abs(flat - begin).max() > near or flat.min() < -1e-9:
        return None
    found = [np.maximum(p, 0.0) for p in replies.split(flat)]
    return [p / p.sum() for p in found]


class _Walk:
    """One run along a logit path, in units in which payoffs range over one."""

    def __init__(self, replies: Replies, prior: np.ndarray):
        self.replies, self.prior = replies, np.log(prior)
        self.parts = replies.parts
        self.total = self.parts[-1].stop

    def equations(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals of the logit equations at (log p, rationality), and their Jacobian."""
        logs, rationality = point[:-1], point[-1]
        chances = np.exp(logs)
        worth, slopes = self.replies.jacobian(self.replies.split(chances))
        slopes = slopes * chances
        relative = logs - self.prior
        error = np.empty(self.total)
        matrix = np.zeros((self.total, self.total + 1))
        for part in self.parts:
            first = part.start + int(logs[part].argmax())
            error[part] = (relative[part] - relative[first]) - rationality * (
                worth[part] - worth[first]
            )
            matrix[part, :-1] = -rationality * (slopes[part] - slopes[first])
            index = np.arange(part.start, part.stop)
            matrix[index, index] += 1.0
            matrix[part, first] -= 1.0
            matrix[part, -1] = -(worth[part] - worth[first])
            error[first] = chances[part].sum() - 1.0
            matrix[first] = 0.0
            matrix[first, part] = chances[part]
        return error, matrix

    def tangent(self, matrix: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the direction of the path, on the side of the last one, and its orientation.

        The orientation, the sign of a determinant, is constant along a path. A different sign means
        that a step jumped to a part of the path that leads back, or to another path.
        """
        right = np.zeros(self.total + 1)
        right[-1] = 1.0
        bordered = np.vstack([matrix, last])
        try:
            found = np.linalg.solve(bordered, right)
        except np.linalg.LinAlgError:  # a bifurcation: a shorter step passes by it
            return last, 0.0
        return found / np.linalg.norm(found), float(np.linalg.slogdet(bordered)[0])

    def correct(
        self, point: np.ndarray, along: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, int] | None:
        """Newton's method back to the path, orthogonal to `along`; None if it fails to converge."""
        last = np.inf
        for iteration in range(8):
            with np.errstate(over="ignore", invalid="ignore"):
                error, matrix = self.equations(point)
            size = float(np.abs(error).max())
            if not np.isfinite(size) or (iteration > 1 and size > last):
                return None
            scale = 1e-13 * max(1.0, np.abs(point).max())
            if size < max(1e-11, scale):
                return point, matrix, iteration
            last = size
            try:
                step = np.linalg.solve(np.vstack([matrix, along]), np.append(-error, 0.0))
            except np.linalg.LinAlgError:
                return None
            if np.abs(step).max() > 50.0 + 0.5 * np.abs(point).max():
                return None
            point = point + step
        return None


def logit_path(
    payoffs: np.ndarray,
    *,
    rationality: float = np.inf,
    tolerance: float = 1e-10,
    time_limit: float = np.inf,
    prior: Sequence[np.ndarray] | None = None,
    straight: float = 0.9,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Follow the logit path to a Nash equilibrium, or to a given `rationality`.

    `payoffs` is (N, A_1, ..., A_N). `tolerance` is a fraction of the largest payoff range. With a
    finite `rationality` the profile is the quantal response equilibrium of the path at that
    rationality, and `gain` is the largest gain of a deviation from it. If time runs out or the user
    interrupts, the profile is the best one so far. The path starts at `prior`; default: the uniform
    profile. `straight` is the smallest cosine between the directions of the path at two successive
    points.

    >>> pennies = np.array([[[1.0, -1], [-1, 1]], [[-1, 1], [1, -1]]])
    >>> path = logit_path(pennies)
    >>> [p.round(6).tolist() for p in path.profile], path.ended
    ([[0.5, 0.5], [0.5, 0.5]], 'solved')
    """
    payoffs = np.asarray(payoffs, np.float64)
    low = payoffs.min(tuple(range(1, payoffs.ndim)), keepdims=True)
    unit = float((payoffs - low).max()) or 1.0
    replies = Replies((payoffs - low) / unit)
    target = rationality * unit
    if prior is None:
        prior = [np.full(a, 1.0 / a) for a in replies.sizes]
    walk = _Walk(replies, np.concatenate(prior))
    deadline = time.monotonic() + time_limit
    found = _Best(replies, tolerance)
    ended = "interrupted"
    try:
        ended = _follow(walk, found, target, deadline, unit, progress, straight)
    except KeyboardInterrupt:
        if not found.kept:
            raise
    return Path(
        profile=tuple(found.profile),
        gain=found.gain * unit,
        rationality=np.array([k[0] for k in found.kept]) / unit,
        points=np.array([k[1] for k in found.kept]),
        ended=ended,
    )


def nash(
    payoffs: np.ndarray,
    *,
    tolerance: float = 1e-10,
    time_limit: float = np.inf,
    restarts: int = 20,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Return one equilibrium: the end of the logit path, or of another path if that gets stuck.

    The path from the uniform profile is tried first, then again with smaller steps, then paths from
    random profiles. Returns the first path that reaches an equilibrium, or the path with the
    smallest gain when time or restarts are used up.
    """
    deadline = time.monotonic() + time_limit
    chooser = np.random.default_rng(0)
    options = {"tolerance": tolerance, "progress": progress}
    best = path = logit_path(payoffs, time_limit=time_limit, **options)
    for attempt in range(restarts + 1):
        if path.ended != "stuck":
            break
        prior = [chooser.dirichlet(np.ones(a)) + 1e-3 for a in payoffs.shape[1:]]
        prior = None if attempt == 0 else [p / p.sum() for p in prior]
        straight = 0.995 if attempt == 0 else 0.9
        left = deadline - time.monotonic()
        path = logit_path(payoffs, time_limit=left, prior=prior, straight=straight, **options)
        best = path if path.gain < best.gain else best
    return replace(best, ended=path.ended)


class _Best:
    """The points visited, and the profile with the smallest gain."""

    def __init__(self, replies: Replies, tolerance: float):
        self.replies, self.tolerance = replies, tolerance
        self.profile: list[np.ndarray] = []
        self.gain = np.inf
        self.kept: list[tuple[float, np.ndarray]] = []
        self.tried: set[bytes] = set()

    def keep(self, point: np.ndarray) -> float:
        """Keep a point of the path and return its gain."""
        profile = [p / p.sum() for p in self.replies.split(np.exp(point[:-1]))]
        self.kept.append((float(point[-1]), np.concatenate(profile)))
        gain = self.replies.gain(profile)
        if gain < self.gain:
            self.profile, self.gain = profile, gain
        return gain

    def polish(self, chances: np.ndarray) -> bool:
        """Try to jump to the end of the path; return True if that is an equilibrium."""
        profile = self.replies.split(chances)
        for level in (1e-2, 1e-4, 1e-7):
            used = chances > level
            key = used.tobytes()
            if key in self.tried:
                continue
            self.tried.add(key)
            if not all(own.any() for own in self.replies.split(used)):
                continue
            found = polish(self.replies, profile, used)
            if found is None:
                continue
            gain = self.replies.gain(found)
            if gain <= max(_EXACT, 1e-2 * self.tolerance):
                self.profile, self.gain = found, gain
                return True
        return False


def _follow(
    walk: _Walk,
    found: _Best,
    target: float,
    deadline: float,
    unit: float,
    progress: Callable[[dict[str, Any]], None] | None,
    straight: float,
) -> str:
    point = np.append(walk.prior, 0.0)
    ahead = np.zeros(walk.total + 1)
    ahead[-1] = 1.0
    _, matrix = walk.equations(point)
    along, orientation = walk.tangent(matrix, ahead)
    step, nash = 0.1, not np.isfinite(target)
    gain = found.keep(point)
    if nash and gain <= _EXACT:
        return "solved"
    polished_at = 0.0
    while True:
        if time.monotonic() > deadline:
            return "time"
        corrected = walk.correct(point + step * along, along)
        following, side = along, 0.0
        if corrected is not None:
            following, side = walk.tangent(corrected[1], along)
        # Symmetric games have bifurcations, where the orientation changes on the path itself.
        crossed = side == orientation or step < _CROSSING
        if corrected is None or not crossed or following @ along < straight:
            step *= 0.5
            if step < 1e-9:
                return "stuck"
            continue
        before, (point, matrix, iterations) = point, corrected
        if point[-1] < 0.0:
            return "stuck"
        if not nash and point[-1] >= target:
            return _land(walk, found, before, point, target)
        along, orientation = following, side
        gain = found.keep(point)
        if progress is not None:
            progress({"rationality": point[-1] / unit, "gain": gain * unit, "step": step})
        if nash:
            if gain <= found.tolerance or point[-1] > _FAR:
                return "solved" if gain <= found.tolerance else "stuck"
            # Supports that were rejected far from the end are tried again when gains have halved.
            if gain < _WORTH_POLISHING:
                if gain < 0.5 * polished_at or polished_at == 0.0:
                    found.tried.clear()
                    polished_at = gain
                if found.polish(found.kept[-1][1]):
                    return "solved"
        step *= 2.0 if iterations <= 3 else 1.2 if iterations <= 4 else 0.7


def _land(walk: _Walk, found: _Best, before: np.ndarray, after: np.ndarray, target: float) -> str:
    """Newton's method at fixed rationality, from between two points of the path."""
    share = (target - before[-1]) / (after[-1] - before[-1])
    point = before + share * (after - before)
    point[-1] = target
    fixed = np.zeros(walk.total + 1)
    fixed[-1] = 1.0
    corrected = walk.correct(point, fixed)
    if corrected is None:
        return "stuck"
    found.keep(corrected[0])
    found.profile = walk.replies.split(found.kept[-1][1])
    found.gain = walk.replies.gain(found.profile)
    return "solved"
