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
#: Largest number of contexts for which a test asks whether actions move them, and the largest
#: probability of a false answer.
MOST_CONTEXTS, MOVED = 50, 1e-6
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


def told_moved_contexts(log: Log) -> str:
    """Say whose actions move the context of the next row, and what to do; empty if none do.

    Rows are in the order of time. Actions that only follow slow changes of contexts go with the
    context before as they do with the context after; actions that move it go with the latter only.
    """
    if log.continuous or log.horizon > 1 or not 2 <= log.contexts_count <= MOST_CONTEXTS:
        return ""
    log, contexts, found = log.take(slice(SCREENING_ROWS)), np.asarray(log.contexts, np.int64), []
    contexts = contexts[: log.samples]
    for i, count in enumerate(log.actions_per_agent):
        there = np.ones(log.samples, bool)
        if log.states is not None:
            there = np.asarray(log.states)[:, i] == 0
        actions, surplus = np.asarray(log.actions)[:, i].astype(np.int64), []
        for step in (1, -1):
            at = np.flatnonzero(there[:-1] if step == 1 else there[1:]) + (step == -1)
            code = (contexts[at] * count + actions[at]) * log.contexts_count + contexts[at + step]
            size = (log.contexts_count, count, log.contexts_count)
            table = np.bincount(code, minlength=int(np.prod(size))).reshape(size)
            surplus.append(_association(table))
        (statistic, degrees), (before, usual) = surplus
        chance = chi2.sf(statistic, max(degrees, 1)) * log.agents
        ahead = statistic - degrees > 2.0 * max(before - usual, 0.0)
        if chance <= MOVED and ahead and statistic - degrees > DEPENDENCE * log.samples:
            found.append((statistic - degrees, log.labels.player(i)))
    if not found:
        return ""
    many = f" (and those of {len(found) - 1} more)" if len(found) > 1 else ""
    return (
        f"the actions of {max(found)[1]}{many} move the context of the next row, so deviations may "
        "gain in later rows, which is not counted; model the context as the state of a MarkovGame"
    )


def _association(table: np.ndarray) -> tuple[float, float]:
    """Chi-squared of (situations, first, second) counts, and its mean under independence."""
    rows = np.maximum(table.sum((1, 2), keepdims=True), 1)
    first, second = table.sum(2, keepdims=True) / rows, table.sum(1, keepdims=True) / rows
    usual = rows * first * second
    often = usual >= 5.0  # smaller cells are not chi-squared
    apart = np.where(often, (table - usual) ** 2 / np.maximum(usual, 1e-9), 0.0)
    mean = (1.0 - first) * (1.0 - second) * rows / np.maximum(rows - 1.0, 1.0)
    return float(apart.sum()), float(np.where(often, mean, 0.0).sum())


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
    if log.states is not None and not log.absences:
        states = np.asarray(log.states)
        if (states == states[:, :1]).all():
            return (
                "all agents are in the same state in every row, so it is a state that all see and "
                "no local state, which only its own agent's actions move; pass it as contexts, "
                "without states, or, if actions move it, model it as the state of a MarkovGame"
            )
        some = slice(SCREENING_ROWS)
        alike, shared = _correlated(log.situations[some], states[some], log.states_count)
        if shared:
            who = f" ({_told_pairs(log, alike)})" if alike else ""
            return (
                f"local states of agents go together{who}, but are assumed to depend on their own "
                "agent's actions only; pass what they have in common as contexts"
            )
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
