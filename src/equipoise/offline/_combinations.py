"""Find combinations of an agent's own move and others' moves that a log hardly shows.

If agents rarely play some action, a log shows each of them playing it, but hardly ever two of them
at once. The reward of such a combination is the fitted model's extrapolation, and no standard error
over rows measures its error. We therefore compute the probability of combinations that the log
hardly shows: pairs of moves for rewards that are sums of pairs, triples for sums of triples,
aggregates outside the range seen, and joint moves if rewards have no structure. A combination that
the log's own play leads to as often as a policy does not count, since its error is known.

Held-out rows choose the class of rewards, but say nothing about terms that show in no row. Pairs
and triples outside the class therefore count too, if agents avoid them and the log shows none. So
do crowds: if at most three of twenty agents ever took a road, no row says how long it takes when
all do. If agents try their actions about equally often, large crowds are rare because there are
many agents, not because agents avoid them. We then trust the class up to crowds at which rewards
visibly depart from it.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtr

from equipoise.offline._aggregate import Aggregate
from equipoise.offline._coverage import count_moves, over_known, sizes_of
from equipoise.offline._log import Log

#: Fewest rows of a combination for its reward to count as known if the class has a term for it,
#: and for a term to become visible if the class has none.
TOGETHER, ALONE = 5, 2
#: A combination is avoided if it is this many times rarer than under uniform play.
AVOIDED = 4.0
#: How far aggregates may be beyond those that were seen, at most, as a part of their range.
FARTHER = 0.5
#: Standard errors by which rewards at the edge have to differ from the model to count as changed,
#: and the rewards of agents from which on that is asked.
CHANGED, ASKED = 5.0, 10
#: Residuals below this part of the rewards' standard deviation count as zero.
EXACT = 1e-3
#: Largest number of values for counting crowds exactly and for computing all pairs at once.
LARGEST = 1e7
#: Largest number of rows times combinations that are counted within the class, and of products
#: for combinations outside it.
WORK, PRODUCTS = 5e8, 5e10


class Shown:
    """Combinations of own and others' moves that a log shows, for a class of rewards.

    `order` is the interaction rank of the rewards, or None for joint rewards and for aggregates,
    which `terms` describe. `sets` are the neighbours of each agent.
    """

    def __init__(self, log: Log, sets: Sequence[Sequence[int]], order: int | None, terms: Any):
        self.size = (*sizes_of(log), log.agents)
        self.where, self.moves = log.situations, log.moves
        #: (rows, agents): rows that show what an agent earns.
        self.known = np.ones((1, 1), bool) if log.recorded is None else log.recorded
        self.terms, self.crowds = terms if isinstance(terms, Aggregate) else None, None
        #: By agent and size of the group of others: the groups, and a mask of rare combinations
        #: (situations, own moves, joint moves of the group).
        self.rare: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        self.actions, self.each = max(log.actions_per_agent), np.array(log.actions_per_agent)
        local = log.states is not None and not log.absences
        alone = count_moves(self.where, self.moves.T, *sizes_of(log))
        self.alone = alone / np.maximum(alone.sum(-1, keepdims=True), 1)
        if self.terms is not None:
            self.beyond, self.unseen = self._beyond(self.terms)
            return
        if log.agents >= 3 and order is not None and not local:
            left = np.zeros(self.moves.shape)
            if terms is not None:
                rewards = np.asarray(log.rewards, np.float64)
                left = rewards - terms.rewards(self.where, self.moves)
                # Residuals of rewards without noise are rounding, which tells nothing.
                noisy = over_known(np.std, left) > EXACT * over_known(np.std, rewards)
                left = np.where(noisy & self.known, left, 0.0)
            self.crowds = self._crowds(left)
        #: (agents,): smallest probability of a move that was made.
        self.least = np.where(alone > 0, self.alone, 1.0).min((0, 2))
        counted = 0
        for i, group in self._groups(sets, order):
            counted += max(log.samples, 1_000)
            if counted > WORK:
                break
            count = self._count((i, *group))
            if (count < TOGETHER).any():
                self._add(i, np.array([group]), count[None] < TOGETHER)
        width = 0 if order is None else min(order - 1, 2)
        if order is not None:
            self._outside_pairs(sets if width else [()] * log.agents)
            self._outside_triples(sets if width > 1 else [()] * log.agents)

    def _add(self, i: int, groups: np.ndarray, rare: np.ndarray) -> None:
        """Store rare combinations: (groups, situations, own moves, joint moves of the group)."""
        before = self.rare.get((i, groups.shape[1]))
        if before is not None:
            groups = np.concatenate([before[0], groups])
            rare = np.concatenate([before[1], rare])
        self.rare[i, groups.shape[1]] = groups, rare

    def _groups(
        self, sets: Sequence[Sequence[int]], order: int | None
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield agents and the groups of others for which the class has a term."""
        everybody = range(self.size[2])
        width = len(everybody) - 1 if order is None else min(order - 1, 2)
        for i in everybody if width else ():
            if sets[i]:
                for group in combinations(sorted(sets[i]), min(width, len(sets[i]))):
                    yield i, group

    def _outside_pairs(self, sets: Sequence[Sequence[int]]) -> None:
        """Add pairs that agents avoid, for which the class has no term, and that have no rows."""
        situations, moves, _ = self.size
        limit = 1.0 / (AVOIDED * moves**2)
        if np.sort(self.least)[:2].prod() >= limit or self._work() > PRODUCTS:
            return
        for s in range(situations):
            count = self._together(self.where == s, self.known)
            usual = self.alone[s, :, None, :, None] * self.alone[s, None, :, None]
            rare = (count < ALONE) & (usual < limit)
            for i in np.flatnonzero(rare.any((1, 2, 3))).tolist():
                rare[i, [i, *sets[i]]] = False
                others = np.flatnonzero(rare[i].any((1, 2)))
                if len(others):
                    found = np.zeros((len(others), situations, moves, moves), bool)
                    found[:, s] = rare[i, others]
                    self._add(i, others[:, None], found)

    def _outside_triples(self, sets: Sequence[Sequence[int]]) -> None:
        """Add such triples if the log does not show most of the triples that an agent avoids."""
        situations, moves, agents = self.size
        limit = 1.0 / (AVOIDED * moves**3)
        if (
            agents < 3
            or np.sort(self.least)[:3].prod() >= limit
            or self._work() * agents > PRODUCTS
        ):
            return
        first, second = np.triu_indices(agents, 1)
        for i in range(agents):
            inside = np.isin(first, list(sets[i])) & np.isin(second, list(sets[i]))
            few = self.least[first] * self.least[second] * self.least[i] < limit
            at = np.flatnonzero((first != i) & (second != i) & ~inside & few)
            if not len(at):
                continue
            j, k = first[at], second[at]
            found = np.zeros((len(at), situations, moves, moves**2), bool)
            for s in range(situations):
                pair = self.alone[s, j][:, :, None] * self.alone[s, k][:, None]
                for u in range(moves):
                    avoided = (pair * self.alone[s, i, u] < limit).reshape(len(at), -1)
                    if not avoided.any():
                        continue
                    rows = (self.where == s) & (self.moves[:, i] == u)
                    count = self._together(rows & self.known[:, i % self.known.shape[1]])[j, k]
                    rare = avoided & (count.reshape(len(at), -1) < ALONE)
                    if rare.sum() > avoided.sum() / 2:
                        found[:, s, u] = rare
            some = found.any((1, 2, 3))
            if some.any():
                self._add(i, np.stack([j, k], 1)[some], found[some])

    def _work(self) -> float:
        """Number of multiplications to count all pairs."""
        return len(self.where) * (self.size[2] * self.size[1]) ** 2

    def _together(self, rows: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
        """(agents, agents, moves, moves): number of the given rows in which two moves meet.

        With `known`, rows count for the first agent only if its reward is recorded.
        """
        _, moves, agents = self.size
        found, every = np.zeros((agents * moves, agents * moves)), self.moves[rows]
        known = None if known is None or len(known) == 1 else known[rows]
        for at in range(0, len(every), 10_000):
            one = (every[at : at + 10_000, :, None] == np.arange(moves)).astype(np.float32)
            own = one if known is None else one * known[at : at + 10_000, :, None]
            found += own.reshape(len(one), -1).T @ one.reshape(len(one), -1)
        return found.reshape(agents, moves, agents, moves).swapaxes(1, 2)

    def _count(self, agents: tuple[int, ...]) -> np.ndarray:
        """(situations, moves of the first, joint moves of the others): number of rows."""
        situations, moves, _ = self.size
        code = self.where
        for j in agents:
            code = code * moves + self.moves[:, j]
        code = code if len(self.known) == 1 else code[self.known[:, agents[0]]]
        count = np.bincount(code, minlength=situations * moves ** len(agents))
        return count.reshape(situations, moves, -1)

    def _shares(self, a: int) -> np.ndarray:
        """(2, situations): how often others and an action are played, relative to alike."""
        usual = self.alone[..., : self.actions]  # of agents who are there
        usual = usual / np.maximum(usual.sum(-1, keepdims=True), 1e-300)
        able = self.each > max(a, 1)
        if not able.any():
            return np.ones((2, len(usual)))
        even, share = 1.0 / self.each[able], usual[:, able, a]
        share = np.stack([(1.0 - share) / (1.0 - even), share / even])
        return np.minimum(share, 1.0).mean(-1)

    def _beyond(self, terms: Aggregate) -> tuple[np.ndarray, np.ndarray]:
        """(situations, agents, own moves, cells): aggregates too far from those that were seen.

        Then all that were not seen.
        """
        situations, moves, agents = self.size
        axes = np.stack(np.unravel_index(np.arange(int(np.prod(terms.grid))), terms.grid))
        cells = terms.cells(self.moves)
        found = np.ones((2, situations, agents, moves, axes.shape[1]), bool)
        share = np.min([self._shares(a)[1] for a in range(self.actions)], 0)
        farther = np.minimum(_farther(share), FARTHER)
        for i in range(agents):
            room = self.where * moves + self.moves[:, i]
            room = np.where(self.known[:, i % self.known.shape[1]], room, -1)
            order = np.argsort(room, kind="stable")
            starts = np.searchsorted(room[order], np.arange(situations * moves + 1))
            for at in np.flatnonzero(np.diff(starts) >= TOGETHER).tolist():
                rows = order[starts[at] : starts[at + 1]]
                seen = np.sort(axes[:, cells[rows, i]], 1)
                low, high = seen[:, TOGETHER - 1, None], seen[:, -TOGETHER, None]
                low, high = np.minimum(low, high), np.maximum(low, high)
                for which, part in enumerate((farther[at // moves], 0.0)):
                    more = part * (high - low)
                    outside = ((axes < low - more) | (axes > high + more)).any(0)
                    found[which, at // moves, i, at % moves] = outside
        return found[0], found[1]

    def _crowds(self, left: np.ndarray) -> np.ndarray:
        """(2, 2, situations, agents, own moves, actions): range of the number of others per action.

        First the range up to which the class is trusted, then the range that was seen. `left`
        (rows, agents) are the residuals of the model.
        """
        situations, moves, agents = self.size
        found = np.zeros((2, 2, situations, agents, moves, self.actions))
        found[:, 1] = agents
        noise = over_known(np.std, np.where(self.known, left, np.nan))
        scaled = left / np.maximum(noise, 1e-300)
        for a in range(self.actions):
            plays, known = self.moves == a, np.broadcast_to(self.known, left.shape)
            others = plays.sum(1, keepdims=True) - plays
            farther = _farther(self._shares(a))[..., None].repeat(moves, 2)
            played = np.where(known, self.moves, -1)
            ends = [_edge(agents - 1 - others, scaled, played, moves, agents)]
            ends.append(_edge(others, scaled, played, moves, agents))
            for i in range(agents):
                code = (self.where * moves + self.moves[:, i]) * agents + others[:, i]
                count = np.bincount(code[known[:, i]], minlength=situations * moves * agents)
                count = count.reshape(-1, agents)
                below, above = np.cumsum(count, 1), np.cumsum(count[:, ::-1], 1)[:, ::-1]
                enough = count.sum(1) >= 2 * TOGETHER
                low = (below >= TOGETHER).argmax(1)
                high = agents - 1 - (above >= TOGETHER)[:, ::-1].argmax(1)
                room = farther.reshape(2, -1) * np.maximum(high - low, 1)
                for which, more in enumerate((room, np.zeros_like(room))):
                    limits = np.where(enough, [low - more[0], high + more[1]], [[0], [agents]])
                    found[which, :, :, i, :, a] = limits.reshape(2, situations, moves)
            found[:, 0, ..., a] = np.maximum(found[:, 0, ..., a], agents - 1 - ends[0])
            found[:, 1, ..., a] = np.minimum(found[:, 1, ..., a], ends[1])
        return found

    def _crowded(self, occupied: np.ndarray) -> np.ndarray:
        """(2, situations, agents, own moves): probabilities of crowds.

        First of crowds too far from those in the log, then of crowds that the log does not show.
        """
        assert self.crowds is not None
        situations, moves, agents = self.size
        found = np.zeros((2, len(occupied), situations, agents, moves))
        exact = occupied[..., 0].size * agents <= LARGEST
        for a in range(self.actions):
            low, high = self.crowds[..., a].swapaxes(0, 1)  # for both limits
            if exact:
                plays = tuple((int(move == a),) for move in range(moves))
                chances = Aggregate(np.zeros((1, 1, 1, 1)), plays, (agents,)).chances(occupied)
                count = np.arange(agents)
                beyond = (count > high[..., None]) | (count < low[..., None])
                beyond = np.einsum("tsnc,lsnuc->ltsnu", chances, beyond)
            else:  # large counts are nearly normal
                chance = occupied[..., a]
                mean, each = chance.sum(-1, keepdims=True) - chance, chance * (1.0 - chance)
                spread = np.sqrt(np.maximum(each.sum(-1, keepdims=True) - each, 1e-12))[..., None]
                most = ndtr((mean[..., None] - np.floor(high)[:, None] - 0.5) / spread)
                beyond = most + ndtr((np.ceil(low)[:, None] - 0.5 - mean[..., None]) / spread)
            found = np.maximum(found, beyond)
        return found.mean(1)

    def farther(self, occupied: np.ndarray, played: np.ndarray) -> np.ndarray:
        """(situations, agents, own moves): probability of crowds that the log does not show.

        As `missing`, but for crowds close to those in the log or equivalent for the class.
        """
        if self.terms is not None:
            return self._aggregates(occupied, played, self.unseen)
        if self.crowds is None:
            return np.zeros((self.size[0], self.size[2], self.size[1]))
        return np.maximum(self._crowded(occupied)[1] - self._crowded(played[None])[1], 0.0)

    def _aggregates(
        self, occupied: np.ndarray, played: np.ndarray, outside: np.ndarray
    ) -> np.ndarray:
        """(situations, agents, own moves): how much likelier than in the log some cells are."""
        assert self.terms is not None
        found = np.mean([self.terms.chances(one) for one in occupied], 0)
        more = np.maximum(found - self.terms.chances(played), 0.0)
        return np.minimum(np.einsum("snc,snuc->snu", more, outside), 1.0)

    def missing(self, occupied: np.ndarray, played: np.ndarray) -> np.ndarray:
        """(situations, agents, own moves): probability of combinations the log hardly shows.

        `occupied` (components, situations, agents, moves) are the probabilities of moves under
        policies with equal weights, and `played` (situations, agents, moves) those in the log.
        """
        situations, moves, agents = self.size
        if self.terms is not None:
            return self._aggregates(occupied, played, self.beyond)
        kept, found = np.ones((situations, agents, moves)), np.zeros((situations, agents, moves))
        pairs = None
        for (i, size), (groups, rare) in self.rare.items():
            if size == 2 and situations * (agents * moves) ** 2 <= LARGEST:
                if pairs is None:
                    pairs = np.maximum(_pairs(occupied) - _pairs(played[None]), 0.0)
                more = pairs[:, groups[:, 0], groups[:, 1]]
            else:
                each = groups.tolist()
                more = np.stack([_joint(occupied, g) - _joint(played[None], g) for g in each], 1)
            chance = np.einsum("gsuc,sgc->gsu", rare, np.maximum(more, 0.0))
            chance = np.minimum(chance, 1.0)
            if size == 1:
                kept[:, i] *= (1.0 - chance).prod(0)
            else:  # groups overlap: one rare group makes many rare
                found[:, i] = np.maximum(found[:, i], chance.max(0))
        if self.crowds is not None:
            more = self._crowded(occupied)[0] - self._crowded(played[None])[0]
            found = np.maximum(found, more)
        return np.maximum(1.0 - kept, found)


def _farther(share: np.ndarray) -> np.ndarray:
    """Distance beyond the range seen up to which crowds are trusted, as a fraction of this range.

    `share` is the frequency of the action relative to uniform play, at most one. If agents avoid
    the action, the result is zero; if they do not, the class of rewards is trusted far beyond.

    >>> _farther(np.array([0.2, 0.6, 0.8, 1.0])).round(1).tolist()
    [0.0, 0.0, 0.9, 370.0]
    """
    least = AVOIDED ** (-1 / 3)
    return np.maximum(share - least, 0.0) / np.maximum(1.0 - share, 1e-3)


def _edge(
    others: np.ndarray, scaled: np.ndarray, played: np.ndarray, moves: int, agents: int
) -> np.ndarray:
    """(own moves,): largest number of others up to which rewards agree with the model.

    `others` (rows, agents) is the number of others that play an action, and `scaled` are scaled
    residuals. Rewards within a row may be correlated, so the test counts rows.
    """
    found = np.full(moves, agents)
    for own in range(moves):
        mine = played == own
        rows = np.flatnonzero(mine.any(1))
        if not len(rows):
            continue
        mine = mine[rows]
        count = mine.sum(1)
        many = np.where(mine, others[rows], 0).max(1)  # equal for all who made this move
        told = np.where(mine, scaled[rows], 0.0).sum(1) / np.sqrt(count)
        spread = np.sqrt(max(float((told**2).mean()), 1e-300))
        sums = np.bincount(many, told, agents)[::-1].cumsum()[::-1]
        seen = np.bincount(many, minlength=agents)[::-1].cumsum()[::-1]
        asked = np.bincount(many, count, agents)[::-1].cumsum()[::-1] >= ASKED
        asked &= seen < len(rows) / 2  # an edge
        apart = np.where(asked, np.abs(sums) / np.sqrt(np.maximum(seen, 1)) / spread, 0.0)
        if apart.max() > CHANGED:
            found[own] = apart.argmax() - 1
    return found


def _pairs(occupied: np.ndarray) -> np.ndarray:
    """(situations, agents, agents, joint moves): mean probabilities of pairs over components."""
    count, situations, agents, moves = occupied.shape
    flat = occupied.transpose(1, 0, 2, 3).reshape(situations, count, agents * moves)
    found = flat.swapaxes(1, 2) @ flat / count
    found = found.reshape(situations, agents, moves, agents, moves).swapaxes(2, 3)
    return found.reshape(situations, agents, agents, moves * moves)


def _joint(occupied: np.ndarray, group: Sequence[int]) -> np.ndarray:
    """(situations, joint moves): mean probabilities of a group's moves over components."""
    found = occupied[:, :, group[0]]
    for j in group[1:]:
        found = (found[..., None] * occupied[:, :, j, None]).reshape(*found.shape[:2], -1)
    return found.mean(0)
