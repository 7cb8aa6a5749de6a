"""Find interacting pairs and triples of agents by testing each of them, without a fit.

Functions of each agent's move are made orthonormal under the log's play. Agents play independently,
so products of such functions are orthonormal too, and the coefficient of a pair or triple is the
mean of the reward times the product. The squares of these means, each divided by its variance, add
up to a chi-squared statistic. A triple is found even if none of its pairs has an effect on its own.

In a small log all pairs and triples are tested; in a large log only those among neighbours that a
test of pairs has found. The false discovery rate is 0.1% (Benjamini and Hochberg).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.stats import chi2, false_discovery_control

from equipoise.offline._coverage import known_rows, sizes_of
from equipoise.offline._log import Log

#: Moves with fewer rows than this are merged into one. Situations with fewer than twice as many
#: rows are skipped.
FEWEST = 20
#: Largest number of agents for which all triples are tested, and largest number of
#: multiplications.
EVERYBODY, WORK = 40, 1e10
#: False discovery rate, and the largest numbers of pairs and of triples listed.
FALSE, LISTED = 1e-3, 50


def interacting(log: Log, neighbours: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """List the strongest pairs and triples: `reward_of`, `with`, `strength`, `p_value`.

    The strength is the standard deviation of their contribution to the reward.
    """
    moves = sizes_of(log)[1]
    everybody = log.agents <= EVERYBODY
    sets = [
        [j for j in (range(log.agents) if everybody else own) if j != i]
        for i, own in enumerate(neighbours)
    ]
    widest = max(map(len, sets), default=0) * (moves - 1)
    rows = int(WORK / max(2.0 * log.agents * moves * widest**2, 1.0))
    log = log.take(slice(max(rows, 1_000)))
    found: dict[tuple[int, ...], np.ndarray] = {}
    for where, share in _situations(log):
        features = [_orthonormal(own) for own in log.moves[where].T]
        rewards = np.asarray(log.rewards[where], np.float64)
        for i, own in enumerate(sets):
            known, used = known_rows(rewards[:, i]), features
            if not isinstance(known, slice):
                used = [_orthonormal(moved) for moved in log.moves[where][known].T]
            for group, numbers in _tested(rewards[known, i], used[i], used, own):
                add = np.array([*numbers[:2], numbers[2] * share])
                found[i, *group] = found.get((i, *group), 0.0) + add
    listed = []
    for size in (2, 3):
        keys = [key for key in found if len(key) == size and found[key][1] > 0]
        if not keys:
            continue
        numbers = np.array([found[key] for key in keys])
        chance = chi2.sf(numbers[:, 0], numbers[:, 1])
        told = np.flatnonzero(false_discovery_control(chance) <= FALSE)
        order = told[np.argsort(-numbers[told, 2], kind="stable")][:LISTED]
        listed += [
            {
                "reward_of": keys[k][0],
                "with": list(keys[k][1:]),
                "strength": float(np.sqrt(max(numbers[k, 2], 0.0))),
                "p_value": float(chance[k]),
            }
            for k in order
        ]
    return listed


def _situations(log: Log) -> Iterator[tuple[np.ndarray, float]]:
    """Rows of each situation with enough rows, and their fraction of all rows."""
    found, code = np.unique(log.situations, return_inverse=True)
    order, ends = np.argsort(code, kind="stable"), np.cumsum(np.bincount(code))
    for at in range(len(found)):
        rows = order[ends[at - 1] if at else 0 : ends[at]]
        if len(rows) >= 2 * FEWEST:
            yield rows, len(rows) / log.samples


def _orthonormal(moves: np.ndarray) -> np.ndarray:
    """(rows, functions): uncorrelated functions of a move with mean zero and variance one."""
    kinds, code = np.unique(moves, return_inverse=True)
    often = np.bincount(code) >= FEWEST
    code = np.where(often, np.arange(len(kinds)), len(kinds))[code]
    hot = (code[:, None] == np.unique(code)).astype(np.float64)
    hot -= hot.mean(0)
    sizes, axes = np.linalg.eigh(hot.T @ hot / len(hot))
    kept = sizes > 1e-9
    return hot @ (axes[:, kept] / np.sqrt(sizes[kept]))


def _tested(
    reward: np.ndarray, mine: np.ndarray, features: list[np.ndarray], others: list[int]
) -> Iterator[tuple[tuple[int, ...], tuple[float, float, float]]]:
    """Yield one or two others with their test statistic, degrees of freedom, explained variance."""
    rows = len(reward)
    own = np.concatenate([np.ones((rows, 1)), mine], 1)
    left = reward - own @ (own.T @ reward / rows)
    whose = np.repeat(np.arange(len(others)), [features[j].shape[1] for j in others])
    if not len(whose) or not left.any():
        return
    wide = np.concatenate([features[j] for j in others], 1)
    square, owner = wide**2, np.eye(len(others))[whose]
    pairs, triples = np.zeros((2, len(others))), np.zeros((2, len(others), len(others)))
    for weight in (left[:, None] * own).T:
        heavy = weight[:, None] ** 2
        both = _numbers(weight @ wide, (heavy * square).sum(0), rows)
        pairs += both @ owner
        both = _numbers(wide.T @ (weight[:, None] * wide), square.T @ (heavy * square), rows)
        triples += owner.T @ both @ owner
    many = owner.sum(0)
    for at, j in enumerate(others):
        yield (j,), (pairs[0, at], own.shape[1] * many[at], pairs[1, at])
        for b in range(at + 1, len(others)):
            free = own.shape[1] * many[at] * many[b]
            yield (j, others[b]), (triples[0, at, b], free, triples[1, at, b])


def _numbers(sums: np.ndarray, squares: np.ndarray, rows: int) -> np.ndarray:
    """Squared means divided by their variances, and squared means minus their variances."""
    noise = squares / rows**2
    return np.stack([sums**2 / np.maximum(squares, 1e-300), (sums / rows) ** 2 - noise])
