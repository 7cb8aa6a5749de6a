"""The result of a fit: a game that can be certified, and statistics of the fit."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.games import AggregativeGame, ContextualGame, DecoupledMarkovGame, Interactions


@dataclass(frozen=True)
class InteractionMap:
    """The standardised terms of a fitted model, and the strength of each term.

    The strength of a term is the standard deviation, under the log's play, of its contribution to
    its agent's reward. It is the square root of the variance that the term explains, minus the part
    that noise would explain by chance. The terms are orthogonal, so their variances add up.

    Strengths and intervals come from least squares without a penalty, since a penalty would shrink
    them towards zero. Only cells (situation, own move) with fewer than 1.5 rows per feature keep
    the penalty. Intervals are normal approximations for the explained variance, based on the
    residual noise and conditional on the log's play. Intervals are NaN if the fit has no residuals:
    the rewards have no noise, or there is a parameter for every row. A p-value is the probability
    of a term at least as strong if the true term is zero (Wald test).

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=5_000, key=1)
    >>> found = eq.offline.fit(log, rank=2).interactions
    >>> found.strength.shape, bool((found.strength[0, 1:] > found.lower[0, 1:]).all())
    ((4, 4), True)
    """

    #: Fitted terms. Every term has mean zero over the moves of each other agent.
    terms: Interactions
    #: (terms,): the agent whose reward each term of two or more agents enters.
    owners: np.ndarray
    #: The other agents of each of these terms.
    groups: tuple[tuple[int, ...], ...]
    #: (terms,): strengths.
    strengths: np.ndarray
    #: (terms,): lower ends of the intervals.
    lowers: np.ndarray
    #: (terms,): upper ends of the intervals.
    uppers: np.ndarray
    #: (terms,): p-values.
    p_values: np.ndarray
    #: Confidence level of the intervals.
    level: float

    @property
    def agents(self) -> int:
        """Number of agents."""
        return self.terms.agents

    @property
    def strength(self) -> np.ndarray:
        """(agents, agents): strength of the pair term of agent j's move in agent i's reward."""
        return self._matrix(self.strengths)

    @property
    def lower(self) -> np.ndarray:
        """(agents, agents): lower ends of the intervals of `strength`; NaN without an interval."""
        return self._matrix(self.lowers)

    @property
    def upper(self) -> np.ndarray:
        """(agents, agents): upper ends of the intervals of `strength`; NaN without an interval."""
        return self._matrix(self.uppers)

    @property
    def total(self) -> np.ndarray:
        """(agents, agents): total strength of all terms in i's reward that involve agent j."""
        return np.sqrt(self._matrix(self.strengths**2, largest=self.agents))

    def strongest(self, count: int = 10) -> list[tuple[int, tuple[int, ...], float, float, float]]:
        """(agent, others, strength, lower, upper) of the strongest terms in agents' rewards.

        The last two are NaN if there is no interval.
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
        """(agents, agents): sums of the values of terms with at most `largest` others."""
        matrix = np.zeros((self.agents, self.agents))
        for owner, group, value in zip(self.owners, self.groups, values, strict=True):
            if len(group) <= largest:
                matrix[owner, list(group)] += value
        return matrix


@dataclass(frozen=True)
class Model:
    """A game fitted to a log, whose rewards have the given interaction rank.

    Pass `game` to `equipoise.certify` and `equipoise.offline.solve`. `interactions` says which
    agents affect whose rewards. An aggregate and a joint critic that is a network have no such
    game: `game` is then None, and `rewards` is the table of own move by aggregate or the network.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3, contexts=2).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=4_000, key=1)
    >>> model = eq.offline.fit(log, rank=2)
    >>> model.rank, model.game.actions, model.samples
    (2, (3, 3, 3, 3), 4000)
    """

    game: ContextualGame | DecoupledMarkovGame | None
    #: 1, 2, 3, ..., "sum", "mean", "histogram" or "joint".
    rank: int | str
    #: Standardised terms and their strengths; None for aggregates and joint critics.
    interactions: InteractionMap | None
    #: Behaviour policy, given with the log or estimated from it.
    behaviour: np.ndarray
    #: Number of rows that were fitted.
    samples: int
    #: Rows per coefficient in the median cell (situation, own move) that occurs in the log.
    samples_per_parameter: float
    #: (agents,): standard deviation of the residuals of the fit.
    noise: np.ndarray
    #: Largest standard deviation of any agent's rewards: the scale of the game.
    reward_scale: float
    #: Penalty of each order, in rows.
    ridge: dict[int, float]
    #: Neighbours of each agent.
    neighbours: tuple[tuple[int, ...], ...]
    #: (situations, agents, moves): number of times each move was made.
    counts: np.ndarray
    #: Context probabilities of the log.
    context_probabilities: np.ndarray
    #: Rewards of joint moves as a traceable function, if they are not those of `game`.
    rewards: Any = None
    #: Number of (state, action) pairs of agents never seen; their transitions are uniform.
    unseen_transitions: int = 0
    #: Initial and transition probabilities of local states; None without states.
    dynamics: Any = None
    #: Number of times each transition was seen; None without states.
    transition_counts: np.ndarray | None = None

    @property
    def markov(self) -> bool:
        """Whether there are local states."""
        return isinstance(self.game, DecoupledMarkovGame)

    def to_aggregative(self) -> AggregativeGame:
        """Convert a model of rank "sum" with one context to an `AggregativeGame`.

        The aggregate is the mean action of all agents. Rewards are linear between the possible sums
        of the others' actions.

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
