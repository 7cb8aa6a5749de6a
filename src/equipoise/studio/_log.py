"""The Log page: coverage of a log, the advice learned from it, and gains of deviations."""

import contextlib
import csv
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.core.files import write_text
from equipoise.report import RunFolder, agents_of, labels_of, status_of, tables_of
from equipoise.studio._games import in_code, quoted, whole
from equipoise.studio._matrix import table_of

_SUFFIXES = (".csv", ".parquet", ".npz")
#: Columns that the page may name, with the names that `Log.read` and the command line use.
_COLUMNS = ("agent", "time", "action", "reward", "context")
#: Largest number of agents in the drawing of interactions.
_DRAWN = 40


def _options(request: dict[str, Any]) -> dict[str, Any]:
    given = request.get("columns") or {}
    if not isinstance(given, dict):
        raise InputError("columns", "names by role", type(given).__name__)
    options: dict[str, Any] = {name: str(given[name]) for name in _COLUMNS if given.get(name)}
    return options | ({"bins": whole(given, "bins", 2, 2, 100)} if given.get("bins") else {})


def _flags(options: dict[str, Any]) -> list[str]:
    return [word for key, value in options.items() for word in (f"--{key}", str(value))]


def _code(file: str, options: dict[str, Any], flags: Any) -> dict[str, str]:
    """Return the code that learns from the file, with the given flags of the command."""
    columns = "".join(f", {key}={quoted(value)}" for key, value in options.items())
    lines = [
        f"advice = eq.advise({quoted(file)}{columns})",
        "print(advice.status, advice.interval, advice.bound)",
    ]
    return in_code(lines, ["equipoise", "offline", file, *flags])


def _open(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a table and, if they form a log, its coverage."""
    path = studio.folder.file(request.get("file"), *_SUFFIXES)
    options = _options(request)
    found: dict[str, Any] = {"columns": [], "log": None, "problem": ""}
    file = studio.folder.shown(studio.folder.name_of(path))
    found |= _code(file, options, _flags(options))
    try:
        found["columns"] = _columns(path)
        log = eq.offline.Log.read(path, **options)
    except ValueError as error:
        return found | {"problem": str(error)}
    agents = [log.labels.player(i) for i in range(log.agents)]
    found["log"] = {
        "samples": log.samples,
        "agents": agents,
        "actions": [] if log.continuous else list(log.actions_per_agent),
        "contexts": log.contexts_count,
        "notes": list(log.notes),
        "continuous": log.continuous,
    }
    if not log.continuous:
        covered = eq.offline.coverage(log)
        rows = zip(agents, covered.covered, covered.fewest, covered.concentrability, strict=True)
        found["coverage"] = {
            "columns": ["agent", "share of actions tried", "fewest samples", "concentrability"],
            "rows": [[who, *(float(number) for number in numbers)] for who, *numbers in rows],
        }
    return found


def _columns(path: Path) -> list[str]:
    """Return the column names of a table; an .npz file has arrays with fixed names."""
    if path.suffix.lower() == ".csv":
        with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
            try:
                return [name[:200] for name in next(csv.reader(file), [])][:500]
            except csv.Error as error:  # a name of more than 131,072 characters
                raise InputError(path.name, "a header with names of columns", error) from error
    if path.suffix.lower() == ".parquet":
        from pyarrow import ArrowInvalid, parquet

        with contextlib.suppress(ArrowInvalid):  # `Log.read` explains what is wrong
            return list(parquet.read_schema(path).names)[:500]
    return []


def _learn(studio: Any, request: dict[str, Any]) -> Any:
    """Start `equipoise offline` with a new run folder."""
    path = studio.folder.file(request.get("file"), *_SUFFIXES)
    run = studio.folder.new_run("offline")
    name, where = studio.folder.name_of(path), studio.folder.name_of(run)
    arguments = ["offline", name, *_flags(_options(request)), "--run", where]
    return studio.jobs.command("log", f"Learn from {name}", arguments, studio.folder.root, where)


def _advice(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the results of a finished run: advice, structure, bounds, and gains of deviations."""
    folder = RunFolder.read(studio.folder.path(request.get("run"), "run"))
    if folder.record is None or "samples" not in (folder.record.solution or {}).get("stats", {}):
        raise InputError("run", "a finished run of `equipoise offline`", folder.state)
    record = folder.record
    stats = (record.solution or {})["stats"]
    count = int(stats["agents"])
    agents = agents_of(record, range(count))
    actions = []
    for i, size in enumerate(stats["actions"]):
        names = labels_of(record, "actions", i)
        actions.append([str(a) if names is None else names[a] for a in range(size)])
    strength = stats.get("strength_total")
    if strength is not None:
        strength = np.asarray(strength)[:_DRAWN, :_DRAWN]
    name, where = folder.config["log"], studio.folder.name_of(folder.path)
    return {
        "name": name,
        "status": status_of(record),
        "learned": status_of(record).startswith("learned:"),
        "agents": agents,
        "actions": actions,
        "bound": stats.get("bound"),
        "interval": stats.get("interval"),
        "own_interval": stats.get("own_interval"),
        "level": folder.config.get("level"),
        "samples": stats["samples"],
        "warnings": list(stats.get("warnings", ())),
        "deviations": stats.get("deviations"),
        "strength": strength,
        "tables": {key: table_of(table) for key, table in tables_of(record).items()},
        "run": where,
        **_given(folder),
    }


def _given(folder: RunFolder) -> dict[str, str]:
    """Return the code that repeats a run: the file and all flags except the run folder."""
    if not folder.sessions:
        return _code(folder.config["log"], {}, [])
    words = [str(word) for word in folder.sessions[0]["command"]]
    flags = dict(pairwise(words))
    file = next((word for word in words if word.endswith(_SUFFIXES)), folder.config["log"])
    place = Path(str(folder.sessions[0].get("folder", "")))
    again = words[words.index("offline") + 1 :] if "offline" in words else []
    if "--run" in again:
        at = again.index("--run")
        again = again[:at] + again[at + 2 :]
    options: dict[str, Any] = {key: flags[f"--{key}"] for key in _COLUMNS if f"--{key}" in flags}
    if (bins := flags.get("--bins", "")).isdigit():
        options["bins"] = int(bins)
    name = file if place == Path.cwd() else str(place / file)
    return _code(name, options, [word for word in again if word != file])


def _example(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Write an example log: four sellers whose profits depend on their own and others' prices."""
    game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=1_500, key=1)
    sellers, prices = ("Ada", "Bo", "Cy", "Di"), ("low", "middle", "high")
    lines = ["week,seller,price,profit"]
    for week, (actions, rewards) in enumerate(zip(log.actions, log.rewards, strict=True)):
        for seller, action, reward in zip(sellers, actions, rewards, strict=True):
            lines.append(f"{week},{seller},{prices[action]},{float(reward):.6g}")
    path = studio.folder.upload_path("sellers.csv")
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(".part-sellers")
    write_text(part, "\n".join(lines) + "\n")
    columns = {"agent": "seller", "time": "week", "action": "price", "reward": "profit"}
    return {"file": studio.folder.settle(part, path), "columns": columns}


CALLS = {"advice": _advice, "example": _example, "learn": _learn, "open": _open}
JOBS: dict[str, Any] = {}
