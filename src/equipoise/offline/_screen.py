"""Whose moves matter to an agent at all: neighbour sets given, or screened from the log.

A dense design has a term for every pair; in a sparse network most of them only fit noise. Under
a product behaviour policy the mean reward of agent i given its own move and that of agent j alone
shows their term and nothing of anybody else's, so that every pair can be tested by itself. Pairs
are all that is tested: a neighbour who matters only jointly with a third agent, and on average
over what that agent does not at all, is screened out.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import chi2

#: Rows that screening looks at, at most.
SCREENING_ROWS = 50_000


def neighbour_sets(given: Any, agents: int, pieces: Any) -> list[tuple[int, ...]]:
    """Neighbours of each agent: everybody (None), given, the k strongest, or screened.

    `pieces` is a function that returns (situations, moves, rewards, sizes) of some rows.
    """
    if given is None or (isinstance(given, str) and given == "all"):
        return [tuple(j for j in range(agents) if j != i) for i in range(agents)]
    if isinstance(given, str):
        if given != "screen":
            raise ValueError(
                "neighbours: expected 'all', 'screen', a count, or a list for each agent; "
                f"found {given!r}"
            )
        return _significant(pair_statistics(*pieces())[0])
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        if not 1 <= given < agents:
            raise ValueError(
                f"neighbours: expected a count from 1 to {agents - 1}, found {given}; for terms "
                "without neighbours, ask for rank 1"
            )
        statistics = pair_statistics(*pieces())[1]
        order = np.argsort(-statistics, axis=1, kind="stable")[:, :given]
        return [tuple(sorted(int(j) for j in row)) for row in order]
    return _given(given, agents)


def pair_statistics(
    situations: np.ndarray, moves: np.ndarray, rewards: np.ndarray, sizes: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """(agents, agents) p-values, and the statistics they come from, of every pair's term."""
    situations, moves, rewards = (x[:SCREENING_ROWS] for x in (situations, moves, rewards))
    count, agents = sizes[1], moves.shape[1]
    statistics, degrees = np.zeros((2, agents, agents))
    variance = np.zeros(agents)
    for s in range(sizes[0]):
        rows = situations == s
        if not rows.any():
            continue
        hot = (moves[rows][:, :, None] == np.arange(count)).astype(np.float32)
        hot = hot.reshape(len(hot), -1)
        reward = np.asarray(rewards[rows], np.float32)
        owns = hot.sum(0).reshape(agents, count)
        own_sums = (hot * np.repeat(reward, count, 1)).sum(0).reshape(agents, count)
        means = own_sums / np.maximum(owns, 1)
        left = reward - np.take_along_axis(means, moves[rows].T.astype(np.intp), 1).T
        variance += (left**2).sum(0)
        # Rows (own agent, own move), columns (other agent, its move).
        weighted = (hot * np.repeat(left, count, 1)).T
        both = (hot.T @ hot).reshape(agents, count, agents, count)
        sums = (weighted @ hot).reshape(agents, count, agents, count)
        statistics += np.where(both > 0, sums**2 / np.maximum(both, 1), 0.0).sum((1, 3))
        met = (both > 0).sum(3)
        degrees += np.maximum(met - 1, 0).sum(1)
    variance /= max(len(moves), 1)
    statistics /= np.maximum(variance, 1e-30)[:, None]
    np.fill_diagonal(statistics, 0.0)
    p_values = chi2.sf(statistics, np.maximum(degrees, 1))
    np.fill_diagonal(p_values, 1.0)
    return p_values, statistics


def _significant(p_values: np.ndarray, rate: float = 0.05) -> list[tuple[int, ...]]:
    """Pairs found at a false discovery rate of 5% (Benjamini and Hochberg)."""
    agents = len(p_values)
    pairs = ~np.eye(agents, dtype=bool)
    ordered = np.sort(p_values[pairs])
    below = ordered <= rate * np.arange(1, len(ordered) + 1) / max(len(ordered), 1)
    threshold = ordered[np.flatnonzero(below)[-1]] if below.any() else -1.0
    return [
        tuple(int(j) for j in np.flatnonzero(pairs[i] & (p_values[i] <= threshold)))
        for i in range(agents)
    ]


def _given(given: Any, agents: int) -> list[tuple[int, ...]]:
    if isinstance(given, np.ndarray) and given.dtype == bool:
        if given.shape != (agents, agents):
            raise ValueError(
                f"neighbours: expected a matrix of shape {(agents, agents)}, found {given.shape}"
            )
        return [tuple(int(j) for j in np.flatnonzero(row) if j != i) for i, row in enumerate(given)]
    if not isinstance(given, Sequence | np.ndarray) or len(given) != agents:
        raise ValueError(
            "neighbours: expected 'all', 'screen', a count, or a list for each of "
            f"{agents} agents; found {given!r}"
        )
    sets = [tuple(sorted({int(j) for j in own})) for own in given]
    for i, own in enumerate(sets):
        wrong = [j for j in own if j == i or not 0 <= j < agents]
        if wrong:
            raise ValueError(
                f"neighbours[{i}]: expected other agents from 0 to {agents - 1}, found {wrong[0]}"
            )
    return sets
