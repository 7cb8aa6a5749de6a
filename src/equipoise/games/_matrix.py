"""Two-player zero-sum matrix games, one or many at once."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from equipoise.core import InputError, checks
from equipoise.core.values import read_only
from equipoise.games._game import BatchedGame, Labels


class MatrixGame(BatchedGame):
    """A two-player zero-sum game: the row player gets `payoff[a, b]`, the column player minus it.

    Leading axes are batch axes: an array of shape (100_000, 3, 3) holds 100,000 games. For a game
    with a table for each player use `NormalFormGame(A, B)`. Payoffs are
    stored in float64. If `payoff` is a JAX array on an accelerator, it stays there, and so do the
    results of `solve` and `certify`; any other input becomes a NumPy array. The object is immutable
    and a JAX pytree. `labels` names the players and their actions.

    **Example**

    >>> import equipoise as eq
    >>> rps = eq.MatrixGame([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    >>> rps.actions, rps.batch_shape
    ((3, 3), ())
    """

    kind: ClassVar[str] = "matrix"
    _instead: ClassVar[str] = "use NormalFormGame(A, B) where the players have a table each"
    payoff: Float[np.ndarray | jax.Array, "*batch rows columns"]
    labels: Labels = eqx.field(static=True)

    def __init__(self, payoff: Any, *, labels: Any = None):
        tables = isinstance(payoff, list | tuple) and len(payoff) == 2
        payoff = read_only("payoff", payoff, on_device=True)
        if tables and payoff.ndim == 3:
            batch = "and MatrixGame(np.array([A, B])) for a batch of two zero-sum games"
            expected = "one table, the row player's payoffs"
            raise InputError("payoff", expected, "a list of two", f"{self._instead}, {batch}")
        checks.check_ndim("payoff", payoff, 2, "(..., rows, columns)")
        checks.check_finite("payoff", payoff)
        self.payoff = payoff
        self.labels = Labels.of(labels, players=2, actions=payoff.shape[-2:])

    @property
    def players(self) -> int:
        """Number of players: always 2."""
        return 2

    @property
    def actions(self) -> tuple[int, int]:
        """Number of actions of the row player and of the column player."""
        rows, columns = self.payoff.shape[-2:]
        return rows, columns

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch; `()` for a single game."""
        return tuple(self.payoff.shape[:-2])

    def describe(self) -> str:
        """Return a one-line description of the game."""
        rows, columns = self.payoff.shape[-2:]
        return f"{self._counted('zero-sum matrix game')}, {rows} x {columns}"

    def __getitem__(self, index: Any) -> "MatrixGame":
        """Return one game of a batch, or a slice of the batch."""
        return MatrixGame(self._take(self.payoff, index), labels=self.labels)
