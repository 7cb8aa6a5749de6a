"""The result when nothing is learned from a log: the log's own play, and the reason."""

from typing import Any

import numpy as np

from equipoise.certificates import TableCertificate
from equipoise.core import Solution, Status, Verdict
from equipoise.games import ContinuousPolicy, Mixture
from equipoise.offline._coverage import behaviour_of, count_actions, never_present, over_known
from equipoise.offline._log import Log
from equipoise.offline._oddities import LOOK, huge_rewards

#: End of a message about a log from which nothing was learned.
NOT_ADVICE = "the returned policy is the log's own play, not advice"


def stopped(message: str) -> Status:
    """Return the status of what Ctrl-C ended before anything was learned."""
    return Status("interrupted", message, np.array(False))


def forced(refusal: Verdict) -> Verdict:
    """Return the verdict on a policy that was learned although the log would be refused."""
    told = "a policy was learned because force was given. Without force, the result is"
    return Verdict("learned", f"{told} {refusal}", caution=True)


def sentences(*reasons: str) -> str:
    """Join reasons that are not empty, one sentence per line; the last one has no full stop.

    >>> sentences("rewards drift; use later rows", "", "agents are absent together; leave them out")
    'rewards drift; use later rows.\\nAgents are absent together; leave them out'
    """
    first, *others = [*filter(None, reasons), ""]
    return ".\n".join([first, *(each[:1].upper() + each[1:] for each in others[:-1])])


def facts_of(log: Log) -> dict[str, Any]:
    return {
        "agents": log.agents,
        "samples": log.samples,
        "contexts": log.contexts_count,
        "actions": list(log.actions_per_agent),
        "labels": log.labels.to_plain(),
        **({} if log.action_range is None else {"action_range": list(log.action_range)}),
        "notes": list(log.notes),
        "never_present": np.argwhere(never_present(log)).tolist(),
        "warnings": [note for note in log.notes if note.startswith(LOOK)]
        or huge_rewards(log.rewards, [*map(log.labels.player, range(log.agents))]),
    }


def refused(log: Log, message: str, facts: dict[str, Any]) -> Solution:
    return own_play(log, Verdict("refused", sentences(message, NOT_ADVICE)), facts)


def own_play(log: Log, status: Status | Verdict, stats: dict[str, Any]) -> Solution:
    """Return the log's own play and what it earned. Gains are unknown without a model."""
    policy = (
        own_points(log) if log.continuous else Mixture(behaviour_of(log, count_actions(log))[None])
    )
    rewards = np.asarray(log.rewards, np.float64)
    steps = np.zeros(log.samples, np.int8) if log.steps is None else log.steps
    value = np.sum([over_known(np.mean, rewards[steps == h]) for h in np.unique(steps)], 0)
    unknown = np.full(log.agents, np.nan)
    method = "none: no model was fitted"
    at_most = np.full(log.agents, np.inf)
    certificate = TableCertificate(unknown, at_most, value, method)
    if not log.continuous or log.states is None:  # reports show the play in a table
        stats = stats | {"earned": value, "expected": value, "gains_at_most": at_most}
    return Solution(policy, value, certificate, status, stats=stats)


def own_points(log: Log) -> ContinuousPolicy:
    """Mean actions of the log in each situation; the overall mean in situations without rows."""
    shape = (log.contexts_count * log.horizon, log.agents, log.states_count)
    states = np.zeros(log.actions.shape, int) if log.states is None else log.states
    where = (log.situations[:, None], np.arange(log.agents), states)
    sums, counts = np.zeros((2, *shape))
    np.add.at(sums, where, log.actions)
    np.add.at(counts, where, 1.0)
    everywhere = log.actions.mean(0)[:, None]
    points = np.where(counts > 0, sums / np.maximum(counts, 1.0), everywhere)
    if log.states is None:
        return ContinuousPolicy(points[..., 0])
    return ContinuousPolicy(points.reshape(log.contexts_count, log.horizon, *shape[1:]))
