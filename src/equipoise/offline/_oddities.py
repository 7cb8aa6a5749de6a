"""What a reader of a table should look at: cells out of scale, totals, and columns left unused.

Nothing is changed here. A column that the log does not use is named if it explains rewards, since
it may be a context; if it also goes with the actions of an agent whose rewards it explains, effects
of actions cannot be told from its effects, and the log is refused (`Log.confounders`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import norm

from equipoise.offline._columns import is_missing, ordered

#: Beginning of the note about what a table shows beside its log.
LOOK = "look at this: "
#: A cell is out of scale if it is this many times farther from the median than the others are on
#: average, and this many times farther than the farthest of the others.
SCALE, APART = 1_000.0, 100.0
#: Largest number of cells of an agent that are out of scale together.
CELLS = 3
#: Fraction of times at which totals equal the sum of the others, and relative rounding of a total.
TOTALS, ROUNDED = 0.9, 0.005
#: Unused columns that are tested: their largest number, and that of their values and of agents.
#: Values with fewer rows than the last number are not tested.
COLUMNS, VALUES, AGENTS, FEWEST = 20, 24, 100, 10
#: Largest number of multiplications, which limits the number of rows, and the fewest rows.
WORK, ROWS = 5e8, 500
#: Probability that a column is named although it has no effect, and that a log is refused for one.
NAMED, REFUSED = 1e-4, 1e-6
#: Numbers with more values than allowed are cut into this many quantiles.
QUANTILES = 4
#: Largest distance of rows whose correlation is taken into account.
LAGS = 50


def huge_rewards(
    rewards: np.ndarray, agents: Sequence[str], times: Sequence[str] | None = None
) -> list[str]:
    """Name cells of (rows, agents) rewards that are a thousand times the others of their agent.

    >>> rewards = np.array([[1.0, 2, 3, 2, 1, 3, 2, 1e6, 2, 1]]).T
    >>> huge_rewards(rewards, ["Ada"])
    ['the reward 1e+06 of Ada in row 7 is 1,799,996 times as far from the median as the others']
    """
    told = []
    for i, own in enumerate(np.asarray(rewards, np.float64).T):
        known = np.flatnonzero(~np.isnan(own))
        if len(known) <= 2 * CELLS:
            continue
        apart = np.abs(own[known] - np.median(own[known]))
        order = np.argpartition(apart, -CELLS - 1)[-CELLS - 1 :]
        order = order[np.argsort(-apart[order])]
        total = float(apart.sum())
        for count in range(CELLS, 0, -1):
            usual = (total - apart[order[:count]].sum()) / (len(known) - count)
            least, following = apart[order[count - 1]], apart[order[count]]
            if usual > 0 and least >= max(SCALE * usual, APART * following):
                for k in order[:count]:
                    row = int(known[k])
                    where = f"in row {row}" if times is None else f"at {times[row]}"
                    told.append(
                        f"the reward {own[row]:g} of {agents[i]} {where} is {apart[k] / usual:,.0f}"
                        " times as far from the median as the others"
                    )
                break
    return told


def totals(rewards: np.ndarray, agents: Sequence[str]) -> list[str]:
    """Name agents whose rewards are the sum of the others' at nearly all of their times.

    An agent with a single reward may be a total over all times. Rewards are NaN where there are
    none.
    """
    if len(agents) < 3:
        return []
    told, known = [], ~np.isnan(rewards)
    sums = np.nansum(rewards, 1)
    for i, name in enumerate(agents):
        own = rewards[known[:, i], i]
        others = sums[known[:, i]] - own
        if len(own) == 1:
            others = np.array([sums.sum() - own.sum()])
        alike = (np.abs(own - others) <= ROUNDED * np.abs(own)) & (own != 0)
        if alike.sum() >= max(TOTALS * len(own), 1) and len(own) in (1, *range(3, len(sums) + 1)):
            told.append(f"the rewards of {name} are the sum of the others': a line of totals?")
    return told


def forgotten(
    table: Mapping[str, np.ndarray],
    unused: Sequence[str],
    first: np.ndarray,
    row: np.ndarray,
    contexts: np.ndarray | None,
    actions: np.ndarray,
    rewards: np.ndarray,
    agents: Sequence[str],
) -> tuple[list[str], list[str]]:
    """Name unused columns that explain rewards, and those that refuse the log, with what to do.

    `first` and `row` are rows of the table by time, and by time and agent (-1: none). Other arrays
    are by time; `actions` are -1 and `rewards` NaN where there are none.
    """
    named, refused = list[str](), list[str]()
    if len(agents) > AGENTS:
        return named, refused
    place = np.zeros(len(first), np.int64) if contexts is None else contexts
    codes = ((name, _shared(table[name], first, row)) for name in unused)
    shared = [(name, code) for name, code in codes if code is not None][:COLUMNS]
    values = sum(int(code.max() + 1) for _, code in shared) * len(agents)
    most = max(int(WORK / max(values * LAGS, 1)), ROWS)
    rows = np.unique(np.linspace(0, len(first) - 1, min(len(first), most)).round().astype(int))
    for name, code in shared:
        code, here, moves, earned = (x[rows] for x in (code, place, actions, rewards))
        count = values * max(int(actions.max()), 1)
        tested = [_tested(code, here, moves[:, i], earned[:, i], count) for i in range(len(agents))]
        explained = np.array([share if chance <= NAMED else 0.0 for share, chance, _ in tested])
        moved = [max(chance, play) <= REFUSED for _, chance, play in tested]
        if not explained.any():
            continue
        who = agents[int(np.argmax(explained))]
        told = f"{name} explains {explained.max():.0%} of what is left of {who}'s rewards"
        if any(moved):
            who = agents[moved.index(True)]
            refused.append(
                f"{told} and goes with the actions of {who}; pass context={name!r} (--context), or "
                "remove the column if it is a result of what agents do"
            )
        else:
            named.append(f"{told} and is not used; pass context={name!r} (--context)")
    return named, refused


def _shared(values: np.ndarray, first: np.ndarray, row: np.ndarray) -> np.ndarray | None:
    """(times,): code of a column that is the same for all agents; None if it is no context.

    Numbers that only rise or fall say what time it is.
    """
    if is_missing(values).all():
        return None
    names, codes = ordered(values)
    codes = np.where(codes < 0, len(names), codes)
    here = codes[first]
    if (codes[np.where(row >= 0, row, first[:, None])] != here[:, None]).any():
        return None
    if values.dtype.kind == "f" and len(names) > VALUES:
        own = values[first]
        steps = np.diff(own[~np.isnan(own)])
        if (steps >= 0).all() or (steps <= 0).all():
            return None
        edges = np.nanquantile(own, np.linspace(0, 1, QUANTILES + 1)[1:-1])
        here = np.where(np.isnan(own), QUANTILES, np.searchsorted(edges, own, side="right"))
    here = np.unique(here, return_inverse=True)[1]
    return here if 2 <= here.max() + 1 <= VALUES + 1 else None


def _tested(
    code: np.ndarray, place: np.ndarray, action: np.ndarray, reward: np.ndarray, count: int
) -> tuple[float, float, float]:
    """Share of an agent's rewards that a column explains, its p-value, and that of its actions.

    Both are given contexts, and that of rewards given the own action as well. P-values are those
    of `count` tests together.
    """
    known = (action >= 0) & ~np.isnan(reward)
    if known.sum() < 4 * LAGS:
        return 0.0, 1.0, 1.0
    hot = (code[known][:, None] == np.unique(code[known])).astype(np.float64)
    acts = (action[known][:, None] == np.unique(action[known])).astype(np.float64)
    hot = hot[:, hot.sum(0) >= FEWEST]
    if hot.shape[1] < 2:
        return 0.0, 1.0, 1.0
    cell = place[known] * (action.max() + 1) + action[known]
    left = _centred(reward[known][:, None], cell)
    effect, score = _scores(_centred(hot, cell), left)
    share = float((effect * left[:, 0]).sum() / max(float((left**2).sum()), 1e-300))
    hot, acts = _centred(hot, place[known]), _centred(acts, place[known])
    play = max(_scores(hot, own[:, None])[1] for own in acts.T)
    chances = [min(2.0 * float(norm.sf(z)) * count, 1.0) for z in (score, play)]
    return min(max(share, 0.0), 1.0), chances[0], chances[1]


def _centred(columns: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Columns minus their means in each cell."""
    code = np.unique(cell, return_inverse=True)[1]
    rows = np.bincount(code)
    means = np.stack([np.bincount(code, own) for own in columns.T], 1) / rows[:, None]
    return columns - means[code]


def _scores(columns: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, float]:
    """Regression of a target on columns, and the largest score of a column in standard errors.

    If both are correlated over rows, the variance of their product is the sum over lags of the
    products of their autocovariances (Bartlett 1935).
    """
    fitted = columns @ np.linalg.lstsq(columns, target[:, 0], rcond=None)[0]
    own, others = (_autocovariances(x) for x in (target - fitted[:, None], columns))
    variance = own[0] * others[0] + 2.0 * np.maximum((own[1:] * others[1:]).sum(0), 0.0)
    kept = variance > 1e-12 * max(float(variance.max()), 1e-300)
    if not kept.any():
        return fitted, 0.0
    sums = np.abs(columns.T @ target[:, 0])[kept]
    return fitted, float((sums / np.sqrt(variance[kept] * len(target))).max())


def _autocovariances(columns: np.ndarray) -> Any:
    """(lags, columns): covariances of rows with those up to `LAGS` before."""
    rows = len(columns)
    lags = range(LAGS + 1)
    return np.stack([(columns[lag:] * columns[: rows - lag]).sum(0) / rows for lag in lags])
