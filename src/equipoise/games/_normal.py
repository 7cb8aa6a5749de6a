"""General-sum normal-form games of any number of players, as files and small conversions give."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from equipoise.core import checks
from equipoise.core.values import read_only
from equipoise.games._game import Labels, SingleGame
from equipoise.games._matrix import MatrixGame


class NormalFormGame(SingleGame):
    """An N-player game as a full payoff table: `payoffs[i, a_1, ..., a_N]` goes to player i.

    Its size is exponential in the number of players: it is the meeting point with files and
    other libraries, not a structure that scales. `labels` names the players and their actions.

    **Example**

    >>> import equipoise as eq
    >>> dilemma = eq.NormalFormGame([[[3, 0], [5, 1]], [[3, 5], [0, 1]]])
    >>> dilemma.players, dilemma.actions
    (2, (2, 2))
    >>> eq.certify(dilemma, ([0, 1], [0, 1])).max_gain
    np.float64(0.0)
    """

    kind: ClassVar[str] = "normal-form"
    payoffs: Float[np.ndarray | jax.Array, "players *actions"]
    labels: Labels = eqx.field(static=True)

    def __init__(self, payoffs: Any, *, labels: Any = None):
        payoffs = read_only("payoffs", payoffs)
        checks.check_ndim("payoffs", payoffs, 2, "(players, actions of each player...)")
        if payoffs.shape[0] != payoffs.ndim - 1 or 0 in payoffs.shape:
            raise ValueError(
                "payoffs: expected shape (N, A_1, ..., A_N) with one axis per player; "
                f"found {tuple(payoffs.shape)}"
            )
        checks.check_finite("payoffs", payoffs)
        self.payoffs = payoffs
        players, *actions = payoffs.shape
        self.labels = Labels.of(labels, players=players, actions=actions)

    @property
    def players(self) -> int:
        """Number of players."""
        return self.payoffs.shape[0]

    @property
    def actions(self) -> tuple[int, ...]:
        """Number of actions of each player."""
        return tuple(self.payoffs.shape[1:])

    def describe(self) -> str:
        """The game in a few words."""
        return f"normal-form game, {' x '.join(map(str, self.actions))}"

    def is_zero_sum(self) -> bool:
        """Whether there are two players whose payoffs sum to exactly zero everywhere."""
        payoffs = np.asarray(self.payoffs)
        return self.players == 2 and np.array_equal(payoffs[0], -payoffs[1])

    def as_matrix_game(self) -> MatrixGame:
        """The same game as a `MatrixGame`; refuses a game that is not two-player zero-sum."""
        if not self.is_zero_sum():
            raise ValueError("payoffs: expected a two-player zero-sum game, found another")
        return MatrixGame(self.payoffs[0], labels=self.labels)
