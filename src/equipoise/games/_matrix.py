"""Two-player zero-sum matrix games, one or many at once."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.values import read_only, static
from equipoise.games._game import BatchedGame, Labels
from equipoise.games._policies import Profile

if TYPE_CHECKING:
    import jax


class MatrixGame(BatchedGame[Profile]):
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
    #: (..., rows, columns).
    payoff: "np.ndarray | jax.Array"
    labels: Labels = static()

    def __init__(self, payoff: Any, *, labels: Any = None):
        tables = isinstance(payoff, list | tuple) and len(payoff) == 2
        payoff = read_only("payoff", payoff, on_device=True)
        if tables and payoff.ndim == 3:
            batch = "and MatrixGame(np.array([A, B])) for a batch of two zero-sum games"
            expected = "one table, the row player's payoffs"
            raise InputError("payoff", expected, "a list of two", f"{self._instead}, {batch}")
        checks.check_ndim("payoff", payoff, 2, "(..., rows, columns)")
        checks.check_finite("payoff", payoff)
        labels = Labels.of(labels, players=2, actions=payoff.shape[-2:])
        self._set(payoff=payoff, labels=labels)

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

    def _checked(self, policy: Any) -> Any:
        """Return a fitting profile at once: certificates of small games take microseconds."""
        if type(policy) is Profile and len(policy.strategies) == 2:
            (x, y), shape = policy.strategies, self.payoff.shape
            if x.shape[-1:] == shape[-2:-1] and y.shape[-1:] == shape[-1:]:
                return policy
        return super()._checked(policy)

    def describe(self) -> str:
        """Return a one-line description of the game."""
        rows, columns = self.payoff.shape[-2:]
        return f"{self._counted('zero-sum matrix game')}, {rows} x {columns}"

    def __getitem__(self, index: Any) -> "MatrixGame":
        """Return one game of a batch, or a slice of the batch."""
        return MatrixGame(self._take(self.payoff, index), labels=self.labels)
