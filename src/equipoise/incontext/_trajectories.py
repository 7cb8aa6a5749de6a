"""Fixed trajectories with an expert's answers, the data of the in-context paper's Eq. (1)."""

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.incontext._pieces import Limits, Piece
from equipoise.incontext._sources import Source, open_source

#: Numbers that distinguish random permutations made from one key.
_VALIDATION, _PIECES, _WITHIN = range(3)


class Lot(NamedTuple):
    """Trajectories of one size, ready to be learned from."""

    #: (2, trajectories, rounds)
    actions: np.ndarray
    rewards: np.ndarray
    #: (trajectories, rounds + 1), or None in matrix games.
    states: np.ndarray | None
    #: (2, trajectories, rounds, actions): the expert's policies.
    labels: np.ndarray
    #: (2, trajectories, rounds): weights with mean 1; 0 after the end of a trajectory.
    weights: np.ndarray


class Trajectories:
    """n fixed trajectories of both players with an expert's answers: the data of Eq. (1).

    `pretrain(data=...)` takes whatever this class takes, and checks it in the same way: every row
    is read and checked once when the object is made. Build it yourself to pass a `reward_range` or
    to look at the data first.

    **Arguments**

    - `data`: one of

      - an `.npz` or `.parquet` file that `Dataset.export` wrote, or one of your own with the same
        names: `actions`, `rewards` and `labels` (and `states`), or columns `player`, `round`,
        `action`, `reward` and the expert's probabilities `label_0`, `label_1`, ... (and `state`,
        `next_state`). The column `label`, or an array of labels without an axis of actions, holds
        the expert's actions instead;
      - a folder of such files, which are the pieces, in the order of their names;
      - a `Dataset`, a `Batch`, or a mapping of arrays; a list of these and of files;
      - a function that returns an iterator over such pieces, and the same ones every time.

      Only some pieces are in memory at any time, about a gigabyte. The blocks of rows of a Parquet
      file are pieces too.
    - `actions`, `states`: numbers of actions of both players, and of states. Default: as in the
      data, with as many actions for both players.
    - `reward_range`: smallest and largest reward, which become 0 and 1.

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> actions = np.random.default_rng(0).integers(3, size=(20, 2, 8))
    >>> arrays = {"actions": actions, "rewards": actions / 2, "labels": (actions + 1) % 3}
    >>> data = eq.incontext.Trajectories(arrays)
    >>> len(data), data.rounds, data.actions
    (20, 8, (3, 3))
    """

    @named_arguments
    def __init__(
        self,
        data: Any,
        *,
        actions: tuple[int, int] | None = None,
        states: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ):
        low, high = reward_range
        checks.check_range("reward_range", high, float(low), float("inf"), low_open=True)
        self._limits = Limits(actions, states, (float(low), float(high)))
        self._source: Source = open_source(data)
        self._counts = list[int]()
        self._offsets = [0]
        self._scan()

    def __len__(self) -> int:
        return self._offsets[-1]

    #: Number of rounds of the longest trajectory.
    rounds: int
    #: Number of actions of each player.
    actions: tuple[int, int]
    #: Number of states; None for matrix games.
    states: int | None
    #: Digest of all numbers.
    digest: str

    @property
    def pieces(self) -> int:
        """Number of pieces."""
        return len(self._counts)

    def _scan(self) -> None:
        """Read and check everything once."""
        digest, rounds, most, places = hashlib.sha256(), 0, 0, 0
        kinds = set[tuple[bool, int]]()
        for piece in self._source.scan(self._limits):
            self._counts.append(len(piece))
            self._offsets.append(self._offsets[-1] + len(piece))
            rounds = max(rounds, piece.actions.shape[2])
            soft = piece.labels.ndim == 4
            width = piece.labels.shape[3] if soft else int(piece.labels.max()) + 1
            most = max(most, width, int(piece.actions.max()) + 1)
            if piece.states is not None:
                places = max(places, int(piece.states.max()) + 1)
            kinds.add((piece.states is None, width if soft else 0))
            for array in vars(piece).values():
                if array is not None:
                    digest.update(f"{array.dtype.str}{array.shape}".encode())
                    digest.update(array.tobytes())
        if not len(self):
            raise InputError("data", "at least one trajectory", "none")
        if len(kinds) > 1:
            expected = "pieces of one kind, with the same labels and with or without states"
            raise InputError("data", expected, "pieces that differ")
        matrix, width = kinds.pop()
        if width and most > width:
            expected = f"labels for {most} actions, as many as are played"
            raise InputError("data", expected, f"labels for {width}")
        if matrix and self._limits.states is not None:
            raise InputError("data", "states, which Markov games have", "none")
        if not matrix and self._limits.actions is not None and self._limits.states is None:
            raise InputError("data", "no states, which matrix games do not have", "states")
        self.rounds, self.digest = rounds, digest.hexdigest()
        self.actions = self._limits.actions or (most, most)
        if width and width != max(self.actions):
            expected = f"labels for {max(self.actions)} actions"
            raise InputError("data", expected, f"labels for {width}")
        self.states = None if matrix else self._limits.states or places

    def split(self, validation: float, words: list[int]) -> np.ndarray:
        """Return the numbers of the trajectories for validation, in ascending order."""
        checks.check_range("validation", validation, 0.0, 1.0, high_open=True)
        if validation == 0.0:
            return np.zeros(0, int)
        count = max(1, round(validation * len(self)))
        if count >= len(self):
            found = f"{count} of {len(self)}"
            raise InputError("validation", "a share that leaves trajectories to learn from", found)
        random = np.random.default_rng([*words, _VALIDATION])
        return np.sort(random.permutation(len(self))[:count])

    def lots(self, numbers: np.ndarray, size: int, rounds: int) -> Iterator[Lot]:
        """Yield some trajectories, in ascending order, in lots of one size.

        The last lot is filled up with trajectories of weight zero.
        """
        for start in range(0, len(numbers), size):
            own = numbers[start : start + size]
            fill = np.r_[own, np.repeat(own[-1:], size - len(own))]
            lot = self._lot(self._rows(fill), rounds, scaled=False)
            lot.weights[:, len(own) :] = 0.0
            yield lot

    def _rows(self, numbers: np.ndarray) -> list[Piece]:
        """Return trajectories by number, from pieces in ascending order."""
        which = np.searchsorted(self._offsets, numbers, side="right") - 1
        return [
            self._piece(int(i)).some(numbers[which == i] - self._offsets[i])
            for i in np.unique(which)
        ]

    def _piece(self, i: int) -> Piece:
        piece = self._source.load(i, self._limits)
        if len(piece) != self._counts[i]:
            found = f"{len(piece)} instead of {self._counts[i]} trajectories in piece {i}"
            raise InputError("data", "the same pieces in every pass", found)
        return piece

    def _lot(self, parts: list[Piece], rounds: int, scaled: bool = True) -> Lot:
        """Join pieces into arrays of one length; with `scaled`, weights have mean 1."""

        def joined(arrays: list[np.ndarray], length: int, axis: int) -> np.ndarray:
            return np.concatenate([_resized(array, length, axis) for array in arrays])

        lengths = np.minimum(np.concatenate([part.lengths for part in parts]), rounds)
        labels = joined([part.labels for part in parts], rounds, 2)
        most = max(self.actions)
        if labels.ndim == 3:
            labels = (labels[..., None] == np.arange(most)).astype(np.float32)
        labels = _resized(labels, most, 3)
        states = None
        if self.states is not None:
            known = [part.states for part in parts if part.states is not None]
            states = joined(known, rounds + 1, 1)
        alive = (np.arange(rounds) < lengths[:, None]).astype(np.float32)
        if scaled:
            alive *= np.float32(alive.size / alive.sum())
        actions, rewards = (
            np.moveaxis(joined([getattr(part, name) for part in parts], rounds, 2), 1, 0)
            for name in ("actions", "rewards")
        )
        weights = np.stack([alive, alive])
        return Lot(actions, rewards, states, np.moveaxis(labels, 1, 0), weights)


def _resized(array: np.ndarray, length: int, axis: int) -> np.ndarray:
    """Cut an axis, or pad it with zeros.

    >>> _resized(np.array([[1, 2]]), 3, 1).tolist(), _resized(np.array([[1, 2]]), 1, 1).tolist()
    ([[1, 2, 0]], [[1]])
    """
    array = array[(slice(None),) * axis + (slice(length),)]
    room = [(0, 0)] * array.ndim
    room[axis] = (0, length - array.shape[axis])
    return np.pad(array, room)


class Order:
    """The order in which training takes trajectories: a function of the key and of the position.

    Every pass takes each training trajectory once. Pieces come in random order, unless they can be
    read only in theirs, and the trajectories of a piece too. A run that was killed therefore
    continues at its place in the pass, which follows from the number of steps in the checkpoint.
    """

    def __init__(self, data: Trajectories, apart: np.ndarray, words: list[int], rounds: int):
        self._data, self._words, self._rounds = data, words, rounds
        own = np.ones(len(data), bool)
        own[apart] = False
        ends = np.cumsum(data._counts)
        self._training = [np.flatnonzero(part) for part in np.split(own, ends[:-1])]
        self.count = int(own.sum())
        self._pass = lru_cache(2)(self._make_pass)
        self._permuted = lru_cache(4)(self._make_permuted)

    def lot(self, start: int, count: int) -> Lot:
        """Return the `count` trajectories from a position on, over all passes."""
        parts, position = list[Piece](), start
        while position < start + count:
            number, at = divmod(position, self.count)
            pieces, ends = self._pass(number)
            i = int(np.searchsorted(ends, at, side="right"))
            index = self._permuted(number, int(pieces[i]))
            first = at - (int(ends[i]) - len(index))
            index = index[first : first + start + count - position]
            parts.append(self._data._piece(int(pieces[i])).some(index))
            position += len(index)
        return self._data._lot(parts, self._rounds)

    def _make_pass(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the pieces of a pass in order, and where each ends."""
        pieces = np.arange(self._data.pieces)
        if not self._data._source.in_order:
            pieces = np.random.default_rng([*self._words, _PIECES, number]).permutation(pieces)
        return pieces, np.cumsum([len(self._training[i]) for i in pieces])

    def _make_permuted(self, number: int, piece: int) -> np.ndarray:
        random = np.random.default_rng([*self._words, _WITHIN, number, piece])
        return random.permutation(self._training[piece])


def as_trajectories(data: Any, actions: tuple[int, int] | None, states: int | None) -> Trajectories:
    """Return trajectories, which must fit these sizes if there are any."""
    if not isinstance(data, Trajectories):
        return Trajectories(data, actions=actions, states=states)
    if actions is not None and (data.actions, data.states) != (actions, states):
        expected = (
            f"trajectories of {actions[0]} x {actions[1]} actions and {states or 'no'} states"
        )
        found = f"{data.actions[0]} x {data.actions[1]} actions and {data.states or 'no'} states"
        hint = "pass `actions` and `states` to Trajectories"
        raise InputError("data", expected, found, hint)
    return data
