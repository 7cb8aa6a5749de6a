"""Runs: create, resume and finish the run folder of a computation."""

import contextlib
import hashlib
import json
import math
import operator
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from equipoise.core.errors import InputError
from equipoise.core.files import write_text
from equipoise.core.plain import differences, read_json, to_plain
from equipoise.runs._checkpoint import (
    DamagedCheckpoint,
    check_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from equipoise.runs._folder import FolderLock, MetricsFile, read_metrics, refuse_links
from equipoise.runs._record import Record, check_metrics
from equipoise.runs.environment import EnvironmentFile

#: Names of temporary files that remain if the process is killed during an atomic write.
_LEFTOVER = re.compile(r"\.[^.]+\.[0-9a-f]{16}(\.\w+)?")


#: Suffix that is added to the name of a damaged checkpoint.
_ASIDE = ".damaged"
#: Largest number of differences between two configs that a message names.
_NAMED = 6


class OtherConfig(InputError):
    """The folder holds a run with another config; the message names the differences.

    **Example**

    >>> import tempfile
    >>> from equipoise.runs import OtherConfig, Run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Run.start(folder + "/run", {"steps": 4}).close()
    ...     try:
    ...         Run.start(folder + "/run", {"steps": 5})
    ...     except OtherConfig as error:
    ...         "steps (4, now 5)" in str(error)
    True
    """


class Run:
    """A run folder, which one process writes and which can be stopped at any time and resumed.

    A resumed run continues from its last checkpoint, with the metrics as they were at that
    moment. If you log the rows of a step before its checkpoint, and if every step depends on the
    state alone, the result is the same, bit for bit, as that of an uninterrupted run. If the last
    checkpoint is damaged, the run issues a `DamagedCheckpoint` warning and uses the one before.

    **Example**

    >>> import tempfile
    >>> from equipoise.runs import Record, Run
    >>> def train(folder, config, patience=None):
    ...     with Run.start(folder, config) as run:
    ...         total = run.restore(0)
    ...         for step in range(run.step + 1, config["steps"] + 1):
    ...             if step == patience:
    ...                 return None
    ...             total += step
    ...             run.log(step, total=total)
    ...             run.checkpoint(step, total)
    ...         return run.finish(Record("sums", config, {"total": total}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     train(folder + "/run", {"steps": 4}, patience=3)
    ...     train(folder + "/run", {"steps": 4}).scalars
    {'total': 10}
    """

    #: The folder.
    path: Path
    #: The config as plain data: dicts, lists, numbers and strings.
    config: dict[str, Any]
    #: Step of the checkpoint from which the run continues; 0 if there is none.
    step: int
    #: Whether the final record has been written.
    finished: bool

    def __init__(self, path: Path, config: dict[str, Any], lock: FolderLock, keep: int):
        """Use `create`, `open` or `start`."""
        self.path = path
        self.config = config
        self.finished = (path / "record.json").exists()
        self._discarded = False
        self._keep = keep
        self._lock = lock
        self._digest = _config_digest(config)
        self._remove_leftovers()
        if self.finished:
            check_metrics(path)
            _remove_checkpoints(path)
        facts: dict[str, Any] = {}
        self._latest = None
        if not self.finished:
            self._latest, facts = _latest(path, self._digest)
        self.step = int(facts["step"]) if facts else 0
        self._environment = EnvironmentFile(path / "environment.json", finished=self.finished)
        length = None if self.finished else facts.get("metrics_bytes", 0)
        self._metrics = MetricsFile(path / "metrics.jsonl", length, facts.get("rows"))

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: Any, *, keep: int = 3) -> "Run":
        """Start a run in a new or empty folder, and keep the last `keep` checkpoints.

        The config is a dict or a dataclass, which may be nested.
        """
        folder, plain = Path(path), _plain_config(config)
        if _config_file(folder).exists():
            raise FileExistsError(
                f"{folder} already holds a run: resume it with Run.open, or choose another folder"
            )
        if not cls.can_start(folder):
            raise FileExistsError(f"{folder}: expected a new or empty folder, found files in it")
        folder.mkdir(parents=True, exist_ok=True)
        with _released_on_error(FolderLock(folder)) as lock:
            if _config_file(folder).exists():  # another process was faster
                raise FileExistsError(f"{folder} already holds a run")
            _write_config(folder, plain)
            return cls(folder, plain, lock, _check_keep(keep))

    @classmethod
    def open(cls, path: str | os.PathLike[str], config: Any = None, *, keep: int = 3) -> "Run":
        """Resume a run. If a config is given, refuse a folder with another config."""
        folder = Path(path)
        if not _config_file(folder).exists():
            raise FileNotFoundError(f"{folder}: expected a run folder, found no config.json")
        _refuse_links(folder)
        with _released_on_error(FolderLock(folder)) as lock:
            stored = read_json(_config_file(folder))
            if config is not None:
                found = differences(stored, _plain_config(config))
                if found:
                    rest = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
                    others = f"other values of: {', '.join(found[:_NAMED])}{rest}"
                    hint = "choose another folder"
                    raise OtherConfig("config", f"the config of {folder}", others, hint)
            return cls(folder, stored, lock, _check_keep(keep))

    @classmethod
    def start(cls, path: str | os.PathLike[str], config: Any, *, keep: int = 3) -> "Run":
        """Resume the run in this folder if it exists, or else create it."""
        there = _config_file(Path(path)).exists()
        return cls.open(path, config, keep=keep) if there else cls.create(path, config, keep=keep)

    @classmethod
    def restart(cls, path: str | os.PathLike[str], config: Any, *, keep: int = 3) -> "Run":
        """Start again in the folder of an earlier run, after removing the files of that run."""
        folder = Path(path)
        if _config_file(folder).exists():
            _refuse_links(folder)
            with _released_on_error(FolderLock(folder)) as lock:
                plain = _plain_config(config)
                # The record is removed first and the config is written last: an interruption
                # leaves an unfinished run or none.
                for name in ("record.json", "record.npz", "metrics.jsonl", "environment.json"):
                    (folder / name).unlink(missing_ok=True)
                _remove_checkpoints(folder)
                _write_config(folder, plain)
                return cls(folder, plain, lock, _check_keep(keep))
        return cls.create(path, config, keep=keep)

    @staticmethod
    def can_start(path: str | os.PathLike[str]) -> bool:
        """Return whether `start` can use this folder: it is new, empty, or holds a run.

        A folder with only a lock file, which a run killed at its start leaves, counts as empty.
        """
        folder = Path(path)
        if not folder.is_dir():
            return not folder.exists()
        return _config_file(folder).exists() or all(map(_is_leftover, folder.iterdir()))

    def log(self, step: int, **metrics: Any) -> None:
        """Append a row to the metrics. The row is in the file when this method returns."""
        self._check_unfinished("log")
        self._metrics.append(_check_step(step), metrics)

    def metrics(self) -> list[dict[str, Any]]:
        """Return all rows so far."""
        return read_metrics(self.path)

    def checkpoint(self, step: int, state: Any) -> None:
        """Save the state after `step`: any pytree of arrays, keys, numbers and strings."""
        self._check_unfinished("checkpoint")
        step = _check_step(step)
        folder = self.path / "checkpoints"
        folder.mkdir(exist_ok=True)
        # Rows are written to disk first, so that a checkpoint never refers to lost rows.
        length = self._metrics.sync()
        self._latest = folder / f"{step:012d}.npz"
        facts = {"step": step, "config": self._digest, "metrics_bytes": length}
        save_checkpoint(self._latest, state, self._metrics.sums, **facts)
        self.step = step
        for old in _checkpoints(self.path)[: -self._keep]:
            old.unlink()
        self._environment.note(devices=_devices())
        self._environment.save()

    def restore(self, like: Any) -> Any:
        """Return the state of the last checkpoint in the structure of `like`, or `like` itself."""
        return like if self._latest is None else load_checkpoint(self._latest, like)

    def finish(self, record: Record, *, seconds_before: float = 0.0) -> Record:
        """Write the final record. The run is then complete and accepts no more rows.

        Its checkpoints are removed, since they are no longer needed. `seconds_before` is the time
        in seconds of work that was done before the folder was created.
        """
        self._check_unfinished("finish")
        if not 0 <= seconds_before < math.inf:
            raise InputError("seconds_before", "a number >= 0", repr(seconds_before))
        if seconds_before:
            self._environment.begin_earlier(seconds_before)
        self._metrics.sync()
        if record.times:  # before the record, which completes the run
            self.note(times=record.times)
        record.save(self.path)
        self.finished = True
        _remove_checkpoints(self.path)
        self._environment.save()
        return record

    def note(self, **facts: Any) -> None:
        """Save facts about this session, such as its seconds, in `environment.json`.

        A record contains results, which do not depend on how often a run is stopped. Facts such as
        running times belong here.
        """
        self._environment.note(**facts)
        self._environment.save()

    def record(self) -> Record:
        """Return the final record of a finished run."""
        return Record.load(self.path)

    def add_to_record(
        self,
        scalars: Mapping[str, Any],
        arrays: Mapping[str, Any] | None = None,
        solution: Mapping[str, Any] | None = None,
    ) -> Record:
        """Add later results to a finished record, and return the new record.

        Scalars and arrays need new names. A solution replaces the earlier one, for instance after
        it was certified.
        """
        record, new = self.record(), {"scalars": scalars, "arrays": arrays or {}}
        for part, added in new.items():
            known = sorted(set(added) & set(getattr(record, part)))
            if known:
                raise InputError(part, "new names", ", ".join(known))
        whole = {part: {**getattr(record, part), **added} for part, added in new.items()}
        record = replace(record, **whole, solution=solution or record.solution)
        record.save(self.path)
        return record

    @property
    def seconds(self) -> float:
        """Seconds spent in all sessions of this run."""
        return self._environment.seconds

    def close(self) -> None:
        """Close the run, so that other processes may write to the folder."""
        self._metrics.close()
        if not self._discarded:
            self._environment.save()
        self._lock.release()

    def discard(self) -> bool:
        """Remove a run that has logged and saved nothing, and its folder; return whether it did.

        The run accepts nothing afterwards.
        """
        names = ("environment.json", "metrics.jsonl", "config.json", FolderLock.NAME)
        if self._metrics.sums or {entry.name for entry in self.path.iterdir()} - set(names):
            return False
        self._discarded = True
        with contextlib.suppress(OSError):  # Windows does not remove open files
            for name in names:
                (self.path / name).unlink(missing_ok=True)
            self.path.rmdir()
        return True

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _remove_leftovers(self) -> None:
        for folder in (self.path, self.path / "checkpoints"):
            for entry in folder.glob(".*"):
                if entry.is_file() and _is_leftover(entry):
                    entry.unlink()

    def _check_unfinished(self, verb: str) -> None:
        if self.finished:
            raise RuntimeError(f"{self.path}: cannot {verb}, the run is finished")


R = TypeVar("R")


@dataclass(frozen=True)
class Format(Generic[R]):
    """How the results of a computation lie in a run folder; see `kept`.

    **Example**

    >>> from equipoise.runs import Format, Record
    >>> numbers = Format(
    ...     read=lambda run: run.record().scalars["number"],
    ...     write=lambda number, run: Record("number", run.config, {"number": number}),
    ... )
    """

    #: Reads the result of a finished run.
    read: Callable[[Run], R]
    #: Writes the files of a result besides its record, which it returns; None if the result is not
    #: finished, because the computation was interrupted or ran out of time.
    write: Callable[[R, Run], Record | None]


_RECORDS: Format[Any] = Format(Run.record, lambda record, run: record)


def kept(
    run: str | os.PathLike[str] | None,
    config: Any,
    work: Callable[[Run | None], R],
    kind: Format[R] = _RECORDS,
) -> R:
    """Read the result of a call from its run folder, or compute it and keep it there.

    Only finished results are kept: if the call was interrupted or ran out of time, the same call
    goes on. A call that fails before it has logged or saved anything leaves no folder behind.

    - `run`: the folder. If None, `work(None)` is returned.
    - `config`: what identifies the call: all that its result depends on, so no time limit. It is a
      dict, a dataclass, or a function without arguments that returns one, which is called only if
      there is a folder.
    - `work`: computes the result, from the last checkpoint of the run if there is one.
    - `kind`: how results lie in the folder. Default: the result is its record.

    **Example**

    >>> import tempfile
    >>> from equipoise.runs import Record, kept
    >>> def add(run):
    ...     print("adding")
    ...     return Record("sum", {}, {"total": sum(range(100))})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         print(kept(folder + "/run", {"to": 100}, add).scalars["total"])
    adding
    4950
    4950
    """
    if run is None:
        return work(None)
    known = _config_file(Path(run)).exists()
    with Run.start(run, config() if callable(config) else config) as folder:
        if folder.finished:
            return kind.read(folder)
        try:
            result = work(folder)
        except Exception:  # Ctrl-C keeps the folder, so that the same call goes on
            if not known:
                folder.discard()
            raise
        record = kind.write(result, folder)
        if record is not None:
            folder.finish(record)
        return result


def _config_file(folder: Path) -> Path:
    return folder / "config.json"


def _refuse_links(folder: Path) -> None:
    """Refuse links and devices in a run folder and among its checkpoints."""
    refuse_links(folder)
    if (folder / "checkpoints").exists():
        refuse_links(folder / "checkpoints")


def _check_step(step: Any) -> int:
    if isinstance(step, bool) or not hasattr(step, "__index__") or operator.index(step) < 0:
        raise InputError("step", "a whole number >= 0", repr(step))
    return operator.index(step)


def _write_config(folder: Path, plain: dict[str, Any]) -> None:
    write_text(_config_file(folder), json.dumps(plain, indent=2, ensure_ascii=False) + "\n")


def _checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run in order, the latest last."""
    files = (folder / "checkpoints").glob("*.npz")
    numbered = (f for f in files if re.fullmatch("[0-9]{1,40}", f.stem))
    return sorted(numbered, key=lambda f: int(f.stem))


def _remove_checkpoints(folder: Path) -> None:
    for checkpoint in (*_checkpoints(folder), *folder.glob(f"checkpoints/*{_ASIDE}")):
        checkpoint.unlink()
    with contextlib.suppress(OSError):  # it does not exist, or contains other files
        (folder / "checkpoints").rmdir()


def _config_digest(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _latest(folder: Path, config: str) -> tuple[Path | None, dict[str, Any]]:
    """Return the last undamaged checkpoint and its facts, if any, and rename damaged ones.

    Renamed checkpoints do not count among those that are kept. A checkpoint of another run or
    another step is refused, since damage cannot explain it.
    """
    checkpoints = _checkpoints(folder)
    damaged: list[tuple[Path, ValueError]] = []
    for path in reversed(checkpoints):
        try:
            facts = check_checkpoint(path)
        except ValueError as error:
            damaged.append((path, error))
            continue
        _check_belongs(path, facts, config)
        for other, error in damaged:
            other.rename(f"{other}{_ASIDE}")
            warnings.warn(
                f"{error}; renamed to {other.name}{_ASIDE}, "
                f"the run resumes from step {int(path.stem)}",
                DamagedCheckpoint,
                stacklevel=4,
            )
        return path, facts
    if damaged:
        raise ValueError(
            f"{folder}: expected a checkpoint to resume from, found {len(damaged)}, all damaged: "
            f"{damaged[0][1]}; start again in another folder"
        )
    return None, {}


def _check_belongs(path: Path, facts: dict[str, Any], config: str) -> None:
    """Refuse a checkpoint that was written under another name or by another run."""
    if facts.get("step") != int(path.stem):
        raise ValueError(
            f"{path}: expected the checkpoint of step {int(path.stem)}, found one of step "
            f"{facts.get('step')}: it was renamed or copied; remove it to use an earlier one"
        )
    if facts.get("config") != config or not isinstance(facts.get("metrics_bytes"), int):
        raise ValueError(
            f"{path}: expected a checkpoint of this run, found one of a run with another config; "
            "remove it to use an earlier one"
        )


def _plain_config(config: Any) -> dict[str, Any]:
    try:
        plain = to_plain(config, "config")
    except RecursionError:
        raise InputError("config", "plain data", "a container that contains itself") from None
    if not isinstance(plain, dict):
        raise InputError("config", "a dict or a dataclass", type(config).__name__)
    return plain


def _check_keep(keep: int) -> int:
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise InputError("keep", "a whole number >= 1", repr(keep))
    return keep


def _is_leftover(entry: Path) -> bool:
    return entry.name == FolderLock.NAME or _LEFTOVER.fullmatch(entry.name) is not None


@contextlib.contextmanager
def _released_on_error(lock: FolderLock) -> Any:
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


def _devices() -> list[str]:
    """Return the kinds of devices that JAX uses. Checkpoints have imported JAX by then."""
    jax = sys.modules["jax"]
    return sorted({device.device_kind for device in jax.devices()})
