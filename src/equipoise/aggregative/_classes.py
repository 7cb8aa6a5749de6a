"""Assignment of actions over a whole Markov game: agents of a type by rank, ranks in classes.

In every step and state, the agents of a type are assigned to actions by rank: the first ones play
the first action, the next ones the second, and so on. Agents between the same thresholds in all
steps and states play alike and form one class. Since the vertex of a program splits at most d
types, there are at most `types + d S H` classes, whatever the number of agents.

Identical agents are grouped first, and the planner then works with types.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.games import AggregativePolicy


@dataclass(frozen=True)
class Groups:
    """Groups of identical rows of a game."""

    #: (groups,) one row of each group.
    first: np.ndarray
    #: (rows,) the group of each row.
    group: np.ndarray
    #: (groups,) number of agents in each group.
    counts: np.ndarray

    @property
    def trivial(self) -> bool:
        """Whether every group is a single row."""
        return len(self.first) == len(self.group)


def alone(counts: np.ndarray) -> Groups:
    """Make every row its own group."""
    rows = np.arange(len(counts))
    return Groups(rows, rows, counts)


def places_of(game: Any) -> list[tuple[int, ...]]:
    """Steps and states of a Markov game; for a normal form, a single empty tuple."""
    return list(np.ndindex(game.horizon, game.states)) if hasattr(game, "horizon") else [()]


def group_agents(game: Any, worth: np.ndarray | None = None) -> Groups:
    """Group agents given one by one that are identical everywhere; declared types are kept."""
    if game.types < 2 or (game.counts != 1).any():
        return alone(game.counts)

    def rows_first(array: np.ndarray) -> np.ndarray:
        return array if array.ndim < 4 else np.moveaxis(array, 2, 0)

    facts = [lambda: rows_first(game.influence)]
    facts += [] if worth is None else [lambda: rows_first(worth)]
    for place in places_of(game):
        low, high = game.box(*place) if place else game.box
        for share in (0.0, 0.61) if place else (0.0, 1.0, 0.37, 0.61):
            x = low + share * (high - low)
            facts.append(lambda place=place, x=x: game.rewards(*place, x))
    return group_rows(game.counts, facts)


def group_rows(counts: np.ndarray, facts: Iterable[Callable[[], np.ndarray]]) -> Groups:
    """Group the rows that agree in all `facts`, arrays with one row each, evaluated one by one.

    Facts are influences, and rewards at some aggregates. Agents that agree in them could still
    differ elsewhere. The plan would then be worse, and the certificate, which never groups agents,
    would show it. Evaluation ends as soon as all rows differ.

    >>> groups = group_rows(np.ones(3, int), [lambda: np.array([[1.0], [2.0], [1.0]])])
    >>> groups.group.tolist(), groups.counts.tolist()
    ([0, 1, 0], [2, 1])
    """
    rows = len(counts)
    rng = np.random.default_rng(99)
    marks = np.zeros(rows, np.uint64)
    for fact in facts:
        values = fact().reshape(rows, -1) + 0.0  # adding zero makes -0.0 and 0.0 equal
        bits = np.ascontiguousarray(values).view(np.uint64)
        for column in range(bits.shape[1]):
            marks = (marks ^ (bits[:, column] >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
            odd = np.uint64(int(rng.integers(1, 2**62)) * 2 + 1)
            marks = (marks ^ (marks >> np.uint64(31))) + bits[:, column] * odd
        if len(np.unique(marks)) == rows:
            return alone(counts)
    _, first, group = np.unique(marks, return_index=True, return_inverse=True)
    order = np.argsort(first)  # groups in the order in which they appear
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    group = rank[group]
    sums = np.bincount(group, weights=counts).astype(np.int64)
    return Groups(first[order], group, sums)


class Roster:
    """The actions of each group in each step and state."""

    def __init__(self, groups: Groups, horizon: int, states: int, actions: int):
        self.groups = groups
        size = np.int8 if actions < 128 else np.int16
        self.choice = np.zeros((len(groups.first), horizon, states), size)
        #: group -> [(step, state, numbers by action)] where its agents play different actions.
        self.splits: dict[int, list[tuple[int, int, np.ndarray]]] = {}

    def assign(self, h: int, s: int, plays: np.ndarray) -> None:
        """Record (groups, actions) numbers of agents."""
        choice = plays.argmax(1)
        self.choice[:, h, s] = choice
        whole = plays[np.arange(len(plays)), choice] == self.groups.counts
        for group in np.flatnonzero(~whole):
            self.splits.setdefault(int(group), []).append((h, s, plays[group]))

    def policy(self) -> AggregativePolicy:
        """Return the policy by classes or, if agents were given one by one, by agents."""
        pure = np.ones(len(self.choice), bool)
        pure[list(self.splits)] = False
        parts = [(np.flatnonzero(pure), self.groups.counts[pure], self.choice[pure])]
        for group in self.splits:
            ends, played = self._ranks(group)
            parts.append((np.full(len(ends), group), np.diff(ends, prepend=0), played))
        kinds, counts, actions = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(kinds, kind="stable")
        counts, actions = counts[order], actions[order]
        if self.groups.trivial:
            return AggregativePolicy(kinds[order], counts, actions)
        rows = np.argsort(self.groups.group, kind="stable")
        played = np.empty((len(rows), *actions.shape[1:]), actions.dtype)
        played[rows] = np.repeat(actions, counts, axis=0)
        return AggregativePolicy(np.arange(len(rows)), np.ones(len(rows), np.int64), played)

    def _ranks(self, group: int) -> tuple[np.ndarray, np.ndarray]:
        """Ranks at which the classes of one group end, and the actions of each class."""
        count = int(self.groups.counts[group])
        cuts = [np.cumsum(plays) for _, _, plays in self.splits[group]]
        ends = np.unique(np.concatenate([*cuts, [count]]))
        ends = ends[ends > 0]
        starts = np.concatenate([[0], ends[:-1]])
        played = np.repeat(self.choice[group][None], len(ends), axis=0)
        for (h, s, _), cut in zip(self.splits[group], cuts, strict=True):
            played[:, h, s] = np.searchsorted(cut, starts, side="right")
        return ends, played


def policy_of(groups: Groups, plays: np.ndarray) -> AggregativePolicy:
    """Policy with these numbers of agents, (groups, actions), possibly by step and state."""
    every = plays[None, None] if plays.ndim == 2 else plays
    horizon, states, _, actions = every.shape
    roster = Roster(groups, horizon, states, actions)
    for h, s in np.ndindex(horizon, states):
        roster.assign(h, s, every[h, s])
    return one_stage(roster.policy()) if plays.ndim == 2 else roster.policy()


def one_stage(policy: AggregativePolicy) -> AggregativePolicy:
    """Convert the policy of a single step and state to that of a game in normal form."""
    return AggregativePolicy(policy.rows, policy.counts, policy.actions[:, 0, 0].astype(np.int64))
