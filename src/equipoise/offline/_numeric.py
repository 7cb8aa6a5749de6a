"""Numeric contexts: test whether they have only a linear effect on rewards.

If so, the effect can be removed from the rewards, and no deviation gains by observing the number.
If the number changes what actions earn or how agents play, it must be cut into categories instead.
The tests compare rows in the lower half of the numbers with those in the upper half, and rows near
the median with rows far from it.
"""

from typing import Any

import numpy as np
from scipy.stats import chi2

#: Approximate number of rows per bin, and largest number of bins.
ROWS, MOST = 400, 4
#: Probability of cutting a number that has no effect.
ALPHA = 1e-3
#: Largest number of agents for which pairs of actions are tested, and fewest rows of a mean.
AGENTS, FEWEST = 30, 5


def bins_of(
    values: np.ndarray,
    contexts: np.ndarray | None,
    actions: np.ndarray,
    rewards: np.ndarray,
    present: np.ndarray,
) -> int | None:
    """Number of bins for a numeric context; None if removing its linear effect is enough.

    `values` (times,) and `rewards` may contain NaN for missing entries. `contexts` (times,) are the
    other, categorical contexts, or None. The other arguments are (times, agents).

    >>> rng = np.random.default_rng(0)
    >>> heat, act = rng.normal(size=1_000), rng.integers(0, 2, (1_000, 2))
    >>> there, noise = np.ones(act.shape, bool), rng.normal(size=act.shape)
    >>> bins_of(heat, None, act, act + heat[:, None] + noise, there)
    >>> bins_of(heat, None, act, act * heat[:, None] + noise, there)
    2
    """
    kept = ~np.isnan(values)
    place = np.zeros(len(values), int) if contexts is None else contexts
    place, values, actions, rewards, present = (
        x[kept] for x in (place, values, actions, rewards, present)
    )
    values = values - _medians(values, place)
    apart = np.abs(values)
    halves = (values > 0.0, apart > _medians(apart, place))
    agents = actions.shape[1]
    partners = range(agents) if agents <= AGENTS else ()
    chances: tuple[list[float], list[float]] = ([], [])
    for i in np.flatnonzero(present.any(0)).tolist():
        there = present[:, i]
        for half, found in zip(halves, chances, strict=True):
            found.append(_plays(actions[there, i], half[there]))
            known = there & ~np.isnan(rewards[:, i])
            found.append(_earns(actions[known, i], rewards[known, i], values[known], half[known]))
            for j in partners:
                both = known & present[:, j]
                if j != i and both.any():
                    code = actions[both, i] * (actions.max() + 1) + actions[both, j]
                    found.append(_earns(code, rewards[both, i], values[both], half[both]))
    count = sum(map(len, chances))
    near, far = (min(found, default=1.0) * count <= ALPHA for found in chances)
    # Two bins cannot separate values near the median from values far from it.
    return MOST if far else int(np.clip(len(values) // ROWS, 2, MOST)) if near else None


def _medians(values: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(times,): median of the values in the same context."""
    found = np.empty_like(values)
    for c in np.unique(place):
        found[place == c] = np.median(values[place == c])
    return found


def _plays(actions: np.ndarray, half: np.ndarray) -> float:
    """P-value of the difference between the actions of the two halves."""
    counts = np.stack(
        [np.bincount(actions[half == h], minlength=actions.max() + 1) for h in (0, 1)]
    )
    counts = counts[:, counts.sum(0) >= 2 * FEWEST]
    if counts.shape[1] < 2 or not counts.sum(1).all():
        return 1.0
    usual = np.outer(counts.sum(1), counts.sum(0)) / counts.sum()
    return float(chi2.sf(((counts - usual) ** 2 / usual).sum(), counts.shape[1] - 1))


def _earns(code: np.ndarray, rewards: Any, values: np.ndarray, half: np.ndarray) -> float:
    """P-value of differences between actions in the effect of the half on rewards.

    The linear effect is removed first; any remainder is the same for all actions.
    """
    cells = int(code.max()) + 1
    count = np.bincount(code, minlength=cells)
    centred = [
        x - (np.bincount(code, x, cells) / np.maximum(count, 1))[code] for x in (rewards, values)
    ]
    slope = centred[0] @ centred[1] / max(float(centred[1] @ centred[1]), 1e-300)
    left = centred[0] - slope * centred[1]
    both = code * 2 + half
    rows, total, square = (
        np.bincount(both, w, 2 * cells).reshape(cells, 2)
        for w in (np.ones_like(left), left, left**2)
    )
    known = rows.min(1) >= FEWEST
    rows, total, square = rows[known], total[known], square[known]
    if len(rows) < 2:
        return 1.0
    mean = total / rows
    rounding = 1e-20 * float(np.square(rewards).mean()) + 1e-300
    noise = np.maximum(square / rows - mean**2, rounding) / (rows - 1)
    gap, weight = mean[:, 1] - mean[:, 0], 1.0 / noise.sum(1)
    usual = (weight * gap).sum() / weight.sum()
    statistic = float((weight * (gap - usual) ** 2).sum())
    # Variances from few rows are imprecise, so the statistic is reduced if there are few.
    return float(chi2.sf(statistic * (1.0 - 4.0 / rows.sum(1).min()), len(rows) - 1))


def without(
    rewards: np.ndarray,
    features: np.ndarray,
    contexts: np.ndarray | None,
    actions: np.ndarray,
    present: np.ndarray,
) -> np.ndarray:
    """Rewards minus the linear effect of the features, within contexts and own actions.

    Every number is an action of its own if actions are continuous; the effect is then that within
    contexts, next to a polynomial of the own action.
    """
    coded = np.zeros(len(rewards), np.int64) if contexts is None else contexts
    found, counted = rewards.copy(), actions.dtype.kind in "iu"
    for i in range(rewards.shape[1]):
        rows = np.flatnonzero(present[:, i])
        own, x = actions[rows, i], features[rows]
        code = coded[rows] * (actions.max() + 1) + own if counted else coded[rows]
        cell = np.unique(code, return_inverse=True)[1]
        count = np.maximum(np.bincount(cell), 1)[:, None]
        more = () if counted else (own**power for power in (1, 2, 3))
        inside, centred = (
            v - (np.stack([np.bincount(cell, c) for c in v.T], 1) / count)[cell]
            for v in (np.column_stack([x, *more]), rewards[rows, i : i + 1])
        )
        slope = np.linalg.lstsq(inside, centred, rcond=None)[0]
        found[rows, i] -= (x @ slope[: x.shape[1]])[:, 0]
    return found
