"""Check the tables of a log. Every error names the row.

Rows are counted from 0, like array indices. A check first tests a whole table at once, and searches
row by row for the first invalid entry only if there is one.
"""

from typing import Any

import numpy as np

from equipoise.core import InputError, checks

#: Undeclared contexts, actions, states and steps must be numbers below this. A larger number is
#: more likely an identifier or a price in the wrong column.
LARGEST_COUNT = 1_000_000
#: Largest absolute value of a reward.
LARGEST_REWARD = 1e100
#: Largest declared count.
DECLARED_LIMIT = 2**31 - 1
#: Number of rows of wide tables that are compared at once.
_CHUNK = 20_000


def as_table(name: str, value: Any, samples: int | None, agents: int | None) -> np.ndarray:
    """Return an array (samples,), or (samples, agents) if `agents` is a number (-1: any)."""
    array = _as_array(name, value)
    axes = "(samples,)" if agents is None else "(samples, agents)"
    if array.ndim != (1 if agents is None else 2):
        raise InputError(name, f"shape {axes}", array.shape)
    if samples is not None and len(array) != samples:
        raise ValueError(f"{name}: expected {samples} rows, as in contexts, found {len(array)}")
    if agents is not None and agents >= 0 and array.shape[1] != agents:
        raise ValueError(f"{name}: expected {agents} agents, as in actions, found {array.shape[1]}")
    return array


def _as_array(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError as error:
        found = "rows of different lengths"
        raise InputError(name, "a rectangular array of numbers", found) from error
    if array.dtype.kind not in "iufb":
        raise InputError(name, "numbers", f"dtype {array.dtype}")
    return array


def as_whole(name: str, array: np.ndarray) -> np.ndarray:
    """Convert to whole numbers. Floats with whole values pass; a NaN is a missing entry."""
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        _refuse(array > np.iinfo(np.int64).max, name, array, "64-bit whole numbers")
        return array.astype(np.int64)
    if array.dtype.kind != "f":
        return array
    _refuse(np.isnan(array), name, array, "numbers without missing entries")
    array = array.astype(np.float64, copy=False)
    # Every float beyond 2^53 is a whole number, whether that was intended or not.
    whole = (np.abs(array) <= 2.0**53) & (np.floor(array) == array)
    points = name == "actions" and np.isfinite(array).all()
    hint = "; declare continuous actions if they are numbers from -1 to 1" if points else ""
    _refuse(~whole, name, array, "whole numbers", hint)
    return array.astype(np.int64)


def as_counted(name: str, array: np.ndarray, counts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Check that numbers lie from 0 to their count - 1; return them in few bytes, and the counts.

    Counts that are not declared follow from the largest number in each column.
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


def as_recorded(value: Any, samples: int, agents: int, continuous: bool) -> np.ndarray | None:
    """Check a mask of known rewards; None if all are known."""
    if value is None:
        return None
    array = as_table("recorded", value, samples, agents)
    _refuse((array != 0) & (array != 1), "recorded", array, "true or false")
    array = np.ascontiguousarray(array, bool)
    if array.all():
        return None
    if continuous:
        expected = "an action and a reward of every agent at all times"
        found = f"{int((~array).sum()):,} rewards that are not recorded"
        raise InputError("continuous", expected, found, "leave these rows out, or bin the actions")
    return array


def as_rewards(
    array: np.ndarray, bounds: tuple[float, float] | None, recorded: np.ndarray | None = None
) -> np.ndarray:
    """Check that rewards are finite and within their declared range; unknown ones become NaN."""
    array = _as_floats(array)
    if recorded is not None:  # whatever stands for unknown rewards is not checked
        usual = array[recorded][:1]
        checked = as_rewards(np.where(recorded, array, usual if len(usual) else 0.0), bounds)
        return np.where(recorded, checked, checked.dtype.type(np.nan))
    low, high = array.min(), array.max()  # NaN if any reward is NaN
    if not (np.isfinite(low) and np.isfinite(high)):
        hint = "; pass recorded= to say which rewards are known" if np.isnan(low) else ""
        _refuse(~np.isfinite(array), "rewards", array, "finite numbers", hint)
    if max(-float(low), float(high)) > LARGEST_REWARD:  # sums of squares would overflow
        far = np.abs(array) > LARGEST_REWARD
        _refuse(far, "rewards", array, f"numbers up to {LARGEST_REWARD:g}")
    if bounds is not None and (low < bounds[0] or high > bounds[1]):
        outside = (array < bounds[0]) | (array > bounds[1])
        _refuse(outside, "rewards", array, f"numbers from {bounds[0]} to {bounds[1]}")
    return array


def as_continuous(array: np.ndarray) -> np.ndarray:
    """Check that actions are points of [-1, 1]."""
    array = _as_floats(array)
    _refuse(~(np.abs(array) <= 1.0), "actions", array, "numbers from -1 to 1")
    return array


def _as_floats(array: np.ndarray) -> np.ndarray:
    """Keep float32 arrays; convert all others to float64."""
    kept = array.dtype.itemsize <= 4 and array.dtype.kind == "f"
    return np.ascontiguousarray(array, np.float32 if kept else np.float64)


def as_numbers(name: str, value: Any, axes: tuple[int, ...]) -> np.ndarray | None:
    """Return finite numbers as an array with these axes and one more, or None."""
    if value is None:
        return None
    array = _as_array(name, value)
    if array.shape[:-1] != axes or not array.shape[-1]:
        raise InputError(name, f"shape {(*axes, 'numbers')}".replace("'", ""), array.shape)
    array = np.ascontiguousarray(array, np.float64)
    _refuse(~np.isfinite(array), name, array, "finite numbers")
    far = np.abs(array) > LARGEST_REWARD  # squares would overflow
    _refuse(far, name, array, f"numbers up to {LARGEST_REWARD:g}")
    return array


def as_range(name: str, bounds: Any) -> tuple[float, float] | None:
    """Check a range: two finite numbers, the first not larger than the second."""
    if bounds is None:
        return None
    array = np.asarray(bounds)
    if array.shape != (2,) or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise InputError(name, "two finite numbers (low, high)", repr(bounds))
    if array[0] > array[1]:
        raise InputError(name, "low <= high", repr(bounds))
    return float(array[0]), float(array[1])


def as_declared(name: str, value: Any) -> int | None:
    """Check a declared count, or None."""
    if value is None:
        return None
    count = checks.check_count(name, value)
    if count > DECLARED_LIMIT:
        raise InputError(name, f"at most {DECLARED_LIMIT}", count)
    return count


def as_declared_actions(value: Any, agents: int) -> list[int | None] | None:
    """Check declared numbers of actions: one for each agent, or one for all agents."""
    if value is None:
        return None
    values = [value] * agents if np.ndim(value) == 0 else list(value)
    if len(values) != agents:
        expected = f"one count for each of {agents} agents"
        raise InputError("actions_per_agent", expected, len(values))
    return [as_declared("actions_per_agent", count) for count in values]


def check_episodes(fields: dict[str, Any]) -> None:
    """Check that each episode has steps 0 to horizon - 1, one context, and connected states."""
    episodes, steps, states, next_states, horizon = (
        fields[name] for name in ("episodes", "steps", "states", "next_states", "horizon")
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
            f"found {shown} (row {order[at]}); pad shorter episodes with a state that is never "
            "left, or leave out episodes if rows are independent"
        )
    inside = np.flatnonzero(~first)
    for name in ("contexts", "covariates"):
        if fields[name] is None:
            continue
        context = fields[name][order]
        moved = context[inside] != context[inside - 1]
        moved = moved if name == "contexts" else moved.any(1)
        if moved.any():
            at = int(inside[np.argmax(moved)])
            raise ValueError(
                f"{name}: expected one context in episode {episode[at]}, found {context[at - 1]} "
                f"and then {context[at]} in row {order[at]}"
            )
    for start in range(0, len(inside), _CHUNK):
        part = inside[start : start + _CHUNK]
        here, led = states[order[part]], next_states[order[part - 1]]
        if not np.array_equal(here, led):
            k, agent, *_ = checks.first_index(here != led)
            raise ValueError(
                f"states: expected agent {agent} in state {led[k, agent]}, the next state of the "
                f"step before in episode {episode[part[k]]}; found {here[k, agent]} in row "
                f"{order[part[k]]}"
            )


def _refuse(
    bad: np.ndarray, name: str, array: np.ndarray, expectation: str, hint: str = ""
) -> None:
    """Raise an error for the first true entry of `bad`, whose first axis is samples."""
    if not bad.any():
        return
    where = checks.first_index(bad)
    whom = f" for agent {where[1]}" if array.ndim > 1 and name != "covariates" else ""
    found = f"found {array[where]} in row {where[0]}{hint}"
    raise ValueError(f"{name}: expected {expectation}{whom}, {found}")
