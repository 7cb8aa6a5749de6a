"""Pieces of trajectories with an expert's answers: read from files and arrays, and checked by row.

Nothing is trained before every row was checked, so that errors can name a file and a row. Arrays
have the axes of `Batch`; a table has a row for every trajectory, player and round.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.core import InputError

#: Labels may miss a sum of one by this much, since files often hold single precision.
TOLERANCE = 1e-4
SEATS = ("row", "column")


@dataclass(frozen=True)
class Limits:
    """What the numbers of a piece must fit; None where the data themselves decide."""

    #: Numbers of actions of both players.
    actions: tuple[int, int] | None = None
    #: Number of states; None for matrix games, or if the data decide.
    states: int | None = None
    #: Smallest and largest reward, which become 0 and 1.
    reward_range: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Piece:
    """Some trajectories. Shorter ones are padded with zeros up to the longest."""

    #: (trajectories, 2, rounds)
    actions: np.ndarray
    #: (trajectories, 2, rounds): each player's own rewards, in [0, 1].
    rewards: np.ndarray
    #: (trajectories, 2, rounds): actions of the expert, or (..., actions): its policies.
    labels: np.ndarray
    #: (trajectories, rounds + 1), or None in matrix games.
    states: np.ndarray | None
    #: (trajectories,): numbers of rounds.
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return sum(array.nbytes for array in vars(self).values() if array is not None)

    def some(self, index: Any) -> "Piece":
        """Select trajectories."""
        states = None if self.states is None else self.states[index]
        actions, rewards, labels = (a[index] for a in (self.actions, self.rewards, self.labels))
        return Piece(actions, rewards, labels, states, self.lengths[index])


Place = Callable[[str, int], str]


def _check(name: str, values: np.ndarray, bad: np.ndarray, expected: str, place: Place) -> None:
    """Raise for the first bad value, with its place."""
    if bad.any():
        i = int(bad.argmax())
        raise InputError("data", expected, f"{values[i]} in {place(name, i)}")


def _whole(name: str, values: Any, most: int | None, place: Place) -> np.ndarray:
    """Return whole numbers from 0 to below `most` as int32."""
    values = _numbers(name, values, place)
    end = 2**31 if most is None else most
    bad = ~((values >= 0) & (values < end) & (values == np.floor(values)))
    upper = "up" if most is None else f"to {most - 1}"
    _check(name, values, bad, f"{name}s that are whole numbers from 0 {upper}", place)
    return values.astype(np.int32)


def _numbers(name: str, values: Any, place: Place) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype.kind not in "biuf":
        raise InputError("data", f"{name}s that are numbers", f"{values.dtype} in {place(name, 0)}")
    return values


def _rewards(values: Any, limits: Limits, place: Place) -> np.ndarray:
    """Return rewards moved into [0, 1]."""
    low, high = limits.reward_range
    values = _numbers("reward", values, place)
    bad = ~((values >= low) & (values <= high))
    _check("reward", values, bad, f"rewards in [{low:g}, {high:g}] (`reward_range`)", place)
    return ((values - low) / (high - low)).astype(np.float32)


def _policies(values: Any, place: Place) -> np.ndarray:
    """Return the expert's policies, (rows, actions)."""
    values = _numbers("label", values, place)
    low, total = values.min(-1), values.sum(-1)
    _check("label", low, ~(low >= 0), "labels that are probabilities, at least 0", place)
    expected = f"labels label_0 to label_{values.shape[-1] - 1} that sum to 1"
    _check("label", total, ~(abs(total - 1) <= TOLERANCE), expected, place)
    return values.astype(np.float32)


def _check_support(labels: np.ndarray, players: np.ndarray, limits: Limits, place: Place) -> None:
    """Raise if the expert plays an action that its player does not have."""
    if limits.actions is None:
        return
    counts = np.array(limits.actions)[players]
    last = labels if labels.ndim == 1 else _last_played(labels)
    expected = f"labels for {limits.actions[0]} actions of the row player and "
    expected += f"{limits.actions[1]} of the column player, counted from 0"
    _check("label", last, last >= counts, expected, place)


def _last_played(labels: np.ndarray) -> np.ndarray:
    """Return the largest action with a positive probability."""
    return labels.shape[-1] - 1 - (labels[..., ::-1] > 0).argmax(-1)


def from_arrays(arrays: Mapping[str, Any], limits: Limits, name: str) -> Piece:
    """Return the trajectories in arrays that have the names and axes of `Batch`.

    `labels` may have an entry after the last round, which is not learned from, and in Markov games
    an axis of all states, of which the visited one counts. Without an axis of actions, labels are
    the expert's actions.

    >>> one = np.zeros((4, 2, 8), int)
    >>> piece = from_arrays({"actions": one, "rewards": one, "labels": one}, Limits(), "data")
    >>> len(piece), piece.actions.shape
    (4, (4, 2, 8))
    """
    missing = [key for key in ("actions", "rewards", "labels") if key not in arrays]
    if missing:
        found = ", ".join(sorted(arrays)) or "none"
        raise InputError("data", "arrays actions, rewards and labels", f"{found} in {name}")
    actions, rewards, labels = (np.asarray(arrays[k]) for k in ("actions", "rewards", "labels"))
    if actions.ndim != 3 or actions.shape[1] != 2 or not actions.size:
        expected = "actions of shape (trajectories, 2, rounds)"
        raise InputError("data", expected, f"{actions.shape} in {name}")
    if rewards.shape != actions.shape:
        raise InputError("data", f"rewards of shape {actions.shape}", f"{rewards.shape} in {name}")
    count, _, rounds = actions.shape
    states, places = arrays.get("states"), None
    if states is not None:
        states = np.asarray(states)
        if states.shape != (count, rounds + 1):
            expected = f"states of shape {(count, rounds + 1)}"
            raise InputError("data", expected, f"{states.shape} in {name}")
        places = _within(states.shape, name, "states")
        states = _whole("state", states.ravel(), limits.states, places).reshape(states.shape)
    labels = _visited_labels(labels, actions.shape, states, name)
    shape = actions.shape
    place = _within(shape, name)
    _, player, _ = np.indices(shape)
    flat = actions.ravel()
    actions = _action_numbers(flat, player.ravel(), limits, _within(shape, name, "actions"))
    rewards = _rewards(rewards.ravel(), limits, _within(shape, name, "rewards"))
    rows = labels.reshape(flat.size, *labels.shape[3:])
    rows = _policies(rows, place) if rows.ndim == 2 else _whole("label", rows, None, place)
    _check_support(rows, player.ravel(), limits, place)
    lengths = np.full(count, rounds, np.int32)
    return Piece(
        actions.reshape(shape), rewards.reshape(shape), rows.reshape(labels.shape), states, lengths
    )


def _within(shape: tuple[int, ...], name: str, array: str = "labels") -> Place:
    def place(_: str, i: int) -> str:
        index = ", ".join(str(int(j)) for j in np.unravel_index(i, shape))
        return f"{array}[{index}] of {name}"

    return place


def _visited_labels(
    labels: np.ndarray, shape: tuple[int, ...], states: np.ndarray | None, name: str
) -> np.ndarray:
    """Return labels before every round, at the state of the round."""
    count, _, rounds = shape
    most = 4 if states is None else 5
    fits = 3 <= labels.ndim <= most and labels.shape[:2] == (count, 2)
    if not fits or labels.shape[2] not in (rounds, rounds + 1):
        expected = f"labels of shape ({count}, 2, {rounds} or {rounds + 1}, actions)"
        raise InputError("data", expected, f"{labels.shape} in {name}")
    labels = labels[:, :, :rounds]
    if states is None or labels.ndim < 5:
        return labels
    if states.max() >= labels.shape[3]:
        expected = f"labels for {states.max() + 1} states"
        raise InputError("data", expected, f"{labels.shape[3]} in {name}")
    here = states[:, None, :-1, None, None]
    return np.take_along_axis(labels, here, axis=3)[:, :, :, 0]


def _action_numbers(
    values: np.ndarray, players: np.ndarray, limits: Limits, place: Place
) -> np.ndarray:
    values = _whole("action", values, None, place)
    for i, seat in enumerate(SEATS):
        if limits.actions is not None:
            bad = (players == i) & (values >= limits.actions[i])
            expected = f"actions of the {seat} player from 0 to {limits.actions[i] - 1}"
            _check("action", values, bad, expected, place)
    return values


def from_columns(
    columns: Mapping[str, Any], limits: Limits, name: str, first_row: int = 1
) -> Piece:
    """Return the trajectories in the columns that `Dataset.export` writes.

    Rows are ordered by trajectory, player and round. The expert's answer is its probabilities
    `label_0`, `label_1`, ..., or its action `label`. `first_row` is the number of the first row in
    the file, for errors.
    """
    rows = len(columns["round"])
    place: Place = lambda column, i: f"{column}, row {first_row + i:,} of {name}"  # noqa: E731
    player = _whole("player", columns["player"], 2, place)
    rounds = _whole("round", columns["round"], None, place)
    opens = rounds == 1
    before = np.r_[0, rounds[:-1]]
    same = np.r_[True, player[1:] == player[:-1]]
    bad = ~opens & ~((rounds == before + 1) & same & (before > 0))
    expected = "rounds 1, 2, ... of each player, in rows ordered by trajectory, player and round"
    _check("round", rounds, bad, expected, place)
    starts = np.flatnonzero(opens)
    turn = np.arange(len(starts)) % 2
    bad = np.zeros(rows, bool)
    bad[starts] = player[starts] != turn
    expected = "players 0 (row) and 1 (column) in turn, in rows ordered by trajectory, player"
    _check("player", player, bad, expected, place)
    lengths = np.diff(np.r_[starts, rows])
    if len(starts) % 2:
        found = f"none after {place('player', int(starts[-1]))}"
        raise InputError("data", "rows of player 1 (column) after those of player 0 (row)", found)
    bad[:] = False
    bad[starts[1::2]] = lengths[1::2] != lengths[::2]
    ends = np.zeros(rows, np.int64)
    ends[starts] = lengths
    _check("round", ends, bad, "as many rounds of player 1 as of player 0", place)
    sequence = np.cumsum(opens) - 1
    shape = (len(starts) // 2, 2, int(lengths.max()))
    at = (sequence // 2, sequence % 2, rounds - 1)
    actions = _action_numbers(np.asarray(columns["action"]), player, limits, place)
    rewards = _rewards(columns["reward"], limits, place)
    labels = _label_columns(columns, place)
    _check_support(labels, player, limits, place)
    states = _state_columns(columns, at, lengths[::2], limits, place)

    def padded(values: np.ndarray) -> np.ndarray:
        whole = np.zeros((*shape, *values.shape[1:]), values.dtype)
        whole[at] = values
        return whole

    short = lengths[::2].astype(np.int32)
    return Piece(padded(actions), padded(rewards), padded(labels), states, short)


def _label_columns(columns: Mapping[str, Any], place: Place) -> np.ndarray:
    if "label" in columns:
        return _whole("label", columns["label"], None, place)
    values = [_numbers("label", columns[f"label_{a}"], place) for a in range(count_labels(columns))]
    return _policies(np.stack(values, -1), place)


def count_labels(names: Any) -> int:
    """Return the number of columns `label_0`, `label_1`, ...

    >>> count_labels(["label_0", "label_1", "label_3"])
    2
    """
    count = 0
    while f"label_{count}" in names:
        count += 1
    return count


def _state_columns(
    columns: Mapping[str, Any], at: Any, lengths: np.ndarray, limits: Limits, place: Place
) -> np.ndarray | None:
    """Return (trajectories, rounds + 1) states, which must be the same for both players."""
    if "state" not in columns:
        return None
    here = _whole("state", columns["state"], limits.states, place)
    then = _whole("next_state", columns["next_state"], limits.states, place)
    number, player, t = at
    states = np.zeros((len(lengths), int(lengths.max()) + 1), np.int32)
    first = player == 0
    states[number[first], t[first]] = here[first]
    states[np.arange(len(lengths)), lengths] = then[first][np.cumsum(lengths) - 1]
    expected = "the same states for both players"
    _check("state", here, here != states[number, t], expected, place)
    expected = "each next_state to be the state of the next round, for both players"
    _check("next_state", then, then != states[number, t + 1], expected, place)
    return states
