"""Logs as people have them: tables with names, gaps and columns of their own.

A table is *long* where a column says whose row it is (one row for each agent and time), and *wide*
where every agent has columns of its own (`action_Ada`, `reward_Ada`, ...). It comes from a `.csv`
or `.parquet` file or from a data frame: anything with `columns` whose `frame[name].to_numpy()` is
an array. What was done to it is told in three lines, `Log.notes`.

An agent that is missing at some time is in the local state "absent" there, in which it earns
nothing and chooses nothing. The others' rewards may depend on that, as on anything it does.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.core.extras import import_extra

#: What a missing entry is written as, in lower case.
MISSING = {"", "na", "n/a", "nan", "null", "none"}
#: Numbers with at most so many different values are categories.
CATEGORIES = 12
#: Options of `Log.read` that make a file a table of this kind.
OPTIONS = ("agent", "time", "action", "reward", "context", "bins")


def read_frame(
    source: Any,
    *,
    agent: str | None = None,
    time: str | None = None,
    action: str | None = None,
    reward: str | None = None,
    context: str | Sequence[str] | None = None,
    bins: Any = None,
    continuous: bool = False,
) -> dict[str, Any]:
    """The fields of a `Log`, with `labels` and `notes`, from a table."""
    table, name = _table(source)
    contexts = [context] if isinstance(context, str) else list(context or ())
    if agent is None and time is not None:
        raise InputError("agent", "the column that says whose row it is, beside time", "none")
    if agent is not None:
        wanted = {"agent": agent, "time": time, "action": action, "reward": reward}
        for option, column in wanted.items():
            if column is None:
                raise InputError(option, "the name of a column, beside agent", "none")
            _check_column(option, column, table)
    elif not contexts and "context" in table:
        contexts = ["context"]
    for column in contexts:
        _check_column("context", column, table)
    grid = (
        _wide(table, action or "action", reward or "reward")
        if agent is None
        else _long(table, agent, str(time), str(action), str(reward))
    )
    fields, told = _actions(grid, bins, continuous)
    present = grid.present
    coded, names, features, about = _contexts(table, contexts, grid)
    rewards = np.where(present, grid.rewards, 0.0)
    if features.shape[1]:
        rewards = _without(rewards, features, coded, fields["actions"], present)
    labels: dict[str, Any] = {"players": grid.agents, "actions": fields.pop("names")}
    labels["contexts"] = names
    away = int((~present).sum())
    if away:
        if continuous:
            raise InputError("continuous", "all agents in every row", f"{away} that are missing")
        labels["states"] = ("present", "absent")
        fields |= {"states": ~present, "next_states": np.zeros_like(present), "states_count": 2}
    unused = [column for column in table if column not in {*grid.used, *contexts}]
    notes = (
        f"{name}: {grid.rows:,} rows; {len(grid.agents)} agents at {len(present):,} times"
        + (f"; {grid.dropped}" if grid.dropped else ""),
        "; ".join(filter(None, (told, *about))),
        f"{away:,} of {present.size:,} actions are missing and masked; columns left alone: "
        + (", ".join(unused[:8]) + (", ..." if len(unused) > 8 else "") or "none"),
    )
    labels = {key: value for key, value in labels.items() if value is not None}
    given = {"contexts": coded, "rewards": rewards, "labels": labels, "notes": notes}
    return fields | given | {"continuous": continuous, "name": name}


class _Grid:
    """Actions and rewards by time and agent, of any type, and where they are missing."""

    def __init__(self, times: int, agents: Sequence[str], numeric: bool):
        self.agents, self.rows, self.dropped = tuple(agents), 0, ""
        shape = (times, len(self.agents))
        self.actions: np.ndarray = np.full(
            shape, np.nan if numeric else None, float if numeric else object
        )
        self.rewards = np.full(shape, np.nan)
        #: For each time, a row of the table that has it.
        self.first = np.zeros(times, np.int64)
        #: The row of the table of each time and agent; -1 where there is none.
        self.row = np.full(shape, -1)
        self.used: list[str] = []

    @property
    def present(self) -> np.ndarray:
        """(times, agents): where there is an action and a reward."""
        return ~_is_missing(self.actions) & ~np.isnan(self.rewards)


def _table(source: Any) -> tuple[dict[str, np.ndarray], str]:
    """Columns by name, as numbers (missing: NaN) or objects (missing: None), and a name."""
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        names = [str(column) for column in source.columns]
        found = {
            n: np.asarray(source[c].to_numpy()) for n, c in zip(names, source.columns, strict=True)
        }
        return {n: _column(values) for n, values in found.items()}, "data frame"
    path = Path(source)
    if path.suffix == ".parquet":
        arrow = import_extra("pyarrow.parquet", "pyarrow", "parquet").read_table(path)
        columns = {n: arrow.column(n) for n in arrow.column_names}
        found = {n: c.to_numpy() for n, c in columns.items()}
        return {n: _column(values) for n, values in found.items()}, path.name
    with open(path, newline="", encoding="utf-8-sig") as stream:
        try:
            head = stream.readline()
            stream.seek(0)
            mark = max(",;\t", key=head.count)
            rows = list(csv.reader(stream, delimiter=mark))
        except UnicodeDecodeError as error:
            found = f"a byte that is none at position {error.start}"
            raise InputError("log", f"text in UTF-8 in {path}", found, "save it as UTF-8") from None
    if len(rows) < 2:
        raise InputError("log", f"a header and rows in {path}", f"{len(rows)} lines")
    head, body = rows[0], [row for row in rows[1:] if row]
    wrong = next((at for at, row in enumerate(body) if len(row) != len(head)), None)
    if wrong is not None:
        found = f"{len(body[wrong])} in row {wrong}"
        raise InputError("log", f"{len(head)} entries in every row of {path}", found)
    names = [name.strip() for name in head]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("log", f"columns of different names in {path}", f"{twice!r} twice")
    return {
        n: _column(np.array(c, object)) for n, c in zip(names, zip(*body, strict=True), strict=True)
    }, path.name


def _column(values: np.ndarray) -> np.ndarray:
    """Numbers where all entries are, otherwise stripped words.

    >>> _column(np.array(["1.5", "NA", "2"], object)).tolist()
    [1.5, nan, 2.0]
    >>> _column(np.array([" a", "", "2"], object)).tolist()
    ['a', None, '2']
    """
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    if values.dtype.kind in "mM":
        return np.datetime_as_string(values).astype(object)
    words = [
        None if x is None or str(x).strip().lower() in MISSING else str(x).strip() for x in values
    ]
    try:
        return np.array([np.nan if x is None else float(x) for x in words])
    except ValueError:
        return np.array(words, object)


def _is_missing(values: np.ndarray) -> np.ndarray:
    none: Any = None
    return np.isnan(values) if values.dtype.kind == "f" else np.equal(values, none)


def _check_column(option: str, column: str, table: Mapping[str, Any]) -> None:
    if column not in table:
        raise InputError(option, f"one of the columns {', '.join(table)}", repr(column))


def _words(values: np.ndarray) -> list[str]:
    """Values as text: whole numbers without a point, and all digits of others."""
    return [f"{x:.15g}" if isinstance(x, float) else str(x) for x in values.tolist()]


def _ordered(values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Different values in order, and the code of each, -1 where it is missing."""
    away = _is_missing(values)
    if values.dtype.kind == "f":
        found = np.unique(values[~away])
        codes = np.searchsorted(found, values)
    else:
        known = sorted(set(values[~away].tolist()), key=_natural)
        number = {word: code for code, word in enumerate(known)}
        found, codes = (
            np.array(known, object),
            np.array([number.get(x, -1) for x in values.tolist()]),
        )
    return _words(found), np.where(away, -1, codes)


def _natural(word: str) -> list[Any]:
    parts = re.split(r"(\d+)", word)
    return [int(x) if x.isdecimal() else x.lower() for x in parts]


def _long(
    table: Mapping[str, np.ndarray], agent: str, time: str, action: str, reward: str
) -> _Grid:
    agents, who = _ordered(table[agent])
    times, when = _ordered(table[time])
    earned = table[reward]
    if earned.dtype.kind != "f":
        raise InputError(
            "reward", f"numbers in column {reward}", f"words such as {_first(earned)!r}"
        )
    grid = _Grid(len(times), agents, table[action].dtype.kind == "f")
    kept = np.flatnonzero((who >= 0) & (when >= 0))
    place = when[kept] * len(agents) + who[kept]
    _, first, again = np.unique(place, return_index=True, return_inverse=True)
    same = kept[first][again]
    acted = table[action]
    differ = (_text(acted[kept]) != _text(acted[same])) | (
        _text(earned[kept]) != _text(earned[same])
    )
    if differ.any():
        row = int(kept[np.argmax(differ)])
        found = f"another of {agents[who[row]]} at {times[when[row]]} in row {row}"
        raise InputError("time", "one row for each agent and time", found)
    rows = kept[first]
    at = (when[rows], who[rows])
    grid.actions[at], grid.rewards[at], grid.row[at] = acted[rows], earned[rows], rows
    grid.first[when[rows]] = rows
    grid.rows, grid.used = len(who), [agent, time, action, reward]
    copies, lost = len(kept) - len(rows), len(who) - len(kept)
    told = [f"{copies:,} repeated rows were left out"] if copies else []
    told += [f"{lost:,} rows without agent or time were left out"] if lost else []
    grid.dropped = "; ".join(told)
    return grid


def _wide(table: Mapping[str, np.ndarray], action: str, reward: str) -> _Grid:
    agents = [n.removeprefix(f"{action}_") for n in table if n.startswith(f"{action}_")]
    agents = sorted(agents, key=_natural) if all(a.isdigit() for a in agents) else agents
    if not agents:
        hint = "a long table takes agent=, time=, action= and reward="
        raise InputError("log", f"columns {action}_i and {reward}_i", ", ".join(table), hint)
    for i in agents:
        _check_column("reward", f"{reward}_{i}", table)
    columns = [table[f"{action}_{i}"] for i in agents]
    numeric = all(c.dtype.kind == "f" for c in columns)
    grid = _Grid(len(columns[0]), agents, numeric)
    for at, (i, own) in enumerate(zip(agents, columns, strict=True)):
        words = own if numeric or own.dtype.kind == "O" else np.array(_words(own), object)
        grid.actions[:, at] = words
        if table[f"{reward}_{i}"].dtype.kind != "f":
            raise InputError("reward", f"numbers in column {reward}_{i}", "words")
        grid.rewards[:, at] = table[f"{reward}_{i}"]
    grid.rows = len(columns[0])
    grid.first = np.arange(grid.rows)
    grid.row = np.broadcast_to(grid.first[:, None], grid.rewards.shape)
    grid.used = [f"{word}_{i}" for i in agents for word in (action, reward)]
    return grid


def _first(values: np.ndarray) -> Any:
    """A word that is no number."""
    for word in values.ravel().tolist():
        try:
            float(word if word is not None else 0)
        except ValueError:
            return word
    return None


def _text(values: np.ndarray) -> np.ndarray:
    return np.array(_words(values), dtype=str)


def _actions(grid: _Grid, bins: Any, continuous: bool) -> tuple[dict[str, Any], str]:
    """Actions as numbers from 0, with their names; or scaled to [-1, 1] where continuous."""
    values, present = grid.actions, grid.present
    if not present.any():
        raise InputError("log", "rows with an action and a reward", "none")
    if values.dtype.kind != "f":
        if bins is not None or continuous:
            raise InputError("action", "numbers, for bins or continuous actions", _first(values))
        names, codes = _ordered(values.ravel())
        return _counted(codes.reshape(values.shape), names, present, f"{len(names)} actions")
    numbers = values[present]
    if continuous:
        low, high = float(numbers.min()), float(numbers.max())
        half = max((high - low) / 2, 1e-300)
        points = np.where(present, (values - low) / half - 1.0, 0.0)
        told = f"actions from {low:g} to {high:g} were scaled to [-1, 1]"
        return {"actions": np.clip(points, -1.0, 1.0), "names": None}, told
    different = np.unique(numbers)
    if bins is None:
        if len(different) > CATEGORIES:
            hint = "pass bins=4 for quantiles, bins=[edges], or continuous=True"
            expected = f"at most {CATEGORIES} different numbers, or words"
            raise InputError("action", expected, f"{len(different)} numbers", hint)
        names, codes = _ordered(values.ravel())
        return _counted(codes.reshape(values.shape), names, present, f"{len(names)} actions")
    edges, told = _edges(bins, numbers)
    codes = np.searchsorted(edges[1:-1], values, side="right")
    names = [f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges)]
    return _counted(codes, names, present, f"actions in {len(names)} bins ({told})")


def _counted(
    codes: np.ndarray, names: list[str], present: np.ndarray, told: str
) -> tuple[dict[str, Any], str]:
    codes = np.where(present, codes, 0)
    fields = {"actions": codes, "actions_per_agent": len(names), "names": (tuple(names),)}
    return fields, told


def _edges(bins: Any, numbers: np.ndarray) -> tuple[np.ndarray, str]:
    """Ends of the bins: quantiles for a number, or as given, with the ends of the data."""
    given = np.asarray(bins, np.float64)
    if given.ndim == 0:
        if not float(given).is_integer() or not 2 <= given <= 100:
            raise InputError("bins", "a whole number from 2 to 100, or a list of edges", bins)
        edges = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, int(given) + 1)))
        if len(edges) < 3:
            raise InputError("bins", "numbers that differ", "nearly all alike")
        return edges, "quantiles"
    if (
        given.ndim != 1
        or len(given) < 1
        or (np.diff(given) <= 0).any()
        or not np.isfinite(given).all()
    ):
        raise InputError("bins", "a whole number, or edges in ascending order", bins)
    low, high = min(float(numbers.min()), given[0]), max(float(numbers.max()), given[-1])
    inner = given[(given > low) & (given < high)]
    return np.array([low, *inner, high]), "given edges"


def _contexts(
    table: Mapping[str, np.ndarray], names: list[str], grid: _Grid
) -> tuple[np.ndarray | None, tuple[str, ...] | None, np.ndarray, list[str]]:
    """Codes of the contexts, their names, numeric features, and what was done, in words."""
    kinds, words, features, told = [], [], [], []
    for name in names:
        values = table[name]
        _check_public(name, values, grid)
        shared = values[grid.first]
        away = _is_missing(shared)
        if values.dtype.kind == "f" and len(np.unique(shared[~away])) > CATEGORIES:
            mean = float(shared[~away].mean())
            features.append(np.where(away, 0.0, shared - mean))
            told.append(f"{name} is a numeric context: its linear effect on rewards was taken out")
            continue
        known, codes = _ordered(shared)
        known = [*known, "missing"] if away.any() else known
        kinds.append(np.where(away, len(known) - 1, codes))
        words.append(known)
        told.append(f"context {name} has {len(known)} values")
    matrix = np.stack(features, 1) if features else np.zeros((len(grid.first), 0))
    if not kinds:
        return None, None, matrix, told
    code = np.ravel_multi_index(kinds, [len(known) for known in words])
    seen, coded = np.unique(code, return_inverse=True)
    places = np.unravel_index(seen, [len(known) for known in words])
    labels = [
        ", ".join(w[int(p)] for w, p in zip(words, place, strict=True))
        for place in zip(*places, strict=True)
    ]
    return coded.ravel(), tuple(labels), matrix, told


def _check_public(name: str, values: np.ndarray, grid: _Grid) -> None:
    """Refuse a context that differs between agents at the same time."""
    text = _text(values)
    rows = np.where(grid.row >= 0, grid.row, grid.first[:, None])
    differ = text[rows] != text[grid.first][:, None]
    if differ.any():
        at, i = (int(x) for x in np.argwhere(differ)[0])
        one, other = (repr(str(text[k])[:40]) for k in (rows[at, i], grid.first[at]))
        found = f"{one} for {grid.agents[i]!r} and {other} at one time"
        raise InputError("context", f"{name} to be the same for all agents at a time", found)


def _without(
    rewards: np.ndarray,
    features: np.ndarray,
    contexts: np.ndarray | None,
    actions: np.ndarray,
    present: np.ndarray,
) -> np.ndarray:
    """Rewards less the linear effect of the features, within contexts and own actions."""
    coded = np.zeros(len(rewards), np.int64) if contexts is None else contexts
    found = rewards.copy()
    for i in range(rewards.shape[1]):
        rows = np.flatnonzero(present[:, i])
        cell = np.unique(coded[rows] * (actions.max() + 1) + actions[rows, i], return_inverse=True)[
            1
        ]
        count = np.maximum(np.bincount(cell), 1)[:, None]
        x, y = features[rows], rewards[rows, i : i + 1]
        inside, centred = (
            v - (np.stack([np.bincount(cell, c) for c in v.T], 1) / count)[cell] for v in (x, y)
        )
        slope = np.linalg.lstsq(inside, centred, rcond=None)[0]
        found[rows, i] -= (x @ slope)[:, 0]
    return found
