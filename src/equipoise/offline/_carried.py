"""Tests whether rewards depend on what was done in the row before.

Bounds compare actions of the same row. If today's low price takes customers from tomorrow, or if
rivals answer it a week later, an action that pays in its own row may lose in the long run, and no
test of single rows shows this. Residuals of each agent's rewards are therefore compared with every
agent's move of the row before, alone and together with the agent's own move.

What changes slowly over the rows, the moves of the same row, the situation and the agent's own last
residuals are taken out first, so that neither habits nor lasting noise look like an effect.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from equipoise.offline._coverage import sizes_of
from equipoise.offline._log import Log
from equipoise.offline._scores import FEWEST, LEVEL, ROWS, STRONGEST, WORK, Residuals

#: Smallest fraction of the variance of an agent's reward that counts.
SMALL = 1e-3
#: Situations are taken out if there are at most this many.
SITUATIONS = 30
#: Rows before whose residuals are taken out.
LAST = 2


class Carried(NamedTuple):
    """An effect of an action on rewards of the next row."""

    agent: int
    #: Whose action of the row before counts; None if it is that of all others together.
    other: int | None
    score: float
    #: Fraction of the variance of the agent's reward that it explains.
    share: float


def carried(log: Log, terms: object) -> list[Carried]:
    """Effects of the last row's actions on rewards, the largest first; `terms` are of the model."""
    if log.episodes is not None or log.horizon > 1 or log.samples < 4 * FEWEST:
        return []
    # A sample of distant rows has no neighbours.
    data = Residuals(
        log.take(slice(log.samples - ROWS, None)) if log.samples > ROWS else log, terms
    )
    agents = [i for i in range(log.agents) if data.left[:, i].any()]
    if not len(data.owner) or 2.0 * data.wide.size * len(data.owner) > WORK:
        return []
    slow = np.linalg.qr(np.column_stack([np.ones(len(data.waves)), data.waves])[1:])[0]
    past = np.asarray(data.wide[:-1], np.float64)
    past -= slow @ (slow.T @ past)
    number = np.concatenate([np.arange((data.owner == i).sum()) for i in range(log.agents)])
    sums = np.stack([past[:, number == k].sum(1) for k in range(int(number.max()) + 1)], 1)
    found, tried = list[tuple[float, Carried]](), 0
    for i in agents:
        mine = data.owner == i
        others = sums.copy()
        others[:, number[mine]] -= past[:, mine]
        columns = np.concatenate([past, others], 1)
        tried += columns.shape[1] * (1 + int(mine.sum()))
        found += _of(data, i, columns, len(past[0]))
    kept = [one for chance, one in found if chance * tried < LEVEL and one.share > SMALL]
    return sorted(kept, key=lambda one: -one.share)


def _of(data: Residuals, i: int, past: np.ndarray, single: int) -> Iterator[tuple[float, Carried]]:
    """Yield p-values of the strongest effects on an agent.

    The first `single` columns of `past` are of single agents, the others of all others together.
    """
    left, own = data.left[1:, i], np.asarray(data.of(i)[1:], np.float64)
    squares = past**2
    for weight in (np.ones(len(left)), *own.T):
        scores = left * weight
        z = scores @ past / np.sqrt(np.maximum(scores**2 @ squares, 1e-30))
        for k in np.argsort(-np.abs(z))[:STRONGEST]:
            if abs(z[k]) < 3.0:
                break
            other = int(data.owner[k]) if k < single else None
            effect = _alone(data, i, weight * past[:, k], other)
            scores = np.append(0.0, left * effect)
            score, chance = data.z(scores)
            size = float((effect**2).mean()) * data.spread[i] ** 2
            share = scores.mean() ** 2 / max(size, 1e-300)
            yield chance, Carried(i, other, abs(score), float(share))


def _alone(data: Residuals, i: int, effect: np.ndarray, other: int | None) -> np.ndarray:
    """An effect without what the same row and the last residuals of the agent explain."""
    own, rows = data.of(i)[1:], len(effect)
    theirs = data.wide[1:, data.owner == other] if other is not None else own
    parts = [data.waves[1:], own, theirs, *(own * column[:, None] for column in theirs.T)]
    situations = data.log.situations[1:]
    few = sizes_of(data.log)[0] <= SITUATIONS
    parts.append(np.eye(situations.max() + 1)[situations] if few else np.ones((rows, 1)))
    last = data.left[:, i]
    parts += [np.append(np.zeros(lag - 1), last[:-lag])[:, None] for lag in range(1, LAST + 1)]
    explained = np.concatenate(parts, 1, dtype=np.float64)
    return effect - explained @ np.linalg.lstsq(explained, effect, rcond=None)[0]


def told_carried(log: Log, found: list[Carried]) -> str:
    """Say whose rewards depend on the row before, and what to do; empty if nobody's do."""
    if not found:
        return ""
    agent, other, score, _ = found[0]
    whose = "its own action" if other == agent else "what others did"
    whose = f"what {log.labels.player(other)} did" if other not in (None, agent) else whose
    return (
        f"what {log.labels.player(agent)} earns depends on {whose} in the row before (z = "
        f"{score:.1f}), but actions are only judged by rewards of the same row; add the action of "
        "the row before as a context, or use rows long enough to hold all effects"
    )
