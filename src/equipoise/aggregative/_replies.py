"""Best replies of whole agents, in any number of dimensions: a rounded plan made exact.

Three steps follow each other, each only as long as it helps:

- `approach` replaces rewards by their tangents at the current aggregate, lets agents move in that
  model until nobody wants to, and keeps as many of the moves as lower the mean regret. It takes a
  million agents near an equilibrium in a few evaluations of the rewards.
- `reply` moves agents who gain the most, at their own aggregates, one at a time or as many together
  as would still gain one after the other. In a game with a potential this ends at a pure
  equilibrium.
- `settle` tries single moves near indifference, those away from a best reply included, and keeps
  one that lowers the largest gain. It also reaches equilibria that best replies run away from.

Each returns the profile of the smallest largest gain that it has seen, so that none makes a plan
worse.
"""

import time
from dataclasses import dataclass

import numpy as np

from equipoise.aggregative._cells import Stage

#: What counts as a gain, as a part of the largest absolute reward: less may be rounding.
ROUNDING = 1e-13
#: Tangents are taken over this part of the reachable aggregates, or two agents' influence.
_STEP = 1e-5
#: Entries of the table of slopes, at most: larger games go without the model.
_MOST_SLOPES = 60_000_000
#: Rewards that `settle` may look at, in all.
_SETTLING = 30_000_000


@dataclass(frozen=True)
class Deviations:
    """What each class of agents, those of one row who play alike, gains by each action."""

    #: (classes,) rows of the stage, what they play, and how many they are.
    rows: np.ndarray
    left: np.ndarray
    counts: np.ndarray
    #: (classes, actions)
    gains: np.ndarray

    @property
    def largest(self) -> float:
        """The largest gain of anybody."""
        return max(float(self.gains.max()), 0.0)


@dataclass
class Profile:
    """Whole numbers of agents by row and action, and the largest gain there."""

    plays: np.ndarray
    gain: float


class Replies:
    """Moves of the agents of one stage, until a time on the clock of `time.perf_counter`."""

    def __init__(self, stage: Stage, until: float = np.inf, potential: bool = False):
        self.stage, self.until, self.potential = stage, until, potential
        self.plain = bool((stage.counts == 1).all())
        #: How many tables of rewards were looked at, and may be.
        self.evaluations, self.most = 0, np.inf
        size = np.abs(stage.rewards(((stage.low + stage.high) / 2)[None])).max()
        self.least = ROUNDING * max(float(size), 1e-300)

    @property
    def late(self) -> bool:
        """Whether the time is up, or all that may be looked at was."""
        return self.evaluations >= self.most or time.perf_counter() >= self.until

    def allow(self, more: int | None) -> None:
        """Allow so many more evaluations; None for as many as there is time for."""
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
            points[idle] = x  # nobody can reach it: rewards need not exist there
            values = stage.own_rewards(points)[left, rows]
        stay = np.take_along_axis(values, left[:, None], 1)
        return Deviations(rows, left, plays[rows, left], values - stay)

    def profile(self, plays: np.ndarray) -> Profile:
        """The plays with their largest gain."""
        return Profile(plays, self.deviations(plays).largest)

    def start(self, x: np.ndarray) -> np.ndarray:
        """(rows, actions): everybody plays the best action at an aggregate."""
        plays = np.zeros(self.stage.influence.shape[:2], np.int64)
        best = self.rewards(x).argmax(1)
        plays[np.arange(len(plays)), best] = self.stage.counts
        return plays

    def improve(self, plays: np.ndarray, target: float = 0.0) -> Profile:
        """All three steps; the best profile of all that were seen."""
        first = self.profile(plays)
        if first.gain <= target:
            return first
        near = self.settle(first, target)
        if near.gain <= target:
            return near
        found = self.reply(self.approach(first.plays), target)
        if found.gain > target:
            found = self.settle(found, target)
        return min(first, near, found, key=lambda one: one.gain)

    # By tangents

    def approach(self, plays: np.ndarray, rounds: int = 40) -> np.ndarray:
        """Moves by tangents of the rewards, while they lower the mean regret."""
        stage = self.stage
        if stage.influence.size > _MOST_SLOPES:
            return plays
        x = stage.aggregate(plays)
        table = self.rewards(x)
        regret = self._mean_regret(table, plays)
        for _ in range(rounds):
            if self.late or regret <= self.least:
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

    def partly(self, plays: np.ndarray, moved: np.ndarray, part: float) -> np.ndarray:
        """The plays after a part of some moves: of the rows, or of the agents of each row."""
        if part == 1.0:
            return plays + moved
        if self.plain:
            rows = np.flatnonzero(moved.any(1))
            chosen = rows[np.floor(np.arange(1, len(rows) + 1) * part) > np.floor(
                np.arange(len(rows)) * part
            )]
            trial = plays.copy()
            trial[chosen] += moved[chosen]
            return trial
        less = np.where(moved < 0, np.ceil(part * moved), 0.0).astype(np.int64)
        # What is left to give, action by action, until each row is as large as before.
        more = np.where(moved > 0, moved, 0)
        before = np.cumsum(more, 1) - more
        return plays + less + np.clip(-less.sum(1, keepdims=True) - before, 0, more)

    def _mean_regret(self, table: np.ndarray, plays: np.ndarray) -> float:
        """At the aggregate itself, nobody's own influence counted."""
        short = table.max(1, keepdims=True) - table
        return float((plays * short).sum() / self.stage.agents)

    def slopes(self, x: np.ndarray, table: np.ndarray) -> np.ndarray:
        """(rows, actions, d): differences over a small step that stays in the reachable box."""
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
        """The plays that agents end at when rewards are `table + slopes (x' - x)`."""
        stage, plays, now = self.stage, plays.copy(), x.copy()
        flat = slopes.reshape(-1, stage.dimensions)
        actions = plays.shape[1]
        least = np.inf
        for _ in range(60):
            values = table + (flat @ (now - x)).reshape(table.shape)
            best = values.argmax(1)
            top = np.take_along_axis(values, best[:, None], 1)
            rows, left = np.nonzero((plays > 0) & (top - values > self.least))
            if not len(rows) or self.late:
                break
            mean = float((plays[rows, left] * (top[rows, 0] - values[rows, left])).sum())
            if mean >= least:  # moves against each other: the caller takes a part of them
                break
            least = mean
            pairs = left * actions + best[rows]
            for pair in np.unique(pairs):
                self._move_pair(plays, now, x, table, slopes, rows[pairs == pair], divmod(pair, actions))
        return plays

    def _move_pair(self, plays, now, x, table, slopes, rows, pair) -> None:
        """Agents of some rows who gain by one and the same change of action move, best first."""
        stage, (a, b) = self.stage, pair
        tilt = slopes[rows, b] - slopes[rows, a]
        gains = table[rows, b] - table[rows, a] + tilt @ (now - x)
        kept = np.flatnonzero(gains > self.least)
        kept = kept[np.argsort(-gains[kept], kind="stable")]
        rows, tilt, gains = rows[kept], tilt[kept], gains[kept]
        if not len(rows):
            return
        counts = plays[rows, a]
        shift = stage.scale * (stage.influence[rows, b] - stage.influence[rows, a])
        whole = counts[:, None] * shift
        before = np.cumsum(whole, 0) - whole
        gains = gains + (tilt * before).sum(1)
        loss = -(tilt * shift).sum(1)  # of the next agent of the row, for each that moves
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            wanted = np.where(loss > 0, np.ceil(gains / loss), np.inf)
        wanted = np.where(gains > self.least, np.minimum(wanted, counts), 0).astype(np.int64)
        short = np.flatnonzero(wanted < counts)
        last = short[0] + 1 if len(short) else len(rows)
        rows, wanted, shift = rows[:last], wanted[:last], shift[:last]
        plays[rows, a] -= wanted
        plays[rows, b] += wanted
        now += wanted @ shift

    # By exact gains

    def reply(self, plays: np.ndarray, target: float = 0.0) -> Profile:
        """Best replies, the largest gain first, until nobody gains more than the target."""
        best, since = Profile(plays, np.inf), 0
        while True:
            found = self.deviations(plays)
            since += 1
            if found.largest < best.gain:
                best, since = Profile(plays, found.largest), 0
            # Without a potential replies may go round in circles.
            patience = 1_000_000 if self.potential else 100 + 4 * min(len(found.rows), 1000)
            if best.gain <= max(target, self.least) or self.late or since > patience:
                return best
            plays = self._block(plays, found)

    def _block(self, plays: np.ndarray, found: Deviations) -> np.ndarray:
        """The next plays: of those who gain by the same change as the one who gains the most, as
        many as each still gain when their turn comes."""
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
            """Whether the last of so many still gains when the others have moved."""
            row = rows[np.searchsorted(ends, number)]
            seen = self.deviations(moved(number - 1))
            where = (seen.rows == row) & (seen.left == a)
            return bool(seen.gains[where, b].max(initial=-np.inf) > self.least)

        low, high = 1, int(ends[-1])
        if high <= 3:
            return moved(1)
        trial = high
        while low < high and not self.late:  # `low` gain; more than `high` do not
            if gains(trial):
                low = trial
            else:
                high = trial - 1
            trial = (low + high + 1) // 2
        return moved(low)

    def settle(self, first: Profile, target: float = 0.0, rounds: int = 16) -> Profile:
        """Single moves of agents near indifference that lower the largest gain."""
        actions = self.stage.influence.shape[1]
        work = self.stage.influence.size * (1 if self.plain else actions)
        tries = 3 * actions * (actions - 1)
        best = first
        for _ in range(min(rounds, _SETTLING // (work * tries))):
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
