"""General-sum normal-form games with any number of players, single or in batches."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.values import frozen, read_only, static
from equipoise.games._game import BatchedGame, Labels
from equipoise.games._matrix import MatrixGame
from equipoise.games._policies import Profile

if TYPE_CHECKING:
    import jax


class NormalFormGame(BatchedGame[Profile]):
    """An N-player game as a full payoff table: `payoffs[i, a_1, ..., a_N]` goes to player i.

    The table's size is exponential in the number of players. Use this kind to exchange games with
    files and other libraries, not for large games. `NormalFormGame(A, B)` is the game in which the
    row player gets `A[a, b]` and the column player `B[a, b]`; with N tables, player i gets the
    i-th. If `players` is given, leading axes are batch axes: payoffs of shape (1000, 2, 3, 3) with
    `players=2` are 1,000 bimatrix games. `labels` names the players and their
    actions: `{"players": ["Ann", "Bob"], "actions": [["stay", "leave"]]}`, with one list of actions
    for each player, or a single one that all players share. Names in data frames are not read.

    **Example**

    >>> import equipoise as eq
    >>> dilemma = eq.NormalFormGame([[3, 0], [5, 1]], [[3, 5], [0, 1]])
    >>> dilemma.players, dilemma.actions
    (2, (2, 2))
    >>> eq.certify(dilemma, ([0, 1], [0, 1])).max_gain
    np.float64(0.0)
    >>> eq.NormalFormGame([dilemma.payoffs] * 10, players=2).batch_shape
    (10,)
    """

    kind: ClassVar[str] = "normal-form"
    #: (..., players, actions of each player).
    payoffs: "np.ndarray | jax.Array"
    #: Number of players.
    players: int = static()  # pyright: ignore[reportIncompatibleMethodOverride]
    labels: Labels = static()

    def __init__(self, payoffs: Any, *more: Any, players: int | None = None, labels: Any = None):
        if more:
            payoffs, players = _one_table_each((payoffs, *more), players)
        payoffs = read_only("payoffs", payoffs)
        checks.check_ndim("payoffs", payoffs, 2, "(players, actions of each player...)")
        count = payoffs.shape[0] if players is None else checks.check_count("players", players)
        batch = payoffs.ndim - 1 - count
        given = players is not None and batch >= 0
        shape = payoffs.shape[max(batch, 0) :]
        if (batch and not given) or shape[0] != count or 0 in shape:
            leading = "" if players is None else "..., "
            raise ValueError(
                f"payoffs: expected shape ({leading}N, A_1, ..., A_N) with one axis per player; "
                f"found {tuple(payoffs.shape)}"
                + ("; give `players=` if leading axes are a batch" if players is None else "")
            )
        if players is None and (others := _as_batch(shape)):
            raise InputError(
                "payoffs",
                "`players=` for a shape that can be read in two ways",
                tuple(payoffs.shape),
                f"players={others} for {shape[0]} games of {others} players, or players={count} "
                f"for one game with {' x '.join(map(str, shape[1:]))} actions",
            )
        checks.check_finite("payoffs", payoffs)
        labels = Labels.of(labels, players=count, actions=shape[1:])
        self._set(payoffs=payoffs, players=count, labels=labels)

    @property
    def actions(self) -> tuple[int, ...]:
        """Number of actions of each player."""
        return tuple(self.payoffs.shape[self.payoffs.ndim - self.players :])

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch; `()` for a single game."""
        return tuple(self.payoffs.shape[: self.payoffs.ndim - self.players - 1])

    def describe(self) -> str:
        """Return a one-line description of the game."""
        return f"{self._counted('normal-form game')}, {' x '.join(map(str, self.actions))}"

    def __getitem__(self, index: Any) -> "NormalFormGame":
        """Return one game of a batch, or a slice of the batch."""
        payoffs = self._take(self.payoffs, index)
        return NormalFormGame(payoffs, players=self.players, labels=self.labels)

    def is_zero_sum(self) -> bool:
        """Return whether there are two players and their payoffs sum to exactly zero everywhere."""
        if self.players != 2:
            return False
        first, second = np.moveaxis(np.asarray(self.payoffs), -3, 0)
        return np.array_equal(first, -second)

    def as_matrix_game(self) -> MatrixGame:
        """Return the same game as a `MatrixGame`. Refuse a game that is not two-player zero-sum."""
        if not self.is_zero_sum():
            raise InputError("payoffs", "a two-player zero-sum game", "one that is not")
        return MatrixGame(self.payoffs[..., 0, :, :], labels=self.labels)


def _one_table_each(tables: tuple[Any, ...], players: Any) -> tuple[np.ndarray, int]:
    """Stack the tables of the players; leading axes are a batch."""
    if players not in (None, len(tables)):
        raise InputError("players", f"{len(tables)}, one for each table", players)
    arrays = [checks.as_float_array(f"payoffs[{i}]", t, copy=False) for i, t in enumerate(tables)]
    for i, array in enumerate(arrays):
        checks.check_ndim(f"payoffs[{i}]", array, len(tables), "one for each player")
        checks.check_shape(f"payoffs[{i}]", array, arrays[0].shape, "as payoffs[0]")
    return frozen(np.stack(arrays, axis=-1 - len(tables))), len(tables)


def _as_batch(shape: tuple[int, ...]) -> int:
    """Number of players if the table of one game is as likely a batch of smaller games, or 0.

    (3, 2, 3, 3) is three games of two players with 3 actions, or one of three players with 2, 3 and
    3 actions. (3, 2, 2, 2) is taken for three players: all of them have as many actions.
    """
    players = len(shape) - 2
    alike = len(set(shape[2:])) == 1 != len(set(shape[1:]))
    return players if alike and 2 <= players == shape[1] else 0
