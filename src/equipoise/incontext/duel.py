"""A person, or a program, against one player in a known game, move by move, with a score."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from equipoise.core import InputError, checks
from equipoise.dynamics import Learner, Online, Pair
from equipoise.games import MatrixGame, NormalFormGame
from equipoise.incontext._players import SEATS

__all__ = ["Duel", "Turn"]


@dataclass(frozen=True)
class Turn:
    """One round of a duel: both actions, and what they earned you.

    **Example**

    >>> import equipoise as eq
    >>> eq.incontext.Turn(yours=0, theirs=1, earned=-1.0).earned
    -1.0
    """

    yours: int
    theirs: int
    earned: float


class Duel:
    """A duel with a player that knows neither the game nor you.

    The player sees its own actions and rewards, which it scales by those seen so far. You see the
    game. Every round is played at once: the player has drawn its action before you say yours.

    **Arguments**

    - `opponent`: players such as `equipoise.incontext.load("any")`, guarded ones, or a learner.
    - `game`: a zero-sum game of two players.
    - `seat`: yours.
    - `key`: where randomness begins: an int seed or a JAX key.

    **Example**

    >>> import equipoise as eq
    >>> duel = eq.incontext.Duel(eq.dynamics.OMD(), eq.MatrixGame([[1, -1], [-1, 1]]), key=0)
    >>> turn = duel.play(0)
    >>> len(duel.turns), duel.score == turn.earned, duel.best_response >= 0.0
    (1, True, True)
    """

    def __init__(
        self,
        opponent: Learner | Pair,
        game: Any,
        *,
        seat: Literal["row", "column"] = "row",
        key: Any = 0,
    ):
        if isinstance(game, NormalFormGame) and game.is_zero_sum():
            game = game.as_matrix_game()
        if not isinstance(game, MatrixGame) or game.batch_shape:
            raise InputError("game", "one zero-sum game of two players", game)
        if seat not in SEATS:
            raise InputError("seat", f"one of {list(SEATS)}", repr(seat))
        self.game, self._own = game, SEATS.index(seat)
        payoff = np.asarray(game.payoff, float)
        #: (your actions, theirs): what you earn.
        self.payoff = payoff if self._own == 0 else -payoff.T
        other = SEATS[1 - self._own]
        self._online = Online(opponent, actions=self.payoff.shape[1], seat=other, key=key)
        self.turns: list[Turn] = []
        self._against = np.zeros(len(self.payoff))
        #: Your score so far, and what an exact best response to the very policy of each round, had
        #: you known it, would have earned on average.
        self.score = self.best_response = 0.0

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """Names of your actions, and of theirs."""
        labels = self.game.labels
        yours, theirs = (
            [labels.action(player, action) for action in range(count)]
            for player, count in zip((self._own, 1 - self._own), self.payoff.shape, strict=True)
        )
        return yours, theirs

    @property
    def opponent_policy(self) -> np.ndarray:
        """(their actions,): probabilities of their next action, exploration included."""
        return self._online.policy

    @property
    def best_action(self) -> tuple[int, float]:
        """The single action that would have earned most so far, and what it would have earned."""
        best = int(self._against.argmax())
        return best, float(self._against[best])

    def play(self, action: int) -> Turn:
        """Play a round with this action of yours."""
        if checks.check_count("action", action, at_least=0) >= len(self.payoff):
            raise InputError("action", f"a number below {len(self.payoff)}", action)
        values = self.payoff @ self._online.policy
        theirs = self._online.ask()
        earned = float(self.payoff[action, theirs])
        self._online.tell(-earned)
        self._against += self.payoff[:, theirs]
        self.best_response += float(values.max())
        self.score += earned
        self.turns.append(Turn(action, theirs, earned))
        return self.turns[-1]
