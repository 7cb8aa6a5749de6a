"""Play against one player in a known game, move by move, and keep the score."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from equipoise.core import InputError, checks
from equipoise.dynamics import Learner, Online, Pair
from equipoise.games import Game, MatrixGame, NormalFormGame
from equipoise.incontext._players import SEATS, Players

__all__ = ["Duel", "Turn"]


@dataclass(frozen=True)
class Turn:
    """One round of a duel: both actions, and your reward.

    **Example**

    >>> import equipoise as eq
    >>> eq.incontext.Turn(yours=0, theirs=1, earned=-1.0).earned
    -1.0
    """

    #: Your action.
    yours: int
    #: The opponent's action.
    theirs: int
    #: Your reward.
    earned: float


class Duel:
    """A duel with a player that knows neither the game nor you.

    The player sees its own actions and rewards, and scales rewards by the range seen so far. You
    see the game. Moves are simultaneous: the player draws its action before you choose yours.

    **Arguments**

    - `opponent`: players such as `equipoise.incontext.load("any")`, guarded players, or a learner.
    - `game`: a two-player zero-sum matrix game.
    - `seat`: your seat.
    - `key`: source of randomness, an int seed or a JAX key.

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
            found = f"a {game.describe()}" if isinstance(game, Game) else repr(game)
            raise InputError("game", "one zero-sum game of two players", found)
        if isinstance(opponent, Players) and opponent.states is not None:
            raise InputError("opponent", "players of matrix games", "players of Markov games")
        if seat not in SEATS:
            raise InputError("seat", f"one of {list(SEATS)}", repr(seat))
        self.game, self._own = game, SEATS.index(seat)
        payoff = np.asarray(game.payoff, float)
        #: (your actions, their actions): your reward.
        self.payoff = payoff if self._own == 0 else -payoff.T
        other = SEATS[1 - self._own]
        self._online = Online(opponent, actions=self.payoff.shape[1], seat=other, key=key)
        self.turns: list[Turn] = []
        self._against = np.zeros(len(self.payoff))
        #: Your score so far, and the expected score of an exact best response to the opponent's
        #: policy in every round.
        self.score = self.best_response = 0.0

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """Names of your actions and of the opponent's actions."""
        labels = self.game.labels
        yours, theirs = (
            [labels.action(player, action) for action in range(count)]
            for player, count in zip((self._own, 1 - self._own), self.payoff.shape, strict=True)
        )
        return yours, theirs

    @property
    def opponent_policy(self) -> np.ndarray:
        """(their actions,): probabilities of the opponent's next action, including exploration."""
        return self._online.policy

    @property
    def best_action(self) -> tuple[int, float]:
        """Return the single action that would have earned most so far, and its total reward."""
        best = int(self._against.argmax())
        return best, float(self._against[best])

    def play(self, action: int) -> Turn:
        """Play one round with your action and return both actions and your reward."""
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
