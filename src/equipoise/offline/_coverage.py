"""Counts of a log: who tried what, where that led, and how far beyond it a policy may go."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.offline._log import Log

#: Rows that are counted at once.
_CHUNK = 16_384


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
    _refuse_continuous(log)
    counts = count_actions(log)
    agent, actions = -2 if log.states is None else -3, counts.shape[-1]
    possible = _possible(log)
    totals = counts.sum(-1)
    # Everything of one agent in one row: (agents, places, actions).
    by_agent = np.moveaxis(counts, agent, 0).reshape(log.agents, -1, actions)
    places = np.moveaxis(totals, agent + 1, 0).reshape(log.agents, -1)
    behaviour = estimate_behaviour(log) if log.behaviour is None else log.behaviour
    chances = np.moveaxis(behaviour, agent, 0).reshape(log.agents, -1, actions)
    mask = np.moveaxis(np.broadcast_to(possible, counts.shape), agent, 0)
    mask = mask.reshape(log.agents, -1, actions) & (places > 0)[..., None]
    with np.errstate(divide="ignore"):
        ratio = np.where(mask, 1.0 / chances, 0.0)
    return Coverage(
        samples=log.samples,
        counts=counts,
        covered=((by_agent > 0) & mask).sum((1, 2)) / mask.sum((1, 2)),
        seen=(places > 0).mean(1),
        fewest=np.where(mask, by_agent, np.iinfo(np.int64).max).min((1, 2)),
        concentrability=ratio.max((1, 2)),
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
    _refuse_continuous(log)
    if not 0.0 <= smoothing < np.inf:
        raise ValueError(f"smoothing: expected a number >= 0, found {smoothing}")
    return _frequencies(log, count_actions(log) + smoothing * _possible(log))


def behaviour_of(log: Log, counts: np.ndarray) -> np.ndarray:
    """The policy that chose: as declared, or the frequencies of (situations, agents, moves)."""
    return _frequencies(log, counts) if log.behaviour is None else log.behaviour


def _frequencies(log: Log, counts: np.ndarray) -> np.ndarray:
    possible = _possible(log)
    return normalised(counts.reshape(log.policy_shape), possible / possible.sum(-1, keepdims=True))[
        0
    ]


def count_actions(log: Log) -> np.ndarray:
    """How often each agent played each action in each place, in the shape of a policy."""
    if log.states is None:
        return _count_wide(log)
    shape = log.policy_shape
    counts = np.zeros((shape[0] * shape[1], *shape[2:]), np.int64)
    width, moves = shape[-1], shape[-2] * shape[-1]
    flat = counts.reshape(-1)
    # One number for situation, agent and move, so that one count takes all agents of some rows.
    agents = np.arange(log.agents, dtype=np.int64) * moves
    for start in range(0, log.samples, _CHUNK):
        rows = slice(start, start + _CHUNK)
        here = log.take(rows)
        moved = here.moves.astype(np.int64) + agents
        moved += here.situations[:, None] * (log.agents * moves)
        flat += np.bincount(moved.ravel(), minlength=flat.size)
    return flat.reshape(*shape[:2], log.agents, shape[3], width)


def _count_wide(log: Log) -> np.ndarray:
    """Without states: rows of one context are compared with each action, many agents at once."""
    counts = np.zeros(log.policy_shape, np.int64)
    for start in range(0, log.samples, _CHUNK):
        rows = slice(start, start + _CHUNK)
        contexts, actions = log.contexts[rows], log.actions[rows]
        for c in np.unique(contexts) if log.contexts_count > 1 else [0]:
            own = actions if log.contexts_count == 1 else actions[contexts == c]
            # Sums of at most 255 truth values fit into a byte, and bytes are summed quickly.
            for part in (own[k : k + 255] for k in range(0, len(own), 255)):
                for a in range(counts.shape[-1]):
                    counts[c, :, a] += np.add.reduce((part == a).view(np.uint8), 0, np.uint8)
    return counts


def _possible(log: Log) -> np.ndarray:
    """Which actions each agent has; broadcasts against policies."""
    mask = np.arange(max(log.actions_per_agent)) < np.array(log.actions_per_agent)[:, None]
    return mask if log.states is None else mask[:, None]


def _refuse_continuous(log: Log) -> None:
    if log.continuous:
        raise ValueError("log: expected actions that can be counted, found continuous ones")


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
