"""Logs of what agents observed, did and earned. A log is checked when it is created."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core import InputError, checks
from equipoise.core.errors import named_arguments
from equipoise.games import Labels
from equipoise.offline import _checks, _formats, _frames

#: Names of the two states of agents that are missing from some rows.
PRESENCE = ("present", "absent")
#: Tables that are kept when rows are taken out of their episodes.
_PER_ROW = tuple(name for name in _formats.TABLES if name != "episodes")


@named_arguments
@dataclass(frozen=True, eq=False)
class Log:
    """A table of samples. Each row records one simultaneous choice of all agents.

    - `contexts` (samples,), or None if there is only one context; `actions` (samples, agents),
      `rewards` (samples, agents);
    - `recorded` (samples, agents), which rewards are known; None if all are. Others are NaN in
      `rewards`, whatever was passed. The actions of such rows still count;
    - with local states: `states` and `next_states` (samples, agents), `steps` (samples,), and
      `episodes` (samples,) if rows belong to episodes. Without `episodes` rows are treated as
      independent;
    - `covariates` (samples, numbers): numeric contexts, which all agents see before they choose.
      Local states may be numeric, too: `states` and `next_states` of shape (samples, agents,
      numbers). `fit` and `solve` learn from both, and so do networks (`deep.fit`); functions that
      count states refuse them.

    Contexts, actions, states and steps are numbered from 0. Declare how many there are with
    `contexts_count`, `actions_per_agent`, `states_count` and `horizon`; by default the counts
    follow from the largest number found. Contexts whose numbers are far apart are renumbered, and
    their labels keep the original numbers. `reward_range` declares bounds on the rewards.
    `behaviour` is the product policy that chose the actions, if it is known: (contexts, agents,
    actions), or with states (contexts, horizon, agents, states, actions). With `continuous=True`,
    actions are numbers from -1 to 1. `labels` names agents, actions, states and contexts as in a
    game: a `games.Labels` or a mapping with `players`, `actions`, `states` and `contexts`. Files
    keep the labels. `numeric_contexts` names contexts whose linear effect was removed from the
    rewards, or that were cut into ranges; bounds do not cover deviations that depend on these
    contexts, or on their values within a range, and say so.

    All arguments are checked; invalid data raise a `ValueError` that names the row. Whole numbers
    are stored in the smallest integer type that holds them, and float32 rewards stay float32.

    **Example**

    >>> import equipoise as eq
    >>> log = eq.offline.Log([0, 0, 1], [[0, 1], [1, 1], [0, 0]], [[1, 0], [0.5, 0.5], [0, 1]])
    >>> log.samples, log.agents, log.actions_per_agent, log.contexts_count
    (3, 2, (2, 2), 2)
    >>> eq.offline.Log(None, [[0, 1], [2, 0]], [[1.0, 0.0], [0.5, 0.5]])
    Log(samples=2, agents=2, contexts=1, actions=2 to 3)
    >>> eq.offline.Log([0, 0], [[0], [7]], [[1.0], [0.0]], actions_per_agent=2)
    Traceback (most recent call last):
    ValueError: actions: expected whole numbers from 0 to 1 for agent 0, found 7 in row 1
    """

    contexts: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    #: (samples, agents), or (samples, agents, numbers) if local states are numeric.
    states: np.ndarray | None
    next_states: np.ndarray | None
    steps: np.ndarray | None
    episodes: np.ndarray | None
    #: (samples, numbers): numeric contexts; None if there are none.
    covariates: np.ndarray | None
    #: (samples, agents): whether each reward is known; None if all are. Unknown rewards are NaN.
    recorded: np.ndarray | None
    #: Number of actions of each agent; empty if actions are continuous.
    actions_per_agent: tuple[int, ...]
    #: Number of contexts.
    contexts_count: int
    #: Largest number of local states of any agent; 1 without states, 0 if states are numeric.
    states_count: int
    #: Number of steps; 1 without states.
    horizon: int
    #: Product policy that chose the actions; None if it is not known.
    behaviour: np.ndarray | None
    #: Declared bounds on the rewards; None if none were declared.
    reward_range: tuple[float, float] | None
    #: Whether actions are numbers from -1 to 1.
    continuous: bool
    #: What -1 and 1 stand for in the unit of the data, for continuous actions; None if unscaled.
    action_range: tuple[float, float] | None
    #: Names of agents ("players"), actions, states and contexts; empty if none were given.
    labels: Labels
    #: What deviations may depend on that the bound does not count: numeric contexts whose linear
    #: effect was removed from the rewards, and the values of others within a range.
    numeric_contexts: tuple[str, ...]
    #: Sentences about columns of the table that the log does not contain and that go with both the
    #: actions and the rewards of an agent. `learn` refuses such a log.
    confounders: tuple[str, ...]
    #: Name of the log.
    name: str
    #: Sentences that say how the data were changed when they were read.
    notes: tuple[str, ...]

    def __init__(
        self,
        contexts: Any,
        actions: Any,
        rewards: Any,
        states: Any = None,
        next_states: Any = None,
        steps: Any = None,
        episodes: Any = None,
        *,
        covariates: Any = None,
        recorded: Any = None,
        actions_per_agent: Any = None,
        contexts_count: int | None = None,
        states_count: int | None = None,
        horizon: int | None = None,
        behaviour: Any = None,
        reward_range: tuple[float, float] | None = None,
        continuous: bool = False,
        action_range: tuple[float, float] | None = None,
        labels: Any = None,
        numeric_contexts: Sequence[str] = (),
        confounders: Sequence[str] = (),
        name: str = "log",
        notes: tuple[str, ...] = (),
    ):
        actions = _checks.as_table("actions", actions, None, -1)
        samples, agents = actions.shape
        if not actions.size:
            raise InputError("actions", "at least one row and agent", actions.shape)
        fields: dict[str, Any] = {"continuous": bool(continuous), "actions_per_agent": ()}
        given = np.zeros(samples, np.int8) if contexts is None else contexts
        given = _checks.as_table("contexts", given, samples, None)
        count = _checks.as_declared("contexts_count", contexts_count)
        if count is None and labels is None:
            given, labels, note = _recoded(given)
            notes = (*notes, *note)
        fields |= {"name": str(name), "notes": tuple(map(str, notes))}
        fields["numeric_contexts"] = tuple(map(str, numeric_contexts))
        fields["confounders"] = tuple(map(str, confounders))
        fields["contexts"], count = _checks.as_counted("contexts", given, count)
        fields["contexts_count"] = int(count)
        declared = _checks.as_declared_actions(actions_per_agent, agents)
        fields["action_range"] = _checks.as_range("action_range", action_range)
        if continuous:
            fields["actions"] = _checks.as_continuous(actions)
        else:
            fields["actions"], counts = _checks.as_counted("actions", actions, declared)
            fields["actions_per_agent"] = tuple(counts.tolist())
        fields["reward_range"] = _checks.as_range("reward_range", reward_range)
        rewards = _checks.as_table("rewards", rewards, samples, agents)
        fields["recorded"] = known = _checks.as_recorded(recorded, samples, agents, continuous)
        fields["rewards"] = _checks.as_rewards(rewards, fields["reward_range"], known)
        local = {"states": states, "next_states": next_states, "steps": steps, "episodes": episodes}
        fields |= _local(local, samples, agents, states_count, horizon)
        fields["covariates"] = _checks.as_numbers("covariates", covariates, (samples,))
        if fields["episodes"] is not None:
            _checks.check_episodes(fields)
        fields["labels"] = Labels.of(
            labels,
            players=agents,
            actions=fields["actions_per_agent"],
            states=fields["states_count"] if _counted(fields["states"]) else None,
            contexts=fields["contexts_count"],
        )
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        if behaviour is not None:
            if continuous:
                raise ValueError("behaviour: expected none for continuous actions")
            if self.numeric:
                raise ValueError(f"behaviour: expected none for a log with {self.numeric}")
            behaviour = checks.as_float_array("behaviour", behaviour, copy=False)
            checks.check_shape("behaviour", behaviour, self.policy_shape, "a product policy")
            behaviour = checks.check_probabilities("behaviour", behaviour)
        object.__setattr__(self, "behaviour", behaviour)

    def __repr__(self) -> str:
        few, many = min(self.actions_per_agent, default=0), max(self.actions_per_agent, default=0)
        actions = f"actions={few}" if few == many else f"actions={few} to {many}"
        parts = [f"samples={self.samples}", f"agents={self.agents}"]
        parts += [f"contexts={self.contexts_count}"]
        parts += ["continuous=True" if self.continuous else actions]
        if self.states is not None:
            numeric = self.states.ndim == 3
            count = f"{self.states.shape[2]} numbers" if numeric else self.states_count
            parts += [f"states={count}", f"horizon={self.horizon}"]
        if self.covariates is not None:
            parts += [f"covariates={self.covariates.shape[1]}"]
        return f"Log({', '.join(parts)})"

    @property
    def samples(self) -> int:
        """Number of rows."""
        return len(self.contexts)

    @property
    def agents(self) -> int:
        """Number of agents."""
        return self.actions.shape[1]

    @property
    def absences(self) -> bool:
        """Whether the local states are "present" and "absent" and nothing else."""
        return self.horizon == 1 and self.labels.states == PRESENCE

    @property
    def numeric(self) -> str:
        """What the log has that cannot be counted: numeric contexts or states; empty if nothing."""
        names = ["numeric contexts"] if self.covariates is not None else []
        names += (
            ["numeric local states"] if self.states is not None and self.states.ndim == 3 else []
        )
        return " and ".join(names)

    @property
    def policy_shape(self) -> tuple[int, ...]:
        """Shape of a product policy of the logged game."""
        actions = max(self.actions_per_agent, default=0)
        if self.states is None:
            return self.contexts_count, self.agents, actions
        return self.contexts_count, self.horizon, self.agents, self.states_count, actions

    @property
    def situations(self) -> np.ndarray:
        """(samples,): `context * horizon + step`, the situations of `games.Interactions`."""
        contexts = self.contexts.astype(np.int64)
        return contexts if self.steps is None else contexts * self.horizon + self.steps

    @property
    def moves(self) -> np.ndarray:
        """(samples, agents): `state * actions + action`, the moves of `games.Interactions`."""
        if self.states is None:
            return self.actions
        if self.states.ndim == 3:
            raise InputError("log", "local states that are counted", "numeric local states")
        width = max(self.actions_per_agent)
        small = np.min_scalar_type(-self.states_count * width)
        return self.states.astype(small) * small.type(width) + self.actions

    def take(self, rows: Any) -> "Log":
        """Return a log of the selected rows (a slice, a mask or row numbers) with the same counts.

        The rows of the new log do not belong to episodes, since a selection may split them.

        **Example**

        >>> import equipoise as eq
        >>> log = eq.offline.Log([0, 1, 0], [[0], [1], [1]], [[0.0], [1.0], [2.0]])
        >>> log.take(slice(0, 1)).actions_per_agent
        (2,)
        """
        kept = object.__new__(Log)
        for name, value in vars(self).items():
            value = value[rows] if name in _PER_ROW and value is not None else value
            object.__setattr__(kept, name, None if name == "episodes" else value)
        if not kept.samples:
            raise InputError("rows", "at least one", "none")
        return kept

    def pooled(self) -> "Log":
        """Return the log with all contexts merged into one.

        **Example**

        >>> import equipoise as eq
        >>> log = eq.offline.Log([0, 1, 2], [[0], [1], [1]], [[0.0], [1.0], [2.0]])
        >>> log.pooled().contexts_count
        1
        """
        one = self.take(slice(None))
        labels = replace(self.labels, contexts=None)
        changed = {"contexts": np.zeros_like(self.contexts), "contexts_count": 1, "labels": labels}
        for name, value in (changed | {"behaviour": None}).items():
            object.__setattr__(one, name, value)
        return one

    @classmethod
    @named_arguments
    def read(cls, source: Any, **options: Any) -> "Log":
        """Read a log from a `.csv`, `.parquet` or `.npz` file, or from a data frame.

        A *long* table has one row per agent and time. Pass the names of its columns: `agent`,
        `time`, `action`, `reward`, and `context` (one or several columns, with one value for all
        agents at a time). A *wide* table has columns `action_NAME` and `reward_NAME` for every
        agent, and optionally `context`. Agents, actions and contexts may be words. A data frame is
        any object with `columns` for which `frame[name].to_numpy()` is an array, such as a pandas
        or polars frame.

        - Numeric actions with more than 12 different values need `bins` (a number of quantiles or
          a list of edges) or `continuous=True`, which scales them to [-1, 1].
        - A context with more than 12 different numbers enters as a feature: its linear effect on
          rewards, within contexts and own actions, is removed. If tests find that it changes what
          actions earn or how often they are played, it is cut into two to four quantiles instead.
          Pass `context_bins`, a number of quantiles or a list of edges, to cut it yourself.
        - Empty entries, NA, N/A, NaN, NaT, null and None count as missing, in upper or lower case.
          If at least 5% of the rows of a column of words contain "none", it is an ordinary word.
          Pass `missing`, a list of words, to replace this rule. An agent may be called "NA", if it
          has as many rows as the others.
        - Spellings of agents, actions and contexts that differ only in case or white space are one
          (`fold=False` keeps them apart), named by the most frequent spelling.
        - If semicolons separate entries, a comma is the decimal mark and a point separates
          thousands, as in 1.234. Rewards in brackets, (0.12), are negative. Pass `decimal="."` or
          `decimal=","` to say which mark it is.
        - Times may be dates, such as 05/01/2023, 05.01.2023 or Jan 05 2023. Pass `dayfirst=True` or
          `dayfirst=False` where the table does not show which number is the day.
        - An agent is masked at times when it or its action is missing: it is then in the state
          "absent", earns nothing and chooses nothing. If only its reward is missing, the action
          still counts and the reward is unknown: it is not `recorded`.
        - `log.notes` says in three lines how the table was read. A fourth line names what to look
          at: rewards a thousand times the others, agents whose rewards are the sum of the others',
          and unused columns that explain rewards. If such a column goes with actions as well,
          `learn` refuses the log.

        A Parquet file written by `Log.write` contains whole numbers without gaps, one column each:
        `context` (optional if there is only one), `action_0`, `reward_0`, ..., and with states
        `state_0`, ..., `next_state_0`, ..., `step` and `episode`, and `recorded_0`, ... if some
        rewards are unknown. Numbers have columns `covariate_0`, ... and, if local states are
        numeric, `state_0_0`, ..., `next_state_0_0`, ... (agent, number). An `.npz` file contains
        the arrays of a `Log` under their names. Declare what such a file does not say, as for `Log`
        itself: `actions_per_agent`, `contexts_count`, `reward_range`, ...

        **Example**

        >>> import equipoise as eq
        >>> from pathlib import Path
        >>> _ = Path("sales.csv").write_text(
        ...     "week,shop,price,profit\\n1,Ada,low,2\\n1,Bo,high,\\n2,Ada,,\\n2,Bo,high,3\\n"
        ... )
        >>> log = eq.offline.Log.read(
        ...     "sales.csv", agent="shop", time="week", action="price", reward="profit"
        ... )
        >>> log.labels.players, log.states.tolist(), log.recorded.tolist()
        (('Ada', 'Bo'), [[0, 0], [1, 0]], [[True, False], [True, True]])
        >>> log.notes[2].split(";")[0]
        'missing actions: 1 of 4, where the agent counts as absent'
        """
        table = {name: options.pop(name) for name in _frames.OPTIONS if name in options}
        path = Path(source) if isinstance(source, str | os.PathLike) else None
        messy = path is not None and path.suffix == ".parquet" and _formats.has_gaps(path)
        if table or path is None or path.suffix == ".csv" or messy:
            if path is not None and path.suffix not in (".csv", ".parquet"):
                raise InputError("log", "a .csv or .parquet file for these options", str(path))
            known = {n: options.pop(n) for n in ("continuous",) if n in options}
            _check_declared(options)
            return _build(
                path or Path("data frame"), _frames.read_frame(source, **table, **known) | options
            )
        _check_declared(options)
        fields = _formats.read(path)
        discrete = "actions_per_agent" in fields and not fields.get("continuous", False)
        if options.get("continuous") and discrete:
            raise ValueError(
                f"{path}: expected actions from -1 to 1, found a log declared as discrete; read "
                "it as a log of discrete actions"
            )
        return _build(path, {**fields, **options, "name": path.name})

    @classmethod
    def read_chunks(
        cls, path: str | os.PathLike[str], rows: int = 100_000, **declared: Any
    ) -> Iterable["Log"]:
        """Read a log that is larger than memory, in parts of at most `rows` rows.

        Every iteration over the parts reads the file again. All parts have the same counts. Counts
        that neither the file nor the caller declares are found in a first pass over the file. Rows
        are treated as independent: episodes are not checked. Only `.npz` files and wide `.parquet`
        files of whole numbers can be read in parts; convert other tables with `Log.read` and
        `Log.write`.

        **Example**

        >>> import equipoise as eq
        >>> eq.offline.Log([0, 1, 0], [[0], [1], [1]], [[0.0], [1.0], [2.0]]).write("log.npz")
        >>> [part.samples for part in eq.offline.Log.read_chunks("log.npz", rows=2)]
        [2, 1]
        """
        if Path(path).suffix == ".csv" or set(declared) & set(_frames.OPTIONS):
            found, hint = Path(path).name, "read it with Log.read, then convert it with log.write"
            raise InputError("path", "a wide .parquet or .npz file to read in parts", found, hint)
        _check_declared(declared)
        return _Chunks(Path(path), checks.check_count("rows", rows), declared)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the log to a `.parquet` or `.npz` file; `read` restores it without loss."""
        tables, said = (
            {name: getattr(self, name) for name in names if getattr(self, name) is not None}
            for names in (_formats.TABLES, _formats.DECLARED)
        )
        said["labels"] = self.labels.to_plain()
        idle = ("states_count", "horizon") if self.states is None else ()
        idle += ("states_count",) if self.states is not None and self.states.ndim == 3 else ()
        idle += ("actions_per_agent",) if self.continuous else ()
        idle += () if self.labels else ("labels",)
        idle += () if self.numeric_contexts else ("numeric_contexts",)
        idle += () if self.confounders else ("confounders",)
        _formats.write(Path(path), tables, {n: v for n, v in said.items() if n not in idle})

    def fingerprint(self) -> str:
        """Return a hash of the log: equal tables have equal fingerprints."""
        digest = hashlib.sha256()
        for name in _PER_ROW:
            array = getattr(self, name)
            if array is not None:
                digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class _Chunks:
    """The parts of a file. Every iteration reads the file again."""

    path: Path
    rows: int
    declared: Mapping[str, Any]

    def __iter__(self) -> Iterator[Log]:
        said, first = counts_of(self.path, self.rows, self.declared), 0
        for fields in _formats.parts(self.path, self.rows):
            fields.pop("episodes", None)
            try:  # labels are given (empty), so that contexts are not renumbered
                log = _build(self.path, {"labels": {}, **fields, **said, "name": self.path.name})
            except ValueError as error:
                raise ValueError(f"{error} (in the part that begins at row {first})") from error
            yield log
            first += log.samples


def _recoded(contexts: np.ndarray) -> tuple[np.ndarray, Any, tuple[str, ...]]:
    """Renumber contexts from 0 if their numbers are far apart; return labels and a note too."""
    if contexts.dtype.kind not in "iu" or not len(contexts) or contexts.min() < 0:
        return contexts, None, ()
    if not max(1_000, 2 * len(contexts)) <= int(contexts.max()) < 2**63:
        return contexts, None, ()
    known, codes = np.unique(contexts, return_inverse=True)
    note = (
        f"contexts are numbers up to {known[-1]:,}: the {len(known):,} that occur were renumbered"
    )
    return codes, {"contexts": tuple(map(str, known.tolist()))}, (note,)


def _counted(states: np.ndarray | None) -> bool:
    return states is not None and states.ndim == 2


def _local(
    given: dict[str, Any], samples: int, agents: int, states_count: Any, horizon: Any
) -> dict[str, Any]:
    """Check local states, steps and episodes, or that none of them is given."""
    states_count = _checks.as_declared("states_count", states_count)
    horizon = _checks.as_declared("horizon", horizon)
    if given["states"] is None:
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name}: expected states to be given as well, found none")
        return given | {"states_count": 1, "horizon": 1}
    for name, needed in (
        ("next_states", True),
        ("steps", (horizon or 1) > 1 or given["episodes"] is not None),
    ):
        if needed and given[name] is None:
            raise ValueError(f"{name}: expected values, since states are given, found none")
    if given["steps"] is None:
        given["steps"] = np.zeros(samples, np.int8)
    if np.ndim(given["states"]) == 3:
        return _local_numbers(given, samples, agents, states_count, horizon)
    fields: dict[str, Any] = {
        name: value
        if value is None
        else _checks.as_whole(name, _checks.as_table(name, value, samples, columns))
        for (name, value), columns in zip(given.items(), (agents, agents, None, None), strict=True)
    }
    if states_count is None:
        highest = max(int(fields["states"].max()), int(fields["next_states"].max()), 0)
        states_count = min(highest + 1, _checks.LARGEST_COUNT)
    for name in ("states", "next_states"):
        fields[name], _ = _checks.as_counted(name, fields[name], states_count)
    fields["steps"], found = _checks.as_counted("steps", fields["steps"], horizon)
    return fields | {"states_count": states_count, "horizon": int(found)}


def _local_numbers(
    given: dict[str, Any], samples: int, agents: int, states_count: int | None, horizon: int | None
) -> dict[str, Any]:
    """Check numeric local states."""
    if states_count is not None:
        raise InputError("states_count", "none for numeric local states", states_count)
    fields: dict[str, Any] = {
        name: _checks.as_numbers(name, given[name], (samples, agents))
        for name in ("states", "next_states")
    }
    if fields["states"].shape != fields["next_states"].shape:
        shape = fields["states"].shape
        raise InputError("next_states", f"shape {shape}, as states", fields["next_states"].shape)
    steps = _checks.as_whole("steps", _checks.as_table("steps", given["steps"], samples, None))
    fields["steps"], found = _checks.as_counted("steps", steps, horizon)
    fields["episodes"] = given["episodes"]
    if given["episodes"] is not None:
        episodes = _checks.as_table("episodes", given["episodes"], samples, None)
        fields["episodes"] = _checks.as_whole("episodes", episodes)
    return fields | {"states_count": 0, "horizon": int(found)}


def counts_of(path: Path, rows: int, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Declarations of the caller and the file, completed with the counts over all parts."""
    said, counts = dict(declared), {}
    for fields in _formats.parts(path, rows):
        said = {**{name: fields[name] for name in _formats.DECLARED if name in fields}, **said}
        needed = ["contexts_count", "actions_per_agent"]
        if "states" in fields:
            counted = np.ndim(fields["states"]) == 2
            needed += ["states_count", "horizon"] if counted else ["horizon"]
        if all(name in said for name in needed):
            break
        kept = {k: v for k, v in fields.items() if k != "episodes"}
        part = _build(path, {"labels": {}, **kept, **said})
        counts = {
            name: np.maximum(counts.get(name, 1), getattr(part, name)).tolist()
            for name in needed
            if getattr(part, name) != ()
        }
    return {**counts, **said}


def _build(path: Path, fields: dict[str, Any]) -> Log:
    for name in ("actions", "rewards"):
        if name not in fields:
            raise ValueError(f"{path}: expected {name}, found none; a log has actions and rewards")
    fields.setdefault("contexts", None)
    try:
        return Log(**fields)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path}: {error}") from error


def _check_declared(declared: Mapping[str, Any]) -> None:
    unknown = sorted(set(declared) - set(_formats.DECLARED))
    if unknown:
        known = ", ".join(_formats.DECLARED)
        raise InputError("declared", known, ", ".join(unknown))
