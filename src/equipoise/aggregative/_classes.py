"""Who plays what over a whole Markov game: agents of a type in ranks, ranks in classes.

In every step and state, the agents of a type are put to actions by rank: the first so many play
the first action, the next the second, and so on. Agents between the same thresholds everywhere
play alike, and are one class. Since the vertex of a program splits d types at most, there are at
most `types + d S H` classes, whatever the number of agents.
"""

import numpy as np

from equipoise.aggregative._grouping import Groups
from equipoise.games import AggregativePolicy


class Roster:
    """Collects what each group plays in each step and state."""

    def __init__(self, groups: Groups, horizon: int, states: int, actions: int):
        self.groups = groups
        size = np.int8 if actions < 128 else np.int16
        self.choice = np.zeros((len(groups.first), horizon, states), size)
        #: group -> [(step, state, numbers by action)] where not all its agents play alike.
        self.splits: dict[int, list[tuple[int, int, np.ndarray]]] = {}

    def assign(self, h: int, s: int, plays: np.ndarray) -> None:
        """Record (groups, actions) numbers of agents."""
        choice = plays.argmax(1)
        self.choice[:, h, s] = choice
        whole = plays[np.arange(len(plays)), choice] == self.groups.counts
        for group in np.flatnonzero(~whole):
            self.splits.setdefault(int(group), []).append((h, s, plays[group]))

    def policy(self) -> AggregativePolicy:
        """The classes; or, where agents were given one by one, the agents."""
        kinds, counts, actions = self._classes()
        if self.groups.trivial:
            return AggregativePolicy(kinds, counts, actions)
        rows = np.argsort(self.groups.group, kind="stable")
        played = np.empty((len(rows), *actions.shape[1:]), actions.dtype)
        played[rows] = np.repeat(actions, counts, axis=0)
        return AggregativePolicy(np.arange(len(rows)), np.ones(len(rows), np.int64), played)

    def _classes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        split = np.array(sorted(self.splits), np.int64)
        pure = np.ones(len(self.choice), bool)
        pure[split] = False
        kinds = [np.flatnonzero(pure)]
        counts = [self.groups.counts[pure]]
        actions = [self.choice[pure]]
        for group in split:
            ends, played = self._ranks(int(group))
            kinds.append(np.full(len(ends), group))
            counts.append(np.diff(ends, prepend=0))
            actions.append(played)
        order = np.argsort(np.concatenate(kinds), kind="stable")
        return (
            np.concatenate(kinds)[order],
            np.concatenate(counts)[order],
            np.concatenate(actions)[order],
        )

    def _ranks(self, group: int) -> tuple[np.ndarray, np.ndarray]:
        """Ranks at which the classes of one group end, and what each class plays."""
        count = int(self.groups.counts[group])
        cuts = [np.cumsum(plays) for _, _, plays in self.splits[group]]
        ends = np.unique(np.concatenate([*cuts, [count]]))
        ends = ends[ends > 0]
        starts = np.concatenate([[0], ends[:-1]])
        played = np.repeat(self.choice[group][None], len(ends), axis=0)
        for (h, s, _), cut in zip(self.splits[group], cuts, strict=True):
            played[:, h, s] = np.searchsorted(cut, starts, side="right")
        return ends, played
