"""Best-reply dynamics of whole agents, in any number of dimensions, that make a rounded plan exact.

There are three steps, each taken only while it helps:

- `approach` replaces rewards by their tangents at the current aggregate, lets agents move in that
  model until nobody wants to, and keeps as many of the moves as lower the mean regret. It brings a
  million agents near an equilibrium in a few evaluations of the rewards.
- `reply` moves the agents with the largest gains, each at its own aggregate: one at a time, or as
  many together as would still gain one after the other. In a game with a potential this ends at a
  pure equilibrium. Where profiles recur it ends as well.
- `settle` tries single moves near indifference, including moves away from a best response, and
  keeps a move that lowers the largest gain. It also reaches equilibria that best-reply dynamics
  move away from.

Each step returns the profile with the smallest maximum gain that it has seen, so none makes a plan
worse.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equipoise.aggregative._cells import Stage
from equipoise.aggregative._structure import has_potential, row_max
from equipoise.core.deadline import Deadline

#: Smallest gain that counts, relative to the largest absolute reward: less may be rounding.
ROUNDING = 1e-13
#: Tangents are taken over this fraction of the reachable aggregates, or two agents' influence.
_STEP = 1e-5
#: Largest number of entries in the table of slopes: larger games do not use the model.
_MOST_SLOPES = 60_000_000
#: Agents in a sample that is moved before all are, in games with many more agents.
_SAMPLE = 4_000
#: Largest number of moves after the best profile, in a game with a potential.
_PATIENCE = 100_000
#: Largest number of rewards that `settle` evaluates in total.
_SETTLING = 30_000_000


@dataclass(frozen=True)
class Deviations:
    """Gains from each action for each class, the agents of one row who play the same action."""

    #: (classes,) rows of the stage, the actions played, and the numbers of agents.
    rows: np.ndarray
    left: np.ndarray
    counts: np.ndarray
    #: (classes, actions)
    gains: np.ndarray

    @property
    def largest(self) -> float:
        """The largest gain of any agent."""
        return max(float(self.gains.max()), 0.0)


@dataclass
class Profile:
    """Whole numbers of agents by row and action, and the largest gain of the profile."""

    plays: np.ndarray
    gain: float


class Replies:
    """Moves of the agents of one stage, until a deadline."""

    def __init__(
        self,
        stage: Stage,
        deadline: Deadline | None = None,
        potential: bool | None = None,
        progress: Callable[[dict[str, Any]], None] | None = None,
    ):
        self.stage, self._potential = stage, potential
        self.deadline = deadline or Deadline()
        self._progress, self._told = progress, time.perf_counter()
        self.plain = bool((stage.counts == 1).all())
        #: Number of tables of rewards evaluated so far, and its limit.
        self.evaluations, self.most = 0, np.inf
        size = np.abs(stage.rewards(((stage.low + stage.high) / 2)[None])).max()
        self.least = ROUNDING * max(float(size), 1e-300)

    @property
    def potential(self) -> bool:
        """Whether the game has a potential, declared or detected, so that the dynamics must end."""
        if self._potential is None:
            self._potential = has_potential(self.stage)
        return self._potential

    @property
    def late(self) -> bool:
        """Whether the time or the number of evaluations is used up."""
        return self.evaluations >= self.most or self.deadline.over()

    @property
    def work(self) -> int:
        """Number of rewards in one evaluation of all gains."""
        size = self.stage.influence.size
        return max(size if self.plain else size * self.stage.influence.shape[1], 1)

    def tell(self, **found: Any) -> None:
        """Report the progress of a search, once a second."""
        now = time.perf_counter()
        if self._progress is not None and now - self._told >= 1.0:
            self._told = now
            self._progress(found)

    def allow(self, more: int | None) -> None:
        """Allow this many more evaluations; None for as many as time permits."""
        self.most = np.inf if more is None else self.evaluations + more

    def rewards(self, x: np.ndarray) -> np.ndarray:
        """(rows, actions) at one aggregate."""
        self.evaluations += 1
        return self.stage.rewards(x[None])[0]

    def deviations(self, plays: np.ndarray) -> Deviations:
        """Exact gains, each deviation at the aggregate that it would cause."""
        stage, x = self.stage, self.stage.aggregate(plays)
        self.evaluations += 1
        if self.plain:
            rows, left = np.arange(len(plays)), plays.argmax(1)
            own = stage.influence[rows, left]
            values = stage.own_rewards(x + stage.scale * (stage.influence - own[:, None]))
        else:
            rows, left = np.nonzero(plays)
            influence = stage.influence
            points = x + stage.scale * (influence - np.swapaxes(influence, 0, 1)[:, :, None])
            idle = plays.T == 0
            points[idle] = x  # unreachable aggregates: rewards need not exist there
            values = stage.own_rewards(points)[left, rows]
        stay = np.take_along_axis(values, left[:, None], 1)
        return Deviations(rows, left, plays[rows, left], values - stay)

    def profile(self, plays: np.ndarray) -> Profile:
        """The plays with their largest gain."""
        return Profile(plays, self.deviations(plays).largest)

    def gains(self, plays: np.ndarray) -> np.ndarray:
        """(profiles, types, actions) -> (profiles,): the largest gain in each of many profiles."""
        stage, actions = self.stage, np.arange(plays.shape[2])
        x = np.stack([stage.aggregate(one) for one in plays])
        influence = stage.influence
        shift = stage.scale * (influence - np.swapaxes(influence, 0, 1)[:, :, None])
        idle = np.swapaxes(plays, 1, 2) == 0
        points = x[:, None, None, None] + np.where(idle[..., None, None], 0.0, shift)
        self.evaluations += len(plays)
        values = stage.own_rewards(points.reshape(-1, *influence.shape)).reshape(points.shape[:-1])
        stay = values[:, actions, :, actions].transpose(1, 0, 2)
        gains = values.max(3) - stay
        return np.where(idle, 0.0, gains).max((1, 2), initial=0.0)

    def start(self, x: np.ndarray) -> np.ndarray:
        """(rows, actions): every agent plays its best action at an aggregate."""
        plays = np.zeros(self.stage.influence.shape[:2], np.int64)
        best = self.rewards(x).argmax(1)
        plays[np.arange(len(plays)), best] = self.stage.counts
        return plays

    def middle(self) -> np.ndarray:
        """(rows, actions): best responses to the aggregate of the uniform policy."""
        stage = self.stage
        mean = stage.counts.astype(np.float64) @ stage.influence.mean(1)
        return self.start(stage.scale * mean)

    def improve(self, plays: np.ndarray, target: float = 0.0) -> Profile:
        """Take all three steps and return the best profile seen."""
        first = self.profile(plays)
        if first.gain <= target:
            return first
        near = first
        if first.gain <= self._close:  # perhaps one that best-reply dynamics would leave
            near = self.settle(first, target)
            if near.gain <= target:
                return near
        found = self.reply(self.approach(first.plays), target)
        if found.gain > target:
            found = self.settle(found, target)
        return min(first, near, found, key=lambda one: one.gain)

    @property
    def _close(self) -> float:
        """Largest gain that rounding a few agents can cause."""
        return 2.0 * (self.stage.dimensions + 2) * self.stage.lipschitz * self.stage.delta

    # Steps with tangents

    def approach(self, plays: np.ndarray, rounds: int = 40) -> np.ndarray:
        """Move agents by tangents of the rewards, while that lowers the mean regret."""
        stage = self.stage
        if stage.influence.size > _MOST_SLOPES:
            return plays
        if self.plain and len(plays) > 2 * _SAMPLE:
            plays = self._from_sample(plays)
        x = stage.aggregate(plays)
        table = self.rewards(x)
        regret = self._mean_regret(table, plays)
        enough = max(self.least, 1e-4 * stage.lipschitz * stage.delta)
        for _ in range(rounds):
            if self.late or regret <= enough:
                break
            wanted = self._model(plays, x, table, self.slopes(x, table))
            moved = wanted - plays
            if not moved.any():
                break
            for part in 0.5 ** np.arange(8):
                trial = self.partly(plays, moved, float(part))
                at = stage.aggregate(trial)
                values = self.rewards(at)
                found = self._mean_regret(values, trial)
                if found < regret:
                    break
            else:
                break
            slow = found > 0.98 * regret
            plays, x, table, regret = trial, at, values, found
            if slow:
                break
        return plays

    def _from_sample(self, plays: np.ndarray) -> np.ndarray:
        """Best responses of all agents to the aggregate at which a sample of them ends."""
        stage = self.stage
        rows = np.arange(0, len(plays), len(plays) // _SAMPLE)
        few = replace(
            stage,
            influence=stage.influence[rows],
            counts=np.ones(len(rows), np.int64),
            scale=stage.scale * len(plays) / len(rows),
            delta=stage.delta * len(plays) / len(rows),
            rewards=lambda points: stage.rewards(points)[:, rows],
            own=None,
            slopes=None,
        )
        sample = Replies(few, self.deadline)
        found = self.start(few.aggregate(sample.approach(plays[rows])))
        tables = [self.rewards(stage.aggregate(one)) for one in (plays, found)]
        regrets = [self._mean_regret(*one) for one in zip(tables, (plays, found), strict=True)]
        return found if regrets[1] < regrets[0] else plays

    def partly(self, plays: np.ndarray, moved: np.ndarray, part: float) -> np.ndarray:
        """Make a fraction of some moves: of the rows, or of the agents of each row."""
        if part == 1.0:
            return plays + moved
        if self.plain:
            rows = np.flatnonzero(moved.any(1))
            chosen = rows[
                np.floor(np.arange(1, len(rows) + 1) * part) > np.floor(np.arange(len(rows)) * part)
            ]
            trial = plays.copy()
            trial[chosen] += moved[chosen]
            return trial
        less = np.where(moved < 0, np.ceil(part * moved), 0.0).astype(np.int64)
        # Distribute the remainder, action by action, until each row has its size again.
        more = np.where(moved > 0, moved, 0)
        before = np.cumsum(more, 1) - more
        return plays + less + np.clip(-less.sum(1, keepdims=True) - before, 0, more)

    def _mean_regret(self, table: np.ndarray, plays: np.ndarray) -> float:
        """Mean regret at the aggregate itself, without the agents' own influence."""
        short = row_max(table)[:, None] - table
        return float((plays * short).sum() / self.stage.agents)

    def slopes(self, x: np.ndarray, table: np.ndarray) -> np.ndarray:
        """(rows, actions, d): finite differences over a small step inside the reachable box."""
        stage = self.stage
        slopes = np.zeros(stage.influence.shape)
        for k, width in enumerate(stage.high - stage.low):
            if width <= 0:
                continue
            step = min(max(_STEP * width, 2.0 * stage.delta), 0.5 * width)
            step = step if x[k] + step <= stage.high[k] else -step
            moved = x.copy()
            moved[k] += step
            slopes[:, :, k] = (self.rewards(moved) - table) / step
        return slopes

    def _model(
        self, plays: np.ndarray, x: np.ndarray, table: np.ndarray, slopes: np.ndarray
    ) -> np.ndarray:
        """The plays at which agents end when rewards are `table + slopes (x' - x)`.

        Most agents are far from indifferent, and are considered only after the others are done.
        """
        plays, now = plays.copy(), x.copy()
        flat = slopes.reshape(-1, len(x))
        first = None
        for _ in range(6):
            values = table + (flat @ (now - x)).reshape(table.shape)
            top = row_max(values)
            regret = row_max(np.where(plays > 0, top[:, None] - values, 0.0))
            worst = float(regret.max())
            first = worst if first is None else first
            if worst <= max(self.least, 1e-3 * first) or self.late:
                break
            rows = np.arange(len(plays))
            if self.plain and len(rows) > _SAMPLE:
                second = np.partition(values, -2, axis=1)[:, -2]
                near = np.where(regret > 0, 0.0, top - second)
                rows = np.flatnonzero(near <= 2.0 * worst)
            part = (plays[rows], now, x, table[rows], slopes[rows], self.stage.influence[rows])
            plays[rows], now = self._cycle(*part)
        return plays

    def _cycle(self, plays, now, x, table, slopes, influence) -> tuple[np.ndarray, np.ndarray]:
        """Move some rows, one change of action after the other, while the mean regret falls."""
        flat, actions = slopes.reshape(-1, len(x)), plays.shape[1]
        kept, least, since = (plays, now), np.inf, 0
        first = None
        for _ in range(100):
            values = table + (flat @ (now - x)).reshape(table.shape)
            best = values.argmax(1)
            top = np.take_along_axis(values, best[:, None], 1)
            rows, left = np.nonzero((plays > 0) & (top - values > self.least))
            mean = float((plays[rows, left] * (top[rows, 0] - values[rows, left])).sum())
            first = mean if first is None else first
            since += 1
            if mean < least:
                kept, least, since = (plays.copy(), now.copy()), mean, 0
            if least <= 1e-3 * first or self.late or since > 8:
                break
            pairs = left * actions + best[rows]
            for pair in np.unique(pairs):
                chosen = rows[pairs == pair]
                a, b = divmod(int(pair), actions)
                tilt = slopes[chosen, b] - slopes[chosen, a]
                gains = table[chosen, b] - table[chosen, a] + tilt @ (now - x)
                shift = self.stage.scale * (influence[chosen, b] - influence[chosen, a])
                now = now + self._move_pair(plays, a, b, chosen, gains, tilt, shift)
        return kept

    def _move_pair(self, plays, a, b, rows, gains, tilt, shift) -> np.ndarray:
        """Move agents of some rows who gain by the same change of action, the best first.

        Each still gains when its turn comes. Returns the resulting move of the aggregate.
        """
        kept = np.flatnonzero(gains > self.least)
        kept = kept[np.argsort(-gains[kept], kind="stable")]
        rows, gains, tilt, shift = rows[kept], gains[kept], tilt[kept], shift[kept]
        counts = plays[rows, a]
        whole = counts[:, None] * shift
        gains = gains + (tilt * (np.cumsum(whole, 0) - whole)).sum(1)
        loss = -(tilt * shift).sum(1)  # of the row's next agent, for each agent that moves
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            wanted = np.where(loss > 0, np.ceil(gains / loss), np.inf)
        wanted = np.where(gains > self.least, np.minimum(wanted, counts), 0).astype(np.int64)
        short = np.flatnonzero(wanted < counts)
        last = short[0] + 1 if len(short) else len(rows)
        plays[rows[:last], a] -= wanted[:last]
        plays[rows[:last], b] += wanted[:last]
        return wanted[:last] @ shift[:last]

    # Steps with exact gains

    def reply(
        self,
        plays: np.ndarray,
        target: float = 0.0,
        block: float = np.inf,
        left: Callable[[np.ndarray], bool] = lambda _: False,
    ) -> Profile:
        """Best-reply dynamics, the largest gain first, until nobody gains more than the target.

        At most `block` agents move at a time. Where `left` is true of the plays, they are returned.
        The next plays depend on the plays alone, so that the dynamics end where plays recur. They
        are compared with one earlier profile, the last of 2^k moves (Brent 1980).
        """
        best, since, moves, earlier = Profile(plays, np.inf), 0, 0, plays
        while True:
            found = self.deviations(plays)
            since += 1
            if found.largest < best.gain:
                best, since = Profile(plays, found.largest), 0
            if best.gain <= max(target, self.least) or self.late:
                return best
            self.tell(gain=best.gain)
            # Without a potential the dynamics may cycle.
            few = 100 + 2 * min(len(found.rows), 500)
            if since > few and (since > max(few, _PATIENCE) or not self.potential):
                return best
            plays, moves = self._block(plays, found, block), moves + 1
            if np.array_equal(plays, earlier):
                return best
            earlier = plays if moves & (moves - 1) == 0 else earlier
            if left(plays):
                return Profile(plays, np.inf)

    def _block(self, plays: np.ndarray, found: Deviations, most: float) -> np.ndarray:
        """The next plays: among the agents who gain by the same change as the one with the largest
        gain, move as many as still gain when their turn comes."""
        worst, b = np.unravel_index(int(found.gains.argmax()), found.gains.shape)
        a = found.left[worst]
        alike = np.flatnonzero((found.left == a) & (found.gains[:, b] > self.least))
        alike = alike[np.argsort(-found.gains[alike, b], kind="stable")]
        rows, ends = found.rows[alike], np.cumsum(found.counts[alike])

        def moved(number: int) -> np.ndarray:
            taken = np.clip(number - (ends - found.counts[alike]), 0, found.counts[alike])
            after = plays.copy()
            after[rows, a] -= taken
            after[rows, b] += taken
            return after

        def gains(number: int) -> bool:
            """Whether the last of this many agents still gains after the others have moved."""
            row = rows[np.searchsorted(ends, number)]
            seen = self.deviations(moved(number - 1))
            where = (seen.rows == row) & (seen.left == a)
            return bool(seen.gains[where, b].max(initial=-np.inf) > self.least)

        low, high = 1, int(min(ends[-1], most))
        if high <= 3:
            return moved(1)
        trial = high
        while low < high and not self.late:  # `low` agents gain; more than `high` do not
            if gains(trial):
                low = trial
            else:
                high = trial - 1
            trial = (low + high + 1) // 2
        return moved(low)

    def settle(self, first: Profile, target: float = 0.0, rounds: int = 6) -> Profile:
        """Make single moves of agents near indifference that lower the largest gain."""
        actions = self.stage.influence.shape[1]
        tries = 3 * actions * (actions - 1)
        best = first
        for _ in range(min(rounds, _SETTLING // max(self.work * tries, 1))):
            if best.gain <= max(target, self.least) or self.late:
                break
            found, before = self.deviations(best.plays), best
            for k, b in self._nearest(found):
                plays = before.plays.copy()
                plays[found.rows[k], found.left[k]] -= 1
                plays[found.rows[k], b] += 1
                trial = self.profile(plays)
                best = trial if trial.gain < best.gain else best
            if best is before:
                break
        return best

    def _nearest(self, found: Deviations) -> list[tuple[int, int]]:
        """For each change of action, the three classes that gain most, or lose least, by it."""
        moves = []
        for a in np.unique(found.left):
            classes = np.flatnonzero(found.left == a)
            for b in range(found.gains.shape[1]):
                gains = -found.gains[classes, b]
                if b != a:
                    few = np.argpartition(gains, 2)[:3] if len(gains) > 3 else slice(None)
                    moves += [(int(k), b) for k in classes[few]]
        return moves
