"""The Runs page: list run folders, draw their curves while they run, and resume them."""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.core.errors import InputError
from equipoise.report import (
    RunFolder,
    compare,
    content_policy,
    curves_of,
    find_runs,
    read_runs,
    status_of,
)
from equipoise.studio._games import in_code, quoted

#: Largest number of runs listed, of curves drawn, and of points in a curve.
_LISTED, _DRAWN, _POINTS = 500, 60, 400
#: Seconds without a change after which a run may have been killed.
_QUIET = 5.0
#: Verbs whose runs can be resumed by running the same command again.
_RESUMABLE = ("evaluate", "learn", "offline", "play", "pretrain", "reproduce", "solve")
#: Prefixes of flags that read or write outside the run folder, or contact another machine.
_OUTSIDE = ("--out", "--report", "--config", "--address", "--tyro")


def _list(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """List all runs below the folder."""
    try:
        paths = find_runs(studio.folder.root)
    except InputError:
        return {"runs": [], "left_out": 0}
    if paths == [studio.folder.root]:
        raise InputError("folder", "a folder of runs", "a run folder; start one level up")
    working = {job.run: job for job in studio.jobs.jobs.values() if job.state == "running"}
    rows = []
    for path in paths[:_LISTED]:
        name = studio.folder.name_of(path)
        try:
            run = RunFolder.read(path)
        except ValueError as error:
            rows.append({"name": name, "state": f"cannot be read: {error}", "problem": True})
            continue
        files = {file.name: file.stat() for file in path.iterdir() if file.is_file()}
        quiet = time.time() - max(about.st_mtime for about in files.values())
        # A process that writes a run notes itself in the lock file, and empties the file at the end
        # unless it is killed.
        idle = quiet > _QUIET or ("lock" in files and files["lock"].st_size == 0)
        job = working.get(name)
        rows.append(
            {
                "name": name,
                "state": run.state,
                "finished": run.record is not None,
                "kind": None if run.record is None else run.record.name,
                "status": None if run.record is None else status_of(run.record).split(":")[0],
                "seconds": run.seconds,
                "idle": idle,
                "command": run.command,
                "job": None if job is None else job.id,
            }
        )
    return {"runs": rows, "left_out": max(0, len(paths) - _LISTED)}


def _chosen(studio: Any, names: Any) -> list[RunFolder]:
    if not isinstance(names, list) or not names:
        raise InputError("runs", "at least one run", "none")
    paths = [studio.folder.path(name, "run") for name in names[:_DRAWN]]
    return read_runs(paths)


def _curves(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the curves of some runs by quantity."""
    runs = _chosen(studio, request.get("runs"))
    found: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        for quantity, by_whom in curves_of(run.record, run.metrics, run.config).items():
            for who, curve in by_whom.items():
                kept = _thinned(curve.at.size)
                low, high = (None, None) if curve.band is None else (e[kept] for e in curve.band)
                name = f"{run.label}: {who}" if who else run.label
                found.setdefault(quantity, []).append(
                    {
                        "name": name,
                        "axis": curve.axis,
                        "x": curve.at[kept],
                        "y": curve.mean[kept],
                        "low": low,
                        "high": high,
                    }
                )
    names = [studio.folder.shown(studio.folder.name_of(run.path)) for run in runs]
    lines = [f"runs = eq.report.read_runs({quoted(names)})"]
    lines += ['eq.report.compare(runs).write("comparison.html")']
    return {
        "quantities": {name: curves[:_DRAWN] for name, curves in found.items()},
        **in_code(lines, ["equipoise", "report", *names, "--out", "comparison.html"]),
    }


def _thinned(count: int) -> np.ndarray:
    if count <= _POINTS:
        return np.arange(count)
    return np.unique(np.geomspace(1, count, _POINTS).round().astype(int) - 1)


def report(studio: Any, names: list[str]) -> tuple[str, str]:
    """Return the page that compares some runs, and its content security policy."""
    return compare(_chosen(studio, names)).html(), content_policy()


def _resume(studio: Any, request: dict[str, Any]) -> Any:
    """Run the command of an unfinished run again if it writes only to that run folder."""
    path = studio.folder.path(request.get("run"), "run")
    run = RunFolder.read(path)
    name = studio.folder.name_of(path)
    if run.record is not None:
        raise InputError("run", "an unfinished run", f"{name}, which is finished")
    arguments, place = _command(run)
    return studio.jobs.command("runs", f"Resume {name}", arguments, place, name)


def _command(run: RunFolder) -> tuple[list[str], Path]:
    """Return the arguments of the command that started a run, and its working directory."""
    hint = "run its command again in the folder where you started it"
    if not run.sessions:
        raise InputError("run", "a run that a command started", run.path.name, hint)
    words = [str(word) for word in run.sessions[0].get("command", [])]
    names = ["equipoise"], ["python", "-m", "equipoise"]
    head = next((name for name in names if words[: len(name)] == name), None)
    arguments = words[len(head) :] if head else []
    place = Path(str(run.sessions[0].get("folder", "")))
    outside = any(word.startswith(_OUTSIDE) for word in arguments)
    if not arguments or arguments[0] not in _RESUMABLE or outside:
        raise InputError("run", f"a run of `equipoise {'|'.join(_RESUMABLE)}`", run.command, hint)
    values = [v for w, v in pairwise(arguments) if w == "--run"]
    values += [word.removeprefix("--run=") for word in arguments if word.startswith("--run=")]
    if not place.is_dir() or [(place / v).resolve() for v in values] != [run.path.resolve()]:
        raise InputError("run", "a command with --run for this folder", run.command, hint)
    return arguments, place


CALLS = {"curves": _curves, "list": _list, "resume": _resume}
JOBS: dict[str, Any] = {}
