"""What a fit returns: a game that can be certified, and what is known about how it came about."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.games import ContextualGame, DecoupledMarkovGame
from equipoise.offline._interactions_report import InteractionMap


@dataclass(frozen=True)
class Model:
    """A game fitted to a log, whose rewards have the given interaction rank.

    `game` is what `equipoise.certify` and `equipoise.offline.solve` take; `interactions` says
    who matters to whom. Of a joint critic that is a network there is no such game: `game` is then
    None, and `rewards` the network.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.polymatrix(agents=4, actions=3, contexts=2).sample(key=0)
    >>> log = eq.offline.collect(game, "uniform", samples=4_000, key=1)
    >>> model = eq.offline.fit(log, rank=2)
    >>> model.rank, model.game.actions, model.samples
    (2, (3, 3, 3, 3), 4000)
    """

    game: ContextualGame | DecoupledMarkovGame | None
    #: 1, 2, 3, ... or "joint".
    rank: int | str
    #: Standardised terms and their strengths; None for joint critics.
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

    @property
    def markov(self) -> bool:
        """Whether there are local states."""
        return isinstance(self.game, DecoupledMarkovGame)
