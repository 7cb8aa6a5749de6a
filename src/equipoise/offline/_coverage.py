"""Counts of a log: actions, transitions and coverage, and the support they leave to policies."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.core.errors import named_arguments
from equipoise.games import Labels
from equipoise.offline import theory
from equipoise.offline._log import Log

#: The reward of an action counts as unknown in a place with fewer rows of that action.
SHOWN = 10
#: Smallest probability at which a policy's pair of actions matters, and the largest total number
#: of actions of all agents for which pairs are counted.
OFTEN, MOST_COLUMNS = 0.05, 2_000


@dataclass(frozen=True)
class Coverage:
    """Coverage of a log: which actions each agent tried in which places, and how often.

    A *place* is a context or, with states, a context, a step and an own state. Only places that
    occur in the log are counted, and none in which the agent is absent. `state_concentrability`
    estimates how well the log covers local states.

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

    #: Number of rows of the log.
    samples: int
    #: (contexts, agents, actions) or (contexts, horizon, agents, states, actions): samples, with
    #: those whose reward is not recorded.
    counts: np.ndarray
    #: (agents,): fraction of the possible actions, in places seen, that were tried at least once.
    covered: np.ndarray
    #: (agents,): fraction of all places that were seen.
    seen: np.ndarray
    #: (agents,): smallest number of samples of any action in a place seen.
    fewest: np.ndarray
    #: (agents,): largest 1 / nu_i(a | place), the paper's single-agent concentrability; infinite
    #: if an action was never tried in a place seen.
    concentrability: np.ndarray
    #: Names of the agents.
    labels: Labels = field(default_factory=Labels)

    def __str__(self) -> str:
        def who(agent: Any) -> str:
            return f"{'' if self.labels.players else 'agent '}{self.labels.player(int(agent))}"

        least, far = self.covered.argmin(), self.concentrability.argmax()
        return "\n".join(
            [
                f"{self.samples} samples, {len(self.covered)} agents, "
                f"{self.counts.shape[0]} contexts",
                f"actions tried, of those possible in places seen: {self.covered.mean():.1%} "
                f"(least: {who(least)}, {self.covered[least]:.1%})",
                f"fewest samples of an action in a place: {int(self.fewest.min())} "
                f"({who(self.fewest.argmin())})",
                f"single-agent concentrability, estimated: {self.concentrability[far]:.3g} "
                f"({who(far)})",
            ]
        )


def coverage(log: Log) -> Coverage:
    """Count the actions of each agent in every place and estimate single-agent concentrability.

    The concentrability uses the behaviour policy of the log if it is known, and otherwise the
    frequencies in the log.

    **Example**

    >>> import equipoise as eq
    >>> log = eq.offline.Log([0, 0, 0], [[0], [1], [1]], [[1.0], [0.0], [0.0]])
    >>> eq.offline.coverage(log).counts.tolist()
    [[[1, 2]]]
    """
    counts = count_actions(log)
    shape = (-1, log.agents, log.states_count, counts.shape[-1])  # agents on axis 1
    tried, chances = counts.reshape(shape), behaviour_of(log, counts).reshape(shape)
    if log.absences:  # absent agents have no choice
        tried, chances = tried[:, :, :1], chances[:, :, :1]
    seen, places = tried.sum(-1, keepdims=True) > 0, (0, 2, 3)
    mask = seen & available(log)
    with np.errstate(divide="ignore"):
        ratio = np.where(mask, 1.0 / chances, 0.0)
    return Coverage(
        samples=log.samples,
        counts=counts,
        covered=((tried > 0) & mask).sum(places) / np.maximum(mask.sum(places), 1),
        seen=seen.mean(places),
        fewest=np.where(mask, tried, np.iinfo(np.int64).max).min(places),
        concentrability=ratio.max(places),
        labels=log.labels,
    )


def state_concentrability(log: Log) -> np.ndarray:
    """Estimate C_S of the interaction-rank paper (Assumption 4) for each agent.

    It is the largest ratio of the probability with which some policy visits a local state to the
    frequency of that state in the log, in the same context and step. Transitions are the
    frequencies in the log, and policies play only actions that were tried in a state, since nothing
    is known of where others lead. The estimate is one in a log without steps.
    `equipoise.offline.theory.state_concentrability` computes it exactly in a game.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=3, actions=2, states=2, horizon=3).sample(key=0)
    >>> log = eq.offline.collect(game, samples=5_000, key=0)
    >>> eq.offline.state_concentrability(log).round(1).tolist()
    [1.6, 1.4, 2.2]
    """
    sizes_of(log)  # refuses continuous actions
    if log.next_states is None:
        return np.ones(log.agents)
    counts = count_transitions(log)
    kernel, _ = normalised(counts, 0.0)
    states, _ = normalised(counts.sum((-1, -2)), 0.0)
    return theory.state_concentrability(states[:, 0], kernel, states)


def few_rows(log: Log) -> str:
    """Say why there are too few rows to compare any two actions; empty if there are enough."""
    if log.samples >= 2 * SHOWN:
        return ""
    return (
        f"{log.samples} different rows are too few: comparing two actions takes at least {SHOWN} "
        f"rows of each, {2 * SHOWN} in all; collect more"
    )


def rare_contexts(log: Log) -> str:
    """Say why contexts are too rare to learn what actions earn in them; empty if they are not.

    Contexts are too rare if most rows, taken over agents, lie in contexts where the agent tries
    fewer than two actions often enough, although it does so over all contexts together.
    """
    if log.continuous or log.contexts_count < 2 or log.horizon > 1:
        return ""
    counts = count_actions(log).reshape(log.contexts_count, log.agents, log.states_count, -1)[
        :, :, 0
    ]
    rows = counts.sum(-1, keepdims=True)
    choice = (counts >= SHOWN).sum(-1) > 1
    together = (counts.sum(0) >= SHOWN).sum(-1) > 1
    share = (choice * rows[..., 0])[:, together].sum() / max(rows[:, together].sum(), 1)
    if not together.any() or share >= 0.5:
        return ""
    return (
        f"{log.contexts_count:,} contexts are too many for {log.samples:,} rows: most do not have "
        f"{SHOWN} rows of each of two actions, so the rewards of other actions there are unknown; "
        "merge contexts or leave them out"
    )


def never_present(log: Log) -> np.ndarray:
    """(contexts, agents): whether an agent is absent whenever a context occurs."""
    if not log.absences:
        return np.zeros((log.contexts_count, log.agents), bool)
    return count_actions(log)[:, 0, :, 0].sum(-1) == 0


@named_arguments
def estimate_behaviour(log: Log, *, smoothing: float = 0.0) -> np.ndarray:
    """Estimate the behaviour policy of a log by maximum likelihood: the action frequencies.

    The shape is (contexts, agents, actions), or (contexts, horizon, agents, states, actions).
    `smoothing` is added to the count of each action that an agent has. The policy is uniform in
    places that never occur.

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
    """Behaviour policy: as declared, or the frequencies of (situations, agents, moves) counts."""
    return _frequencies(log, counts) if log.behaviour is None else log.behaviour


def _frequencies(log: Log, counts: np.ndarray, smoothing: float = 0.0) -> np.ndarray:
    possible = available(log)
    counts = counts.reshape(-1, log.agents, log.states_count, possible.shape[-1])
    uniform = possible / possible.sum(-1, keepdims=True)
    return normalised(counts + smoothing * possible, uniform)[0].reshape(log.policy_shape)


def available(log: Log) -> np.ndarray:
    """(agents, 1, actions): whether each agent has each action."""
    counts = np.array(log.actions_per_agent)
    return np.arange(counts.max()) < counts[:, None, None]


def sizes_of(log: Log) -> tuple[int, int]:
    """Numbers of situations (contexts and steps) and of moves (states and actions) of a log."""
    if log.continuous:
        raise InputError(
            "log",
            "discrete actions",
            (
                "continuous actions; use equipoise.offline.deep.fit and deep.improve, which learn "
                "from them with networks"
            ),
        )
    check_counted(log)
    return log.contexts_count * log.horizon, log.states_count * max(log.actions_per_agent)


def check_counted(log: Log) -> None:
    """Refuse numeric contexts and local states."""
    if log.numeric:
        hint = "use fit and solve, or cut the numbers into counted contexts and states"
        raise InputError("log", "contexts and states that are counted", log.numeric, hint)


def count_actions(log: Log) -> np.ndarray:
    """Number of times each agent played each action in each place, in the shape of a policy."""
    sizes = sizes_of(log)
    return count_moves(log.situations, log.moves.T, *sizes).reshape(log.policy_shape)


def count_transitions(log: Log) -> np.ndarray:
    """(contexts, horizon, agents, states, actions, next states): number of times seen."""
    situations, moves = sizes_of(log)
    led = log.moves.astype(np.int64) * log.states_count + np.asarray(log.next_states)
    counts = count_moves(log.situations, led.T, situations, moves * log.states_count)
    return counts.reshape(*log.policy_shape, log.states_count)


def count_moves(
    contexts: np.ndarray,
    by_agent: np.ndarray,
    situations: int,
    moves: int,
    known: np.ndarray | None = None,
) -> np.ndarray:
    """(situations, N, moves): number of times each agent made each move, from (N, rows) moves.

    `known` (rows, N) says which rows to count for each agent; None counts all.
    """
    counts = np.empty((situations, len(by_agent), moves), np.int64)
    start = contexts.astype(np.intp) * moves
    for j, own in enumerate(by_agent):
        code = start + own
        hits = np.bincount(
            code if known is None else code[known[:, j]], minlength=situations * moves
        )
        counts[:, j] = hits.reshape(situations, moves)
    return counts


def known_rows(reward: np.ndarray) -> Any:
    """Rows of (rows,) rewards that are recorded: a slice if all are."""
    away = np.isnan(reward)
    return np.flatnonzero(~away) if away.any() else slice(None)


def over_known(statistic: Any, rewards: np.ndarray) -> np.ndarray:
    """(agents,): a statistic of each agent's recorded rewards; zero if there are none.

    >>> over_known(np.mean, np.array([[1.0, np.nan], [3.0, 4.0]])).tolist()
    [2.0, 4.0]
    """
    rewards = np.asarray(rewards, np.float64)
    if not np.isnan(rewards).any():
        return statistic(rewards, 0)
    known = (own[~np.isnan(own)] for own in rewards.T)
    return np.array([statistic(own, 0) if len(own) else 0.0 for own in known])


def normalised(counts: np.ndarray, otherwise: Any) -> tuple[np.ndarray, np.ndarray]:
    """Normalise counts over the last axis; return a mask of empty places, set to `otherwise`, too.

    >>> normalised(np.array([[1, 3], [0, 0]]), 0.5)[0].tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    totals = counts.sum(-1, keepdims=True)
    chances = np.where(totals > 0, counts / np.where(totals > 0, totals, 1), otherwise)
    return chances, totals[..., 0] == 0


def rare_pairs(log: Log, policies: np.ndarray) -> list[str]:
    """Describe pairs of actions that policies often play together and the log hardly shows.

    `policies` is (components, contexts, horizon, agents, states, actions). The reward of such a
    pair is the fitted model's extrapolation: the log contains almost no row about it. The list is
    empty for logs with local states, where pairs of states would matter too, and for very many
    actions.
    """
    actions = policies.shape[-1]
    if log.horizon > 1 or (log.states is not None and not log.absences):
        return []
    if log.agents * actions > MOST_COLUMNS:
        return []
    found = []
    for context in range(log.contexts_count):
        here = np.asarray(log.contexts) == context
        shown = np.eye(actions, dtype=np.float32)[np.asarray(log.actions)[here]]
        flat = policies[:, context, 0, :, 0].reshape(len(policies), -1)
        chance = flat.T @ flat / len(flat)
        if log.states is not None:
            there = (np.asarray(log.states)[here] == 0).astype(np.float32)
            shown *= there[:, :, None]
            together = there.T @ there / max(len(there), 1)  # absent agents play nothing
            chance = chance * together.repeat(actions, 0).repeat(actions, 1)
        rows = shown.reshape(len(shown), -1)
        often = (chance >= OFTEN) & (rows.T @ rows < SHOWN)
        for first, second in np.argwhere(np.triu(often, 1)).tolist():
            (i, a), (j, b) = divmod(first, actions), divmod(second, actions)
            if i != j:
                words = [
                    f"{log.labels.player(k)}: {log.labels.action(k, c)}"
                    for k, c in ((i, a), (j, b))
                ]
                found.append(" with ".join(words))
    return found
