"""Damaged files for every reader: no traceback, and no memory out of proportion.

A reader may return, or refuse with a `ValueError` or an `OSError` of one line. It may not raise
anything else, and may not allocate more than 64 times the length of the file plus 64 MB.

Half of the damage is done to bytes. The other half keeps the container sound, since a checksum
would refuse it at once: a member of an archive is changed and packed again, or a value of a JSON
text is exchanged for another.
"""

import io
import json
import re
import tempfile
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from support import damage

import equipoise as eq
from equipoise.cli import _parsing
from equipoise.offline.deep import Actors, Critic, Critics, PolicyGradient, fit, improve
from equipoise.report import RunFolder
from equipoise.runs import Record, Run, read_metrics, read_sweep
from equipoise.runs._sweep import named_settings


def _game(name: str, suffix: str, **parameters: object) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / f"game{suffix}"
        eq.games.write(eq.games.load(name, **parameters), path)
        return path

    return make


def _family(kind: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        families = eq.games.families
        made: Any = {
            "markov": families.uniform(actions=2, states=2, discount=0.9),
            "contextual": families.polymatrix(agents=3, actions=2, contexts=2),
            "decoupled": families.polymatrix(agents=3, actions=2, states=2, horizon=2),
        }[kind]
        eq.games.write(made.sample(key=0), folder / "game.npz")
        return folder / "game.npz"

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


_SALES = "week,seller,price,profit,season\n" + "".join(
    f"{week},{seller},{('low', 'high')[(week + ord(seller)) % 2]},{0.5 * week},{week % 2}\n"
    for week in range(12)
    for seller in "abc"
)


def _read_sales(path: Path) -> object:
    return eq.offline.Log.read(
        path, agent="seller", time="week", action="price", reward="profit", context=["season"]
    )


_LINKS = "<FIRST THRU NODE> 1\n<END OF METADATA>\n~ init term ;\n" + "".join(
    f"{tail} {head} 25 6 6 0.15 4 0 0 1 ;\n" for tail, head in ((1, 2), (2, 3), (1, 3))
)
_TRIPS = "<TOTAL OD FLOW> 43\n<END OF METADATA>\nOrigin 1\n 1 : 0.0; 2 : 2.5; 3 : 40.5;\n"


def _network(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "net.tntp").write_text(_LINKS)
        (folder / "trips.tntp").write_text(_TRIPS)
        game = eq.games.read_tntp(folder / "net.tntp", folder / "trips.tntp")
        eq.games.write_flows(folder / "flows.tntp", game, [3.0, 0.5, 40.0])
        return folder / name

    return make


def _read_network(path: Path) -> eq.NetworkGame:
    return eq.games.read_tntp(path.parent / "net.tntp", path.parent / "trips.tntp")


def _flow_policy(folder: Path) -> Path:
    path = folder / "flows.npz"
    eq.write_policy(path, eq.solve(eq.games.load("braess-network")).policy)
    return path


def _read_paths(path: Path) -> None:
    policy: Any = eq.read_policy(path)
    if isinstance(policy, eq.FlowPolicy):
        policy.check_paths(eq.games.load("braess-network"))


def _advice(folder: Path) -> Path:
    game = eq.games.families.polymatrix(agents=3, actions=2, contexts=2).sample(key=0)
    log = eq.offline.collect(game, "uniform", samples=400, key=0)
    eq.write_policy(folder / "advice.npz", eq.advise(log).policy)
    return folder / "advice.npz"


def _crowd(folder: Path) -> Path:
    eq.write_policy(folder / "crowd.json", eq.solve(eq.games.load("two-roads")).policy)
    return folder / "crowd.json"


def _fit_files(path: Path) -> None:
    eq.offline.fit(eq.offline.LogFiles([path]), rank=1)


def _joint(folder: Path) -> Path:
    game = eq.games.load("battle-of-the-sexes")
    eq.write_policy(folder / "joint.json", eq.solve(game, concept="ce").policy)
    return folder / "joint.json"


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


def _players(name: str, **parameters: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        family = eq.games.families.uniform(actions=2, **parameters)
        config = eq.incontext.Config(rounds=4, layers=1, heads=1, width=8, hidden=8)
        players = eq.incontext.initial_players(family, config, key=0)
        eq.incontext.save(players, folder / "players", config, family)
        return folder / "players" / name

    return make


def _deep(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        log = _continuous_log()
        critics = fit(log, Critic.linear(2), key=0)
        if name.startswith("critics"):
            critics.save(folder)
        else:
            improve(critics, log, PolicyGradient(steps=2), key=0).save(folder)
        return folder / name

    return make


def _continuous_log() -> Any:
    game = eq.games.load("pairwise-continuous", agents=3, noise=0.5)
    return eq.offline.collect(game, samples=40, key=0)


def _online(folder: Path) -> Path:
    online = eq.Online(eq.dynamics.EXP3IX(), actions=3, key=0)
    online.ask()
    online.tell(1.0)
    online.save(folder / "online.npz")
    return folder / "online.npz"


def _read_settings(path: Path) -> None:
    found = read_sweep(path)
    named_settings(found["settings"], found["options"])


def _restore_options(path: Path) -> None:
    _parsing.read_config(_parsing.command_kind("learn"), path)


_SWEEP = (
    'verb = "play"\n[options]\nrounds = 8\n[grid]\nseed = [0, 1]\nrow = ["omd"]\n'
    "[local]\nworkers = 2\n"
)
_OPTIONS = 'episodes = 40\nset = ["agents=60"]\nseed = 3\njson = true\n'

#: What is read -> how a sound file is made, and how it is read.
READERS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "game .nfg": (_game("prisoners-dilemma", ".nfg"), eq.games.read),
    "game .csv": (_game("rock-paper-scissors", ".csv"), eq.games.read),
    "game .toml": (_text("game.toml", 'kind = "two-roads"\nagents = 500\n'), eq.games.read),
    "matrix game .npz": (_game("rock-paper-scissors", ".npz"), eq.games.read),
    "normal form .npz": (_game("prisoners-dilemma", ".npz"), eq.games.read),
    "Markov game .npz": (_family("markov"), eq.games.read),
    "contextual game .npz": (_family("contextual"), eq.games.read),
    "decoupled game .npz": (_family("decoupled"), eq.games.read),
    "continuous game .npz": (_game("stamina-continuous", ".npz", agents=3), eq.games.read),
    "policy .json": (_policy(".json"), eq.read_policy),
    "policy .npz": (_policy(".npz"), eq.read_policy),
    "network game .npz": (_game("braess-network", ".npz"), eq.games.read),
    "flow policy .npz": (_flow_policy, _read_paths),
    "mixture .npz": (_advice, eq.read_policy),
    "crowd policy .json": (_crowd, eq.read_policy),
    "log .npz": (_log(".npz"), eq.offline.Log.read),
    "log in files": (_log(".parquet"), _fit_files),
    "log .parquet": (_log(".parquet"), eq.offline.Log.read),
    "log .csv": (_text("sales.csv", _SALES), _read_sales),
    "joint policy .json": (_joint, eq.read_policy),
    "links .tntp": (_network("net.tntp"), _read_network),
    "trips .tntp": (_network("trips.tntp"), _read_network),
    "flows .tntp": (
        _network("flows.tntp"),
        lambda path: eq.games.read_flows(path, _read_network(path)),
    ),
    "run config": (_run("config.json"), _open_run),
    "run metrics": (_run("metrics.jsonl"), lambda path: read_metrics(path.parent)),
    "run checkpoint": (_run("checkpoints/000000000002.npz"), _open_checkpoint),
    "run environment": (_run("environment.json"), _open_run),
    "run record .json": (_run("record.json"), lambda path: RunFolder.read(path.parent)),
    "run record .npz": (_run("record.npz"), lambda path: Record.load(path.parent)),
    "learner .npz": (_online, eq.Online.load),
    "players .safetensors": (
        _players("players.safetensors"),
        lambda path: eq.incontext.load(path.parent),
    ),
    "players.json": (_players("players.json"), lambda path: eq.incontext.load(path.parent)),
    "Markov players.json": (
        _players("players.json", states=2, discount=0.9),
        lambda path: eq.incontext.load(path.parent),
    ),
    "critics .safetensors": (_deep("critics.safetensors"), lambda path: Critics.load(path.parent)),
    "critics.json": (_deep("critics.json"), lambda path: Critics.load(path.parent)),
    "actors.json": (_deep("actors.json"), lambda path: Actors.load(path.parent)),
    "options .toml": (_text("options.toml", _OPTIONS), _restore_options),
    "sweep .toml": (_text("sweep.toml", _SWEEP), _read_settings),
}


# Damage that gets past checksums and parsers.

#: Values that are exchanged for those of a JSON text.
_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 2, 0.5, -0.0, 1e15, 10**15, 2**63, 1e308, 10**300, 5e-324),
    *("", "NaN", "Infinity", "x", "x" * 3000, "\0", "\ud800", [], {}, [[]], [0] * 100, [None]),
    *([[0.0, 1.0], [1.0]], {"0": 1}, {"kind": "profile"}),
)


def mutated(rng: np.random.Generator, data: bytes) -> bytes:
    """Damaged content, of which half is still an archive, or JSON, if it was one."""
    if rng.random() < 0.5:
        if data[:2] == b"PK":
            return _repacked(rng, data)
        if data[:1] in b"{[":
            return _exchanged(rng, data)
        if data[8:9] == b"{":  # safetensors: eight bytes of length, and a header
            size = int.from_bytes(data[:8], "little")
            header = _exchanged(rng, data[8 : 8 + size])
            return len(header).to_bytes(8, "little") + header + data[8 + size :]
    return damage(rng, data)


def _repacked(rng: np.random.Generator, data: bytes) -> bytes:
    """One member of an archive is damaged, lost, renamed or exchanged for another."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names = sorted(members)
    name, other = (names[int(i)] for i in rng.integers(len(names), size=2))
    kind = rng.integers(6)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[f"{rng.integers(10)}{name}"] = members.pop(name)
    elif kind == 2:
        members[name] = members[other]
    elif kind == 3:  # another array altogether
        members[name] = _array(rng)
    elif kind == 4:  # the shape or the type that a header tells
        text = members[name]
        digits = list(re.finditer(rb"\d+", text[:120])) or [re.match(b"", text)]
        chosen: Any = digits[int(rng.integers(len(digits)))]
        number = str(rng.choice([0, 1, 2, 4, 8, 10**3, 10**9, 10**15, 10**30])).encode()
        members[name] = text[: chosen.start()] + number + text[chosen.end() :]
    else:
        members[name] = damage(rng, members[name])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", int(rng.choice([0, 8]))) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _array(rng: np.random.Generator) -> bytes:
    """An array that nobody expects."""
    arrays: tuple[Any, ...] = (
        *(np.zeros(()), np.zeros(0), np.ones((2, 0, 3)), np.full(3, np.nan), np.array("text")),
        *(np.array([True]), np.arange(4, dtype=np.int8), np.full((2, 2), -1), np.array(10**18)),
        *(np.zeros((1,) * 32), np.array([1 + 2j]), np.array(["a", "b"]), np.full(2, 1e308)),
        *(np.zeros((100, 1000)), np.array(np.inf), np.array(-1), np.array([1.0, 2.0], np.float16)),
    )
    content = io.BytesIO()
    np.save(content, arrays[int(rng.integers(len(arrays)))], allow_pickle=False)
    return content.getvalue()


def _exchanged(rng: np.random.Generator, data: bytes) -> bytes:
    """One value of a JSON text is exchanged, lost, repeated or renamed."""
    lines = data.rstrip(b"\n").split(b"\n") if data[:1] == b"{" and b"}\n{" in data else [data]
    chosen = int(rng.integers(len(lines)))
    whole: Any = [json.loads(lines[chosen])]
    place, key = whole, 0  # where the value is kept
    while isinstance(place[key], dict | list) and place[key] and rng.random() < 0.8:
        place = place[key]
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(rng.integers(len(keys)))]
    kind, new = rng.integers(4), _VALUES[int(rng.integers(len(_VALUES)))]
    if kind == 0 and isinstance(place, dict):
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[f"{key}_"] = place.pop(key)
    elif kind == 2 and isinstance(place, list):
        place *= 2
    else:
        place[key] = new
    lines[chosen] = json.dumps(whole[0]).encode()
    return b"\n".join(lines) + b"\n"


# Memory.


@contextmanager
def _memory(trace: bool) -> Iterator[Callable[[], float]]:
    """A function that says how many bytes were held at most since the block began.

    The system tells the memory of the process, which readers in other languages use too; memory
    that was reserved and never touched is only seen by Python's own tracing, which is slow.
    """
    if trace:
        tracemalloc.start()
        yield lambda: tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = _peak()
    except OSError:  # not Linux
        yield lambda: 0.0
        return
    yield lambda: _peak() - before


def _peak() -> float:
    status = Path("/proc/self/status").read_bytes()
    return 1024.0 * int(status.partition(b"VmHWM:")[2].split()[0])


def attack(reader: str, cases: int, seed: int, seconds: float = 600.0) -> dict[str, Any]:
    """Read damaged copies of one kind of file; say how many were refused, and what went wrong.

    Memory is traced in one case of ten. Ends after `seconds`, whatever is left to do.
    """
    make, read = READERS[reader]
    rng = np.random.default_rng([seed, sorted(READERS).index(reader)])
    refused, wrong, most = 0, [], 0.0
    until, done = time.monotonic() + seconds, 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        path = make(root)
        sound = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
        read(path)
        for case in range(cases):
            if time.monotonic() > until:
                break
            _restore(root, sound)
            data = mutated(rng, sound[path])
            path.write_bytes(data)
            with _memory(case % 10 == 0) as used:
                try:
                    with warnings.catch_warnings(action="ignore"):
                        read(path)
                except (ValueError, OSError) as error:
                    refused += 1
                    if "\n" in str(error):
                        wrong.append((case, f"several lines: {error}"[:200]))
                except Exception as error:
                    wrong.append((case, f"{type(error).__name__}: {error}"[:200]))
                held = used()
            most = max(most, held / (64.0 * len(data) + 64e6))
            if held > 64 * len(data) + 64e6:
                wrong.append((case, f"{held / 1e6:.0f} MB for a file of {len(data)} bytes"))
            done += 1
    return {"cases": done, "refused": refused, "wrong": wrong, "memory": round(most, 3)}


def _restore(root: Path, sound: dict[Path, bytes]) -> None:
    """Put the files back as they were, and remove those that an earlier case set aside."""
    for file in [file for file in root.rglob("*") if file.is_file() and file not in sound]:
        file.unlink()
    for file, content in sound.items():
        file.write_bytes(content)


def main(cases: int, seed: int) -> dict[str, Any]:
    """Attack every reader; `memory` is the most that one used, as a share of what it may."""
    failures, figures, most = 0, {}, 0.0
    for reader in READERS:
        began = time.monotonic()
        found = attack(reader, cases, seed)
        failures += len(found["wrong"])
        figures[reader] = [found["cases"], found["refused"]]
        most = max(most, found["memory"])
        found |= {"wrong": found["wrong"][:5], "seconds": round(time.monotonic() - began)}
        print(json.dumps({"reader": reader, **found}), flush=True)
    return {"failures": failures, "cases and refused": figures, "memory": most}
