"""Sweeps: run many settings of one command on any engine, each in its own run folder."""

import hashlib
import itertools
import json
import math
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.core.errors import InputError, named_arguments
from equipoise.core.files import read_bytes, write_text
from equipoise.core.plain import expect, parse_toml, read_json, to_toml
from equipoise.runs._commands import run_command, stopping, threads_here
from equipoise.runs._folder import FolderInUse, FolderLock, refuse_links
from equipoise.runs._loop import interruptible, progress
from equipoise.runs._record import Record
from equipoise.runs.engines import Engine, engine_of

#: Options that a sweep sets itself and settings may not contain.
_OWN = ("run", "config", "json", "print-config", "traceback")
#: Keys that the file of a sweep may contain.
_KEYS = ("verb", "options", "grid", "list", "local", "ray", "slurm")
#: Files next to the run folders: the settings, the state of each run, and the final page.
_SETTINGS, _STATES, PAGE = "settings", "states.json", "report.html"
#: Largest length of the name of a run folder.
_LONGEST = 100
#: Exit codes of commands that finished their run, and of commands that were interrupted, while
#: running or while starting.
_DONE = {0: "finished", 1: "finished, tolerance missed or nothing learned"}
_INTERRUPTED = (130, -signal.SIGINT)
#: Seconds between two counts of the runs that have started.
_COUNTED = 2.0
#: Seconds between two writes of the states, which take longer the more runs there are.
_SAVED = 1.0
#: Largest number of settings.
_MOST = 1_000_000
#: Number of times that a worker restarts a command that was killed.
_RETRIES = 3


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep: the state of each run, and the page that compares them.

    **Example**

    >>> from pathlib import Path
    >>> from equipoise.runs import Sweep
    >>> Sweep(Path("runs/games"), {"game=oneill": "finished", "game=chess": "stopped"}).done
    False
    """

    #: Folder of the run folders.
    folder: Path
    #: Name of each run folder -> "finished", "finished, tolerance missed or nothing learned",
    #: "stopped", or "failed: " and the reason.
    states: Mapping[str, str]
    #: Page that compares the runs; None if it was not written.
    page: Path | None = None

    @property
    def done(self) -> bool:
        """Whether all runs have finished."""
        return all(state.startswith("finished") for state in self.states.values())

    def records(self) -> dict[str, Record]:
        """Return the records of the finished runs by name."""
        names = [name for name, state in self.states.items() if state.startswith("finished")]
        return {name: Record.load(self.folder / name) for name in names}


@named_arguments
def sweep(
    folder: str | os.PathLike[str],
    verb: str,
    settings: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    options: Mapping[str, Any] | None = None,
    on: str | Engine = "local",
    page: bool = True,
    **engine: Any,
) -> Sweep:
    """Run `equipoise VERB` with each of many settings, each in a run folder of its own.

    Every setting is one task of an engine: a process on this machine, a Ray task, or an entry of a
    Slurm array. A task that is killed is started again and resumes from its last checkpoint. Ctrl-C
    stops all tasks after their current step. Call the function again to finish the remaining runs,
    possibly with additional settings. The records are the same, byte for byte, on every engine.

    - `folder`: folder for the run folders; all workers must see it under the same path.
    - `settings`: a grid, `{"seed": [0, 1], "row": ["omd", "exp3-ix"]}`, for every combination,
      or a list of settings, `[{"seed": 0}, {"seed": 1}]`. Keys are flags without their dashes.
    - `options`: options that all settings share.
    - `on`: "local", "ray" or "slurm", or an engine of `runs.engines`.
    - `page`: whether to write a page that compares the runs to `report.html` in the folder.
    - further arguments are passed to the engine, such as `workers` or `address`.

    **Example**

    >>> import tempfile
    >>> from equipoise.runs import sweep
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = sweep(place + "/games", "solve", {"game": ["oneill"]}, page=False)
    ...     {name: record.scalars["game"] for name, record in found.records().items()}
    {'game=oneill': 'oneill'}
    """
    place = Path(folder).absolute()
    named = named_settings(settings, options or {})
    runner = engine_of(on, **({"folder": place / "slurm"} if on == "slurm" else {}) | engine)
    states = _run_all(runner, place, verb, named)
    written = None
    if page and any((place / name / "config.json").exists() for name in named):
        written = place / PAGE
        names = [str(place / name) for name in named if (place / name / "config.json").exists()]
        # A command line has room for some thousand names only.
        asked = place / _SETTINGS / "report.toml"
        write_text(asked, f"# equipoise report\n{to_toml({'runs': names, 'out': str(written)})}")
        code, said = run_command(["report", "--config", str(asked)], place)
        if code:
            raise RuntimeError(f"{written}: the page could not be written: {said}")
    return Sweep(place, states, written)


def _run_all(
    engine: Engine, place: Path, verb: str, named: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Run every setting that has not finished, and return the state of each run."""
    place.mkdir(parents=True, exist_ok=True)
    refuse_links(place)
    (place / _SETTINGS).mkdir(exist_ok=True)
    refuse_links(place / _SETTINGS)
    known = read_json(place / _STATES) if (place / _STATES).exists() else {}
    for name, state in known.items():
        expect(f"{place / _STATES}: {name}", state, str, "the state of a run")
    states = dict.fromkeys(named, "stopped")
    for name, setting in named.items():
        file, text = _settings_file(place, name), f"# equipoise {verb}\n{to_toml(setting)}"
        same = file.exists() and read_bytes(file) == text.encode()
        if same and (place / name / "record.json").exists():
            states[name] = known.get(name, "stopped")
        if not same:  # the command refuses a run folder with other settings
            write_text(file, text)
    left = [name for name, state in states.items() if not state.startswith("finished")]
    task = _Task(str(Path.cwd()), str(place), verb, threads_here())
    with interruptible() as stop, progress(f"{verb}: runs", len(named)) as bar:
        bar.advance(len(named) - len(left))
        counts = {"running": 0, "failed": 0}
        following = time.monotonic() + _COUNTED

        def look() -> bool:
            nonlocal following
            if (now := time.monotonic()) > following:
                begun = [n for n in left if states[n] == "stopped" and _has_begun(place / n)]
                counts["running"] = len(begun)
                bar.advance(0, **counts)
                # Thousands of folders on a slow disk are counted less often.
                following = time.monotonic() + max(_COUNTED, 50 * (time.monotonic() - now))
            return bool(stop)

        def save() -> None:
            nonlocal saved
            write_text(place / _STATES, json.dumps(known | states, indent=2) + "\n")
            saved = time.monotonic()

        saved = 0.0
        try:
            for index, state in engine.map(task, left, stop=look, lost=_lost) if left else ():
                states[left[index]] = state
                counts["failed"] += state.startswith("failed")
                bar.advance(1, **counts)
                # The file has a line for every run. A state that a kill loses is found again.
                if time.monotonic() > saved + _SAVED:
                    save()
        finally:
            save()
    return states


def _has_begun(folder: Path) -> bool:
    return (folder / "config.json").exists() and not (folder / "record.json").exists()


def _lost(reason: str) -> str:
    return f"failed: its workers died: {reason}"


@dataclass(frozen=True)
class _Task:
    """A task that runs the command of one setting, on any worker."""

    here: str
    place: str
    verb: str
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def __call__(self, name: str) -> str:
        """Run the command and return the state of the run."""
        place = Path(self.place)
        words = [self.verb, "--config", str(_settings_file(place, name)), "--run"]
        words.append(str(place / name))
        code, said = 0, ""
        for _ in range(1 + _RETRIES):
            _wait_for(place / name)
            if stopping():
                return "stopped"
            try:
                code, said = run_command(words, self.here, self.variables)
            except OSError as error:  # this machine does not see the folder, or is out of memory
                return f"failed: {error}"
            if code in _DONE:
                return _DONE[code]
            if code in _INTERRUPTED:
                return "stopped"
            if code > 0:  # a negative code means a signal, for instance when memory ran out
                return f"failed: {said.removeprefix('equipoise: error: ')}"
        return f"failed: killed by signal {-code} {1 + _RETRIES} times; {said}".rstrip("; ")


def _wait_for(folder: Path) -> None:
    """Wait until no other worker writes to a run folder, so that its result can be read."""
    while (folder / FolderLock.NAME).exists() and not stopping():
        try:
            FolderLock(folder).release()
        except FolderInUse:
            time.sleep(0.5)
        except (OSError, ValueError):
            return  # the command will report the problem
        else:
            return


def _settings_file(place: Path, name: str) -> Path:
    return place / _SETTINGS / f"{name}.toml"


def named_settings(
    settings: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Return all settings of a sweep by folder name; the name lists the varied options.

    A name depends only on its own setting, so an extended sweep finds its earlier runs.

    >>> list(named_settings({"seed": [0, 1], "row": ["omd"]}, {}))
    ['seed=0,row=omd', 'seed=1,row=omd']
    """
    if isinstance(settings, Mapping):
        for key, values in settings.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise InputError(f"settings[{key!r}]", "a list of values", repr(values))
        if (many := math.prod(map(len, settings.values()))) > _MOST:
            raise InputError("settings", f"at most {_MOST:,} combinations", f"{many:,}")
        combinations = itertools.product(*settings.values())
        rows = [dict(zip(settings, values, strict=True)) for values in combinations]
    else:
        rows = [dict(row) for row in settings]
    if not rows or not all(rows):
        raise InputError("settings", "at least one, each with an option", "none or an empty one")
    named, seen = dict[str, dict[str, Any]](), set[str]()
    for row in rows:
        for key in (*row, *options):
            if not isinstance(key, str) or key in _OWN or not re.fullmatch(r"[a-z][a-z0-9-]*", key):
                raise InputError("settings", "options of the verb, as in --config", repr(key))
        shared = set(row) & set(options)
        if shared:
            raise InputError("options", "options that no setting has", ", ".join(sorted(shared)))
        name = _name_of(row)
        whole = json.dumps(row, sort_keys=True, default=str)
        if name in named or whole in seen:
            raise InputError("settings", "settings that differ", f"{name} twice")
        seen.add(whole)
        named[name] = {**options, **row}
    return named


def _name_of(setting: Mapping[str, Any]) -> str:
    """Return the name of a run folder in characters that every file system accepts."""
    told = ",".join(f"{key}={_word(value)}" for key, value in setting.items())
    name = re.sub(r"[^\w.=+,-]", "-", told, flags=re.ASCII)
    if name == told and len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(json.dumps(setting, sort_keys=True).encode()).hexdigest()[:8]
    return f"{name[:_LONGEST]}-{digest}"


def _word(value: Any) -> str:
    return "+".join(map(_word, value)) if isinstance(value, list | tuple) else str(value)


def read_sweep(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the arguments of `sweep` from a TOML file, with a table of options for each engine.

    The file has a `verb`, and either a table `[grid]` with lists of values or tables `[[list]]`. It
    may have `[options]` for all settings, and `[local]`, `[ray]` and `[slurm]` for the engines.

    **Example**

    >>> import pathlib, tempfile
    >>> from equipoise.runs import read_sweep
    >>> text = 'verb = "play"\\n[options]\\nrounds = 8\\n[grid]\\nseed = [0, 1]\\n'
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = pathlib.Path(place, "sweep.toml")
    ...     _ = file.write_text(text)
    ...     read_sweep(file)["settings"]
    {'seed': [0, 1]}
    """
    found = parse_toml(read_bytes(Path(path)), str(path))
    for key in found:
        if key not in _KEYS:
            raise InputError(str(path), f"keys among {', '.join(_KEYS)}", repr(key))
    if not isinstance(found.get("verb"), str):
        raise InputError(str(path), "verb, the command to sweep", repr(found.get("verb")))
    if ("grid" in found) == ("list" in found):
        raise InputError(str(path), "one of [grid] and [[list]]", "both or neither")
    settings, kind = found.get("grid", found.get("list")), dict if "grid" in found else list
    tables = [found.get(name, {}) for name in ("options", "local", "ray", "slurm")]
    listed = settings if isinstance(settings, list) else []
    if not isinstance(settings, kind) or not all(isinstance(t, dict) for t in (*tables, *listed)):
        raise InputError(str(path), "tables of options", "another type under one of these names")
    engines = {name: found.get(name, {}) for name in ("local", "ray", "slurm")}
    return {
        "verb": found["verb"],
        "settings": settings,
        "options": found.get("options", {}),
        "engines": engines,
    }
