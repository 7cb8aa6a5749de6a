"""What a log must satisfy; every complaint names the row.

Rows are counted from 0, as arrays are. Large logs are looked at as a whole first, and row by row
only to find the first offender once there is one.
"""

from typing import Any

import numpy as np

from equipoise.core import InputError, checks

#: Undeclared contexts, actions, states and steps are numbers below this: more likely an
#: identifier or a price took their place than that a log covers so many.
LARGEST_COUNT = 1_000_000
#: Declared counts are at most this.
DECLARED_LIMIT = 2**31 - 1
#: Rows of wide tables that are compared at once.
_CHUNK = 20_000


def as_table(name: str, value: Any, samples: int | None, agents: int | None) -> np.ndarray:
    """An array (samples,), or (samples, agents) where `agents` is a number or -1 for any."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        found = "rows of different lengths"
        raise InputError(name, "a rectangular array of numbers", found) from error
    if array.dtype.kind not in "iufb":
        raise InputError(name, "numbers", f"dtype {array.dtype}")
    axes = "(samples,)" if agents is None else "(samples, agents)"
    if array.ndim != (1 if agents is None else 2):
        raise InputError(name, f"shape {axes}", array.shape)
    if samples is not None and len(array) != samples:
        raise ValueError(f"{name}: expected {samples} rows, as contexts have, found {len(array)}")
    if agents is not None and agents >= 0 and array.shape[1] != agents:
        raise ValueError(
            f"{name}: expected {agents} agents, as actions have, found {array.shape[1]}"
        )
    return array


def as_whole(name: str, array: np.ndarray) -> np.ndarray:
    """Whole numbers; floats that are whole pass, and a NaN among them is a missing entry."""
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        _refuse(array > np.iinfo(np.int64).max, name, array, "whole numbers of 64 bits")
        return array.astype(np.int64)
    if array.dtype.kind != "f":
        return array
    _refuse(np.isnan(array), name, array, "a number, not a missing one")
    array = array.astype(np.float64, copy=False)
    # 2^53: beyond it floats are whole numbers whether they were meant to be or not.
    whole = (np.abs(array) <= 2.0**53) & (np.floor(array) == array)
    points = name == "actions" and np.isfinite(array).all()
    hint = "; actions from -1 to 1 take continuous=True" if points else ""
    _refuse(~whole, name, array, "whole numbers", hint)
    return array.astype(np.int64)


def as_counted(name: str, array: np.ndarray, counts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Numbers from 0 below their counts, in as few bytes as they need, and the counts.

    Without declared counts they are taken from the largest number of each column.
    """
    array = as_whole(name, array)
    columns = array.shape[1:]
    highest = np.asarray(array.max(0), np.int64)
    if counts is None:
        limit = np.full(columns, LARGEST_COUNT)
        counts = np.maximum(highest + 1, 1)
    else:
        limit = counts = np.broadcast_to(np.asarray(counts, np.int64), columns)
    lowest = array.min() if array.size else 0
    if lowest < 0 or (highest >= limit).any():
        bad = (array < 0) | (array >= limit)
        allowed = int(limit[checks.first_index(bad)[1:]]) - 1
        _refuse(bad, name, array, f"whole numbers from 0 to {allowed}")
    small = np.min_scalar_type(-int(np.max(counts)))
    return np.ascontiguousarray(array.astype(small, copy=False)), counts


def as_rewards(array: np.ndarray, bounds: tuple[float, float] | None) -> np.ndarray:
    """Finite rewards within their declared range."""
    array = _as_floats(array)
    low, high = array.min(), array.max()  # either is a NaN if any reward is
    if not (np.isfinite(low) and np.isfinite(high)):
        _refuse(~np.isfinite(array), "rewards", array, "finite numbers")
    if bounds is not None and (low < bounds[0] or high > bounds[1]):
        outside = (array < bounds[0]) | (array > bounds[1])
        _refuse(outside, "rewards", array, f"numbers from {bounds[0]} to {bounds[1]}")
    return array


def as_continuous(array: np.ndarray) -> np.ndarray:
    """Actions that are points of [-1, 1]."""
    array = _as_floats(array)
    _refuse(~(np.abs(array) <= 1.0), "actions", array, "numbers from -1 to 1")
    return array


def _as_floats(array: np.ndarray) -> np.ndarray:
    """Numbers in float32 where they came so, otherwise in float64."""
    kept = array.dtype.itemsize <= 4 and array.dtype.kind == "f"
    return np.ascontiguousarray(array, np.float32 if kept else np.float64)


def as_range(name: str, bounds: Any) -> tuple[float, float] | None:
    """Two finite numbers, the first not larger."""
    if bounds is None:
        return None
    array = np.asarray(bounds)
    if array.shape != (2,) or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise InputError(name, "two finite numbers (low, high)", repr(bounds))
    if array[0] > array[1]:
        raise InputError(name, "low <= high", repr(bounds))
    return float(array[0]), float(array[1])


def as_declared(name: str, value: Any) -> int | None:
    """A declared count, or None."""
    if value is None:
        return None
    count = checks.check_count(name, value)
    if count > DECLARED_LIMIT:
        raise InputError(name, f"at most {DECLARED_LIMIT}", count)
    return count


def as_declared_actions(value: Any, agents: int) -> list[int | None] | None:
    """Declared numbers of actions: one for each agent, or one for all."""
    if value is None:
        return None
    values = [value] * agents if np.ndim(value) == 0 else list(value)
    if len(values) != agents:
        expected = f"one count for each of {agents} agents"
        raise InputError("actions_per_agent", expected, len(values))
    return [as_declared("actions_per_agent", count) for count in values]


def check_episodes(fields: dict[str, Any]) -> None:
    """Refuse episodes that are not steps 0 to horizon - 1 of one context, each from where the
    last one led."""
    episodes, steps, contexts, states, next_states, horizon = (
        fields[name]
        for name in ("episodes", "steps", "contexts", "states", "next_states", "horizon")
    )
    order = np.lexsort((steps, episodes))
    episode, step = episodes[order], steps[order].astype(np.int64)
    first = np.append(True, episode[1:] != episode[:-1])
    position = np.arange(len(order))
    position = position - np.maximum.accumulate(np.where(first, position, 0))
    last = np.append(first[1:], True)
    wrong = (step != position) | (last & (step != horizon - 1))
    if wrong.any():
        at = int(np.argmax(wrong))
        mine = step[episode == episode[at]]
        shown = ", ".join(map(str, mine[:10])) + (", ..." if len(mine) > 10 else "")
        raise ValueError(
            f"episodes: expected steps 0 to {horizon - 1} once each in episode {episode[at]}, "
            f"found {shown} (row {order[at]}); leave episodes out where rows stand alone"
        )
    inside = np.flatnonzero(~first)
    context = contexts[order]
    moved = context[inside] != context[inside - 1]
    if moved.any():
        at = int(inside[np.argmax(moved)])
        raise ValueError(
            f"contexts: expected one context in episode {episode[at]}, found {context[at - 1]} "
            f"then {context[at]} in row {order[at]}"
        )
    for start in range(0, len(inside), _CHUNK):
        part = inside[start : start + _CHUNK]
        here, led = states[order[part]], next_states[order[part - 1]]
        if not np.array_equal(here, led):
            k, agent = checks.first_index(here != led)
            raise ValueError(
                f"states: expected agent {agent} in state {led[k, agent]}, where the step before "
                f"led in episode {episode[part[k]]}; found {here[k, agent]} in row "
                f"{order[part[k]]}"
            )


def _refuse(
    bad: np.ndarray, name: str, array: np.ndarray, expectation: str, hint: str = ""
) -> None:
    """Raise for the first true entry of `bad`, which has samples on its first axis."""
    if not bad.any():
        return
    where = checks.first_index(bad)
    whom = f" for agent {where[1]}" if len(where) == 2 else ""
    found = f"found {array[where]} in row {where[0]}{hint}"
    raise ValueError(f"{name}: expected {expectation}{whom}, {found}")
