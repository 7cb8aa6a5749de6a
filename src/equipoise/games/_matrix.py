"""Two-player zero-sum matrix games, one or many at once."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from equipoise.core import checks


class MatrixGame(eqx.Module):
    """A two-player zero-sum game: the row player gets `payoff[a, b]`, the column player minus it.

    Leading axes are batch axes: an array of shape (100_000, 3, 3) is a hundred thousand games.
    The payoffs are kept in float64. The object is immutable and a JAX pytree.

    **Example**

    >>> import equipoise as eq
    >>> rps = eq.MatrixGame([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    >>> rps.actions, rps.batch_shape
    ((3, 3), ())
    """

    payoff: Float[np.ndarray | jax.Array, "*batch rows columns"]

    def __init__(self, payoff: Any):
        payoff = checks.as_float_array("payoff", payoff)
        checks.check_ndim("payoff", payoff, 2, "(..., rows, columns)")
        checks.check_finite("payoff", payoff)
        self.payoff = payoff

    @property
    def actions(self) -> tuple[int, int]:
        """Number of actions of the row player and of the column player."""
        rows, columns = self.payoff.shape[-2:]
        return rows, columns

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch; `()` for a single game."""
        return tuple(self.payoff.shape[:-2])

    @property
    def players(self) -> int:
        """Two."""
        return 2

    def __getitem__(self, index: Any) -> "MatrixGame":
        """One game of a batch, or a slice of it."""
        return MatrixGame(take_batch(self.payoff, index, len(self.batch_shape)))

    def __len__(self) -> int:
        return batch_length(self.batch_shape)

    def __iter__(self) -> Iterator["MatrixGame"]:
        """The games of a batch, along its first axis; a single game cannot be iterated over."""
        return map(self.__getitem__, range(len(self)))


def take_batch(array: Any, index: Any, batch_axes: int) -> Any:
    """Index the batch axes of `array`; refuse indices that would reach into the game."""
    used = len(index) if isinstance(index, tuple) else 1
    if used > batch_axes:
        raise IndexError(f"index {index!r}: the game has {batch_axes} batch axes")
    return array[index]


def batch_length(batch_shape: tuple[int, ...]) -> int:
    """Length of the first batch axis, as `len` of a batched game."""
    if not batch_shape:
        raise TypeError("a single game has no length; only a batch of games has")
    return batch_shape[0]
