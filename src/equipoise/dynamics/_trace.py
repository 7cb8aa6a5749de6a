"""What a run leaves: policies at chosen rounds, averages, regrets, and a state to go on from."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from equipoise.certificates import certify
from equipoise.dynamics._engine import Snapshot
from equipoise.dynamics._loop import LoopState
from equipoise.dynamics._resume import PlayState
from equipoise.dynamics._tables import Tables
from equipoise.games import MarkovGame, MatrixGame

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Recorded:
    """Policies at the recorded rounds.

    Arrays have shape (records, ..., actions) for matrix games and (records, ..., states,
    actions) for Markov games, where `...` are the batch axes, then the seeds if there are any.
    """

    #: (records,): how many rounds had been played.
    rounds: np.ndarray
    #: The policies of the round to come.
    last: Pair
    #: The means of the policies played so far; in Markov games, over the visits of each state.
    average: Pair
    #: (records, ...): sum of the mean rewards of the row player, in units of the game.
    reward: np.ndarray


@dataclass(frozen=True)
class Trace:
    """The outcome of `play`; all arrays are NumPy, float64 policies that sum to one.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(8, key=0)
    >>> omd = eq.dynamics.OMD()
    >>> trace = eq.dynamics.play(games, omd, omd, rounds=100, key=1, record=(10, 100))
    >>> trace.last[0].shape, trace.curve.shape, trace.recorded.rounds.tolist()
    ((8, 3), (2, 8), [10, 100])
    """

    games: MatrixGame | MarkovGame
    recorded: Recorded
    #: (records, ..., 2): regret of the row and of the column player; None for Markov games.
    #: A player's regret is what its best fixed action would have earned, on average, against
    #: the policies that the opponent played, less what was earned.
    regret: np.ndarray | None
    #: Pass it to `play` to go on.
    state: PlayState = field(repr=False)
    seeds: int | None = None

    @property
    def rounds(self) -> int:
        """How many rounds have been played, in all."""
        return int(self.recorded.rounds[-1])

    @property
    def last(self) -> Pair:
        """The policies after the final round."""
        return self.recorded.last[0][-1], self.recorded.last[1][-1]

    @property
    def average(self) -> Pair:
        """The means of the policies over all rounds."""
        return self.recorded.average[0][-1], self.recorded.average[1][-1]

    @cached_property
    def curve(self) -> np.ndarray:
        """(records, ...): exact `nash_conv` of the last policies at each recorded round."""
        return self._gaps(self.recorded.last)

    @cached_property
    def average_curve(self) -> np.ndarray:
        """(records, ...): exact `nash_conv` of the average policies at each recorded round."""
        return self._gaps(self.recorded.average)

    def _gaps(self, policies: Pair) -> np.ndarray:
        games = self.games if self.seeds is None else repeat_games(self.games, self.seeds)
        records = range(len(self.recorded.rounds))
        return np.stack(
            [certify(games, (policies[0][i], policies[1][i])).nash_conv for i in records]
        )


def repeat_games(games: MatrixGame | MarkovGame, seeds: int) -> MatrixGame | MarkovGame:
    """The same games with one more batch axis, a copy for every seed."""
    axis = len(games.batch_shape)

    def repeat(array: Any) -> np.ndarray:
        return np.repeat(np.expand_dims(np.asarray(array), axis), seeds, axis)

    if isinstance(games, MatrixGame):
        return MatrixGame(repeat(games.payoff))
    return MarkovGame(repeat(games.reward), repeat(games.transition), games.discount)


def make_trace(
    games: MatrixGame | MarkovGame,
    tables: Tables,
    outcome: tuple[LoopState, list[Snapshot]],
    stops: list[int],
    keys: np.ndarray,
    digests: np.ndarray,
    seeds: int | None,
) -> Trace:
    """Put what was recorded into the shape of the games."""
    loop, snapshots = outcome
    rounds = np.array(stops)
    last = [tuple(map(_normalised, map(tables.unflatten, s.policies))) for s in snapshots]
    averages = [_averages(tables, snapshot.sums) for snapshot in snapshots]
    low, high = tables.reward_range
    earned = np.stack([tables.unflatten(snapshot.sums[-1]) for snapshot in snapshots])
    shape = (-1,) + (1,) * (earned.ndim - 1)
    recorded = Recorded(
        rounds=rounds,
        last=(np.stack([x for x, _ in last]), np.stack([y for _, y in last])),
        average=(np.stack([x for x, _ in averages]), np.stack([y for _, y in averages])),
        reward=low * rounds.reshape(shape) + (high - low) * earned,
    )
    regret = None
    if tables.states is None:
        regret = (high - low) * np.stack([_regret(tables, snap.sums) for snap in snapshots])
    return Trace(games, recorded, regret, PlayState(loop, keys, digests), seeds)


def _normalised(policy: np.ndarray) -> np.ndarray:
    """The same policy with a sum of one in float64, too; float32 is off by about 1e-7."""
    return policy / policy.sum(-1, keepdims=True)


def _averages(tables: Tables, sums: Any) -> Pair:
    x, y = tables.unflatten(sums[0]), tables.unflatten(sums[1])
    if tables.states is not None:
        # A state that was never visited has no average: uniform stands in for it.
        unseen = tables.unflatten(sums[2])[..., None] == 0
        x, y = np.where(unseen, 1.0, x), np.where(unseen, 1.0, y)
    return _normalised(x), _normalised(y)


def _regret(tables: Tables, sums: Any) -> np.ndarray:
    """(..., 2): regrets of the scaled game, from sums of policies and of rewards."""
    x, y, earned = sums
    best_row = np.einsum("abg,bg->ag", tables.rewards, y).max(0)
    best_column = np.einsum("abg,ag->bg", tables.rewards, x).min(0)
    return tables.unflatten(np.stack([best_row - earned, earned - best_column]))
