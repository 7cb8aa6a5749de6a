"""The room of logs: what a log shows and advises, and what one agent's deviation would gain."""

import csv
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.core.errors import InputError
from equipoise.core.files import write_text
from equipoise.report import RunFolder, agents_of, labels_of, status_of, tables_of
from equipoise.studio._matrix import table_of

_SUFFIXES = (".csv", ".parquet", ".npz")
#: Columns of a table that the page may name, as `Log.read` and the command line call them.
_COLUMNS = ("agent", "time", "action", "reward")
#: Interactions that are drawn, by agents.
_DRAWN = 40


def _options(request: dict[str, Any]) -> dict[str, Any]:
    given = request.get("columns") or {}
    if not isinstance(given, dict):
        raise InputError("columns", "names by role", type(given).__name__)
    return {name: str(given[name]) for name in _COLUMNS if given.get(name)}


def _open(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """The columns of a table, and where they make a log, what it covers."""
    path = studio.folder.file(request.get("file"), *_SUFFIXES)
    options = _options(request)
    found: dict[str, Any] = {"columns": _columns(path), "log": None, "problem": ""}
    try:
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
    """Names of the columns of a table; an .npz has arrays of fixed names."""
    if path.suffix.lower() == ".csv":
        with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
            return [name[:200] for name in next(csv.reader(file), [])][:500]
    if path.suffix.lower() == ".parquet":
        from pyarrow import parquet

        return list(parquet.read_schema(path).names)[:500]
    return []


def _learn(studio: Any, request: dict[str, Any]) -> Any:
    """Start `equipoise offline`; its run folder keeps what it does."""
    path = studio.folder.file(request.get("file"), *_SUFFIXES)
    run = studio.folder.new_run("offline")
    name, where = studio.folder.name_of(path), studio.folder.name_of(run)
    flags = [word for key, value in _options(request).items() for word in (f"--{key}", value)]
    arguments = ["offline", name, *flags, "--run", where]
    return studio.jobs.command("log", f"Learn from {name}", arguments, studio.folder.root, where)


def _advice(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """What a finished run found: advice, structure, bounds, and gains of single deviations."""
    folder = RunFolder.read(studio.folder.path(request.get("run"), "run"))
    if folder.record is None or "gap" not in (folder.record.solution or {}).get("stats", {}):
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
    python = [
        "import equipoise as eq",
        f"advice = eq.offline.learn({_source(folder)})",
        "print(advice.status, advice.interval, advice.bound)",
    ]
    return {
        "name": name,
        "status": status_of(record),
        "learned": status_of(record).startswith("learned"),
        "agents": agents,
        "actions": actions,
        "bound": stats.get("bound"),
        "interval": stats.get("interval"),
        "own_interval": stats.get("own_interval"),
        "level": stats["gap"].get("level"),
        "samples": stats["samples"],
        "warnings": list(stats.get("warnings", ())),
        "deviations": stats.get("deviations"),
        "strength": strength,
        "tables": {key: table_of(table) for key, table in tables_of(record).items()},
        "run": where,
        "python": "\n".join(python),
        "command": folder.command.replace("python -m equipoise", "equipoise", 1),
    }


def _source(folder: RunFolder) -> str:
    """What `learn` was given, as Python: the file, read with the columns that the command names."""
    words = shlex.split(folder.command)
    flags = {w[2:]: v for w, v in pairwise(words) if w.startswith("--")}
    file = next((word for word in words if word.endswith(_SUFFIXES)), folder.config["log"])
    columns = "".join(f", {key}={flags[key]!r}" for key in _COLUMNS if key in flags)
    return f"eq.offline.Log.read({file!r}{columns})"


def _example(studio: Any, request: dict[str, Any]) -> dict[str, Any]:
    """A small log to try: four sellers who set prices, and earn by their own and others' prices."""
    game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=1_500, key=1)
    sellers, prices = ("Ada", "Bo", "Cy", "Di"), ("low", "middle", "high")
    lines = ["week,seller,price,profit"]
    for week, (actions, rewards) in enumerate(zip(log.actions, log.rewards, strict=True)):
        for seller, action, reward in zip(sellers, actions, rewards, strict=True):
            lines.append(f"{week},{seller},{prices[action]},{float(reward):.6g}")
    path = studio.folder.upload_path("sellers.csv")
    path.parent.mkdir(exist_ok=True)
    write_text(path, "\n".join(lines) + "\n")
    columns = {"agent": "seller", "time": "week", "action": "price", "reward": "profit"}
    return {"file": studio.folder.name_of(path), "columns": columns}


CALLS = {"advice": _advice, "example": _example, "learn": _learn, "open": _open}
JOBS: dict[str, Any] = {}
