"""What a fit returns: a game that can be certified, and what is known about how it came about."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.games import AggregativeGame, ContextualGame, DecoupledMarkovGame, Interactions


@dataclass(frozen=True)
class InteractionMap:
    """The standardised terms of a fitted model, and the strength of each.

    The strength of a term is the standard deviation, over the log's play, of what it adds to its
    agent's reward (the root of the variance that it explains, with the part taken off that noise
    would explain by chance). The terms are orthogonal: variances add up.

    Strengths and intervals come from least squares without a penalty, which would draw them to
    zero; only cells (situation, own move) with fewer than 1.5 rows per feature keep it. Intervals
    are normal approximations for the explained variance, from the noise that the fit leaves; they
    take the log's play as it is. A fit that leaves nothing, of rewards without noise or with a
    parameter for every row, says nothing about how sure it is: its intervals are NaN. A p-value is
    the chance of as strong a term where there is none (Wald).

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=5_000, key=1)
    >>> found = eq.offline.fit(log, rank=2).interactions
    >>> found.strength.shape, bool((found.strength[0, 1:] > found.lower[0, 1:]).all())
    ((4, 4), True)
    """

    #: The fitted terms: every term has mean zero over each of the others' moves.
    terms: Interactions
    #: For each term of two or more agents: whose reward, and with whom.
    owners: np.ndarray
    groups: tuple[tuple[int, ...], ...]
    #: (terms,) strengths with their interval, and p-values.
    strengths: np.ndarray
    lowers: np.ndarray
    uppers: np.ndarray
    p_values: np.ndarray
    #: Confidence level of the intervals.
    level: float

    @property
    def agents(self) -> int:
        """Number of agents."""
        return self.terms.agents

    @property
    def strength(self) -> np.ndarray:
        """(agents, agents): how much agent j's move matters to i, apart from third agents."""
        return self._matrix(self.strengths)

    @property
    def lower(self) -> np.ndarray:
        """(agents, agents): lower ends of the intervals of `strength`; NaN where there is none."""
        return self._matrix(self.lowers)

    @property
    def upper(self) -> np.ndarray:
        """(agents, agents): upper ends of the intervals of `strength`; NaN where there is none."""
        return self._matrix(self.uppers)

    @property
    def total(self) -> np.ndarray:
        """(agents, agents): how much j matters to i with whomever: all terms that hold both."""
        return np.sqrt(self._matrix(self.strengths**2, largest=self.agents))

    def strongest(self, count: int = 10) -> list[tuple[int, tuple[int, ...], float, float, float]]:
        """(whose reward, with whom, strength, lower, upper) of the strongest terms.

        The last two are NaN where there is no interval.
        """
        order = np.argsort(-self.strengths, kind="stable")[:count]
        numbers = np.stack([self.strengths, self.lowers, self.uppers], 1)
        return [(int(self.owners[t]), self.groups[t], *numbers[t].tolist()) for t in order]

    def __str__(self) -> str:
        lines = [f"{len(self.groups)} terms between {self.agents} agents; the strongest:"]
        for owner, group, strength, low, high in self.strongest():
            with_whom = ", ".join(map(str, group))
            interval = "" if np.isnan(low) else f" [{low:.4f}, {high:.4f}]"
            lines.append(f"  agent {owner} with {with_whom}: {strength:.4f}{interval}")
        return "\n".join(lines)

    def _matrix(self, values: np.ndarray, largest: int = 1) -> np.ndarray:
        """(agents, agents) sums of the values of terms with at most `largest` others."""
        matrix = np.zeros((self.agents, self.agents))
        for owner, group, value in zip(self.owners, self.groups, values, strict=True):
            if len(group) <= largest:
                matrix[owner, list(group)] += value
        return matrix


@dataclass(frozen=True)
class Model:
    """A game fitted to a log, whose rewards have the given interaction rank.

    `game` is what `equipoise.certify` and `equipoise.offline.solve` take; `interactions` says
    who matters to whom. Of an aggregate, and of a joint critic that is a network, there is no such
    game: `game` is then None, and `rewards` the table of own move by aggregate, or the network.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3, contexts=2).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=4_000, key=1)
    >>> model = eq.offline.fit(log, rank=2)
    >>> model.rank, model.game.actions, model.samples
    (2, (3, 3, 3, 3), 4000)
    """

    game: ContextualGame | DecoupledMarkovGame | None
    #: 1, 2, 3, ..., "sum", "histogram" or "joint".
    rank: int | str
    #: Standardised terms and their strengths; None for aggregates and joint critics.
    interactions: InteractionMap | None
    #: Behaviour policy, given with the log or estimated from it.
    behaviour: np.ndarray
    samples: int
    #: Rows per coefficient in the median cell (situation, own move) that the log has seen.
    samples_per_parameter: float
    #: (agents,): standard deviation of what the fit leaves.
    noise: np.ndarray
    #: Standard deviation of the rewards: the scale of the game. The largest of any agent.
    reward_scale: float
    #: Penalty of each order, in rows.
    ridge: dict[int, float]
    #: Neighbours of each agent.
    neighbours: tuple[tuple[int, ...], ...]
    #: (situations, agents, moves): how often each move was made.
    counts: np.ndarray
    #: Context probabilities of the log.
    context_probabilities: np.ndarray
    #: Rewards of joint moves, a traceable function, where they are not those of `game`.
    rewards: Any = None
    #: (state, action) pairs of agents that were never seen; their transitions are uniform.
    unseen_transitions: int = 0
    #: How local states begin and go on, and how often each transition was seen.
    dynamics: Any = None
    transition_counts: np.ndarray | None = None

    @property
    def markov(self) -> bool:
        """Whether there are local states."""
        return isinstance(self.game, DecoupledMarkovGame)

    def to_aggregative(self) -> AggregativeGame:
        """The same rewards as an `AggregativeGame`, of a model of rank "sum" with one context.

        The aggregate is the mean action of all agents; between the sums that the others can have,
        rewards are linear.

        **Example**

        >>> import numpy as np, equipoise as eq
        >>> rng = np.random.default_rng(0)
        >>> go = rng.integers(0, 2, (500, 8))
        >>> log = eq.offline.Log(None, go, go * (5.0 - go.sum(1, keepdims=True)))
        >>> crowd = eq.offline.fit(log, "sum").to_aggregative()
        >>> crowd.agents, crowd.rewards([0.5])[0].round(6).tolist()
        (8, [0.0, 1.0])
        """
        terms = self.rewards
        if self.rank != "sum" or terms.table.shape[0] > 1 or self.behaviour.ndim == 5:
            found = f"rank {self.rank!r} with {len(self.context_probabilities)} contexts"
            raise InputError("model", 'rank "sum" with one context and no states', found)
        table, agents = np.asarray(terms.table[0]), terms.agents
        scores = np.array(terms.scores, np.float64)[:, 0]
        last = table.shape[-1] - 1
        who, which = np.ogrid[:agents, : len(scores)]

        def reward(x: Any) -> Any:
            others = np.clip(np.asarray(x)[..., 0] * agents - scores, 0.0, last)
            others = np.broadcast_to(others, (*np.shape(x)[:-3], agents, len(scores)))
            below = np.minimum(others.astype(int), max(last - 1, 0))
            low, high = table[who, which, below], table[who, which, np.minimum(below + 1, last)]
            return low + (others - below) * (high - low)

        influence = np.broadcast_to(scores[:, None], (agents, len(scores), 1))
        slope = float(np.abs(np.diff(table, axis=-1)).max(initial=0.0)) * agents
        edge = (float(table.min()) - 1e-9, float(table.max()) + 1e-9)
        return AggregativeGame(influence, reward, slope, bounds=edge, elementwise=False)
