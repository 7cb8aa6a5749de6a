"""Behaviour policies and transitions by maximum likelihood: counts, over any number of pieces."""

from typing import Any

import numpy as np

from equipoise.offline._log import Log


class TransitionCounts:
    """Counts of local transitions and first states, for logs with states.

    >>> log = Log([0, 0], [[1], [0]], [[0.0], [0.0]], states=[[0], [1]], next_states=[[1], [0]],
    ...     steps=[0, 0])
    >>> counts = TransitionCounts(log)
    >>> counts.add(log)
    >>> counts.initial().tolist(), counts.transitions()[0][0, 0, 0, 0].tolist()
    ([[[0.5, 0.5]]], [[0.5, 0.5], [0.0, 1.0]])
    """

    def __init__(self, log: Log):
        contexts, horizon, agents, states, actions = log.policy_shape
        self.shape = (contexts, horizon, agents, states, actions, states)
        self.counts = np.zeros(self.shape, np.int64)
        self.first = np.zeros((contexts, agents, states), np.int64)

    def add(self, log: Log) -> None:
        """Count the rows of a log."""
        contexts, horizon, agents, states, actions, _ = self.shape
        situations, moves = log.situations, log.moves
        size = contexts * horizon * states * actions * states
        begins = np.asarray(log.steps) == 0
        for i in range(agents):
            code = (situations * (states * actions) + moves[:, i]) * states
            code = code + np.asarray(log.next_states)[:, i]
            hits = np.bincount(code, minlength=size)
            self.counts[:, :, i] += hits.reshape(contexts, horizon, states, actions, states)
            here = log.contexts[begins].astype(np.int64) * states
            here = here + np.asarray(log.states)[begins, i]
            hits = np.bincount(here, minlength=contexts * states)
            self.first[:, i] += hits.reshape(contexts, states)

    def transitions(self) -> tuple[np.ndarray, int]:
        """Maximum-likelihood transitions, and how many of their rows were never seen."""
        chances, unseen = normalised(self.counts, 1.0 / self.shape[-1])
        return chances, int(unseen.sum())

    def initial(self) -> np.ndarray:
        """(contexts, agents, states): chances of first states, those of step 0 in the log."""
        return normalised(self.first, 1.0 / self.shape[3])[0]


def normalised(counts: np.ndarray, otherwise: Any) -> tuple[np.ndarray, np.ndarray]:
    """Chances over the last axis, `otherwise` where nothing was counted, and where that is."""
    totals = counts.sum(-1, keepdims=True)
    chances = np.where(totals > 0, counts / np.maximum(totals, 1), otherwise)
    return chances, totals[..., 0] == 0


def behaviour_of(log: Log, counts: np.ndarray) -> np.ndarray:
    """The policy that a log was made with: as declared, or by maximum likelihood.

    `counts` is (situations, agents, moves). Where an agent was never seen, it is uniform.
    """
    if log.behaviour is not None:
        return log.behaviour
    actions = max(log.actions_per_agent)
    mask = np.arange(actions) < np.array(log.actions_per_agent)[:, None]
    uniform = mask / mask.sum(1, keepdims=True)
    if log.states is None:
        return normalised(counts, uniform)[0]
    contexts, horizon, agents, states, _ = log.policy_shape
    by_state = counts.reshape(contexts, horizon, agents, states, actions)
    return normalised(by_state, uniform[:, None])[0]
