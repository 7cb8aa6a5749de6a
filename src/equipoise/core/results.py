"""What solvers and certificates return: results as data, never a flag that changes a type."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.core.reductions import largest, total


@dataclass(frozen=True)
class Certificate:
    """How much each player could still gain by deviating alone, and from what value.

    `gains` has one entry per player on its last axis; leading axes are batch axes of the game.
    For Markov games a player's gain is that of its worst starting state, and `state_gains`
    keeps all of them. Gains of product policies are non-negative up to rounding; the gain
    against a correlated mixture can be negative, and is then left so.

    Three measures derive from the gains, each with one meaning:

    - `max_gain`: the largest gain of any player, the epsilon of an epsilon-Nash equilibrium;
    - `nash_conv`: the sum of the gains; in a two-player zero-sum matrix game, the duality gap;
    - `exploitability`: `nash_conv` divided by the number of players (OpenSpiel's convention).

    **Example**

    >>> import equipoise as eq
    >>> pennies = eq.MatrixGame([[1, -1], [-1, 1]])
    >>> certificate = eq.certify(pennies, ([1.0, 0.0], [0.5, 0.5]))
    >>> certificate.gains
    array([0., 1.])
    >>> float(certificate.nash_conv), float(certificate.exploitability)
    (1.0, 0.5)
    """

    #: (..., players): gain of each player's best deviation.
    gains: np.ndarray
    #: (..., players), or (..., states, players) for Markov games: value of the policy.
    value: np.ndarray
    #: How the best deviations were found, in words.
    method: str
    #: Whether the gains are exact (up to float64 rounding) rather than bounds or estimates.
    exact: bool
    #: (..., states, players) for Markov games, otherwise None.
    state_gains: np.ndarray | None = None
    #: Of which deviations: from a product policy ("nash"), or from a mixture before it is drawn
    #: ("cce") or once the own part is known ("ce").
    concept: str = "nash"

    @property
    def players(self) -> int:
        """Number of players."""
        return self.gains.shape[-1]

    @property
    def max_gain(self) -> np.ndarray | np.float64:
        """Largest gain of any player: the epsilon of epsilon-Nash."""
        return largest(self.gains)

    @property
    def nash_conv(self) -> np.ndarray | np.float64:
        """Sum of the gains of all players."""
        return total(self.gains)

    @property
    def exploitability(self) -> np.ndarray | np.float64:
        """`nash_conv` divided by the number of players."""
        return self.nash_conv / self.players

    def __getitem__(self, index: Any) -> "Certificate":
        """The certificate of one game of a batch, or of a slice of it."""
        return Certificate(
            gains=self.gains[index],
            value=self.value[index],
            method=self.method,
            exact=self.exact,
            state_gains=None if self.state_gains is None else self.state_gains[index],
            concept=self.concept,
        )


@dataclass(frozen=True)
class Status:
    """Whether each game was solved to its tolerance, with a message that says what to do if not.

    **Example**

    >>> import equipoise as eq
    >>> status = eq.solve(eq.MatrixGame([[1, -1], [-1, 1]])).status
    >>> status.ok, str(status)
    (True, 'solved: the game met nash_conv <= 1e-08')
    """

    #: A word or a few: "solved" when every game met its tolerance, "inexact" otherwise; "within the
    #: proven bound" where that is all that was asked for, "nothing learned" from a log of noise.
    name: str
    #: What happened, in a sentence.
    message: str
    #: (...) bool: which games of the batch met the tolerance.
    solved: np.ndarray

    @property
    def ok(self) -> bool:
        """Whether every game met its tolerance."""
        return bool(np.all(self.solved))

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


@dataclass(frozen=True)
class Solution:
    """A policy, what it is worth, and what anybody could still gain by leaving it.

    **Example**

    >>> import equipoise as eq
    >>> solution = eq.solve(eq.MatrixGame([[3, -1], [-2, 1]]))
    >>> [strategy.round(6).tolist() for strategy in solution.policy]
    [[0.428571, 0.571429], [0.285714, 0.714286]]
    >>> round(float(solution.value), 6), bool(solution.certificate.max_gain < 1e-9)
    (0.142857, True)
    """

    #: One array of probabilities per player, or the policy object of the game's kind.
    policy: Any
    #: (...) or (..., states): value to the first player of a zero-sum game.
    value: np.ndarray
    certificate: Certificate
    status: Status
    #: What the solver counted on the way: iterations, fallbacks, seconds.
    stats: dict[str, Any] = field(default_factory=dict)
