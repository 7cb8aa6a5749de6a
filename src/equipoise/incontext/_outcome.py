"""What play leaves behind: policies at chosen rounds, the history, what was earned."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from equipoise.dynamics import History
from equipoise.incontext._curves import Games, Mean, Pair, gap_curve


@dataclass(frozen=True)
class Episode:
    """The outcome of `play`; all arrays are NumPy, float64 policies that sum to one.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(8, key=0)
    >>> episode = eq.incontext.play(eq.incontext.load("iid3"), games, rounds=64, key=1)
    >>> episode.rounds.tolist(), episode.curve.shape, episode.last[0].shape
    ([1, 2, 4, 8, 16, 32, 64], (7, 8), (8, 3))
    >>> bool((eq.certify(games, episode.last).nash_conv == episode.curve[-1]).all())
    True
    """

    games: Games
    #: (records,): how many rounds had been played at each record.
    rounds: np.ndarray
    #: The policies of the round to come, at every record: a pair of (records, ..., actions), or
    #: (records, ..., states, actions) with the policies at all states in Markov games.
    policies: Pair
    #: Every action, reward and state, and the policies played, exploration included; float32.
    history: History
    #: The policies of every round before exploration was mixed in, at the state of the round: a
    #: pair of (..., rounds, actions), float32.
    held: Pair
    #: (..., rounds): mean reward of the row player in every round given both policies, in units
    #: of the game.
    expected: np.ndarray
    #: Which seats the players held: ("row", "column"), or one of them.
    seats: tuple[str, ...] = ("row", "column")

    @property
    def last(self) -> Pair:
        """The policies after the final round."""
        return self.policies[0][-1], self.policies[1][-1]

    @cached_property
    def curve(self) -> np.ndarray:
        """(records, ...): exact `nash_conv` of the policies at each record, game by game."""
        return gap_curve(self.games, self.policies)

    @property
    def mean_curve(self) -> Mean:
        """The curve averaged over games, with standard errors and confidence intervals."""
        return Mean.of(self.curve.reshape(len(self.rounds), -1))

    @property
    def reward(self) -> np.ndarray:
        """(...): mean reward of the row player per round, in units of the game."""
        return self.expected.mean(-1)
