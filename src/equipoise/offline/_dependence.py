"""Test whether agents' actions, or their absences, are correlated across agents.

Correlated actions may be driven by a variable that the log does not contain, which may drive
rewards as well. A log with strong correlations is refused.
"""

from typing import Any

import numpy as np
from scipy.stats import chi2, false_discovery_control

from equipoise.offline._coverage import sizes_of
from equipoise.offline._fit import SCREENING_ROWS
from equipoise.offline._log import Log

#: Smallest dependence of two agents' actions that counts, as a fraction of the largest possible.
DEPENDENCE = 1e-3
#: Number of quantiles into which continuous actions are divided.
QUANTILES = 4


def dependence_of(log: Log) -> tuple[list[dict[str, Any]], bool, list[dict[str, Any]]]:
    """Pairs of agents with correlated actions, whether the log must be refused for it, and pairs
    who are absent together, or one instead of the other, so often that it must be refused."""
    log = log.take(slice(SCREENING_ROWS))
    if log.continuous:
        places = np.argsort(np.argsort(log.actions, 0, kind="stable"), 0)
        return *_correlated(log.situations, QUANTILES * places // log.samples, QUANTILES), []
    situations, count = sizes_of(log)
    if log.agents < 2 or situations >= 1_000:
        return [], False, []
    if not log.absences:
        return *_correlated(log.situations, log.moves, count), []
    present = np.asarray(log.states) == 0
    actions = np.where(present, log.actions, -1)
    pairs, together = _correlated(log.situations, actions, max(log.actions_per_agent))
    away, apart = _correlated(log.situations, present.astype(np.int64), 2)
    return pairs, together, away if apart else []


def _correlated(
    where: np.ndarray, moves: np.ndarray, count: int
) -> tuple[list[dict[str, Any]], bool]:
    """Pairs of agents whose (rows, agents) moves are correlated, and whether that is too much.

    A negative move is none; two agents are compared in rows in which both have one.
    """
    samples, agents = moves.shape
    statistic, degrees = np.zeros((2, agents, agents))
    for s in np.unique(where):
        hot = (moves[where == s][:, :, None] == np.arange(count)).astype(np.float32)
        there, hot = hot.sum(2), hot.reshape(len(hot), -1)
        rows = np.maximum(there.T @ there, 1.0).repeat(count, 0).repeat(count, 1)
        each = (hot.T @ there).repeat(count, 1)
        usual = each * each.T / rows
        often = usual >= 5.0  # smaller cells are not chi-squared
        apart = np.where(often, (hot.T @ hot - usual) ** 2 / np.maximum(usual, 1e-9), 0.0)
        # Under independence, this is the mean of what each of these cells adds to the statistic.
        mean = (1.0 - each / rows) * (1.0 - each.T / rows) * rows / np.maximum(rows - 1.0, 1.0)
        mean = np.where(often, mean, 0.0)
        statistic += apart.reshape(agents, count, agents, count).sum((1, 3))
        degrees += mean.reshape(agents, count, agents, count).sum((1, 3))
    first, second = np.triu_indices(agents, 1)
    statistic, degrees = statistic[first, second], degrees[first, second]
    told = false_discovery_control(chi2.sf(statistic, np.maximum(degrees, 1))) <= 1e-3
    excess = np.maximum(statistic - degrees, 0.0) / samples
    strength = np.sqrt(excess / max(count - 1, 1))
    order = [k for k in np.argsort(-strength) if told[k]]
    pairs = [
        {"agents": [int(first[k]), int(second[k])], "strength": float(strength[k])} for k in order
    ]
    surplus = float((statistic - degrees).sum())
    noise = np.sqrt(2.0 * max(float(degrees.sum()), 1.0))
    size = surplus / max(float(degrees.sum()), 1.0) / samples
    strong = bool(pairs) and pairs[0]["strength"] > 0.1
    return pairs, bool(strong or (surplus > 6 * noise and size > DEPENDENCE))


def _told_pairs(log: Log, pairs: list[dict[str, Any]]) -> str:
    one = [log.labels.player(i) for i in pairs[0]["agents"]]
    many = f"{len(pairs)} pairs, most of all " if len(pairs) > 1 else ""
    return f"{many}{one[0]} and {one[1]}"


def told_dependence(log: Log, pairs: list[dict[str, Any]]) -> str:
    if not pairs:
        return (
            "the actions of all agents together are correlated, although no single pair is: an "
            "unrecorded variable may drive both actions and rewards; add it as a context, or "
            "collect more rows"
        )
    return (
        f"agents' actions are correlated ({_told_pairs(log, pairs)}): an unrecorded variable may "
        "drive both actions and rewards; add it as a context"
    )


def told_absences(log: Log, pairs: list[dict[str, Any]]) -> str:
    if not pairs:
        return ""
    return (
        f"some agents are absent together, or one instead of the other ({_told_pairs(log, pairs)})"
        ", but learning assumes that each is absent independently of the others; add a column that "
        "says who is present as a context, use only times at which these agents are present, or "
        "leave them out"
    )
