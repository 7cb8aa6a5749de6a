"""Identical agents, found and grouped: the planner then works with types."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Groups:
    """Which rows of a game are alike."""

    #: (groups,) a row of each group.
    first: np.ndarray
    #: (rows,) the group of each row.
    group: np.ndarray
    #: (groups,) how many agents are in each.
    counts: np.ndarray

    @property
    def trivial(self) -> bool:
        """Whether every row is alone."""
        return len(self.first) == len(self.group)


def alone(counts: np.ndarray) -> Groups:
    """Every row is its own group."""
    rows = np.arange(len(counts))
    return Groups(rows, rows, counts)


def group_rows(counts: np.ndarray, facts: Iterable[Callable[[], np.ndarray]]) -> Groups:
    """Group the rows that agree in all `facts`, arrays of one row each, asked for one by one.

    Facts are influences, and rewards at some aggregates: agents that agree in them could still
    differ elsewhere. The plan would be poorer for it; the certificate, which never groups, would
    say so. Asking ends as soon as all rows differ.

    >>> groups = group_rows(np.ones(3, int), [lambda: np.array([[1.0], [2.0], [1.0]])])
    >>> groups.group.tolist(), groups.counts.tolist()
    ([0, 1, 0], [2, 1])
    """
    rows = len(counts)
    rng = np.random.default_rng(99)
    marks = np.zeros(rows, np.uint64)
    for fact in facts:
        values = fact().reshape(rows, -1) + 0.0  # plus zero: -0.0 and 0.0 are alike
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
