"""Files of a run folder that hold the policy: advice, or the log's own play under another name."""

import csv
import io
from pathlib import Path

import numpy as np

from equipoise.core import Solution
from equipoise.core.files import write_text
from equipoise.games import ContinuousPolicy, Mixture, write_policy
from equipoise.offline._coverage import never_present
from equipoise.offline._log import Log

#: Names of the files, without their suffix. Own play has its own name, so that neither a program
#: nor a person takes it for advice.
ADVICE, OWN_PLAY = "policy", "own-play"


def write_policy_files(folder: Path, log: Log, solution: Solution) -> None:
    """Write the policy as JSON and as a table with the log's labels."""
    own = solution.status.name in ("refused", "nothing learned")
    path = folder / (OWN_PLAY if own else ADVICE)
    write_policy(path.with_suffix(".json"), solution.policy)
    if isinstance(solution.policy, Mixture):
        head = "frequency" if own else "probability"
        _write_table(path.with_suffix(".csv"), log, solution.policy, head)
    elif isinstance(solution.policy, ContinuousPolicy) and log.states is None:
        _write_points(path.with_suffix(".csv"), log, solution.policy)


def _write_points(path: Path, log: Log, policy: ContinuousPolicy) -> None:
    """Write the action of each agent in each context, in the unit of the data."""
    text, (low, high) = io.StringIO(), log.action_range or (-1.0, 1.0)
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("agent", "context", "action"))
    for i in range(log.agents):
        for c, point in enumerate(policy.points[:, i]):
            action = float(f"{low + (high - low) * (float(point) + 1.0) / 2.0:.6g}")
            rows.writerow((log.labels.player(i), log.labels.context(c), action))
    write_text(path, text.getvalue())


def _write_table(path: Path, log: Log, policy: Mixture, head: str) -> None:
    """Write a table of (context, step, state, action); with a row per draw if it has several."""
    labels, one = log.labels, len(policy) == 1
    shape = (log.contexts_count, log.horizon, log.agents, log.states_count)
    absent, text = never_present(log), io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    first = () if one else ("draw", "weight")
    rows.writerow((*first, "agent", "context", "step", "state", "action", head))
    for draw, (weight, own) in enumerate(zip(policy.weights, policy.policies, strict=True)):
        chances = own.reshape(*shape, max(log.actions_per_agent))
        shown = chances[:, :, :, :1] if log.absences else chances
        drawn = () if one else (draw, round(float(weight), 6))
        for i in range(log.agents):
            for c, h, s in np.ndindex(shown[:, :, i, :, 0].shape):
                if absent[c, i]:
                    continue  # there is no choice to make
                for a in range(log.actions_per_agent[i]):
                    place = (labels.player(i), labels.context(c), h, labels.state(s))
                    chance = round(float(shown[c, h, i, s, a]), 6)
                    rows.writerow((*drawn, *place, labels.action(i, a), chance))
    write_text(path, text.getvalue())
