"""Read logs from users' tables, which have names, missing entries and additional columns.

A table is *long* if a column names the agent of each row (one row per agent and time), and *wide*
if every agent has its own columns (`action_Ada`, `reward_Ada`, ...). It comes from a `.csv` or
`.parquet` file or from a data frame: any object with `columns` for which `frame[name].to_numpy()`
is an array. Three lines, `Log.notes`, say how the table was read.

An agent that is missing at some time is in the local state "absent" there: it earns nothing and
chooses nothing. The others' rewards may depend on its absence, as on any of its actions. If only
its reward is missing, its action still counts, and the reward is not recorded.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from equipoise.core import InputError
from equipoise.offline._columns import (
    CATEGORIES,
    MISSING,
    UNITS,
    WORD,
    as_column,
    as_words,
    beyond,
    check_rewards,
    folded,
    identifier,
    is_grouped,
    is_missing,
    natural,
    ordered,
    read_table,
    shows_mark,
    words_of,
)
from equipoise.offline._dates import as_dates, as_joined_dates
from equipoise.offline._numeric import bins_of, without
from equipoise.offline._oddities import LOOK, forgotten, huge_rewards, totals

#: Beginning of the hint that a table has no columns for every agent.
LONG_TABLE = "for a long table"
#: Options of `Log.read` that select this kind of table.
OPTIONS = (
    *("agent", "time", "action", "reward", "context", "bins", "context_bins", "missing"),
    *("fold", "decimal", "dayfirst"),
)


def read_frame(
    source: Any,
    *,
    agent: str | None = None,
    time: str | None = None,
    action: str | None = None,
    reward: str | None = None,
    context: str | Sequence[str] | None = None,
    bins: Any = None,
    context_bins: Any = None,
    missing: Sequence[str] | None = None,
    fold: bool = True,
    decimal: str | None = None,
    dayfirst: bool | None = None,
    continuous: bool = False,
) -> dict[str, Any]:
    """Read the fields of a `Log`, with `labels` and `notes`, from a table."""
    if bins is not None and continuous:
        raise InputError("bins", "none for continuous actions", repr(bins))
    if decimal not in (None, ".", ","):
        raise InputError("decimal", "'.' or ','", repr(decimal))
    columns, name, mark, about_file = read_table(source)
    contexts = [context] if isinstance(context, str) else list(context or ())
    whose = [n.removeprefix(f"{action or 'action'}_") for n in columns]
    rewards = {f"{reward or 'reward'}_{who}" for who in whose} if agent is None else {reward}
    acts = [f"{action or 'action'}_{who}" for who in whose] if agent is None else [str(action)]
    used = {agent, *rewards, *acts, *contexts}
    named = {agent} | (set() if bins is not None or continuous else {*acts})
    named |= set() if context_bins is not None else {*contexts, "context"}
    texts, changes = _identifiers(columns, named, time, acts, missing)
    table = dict[str, np.ndarray]()
    for column, values in columns.items():
        point = decimal or ("," if mark == ";" else ".")
        grouped = _grouped(column, values, columns, point, decimal, column in used, missing)
        given = (missing, point, UNITS if column in rewards else "", grouped, column == agent)
        table[column] = as_column(values, *given, column in texts)
        if column in rewards:
            check_rewards(column, values, table[column], point, grouped)
    if agent is None and time is not None:
        raise InputError("agent", "the column that names the agent, together with time", "none")
    if agent is not None:
        wanted = {"agent": agent, "time": time, "action": action, "reward": reward}
        for option, column in wanted.items():
            if column is None:
                raise InputError(option, "the name of a column, together with agent", "none")
            _check_column(option, column, table)
    elif not contexts and "context" in table:
        contexts = ["context"]
    for column in contexts:
        _check_column("context", column, table)
    _check_roles({"agent": agent, "time": time, "action": action, "reward": reward}, contexts)
    if time is not None:
        dates = as_dates if table[time].dtype.kind == "O" else as_joined_dates
        table[time], read = dates(time, table[time], dayfirst)
        changes += [read] if read else []
    for roles in ([name for name in acts if name in table], *([each] for each in contexts)):
        if fold and roles:
            new, joined = folded([table[name] for name in roles])
            table |= dict(zip(roles, new, strict=True))
            what = roles[0] if len(roles) == 1 else "actions"
            changes += [f"spellings joined in {what}: {_listed(joined)}"] if joined else []
    if fold and agent is not None:
        joined = _fold_agents(table, agent, str(time))
        changes += [f"spellings joined in {agent}: {_listed(joined)}"] if joined else []
    grid = (
        _wide(table, action or "action", reward or "reward")
        if agent is None
        else _long(table, agent, str(time), str(action), str(reward))
    )
    grid.settle()
    fields, told = _actions(grid, bins, continuous)
    present = grid.present
    recorded = ~present | ~np.isnan(grid.rewards)
    _check_recorded(grid, present, reward or "reward")
    about, numeric = list[str](), list[str]()
    for column in contexts:
        _check_public(column, table[column], grid)
    kinds = {column: _is_feature(table[column][grid.first]) for column in contexts}
    categories = _contexts(table, [column for column in contexts if not kinds[column]], grid)[0]
    for column in (each for each in contexts if kinds[each]):
        cut = context_bins
        if cut is None and not continuous:
            given = (categories, fields["actions"], grid.rewards, present)
            cut = bins_of(table[column][grid.first], *given)
            if cut is not None:
                about.append(
                    f"{column} was cut into ranges, since it changes what actions earn or how "
                    "often they are played"
                )
        if cut is None:
            numeric.append(column)
        else:
            numeric.append(f"{column} within a range")
            table[column] = _in_bins("context_bins", cut, table[column])
    coded, names, features, told_contexts = _contexts(table, contexts, grid)
    about += [*told_contexts, *_told_words(table, [*grid.used, *contexts], missing), *changes]
    about += [] if agent is None else _told_names(agent, grid.agents)
    rewards = np.where(present, grid.rewards, 0.0)
    if features.shape[1]:
        rewards = without(rewards, features, coded, fields["actions"], present & recorded)
    labels: dict[str, Any] = {"players": grid.agents, "actions": fields.pop("names")}
    labels["contexts"] = names
    away, unknown = int((~present).sum()), int((~recorded).sum())
    if continuous and away + unknown:
        raise _absent(grid, present & recorded)
    if away:
        labels["states"] = ("present", "absent")
        fields |= {"states": ~present, "next_states": np.zeros_like(present), "states_count": 2}
    unused = [column for column in table if column not in {*grid.used, *contexts}]
    lines = f"{grid.rows:,} lines became {len(present):,} rows, one for each {time}, of "
    notes = (
        f"{name}: {lines if agent else f'{grid.rows:,} rows of '}{len(grid.agents)} agents"
        + "".join(f"; {told}" for told in (grid.dropped, about_file) if told),
        "; ".join(filter(None, (told, *about))),
        f"{_gaps(grid, away, unknown)}; unused columns: {_listed(unused, 8)}",
    )
    known = np.where(present, grid.rewards, np.nan)
    codes = fields["actions"]
    if continuous:
        codes = np.searchsorted(np.quantile(codes, [0.25, 0.5, 0.75]), codes)
    where = (grid.first, grid.row, coded, np.where(present, codes, -1), known)
    named, confounders = forgotten(table, unused, *where, grid.agents)
    odd = [*huge_rewards(known, grid.agents, grid.times), *totals(known, grid.agents)]
    if odd := [*confounders, *named, *odd]:
        notes = (*notes, f"{LOOK}{'; '.join(odd)}")
    labels = {key: value for key, value in labels.items() if value is not None}
    given = {"contexts": coded, "rewards": rewards, "labels": labels, "notes": notes}
    given["recorded"] = recorded if unknown else None
    given |= {"numeric_contexts": numeric, "confounders": confounders}
    return fields | given | {"continuous": continuous, "name": name}


def _listed(names: Sequence[str], most: int = 6) -> str:
    """Names separated by commas; the first ones and their number if there are many.

    >>> _listed([]), _listed(["low", "high"]), _listed(["a", "b", "c"], 2)
    ('none', 'low, high', 'a, b, ... (3)')
    """
    shown = ", ".join(names[:most])
    return f"{shown}, ... ({len(names)})" if len(names) > most else shown or "none"


def _gaps(grid: "_Grid", away: int, unknown: int) -> str:
    """Say how many actions and rewards are missing, and what follows."""
    lost = int((is_missing(grid.actions) & ~np.isnan(grid.rewards)).sum())
    size = f"{grid.rewards.size:,}"
    told = []
    if away:
        told.append(f"missing actions: {away:,} of {size}, where the agent counts as absent")
    if lost:
        told.append(f"rewards left out beside them: {lost:,}")
    if unknown:
        told.append(f"missing rewards: {unknown:,} of {size}, whose actions still count")
    return "; ".join(told) or "missing actions or rewards: none"


def _check_recorded(grid: "_Grid", present: np.ndarray, reward: str) -> None:
    """Refuse agents that act but have no reward."""
    without = (present & ~np.isnan(grid.rewards)).sum(0) == 0
    if without.any():
        hint = "leave the agent out, or pass its action as a context if all see it first"
        found = f"none for {grid.agents[int(without.argmax())]}"
        raise InputError("reward", f"rewards of every agent ({reward})", found, hint)


def _absent(grid: "_Grid", complete: np.ndarray) -> InputError:
    """Error for continuous actions or rewards that are missing; it names the first one."""
    at, i = (int(x) for x in np.argwhere(~complete)[0])
    away = int((~complete).sum())
    found = f"{away:,} missing, such as {grid.agents[i]} at {grid.times[at]}"
    hint = "leave these times or agents out, or bin the actions (bins)"
    return InputError(
        "continuous", "an action and a reward of every agent at all times", found, hint
    )


class _Grid:
    """Actions and rewards by time and agent, of any type, and which of them are missing."""

    def __init__(self, times: int, agents: Sequence[str], numeric: bool):
        self.agents, self.rows, self.dropped = tuple(agents), 0, ""
        shape = (times, len(self.agents))
        self.actions: np.ndarray = np.full(
            shape, np.nan if numeric else None, float if numeric else object
        )
        self.rewards = np.full(shape, np.nan)
        #: A row of the table for each time.
        self.first = np.zeros(times, np.int64)
        #: Row of the table for each time and agent; -1 if there is none.
        self.row = np.full(shape, -1)
        self.used: list[str] = []
        #: Name of each time, for messages.
        self.times: Sequence[str] = [f"row {k}" for k in range(times)]

    @property
    def present(self) -> np.ndarray:
        """(times, agents): whether there is an action."""
        return ~is_missing(self.actions)

    def settle(self) -> None:
        """Leave out words that stand for no action, and agents that never have one."""
        if self.actions.dtype.kind == "O":
            for word in {w for w in self.actions.ravel() if str(w).lower() in MISSING} - {None}:
                here = self.actions == word
                if np.isnan(self.rewards[here]).all():  # no action, and so no reward
                    self.actions[here] = None
        idle = np.asarray(~self.present.any(0))
        if not idle.any() or idle.all():
            return
        names = [name for name, out in zip(self.agents, idle, strict=True) if out]
        lines = int((self.row[:, idle] >= 0).sum())
        told = f"{lines:,} lines of {_listed(names)} left out, which never have an action"
        self.dropped = "; ".join(filter(None, (self.dropped, f"{told} (totals?)")))
        self.agents = tuple(name for name in self.agents if name not in names)
        times = np.asarray((self.row[:, ~idle] >= 0).any(1))
        kept = np.ix_(times, ~idle)
        self.actions, self.rewards, self.row = (
            table[kept] for table in (self.actions, self.rewards, self.row)
        )
        self.first = self.row.max(1)
        self.times = [time for time, in_use in zip(self.times, times, strict=True) if in_use]


def _told_words(
    table: Mapping[str, np.ndarray], names: Sequence[str], missing: Sequence[str] | None
) -> list[str]:
    """Say which columns have a word that might have been meant as a missing entry."""
    found = [
        n
        for n in dict.fromkeys(names)
        if table[n].dtype.kind == "O" and any(str(w).lower() == WORD for w in table[n] if w)
    ]
    if not found or missing is not None:
        return []
    return [f"the frequent word '{WORD}' in {', '.join(found[:3])} is read as a value"]


def _fold_agents(table: dict[str, np.ndarray], agent: str, time: str) -> list[str]:
    """Join spellings of agents, unless two spellings occur at the same time; list those joined."""
    (names,), joined = folded([table[agent]])
    spelled: dict[Any, Any] = {}
    rows = zip(table[time].tolist(), names.tolist(), table[agent].tolist(), strict=True)
    if not joined or any(spelled.setdefault((t, name), word) != word for t, name, word in rows):
        return []
    table[agent] = names
    return joined


def _told_names(column: str, agents: Sequence[str]) -> list[str]:
    """Say which agents are called like a missing entry."""
    odd = [repr(name) for name in agents if name.lower() in MISSING]
    return [f"{', '.join(odd)} in {column} is read as an agent"] if odd else []


def _grouped(
    column: str,
    values: np.ndarray,
    columns: Mapping[str, np.ndarray],
    mark: str,
    decimal: str | None,
    used: bool,
    missing: Sequence[str] | None,
) -> bool:
    """Whether points separate thousands in a column of a table whose decimal mark is a comma.

    In other tables, commas do, and a column that does not show it is refused.
    """
    if decimal is not None or values.dtype.kind not in "OUT":
        return mark == "," and decimal is not None
    words, _ = words_of(values, missing)
    group = "." if mark == "," else ","
    # The whole table is searched for a decimal mark only where a column needs it.
    grouped = is_grouped(words, False, group)
    if grouped is None or (mark == "." and not grouped and is_grouped(words, True, group)):
        shown = shows_mark(list(columns.values()), mark)
        grouped = is_grouped(words, True, group) if shown else None
    if grouped is None and used and as_column(values, missing, mark, UNITS).dtype.kind == "f":
        word = next(word for word in words if word is not None and group in word)
        hint = "pass decimal=',' or decimal='.' (--decimal)"
        found = f"{word!r} in column {column}, which may be {word.replace(group, '')} or a fraction"
        raise InputError("decimal", "numbers that show their decimal mark", found, hint)
    return bool(grouped) and mark == ","


def _identifiers(
    columns: Mapping[str, np.ndarray],
    named: set[str | None],
    time: str | None,
    acts: Sequence[str],
    missing: Sequence[str] | None,
) -> tuple[set[str | None], list[str]]:
    """Columns of digits that are names, such as 007, and sentences that say so.

    Times are numbers unless floats would not tell them apart. Actions of all agents are names if
    those of one agent are.
    """
    found = {n: identifier(values, missing) for n, values in columns.items() if n in named}
    found = {name: word for name, word in found.items() if word is not None}
    told = [f"{name} is read as names, not as numbers ({word})" for name, word in found.items()]
    texts: set[str | None] = {*found, *(acts if found.keys() & {*acts} else ())}
    if time is not None and time in columns and beyond(columns[time], missing) is not None:
        texts.add(time)
    return texts, told


def _check_column(option: str, column: str, table: Mapping[str, Any]) -> None:
    if column not in table:
        raise InputError(option, f"one of the columns {', '.join(table)}", repr(column))


def _check_roles(given: Mapping[str, str | None], contexts: Sequence[str]) -> None:
    """Refuse a column that has two roles."""
    roles: dict[str, str] = {}
    for option, column in [*given.items(), *(("context", c) for c in contexts)]:
        if column is not None and column in roles:
            expected = f"a column other than the one of {roles[column]}"
            raise InputError(option, expected, repr(column))
        roles |= {} if column is None else {column: option}


def _long(
    table: Mapping[str, np.ndarray], agent: str, time: str, action: str, reward: str
) -> _Grid:
    agents, who = ordered(table[agent])
    named, when = np.flatnonzero(who >= 0), np.full(len(who), -1)
    times, when[named] = ordered(table[time][named])
    earned = table[reward]
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
        at = int(np.argmax(differ))
        row, other = int(kept[at]), int(same[at])
        found = f"different rows of {agents[who[row]]} at {time} {times[when[row]]}: {other}, {row}"
        hint = "if times repeat, in every episode say, number them throughout the table"
        raise InputError("time", "one row for each agent and time", found, hint)
    rows = kept[first]
    at = (when[rows], who[rows])
    grid.actions[at], grid.rewards[at], grid.row[at] = acted[rows], earned[rows], rows
    grid.first[when[rows]] = rows
    grid.rows, grid.used = len(who), [agent, time, action, reward]
    grid.times = [f"{time} {each}" for each in times]
    copies, lost = len(kept) - len(rows), len(who) - len(kept)
    told = [f"repeated lines left out: {copies:,}"] if copies else []
    told += [f"lines without {agent} or {time} left out: {lost:,}"] if lost else []
    grid.dropped = "; ".join(told)
    return grid


def _wide(table: Mapping[str, np.ndarray], action: str, reward: str) -> _Grid:
    agents = [n.removeprefix(f"{action}_") for n in table if n.startswith(f"{action}_")]
    agents = sorted(agents, key=natural) if all(a.isdigit() for a in agents) else agents
    if not agents:
        hint = (
            f"{LONG_TABLE}, pass the names of its columns: agent, time, action and reward; for "
            "a wide one, pass what its columns begin with: action and reward"
        )
        expected = f"columns {action}_NAME and {reward}_NAME"
        raise InputError("log", expected, ", ".join(table), hint)
    for i in agents:
        _check_column("reward", f"{reward}_{i}", table)
    if all(f"{word}_{i}" in table for i in agents for word in ("state", "next_state")):
        found = f"columns state_{agents[0]}, next_state_{agents[0]}, ..."
        hint = "build a Log from arrays and write it to a .parquet or .npz file"
        raise InputError("log", "a table without local states", found, hint)
    columns = [table[f"{action}_{i}"] for i in agents]
    numeric = all(c.dtype.kind == "f" for c in columns)
    grid = _Grid(len(columns[0]), agents, numeric)
    for at, (i, own) in enumerate(zip(agents, columns, strict=True)):
        words = own if numeric or own.dtype.kind == "O" else np.array(as_words(own), object)
        grid.actions[:, at] = words
        grid.rewards[:, at] = table[f"{reward}_{i}"]
    grid.rows = len(columns[0])
    grid.first = np.arange(grid.rows)
    grid.row = np.broadcast_to(grid.first[:, None], grid.rewards.shape)
    grid.used = [f"{word}_{i}" for i in agents for word in (action, reward)]
    return grid


def _first(values: np.ndarray) -> Any:
    """Return the first word that is not a number."""
    for word in values.ravel().tolist():
        try:
            float(word if word is not None else 0)
        except ValueError:
            return word
    return None


def _text(values: np.ndarray) -> np.ndarray:
    return np.array(as_words(values), dtype=str)


def _actions(grid: _Grid, bins: Any, continuous: bool) -> tuple[dict[str, Any], str]:
    """Number actions from 0 and name them; or scale them to [-1, 1] if they are continuous."""
    values, present = grid.actions, grid.present
    if not present.any():
        raise InputError("log", "rows with an action and a reward", "none")
    if values.dtype.kind != "f":
        if bins is not None or continuous:
            found, hint = (
                repr(_first(values)),
                "name words that stand for missing entries (missing=, or --missing)",
            )
            raise InputError("action", "numbers, for bins or continuous actions", found, hint)
        return _counted(*_coded(values, present), present)
    numbers = values[present]
    if continuous:
        low, high = float(numbers.min()), float(numbers.max())
        half = max((high - low) / 2, 1e-300)
        points = np.where(present, (values - low) / half - 1.0, 0.0)
        told = f"actions from {low:g} to {high:g} were scaled to [-1, 1]"
        ends = (low, high) if high > low else None
        return {"actions": np.clip(points, -1.0, 1.0), "names": None, "action_range": ends}, told
    different = np.unique(numbers)
    if bins is None:
        if len(different) > CATEGORIES:
            hint = (
                "pass bins (--bins), a number of quantiles or a list of edges, or keep them as "
                "numbers (--continuous)"
            )
            expected = f"at most {CATEGORIES} different numbers, or words"
            raise InputError("action", expected, f"{len(different)} numbers", hint)
        return _counted(*_coded(values, present), present)
    edges, told = _edges("bins", bins, numbers)
    codes = np.searchsorted(edges[1:-1], values, side="right")
    names = _names(edges)
    return _counted(codes, names, present, f"actions in {len(names)} bins ({told})")


def _coded(values: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Codes of actions, and the names of those that were played."""
    names, codes = ordered(values[present])
    found = np.zeros(values.shape, np.int64)
    found[present] = codes
    return found, names


def _counted(
    codes: np.ndarray, names: list[str], present: np.ndarray, told: str = ""
) -> tuple[dict[str, Any], str]:
    codes = np.where(present, codes, 0)
    fields = {"actions": codes, "actions_per_agent": len(names), "names": (tuple(names),)}
    return fields, f"{told or 'actions'}: {_listed(names)}"


def _names(edges: np.ndarray) -> list[str]:
    return [f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges)]


def _in_bins(option: str, bins: Any, values: np.ndarray) -> np.ndarray:
    """Name of the bin of each number; None if the number is missing."""
    away = np.isnan(values)
    edges, _ = _edges(option, bins, values[~away])
    found = np.array(_names(edges), object)[np.searchsorted(edges[1:-1], values, side="right")]
    found[away] = None
    return found


def _edges(option: str, bins: Any, numbers: np.ndarray) -> tuple[np.ndarray, str]:
    """Edges of the bins: quantiles for a number, or the given edges, with the ends of the data."""
    given = np.asarray(bins, np.float64)
    if given.ndim == 0:
        if not float(given).is_integer() or not 2 <= given <= 100:
            raise InputError(option, "a whole number from 2 to 100, or a list of edges", bins)
        edges = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, int(given) + 1)))
        if len(edges) < 3:
            raise InputError(option, "numbers that differ", "nearly all equal")
        return edges, "quantiles"
    if (
        given.ndim != 1
        or len(given) < 1
        or (np.diff(given) <= 0).any()
        or not np.isfinite(given).all()
    ):
        raise InputError(option, "a whole number, or edges in ascending order", bins)
    low, high = min(float(numbers.min()), given[0]), max(float(numbers.max()), given[-1])
    inner = given[(given > low) & (given < high)]
    return np.array([low, *inner, high]), "given edges"


def _contexts(
    table: Mapping[str, np.ndarray], names: list[str], grid: _Grid
) -> tuple[np.ndarray | None, tuple[str, ...] | None, np.ndarray, list[str]]:
    """Codes of the contexts, their names, numeric features, and notes about them."""
    kinds, words, features, told = [], [], [], []
    for name in names:
        shared = table[name][grid.first]
        away = is_missing(shared)
        if _is_feature(shared):
            mean = float(shared[~away].mean())
            features.append(np.where(away, 0.0, shared - mean))
            told.append(f"{name} is a numeric context: its linear effect on rewards was removed")
            continue
        known, codes = ordered(shared)
        known = [*known, "missing"] if away.any() else known
        kinds.append(np.where(away, len(known) - 1, codes))
        words.append(known)
        told.append(f"context {name}: {_listed(known)}")
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


def _is_feature(shared: np.ndarray) -> bool:
    """Whether a context is a number rather than a category."""
    if shared.dtype.kind != "f":
        return False
    return len(np.unique(shared[~np.isnan(shared)])) > CATEGORIES


def _check_public(name: str, values: np.ndarray, grid: _Grid) -> None:
    """Refuse a context that differs between agents at the same time."""
    text = _text(values)
    rows = np.where(grid.row >= 0, grid.row, grid.first[:, None])
    differ = text[rows] != text[grid.first][:, None]
    if differ.any():
        at, i = (int(x) for x in np.argwhere(differ)[0])
        one, other = (repr(str(text[k])[:40]) for k in (rows[at, i], grid.first[at]))
        found = f"{one} for {grid.agents[i]!r} and {other} for another at the same time"
        raise InputError("context", f"{name} to be the same for all agents at a time", found)
