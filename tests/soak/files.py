"""Damaged files for every reader: no traceback, and no memory out of proportion.

A reader may return, or refuse with a `ValueError` or an `OSError` of one line. It may not raise
anything else, and may not allocate more than 64 times the length of the file plus 64 MB.
"""

import json
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from support import damage

import equipoise as eq
from equipoise.runs import Record, Run, read_metrics


def _game(name: str, suffix: str, **parameters: object) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / f"game{suffix}"
        eq.games.write(eq.games.load(name, **parameters), path)
        return path

    return make


def _text(name: str, content: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_text(content)
        return folder / name

    return make


def _policy(suffix: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / f"policy{suffix}"
        eq.write_policy(path, eq.solve(eq.games.load("rock-paper-scissors")).policy)
        return path

    return make


def _log(suffix: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        game = eq.games.families.polymatrix(agents=3, actions=3, contexts=2).sample(key=0)
        path = folder / f"log{suffix}"
        eq.offline.collect(game, samples=12, key=0).write(path)
        return path

    return make


def _run(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        with Run.start(folder / "run", {"steps": 2}) as run:
            for step in (1, 2):
                run.log(step, gap=1.0 / step)
                run.checkpoint(step, {"mean": np.arange(3.0), "rounds": step})
            if name.startswith("record"):
                run.finish(Record("sums", {"steps": 2}, {"total": 3}, {"means": np.arange(4.0)}))
        return folder / "run" / name

    return make


def _open_run(path: Path) -> None:
    with Run.open(path.parent) as run:
        run.restore({"mean": np.zeros(3), "rounds": 0})


def _open_checkpoint(path: Path) -> None:
    with Run.open(path.parents[1]) as run:
        run.restore({"mean": np.zeros(3), "rounds": 0})


def _players(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        family = eq.games.families.uniform(actions=2)
        config = eq.incontext.Config(rounds=4, layers=1, heads=1, width=8, hidden=8)
        players = eq.incontext.initial_players(family, config, key=0)
        eq.incontext.save(players, folder / "players", config, family)
        return folder / "players" / name

    return make


#: What is read -> how a sound file is made, and how it is read.
READERS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "game .nfg": (_game("prisoners-dilemma", ".nfg"), eq.games.read),
    "game .npz": (_game("rock-paper-scissors", ".npz"), eq.games.read),
    "game .csv": (_game("rock-paper-scissors", ".csv"), eq.games.read),
    "game .toml": (_text("game.toml", 'kind = "two-roads"\nagents = 500\n'), eq.games.read),
    "policy .json": (_policy(".json"), eq.read_policy),
    "policy .npz": (_policy(".npz"), eq.read_policy),
    "log .npz": (_log(".npz"), eq.offline.Log.read),
    "log .parquet": (_log(".parquet"), eq.offline.Log.read),
    "run config": (_run("config.json"), _open_run),
    "run metrics": (_run("metrics.jsonl"), lambda path: read_metrics(path.parent)),
    "run checkpoint": (_run("checkpoints/000000000002.npz"), _open_checkpoint),
    "run record .json": (_run("record.json"), lambda path: Record.load(path.parent)),
    "run record .npz": (_run("record.npz"), lambda path: Record.load(path.parent)),
    "players .safetensors": (
        _players("players.safetensors"),
        lambda path: eq.incontext.load(path.parent),
    ),
    "players.json": (_players("players.json"), lambda path: eq.incontext.load(path.parent)),
}


def attack(reader: str, cases: int, seed: int) -> dict[str, object]:
    """Read damaged copies of one kind of file; say how many were refused, and what went wrong."""
    make, read = READERS[reader]
    rng = np.random.default_rng([seed, sorted(READERS).index(reader)])
    refused, wrong, worst = 0, [], 0.0
    with tempfile.TemporaryDirectory() as name:
        path = make(Path(name))
        root = Path(name)
        sound = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
        tracemalloc.start()
        for case in range(cases):
            for file in [*root.rglob("*")]:  # what an earlier case set aside
                if file.is_file() and file not in sound:
                    file.unlink()
            for file, content in sound.items():
                file.write_bytes(content)
            data = damage(rng, sound[path])
            path.write_bytes(data)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                with warnings.catch_warnings(action="ignore"):
                    read(path)
            except (ValueError, OSError) as error:
                refused += 1
                if "\n" in str(error):
                    wrong.append((case, f"several lines: {error}"[:200]))
            except Exception as error:
                wrong.append((case, f"{type(error).__name__}: {error}"[:200]))
            used = tracemalloc.get_traced_memory()[1] - before
            worst = max(worst, (used - 64e6) / max(1, len(data)))
            if used > 64 * len(data) + 64e6:
                wrong.append((case, f"{used / 1e6:.0f} MB for a file of {len(data)} bytes"))
        tracemalloc.stop()
    return {"cases": cases, "refused": refused, "wrong": wrong, "bytes_per_byte": max(0.0, worst)}


def main(cases: int, seed: int) -> dict[str, object]:
    """Attack every reader."""
    failures, refused = 0, {}
    for reader in READERS:
        found = attack(reader, cases, seed)
        failures += len(found["wrong"])
        refused[reader] = found["refused"]
        print(json.dumps({"reader": reader, **found, "wrong": found["wrong"][:5]}), flush=True)
    return {"failures": failures, "cases_each": cases, "refused": refused}
