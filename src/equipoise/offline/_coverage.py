"""Counts of a log: who tried what, where that led, and how far beyond it a policy may go."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.offline._log import Log


@dataclass(frozen=True)
class Coverage:
    """How well a log covers what each agent could do by itself.

    A *place* is a context, and where there are states a context, step and own state. Only
    places that occur are looked at: of others a log says nothing.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=3, actions=4).sample(key=0)
    >>> summary = eq.offline.coverage(eq.offline.collect(game, samples=10_000, key=0))
    >>> summary.covered.tolist(), bool(summary.concentrability.max() < 4.5)
    ([1.0, 1.0, 1.0], True)
    >>> print(summary)
    10000 samples, 3 agents, 1 contexts
    actions tried, of those possible in places seen: 100.0% (least: agent 0, 100.0%)
    fewest samples of an action in a place: ...
    single-agent concentrability, estimated: ... (agent ...)
    """

    samples: int
    #: (contexts, agents, actions) or (contexts, horizon, agents, states, actions): samples.
    counts: np.ndarray
    #: (agents,): the part of possible actions, in places seen, that was tried at least once.
    covered: np.ndarray
    #: (agents,): the part of all places that was seen at all.
    seen: np.ndarray
    #: (agents,): the fewest samples of any action in a place seen.
    fewest: np.ndarray
    #: (agents,): the largest 1 / nu_i(a | place), the paper's single-agent concentrability;
    #: infinite where an action was not tried in a place seen.
    concentrability: np.ndarray

    def __str__(self) -> str:
        least, far = int(self.covered.argmin()), int(self.concentrability.argmax())
        return "\n".join(
            [
                f"{self.samples} samples, {len(self.covered)} agents, "
                f"{self.counts.shape[0]} contexts",
                f"actions tried, of those possible in places seen: {self.covered.mean():.1%} "
                f"(least: agent {least}, {self.covered[least]:.1%})",
                f"fewest samples of an action in a place: {int(self.fewest.min())} "
                f"(agent {int(self.fewest.argmin())})",
                f"single-agent concentrability, estimated: {self.concentrability[far]:.3g} "
                f"(agent {far})",
            ]
        )


def coverage(log: Log) -> Coverage:
    """Count what each agent did in every place, and estimate the single-agent concentrability.

    The behaviour policy of the log is used for the concentrability where it is known, otherwise
    the frequencies in the log.

    **Example**

    >>> import equipoise as eq
    >>> log = eq.offline.Log([0, 0, 0], [[0], [1], [1]], [[1.0], [0.0], [0.0]])
    >>> eq.offline.coverage(log).counts.tolist()
    [[[1, 2]]]
    """
    counts = count_actions(log)
    shape = (-1, log.agents, log.states_count, counts.shape[-1])  # axis 1 is that of the agents
    tried, chances = counts.reshape(shape), behaviour_of(log, counts).reshape(shape)
    seen, places = tried.sum(-1, keepdims=True) > 0, (0, 2, 3)
    mask = seen & _possible(log)
    with np.errstate(divide="ignore"):
        ratio = np.where(mask, 1.0 / chances, 0.0)
    return Coverage(
        samples=log.samples,
        counts=counts,
        covered=((tried > 0) & mask).sum(places) / mask.sum(places),
        seen=seen.mean(places),
        fewest=np.where(mask, tried, np.iinfo(np.int64).max).min(places),
        concentrability=ratio.max(places),
    )


def estimate_behaviour(log: Log, *, smoothing: float = 0.0) -> np.ndarray:
    """The product policy that most likely chose the actions of a log: their frequencies.

    (contexts, agents, actions), or (contexts, horizon, agents, states, actions). `smoothing` is
    added to the count of each action that an agent has. In a place that never occurs all actions
    are alike.

    **Example**

    >>> import equipoise as eq
    >>> log = eq.offline.Log([0, 0, 0, 0], [[0], [1], [1], [1]], [[1.0], [0.0], [0.0], [0.0]])
    >>> eq.offline.estimate_behaviour(log).tolist()
    [[[0.25, 0.75]]]
    """
    if not 0.0 <= smoothing < np.inf:
        raise InputError("smoothing", "a number >= 0", smoothing)
    return _frequencies(log, count_actions(log), smoothing)


def behaviour_of(log: Log, counts: np.ndarray) -> np.ndarray:
    """The policy that chose: as declared, or the frequencies of (situations, agents, moves)."""
    return _frequencies(log, counts) if log.behaviour is None else log.behaviour


def _frequencies(log: Log, counts: np.ndarray, smoothing: float = 0.0) -> np.ndarray:
    possible = _possible(log)
    counts = counts.reshape(-1, log.agents, log.states_count, possible.shape[-1])
    uniform = possible / possible.sum(-1, keepdims=True)
    return normalised(counts + smoothing * possible, uniform)[0].reshape(log.policy_shape)


def _possible(log: Log) -> np.ndarray:
    """(agents, 1, actions): which actions each agent has."""
    counts = np.array(log.actions_per_agent)
    return np.arange(counts.max()) < counts[:, None, None]


def sizes_of(log: Log) -> tuple[int, int]:
    """How many situations (contexts and steps) and moves (states and actions) a log has."""
    if log.continuous:
        raise InputError(
            "log",
            "actions that can be counted",
            (
                "continuous ones; networks learn from those: equipoise.offline.deep.fit and "
                "deep.improve"
            ),
        )
    return log.contexts_count * log.horizon, log.states_count * max(log.actions_per_agent)


def count_actions(log: Log) -> np.ndarray:
    """How often each agent played each action in each place, in the shape of a policy."""
    sizes = sizes_of(log)
    return count_moves(log.situations, log.moves.T, *sizes).reshape(log.policy_shape)


def count_transitions(log: Log) -> np.ndarray:
    """(contexts, horizon, agents, states, actions, next states): how often each was seen."""
    situations, moves = sizes_of(log)
    led = log.moves.astype(np.int64) * log.states_count + np.asarray(log.next_states)
    counts = count_moves(log.situations, led.T, situations, moves * log.states_count)
    return counts.reshape(*log.policy_shape, log.states_count)


def count_moves(
    contexts: np.ndarray, by_agent: np.ndarray, situations: int, moves: int
) -> np.ndarray:
    """(situations, N, moves): how often each agent made each move, from (N, rows) of them."""
    counts = np.empty((situations, len(by_agent), moves), np.int64)
    start = contexts.astype(np.intp) * moves
    for j, own in enumerate(by_agent):
        hits = np.bincount(start + own, minlength=situations * moves)
        counts[:, j] = hits.reshape(situations, moves)
    return counts


def normalised(counts: np.ndarray, otherwise: Any) -> tuple[np.ndarray, np.ndarray]:
    """Chances over the last axis, `otherwise` where nothing was counted, and where that is.

    >>> normalised(np.array([[1, 3], [0, 0]]), 0.5)[0].tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    totals = counts.sum(-1, keepdims=True)
    chances = np.where(totals > 0, counts / np.maximum(totals, 1), otherwise)
    return chances, totals[..., 0] == 0
