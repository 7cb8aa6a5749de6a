"""Kill every resumable verb with SIGKILL at random moments, and compare what it ends with.

A run that was killed and resumed must hold the same bytes as one that was never stopped, in every
file but environment.json (the log of starts and stops) and the pages and drawings made from it.
"""

import contextlib
import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.cli import main as main_of_command

#: What is run -> its arguments; {run} is the folder, {log} a discrete log, {numbers} a log of
#: continuous actions.
VERBS = {
    name: [name.partition(",")[0], *words.split(), "--run", "{run}"]
    for name, words in {
        "solve": "bus-or-car",
        "play": "--actions 3 --games 8 --rounds 20000",
        "learn": "demand-response --set agents=60 --episodes 40",
        "offline": "{log}",
        "offline, networks": "{numbers} --critic 2-IR-64 --iterations 60",
        "pretrain": "--steps 12 --rounds 8 --batch 4",
        "evaluate": "iid3 --games 4 --rounds 8 --search 64 --opponent-games 2",
        "reproduce": "aggregative --figure planning",
    }.items()
}

#: Seconds after which a command counts as hanging.
LIMIT = 300.0

#: Files that tell of starts and stops, or are drawn from them.
LEFT_OUT = {"environment.json", "report.html", "lock"}
LEFT_OUT |= {"planning.png", "planning.svg"}  # show processor time


def digest(folder: Path) -> dict[str, str]:
    """File -> digest of its bytes."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name not in LEFT_OUT
    }


class Command:
    """A command in a process of its own, forked from one that has imported everything.

    Nothing has been computed before the fork, so that no thread of JAX is lost in it.
    """

    def __init__(self, arguments: list[str], **places: Path):
        self._errors = places["run"].with_suffix(".err")
        filled = [argument.format(**places) for argument in arguments]
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(self._errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            code = 3
            with contextlib.suppress(BaseException):
                code = main_of_command(filled)
                sys.stderr.flush()
            os._exit(code)

    def ended(self, seconds: float) -> bool:
        """Wait at most so long; whether the command has ended."""
        until = time.monotonic() + seconds
        while not self._reaped():
            if time.monotonic() > until:
                return False
            time.sleep(0.002)
        return True

    def _reaped(self) -> bool:
        if self.pid and os.waitpid(self.pid, os.WNOHANG)[0]:
            self.pid = 0
        return not self.pid

    def kill(self) -> None:
        """End it at once, and wait for that."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def complaint(self) -> str:
        """The last words of its standard error, once it has ended; one that hangs is killed."""
        if not self.ended(LIMIT):
            self.kill()
            return f"did not end within {LIMIT:g} s"
        return self._errors.read_text(errors="replace").strip()[-200:]


def _write_logs(root: Path) -> dict[str, Path]:
    """Write logs of small games, in a process of its own: this one must not start JAX."""
    logs = {"log": root / "log.npz", "numbers": root / "numbers.npz"}
    pid = os.fork()
    if not pid:
        game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
        eq.offline.collect(game, samples=600, key=0).write(logs["log"])
        game = eq.games.load("pairwise-continuous", agents=3, noise=0.5)
        eq.offline.collect(game, samples=120, key=0).write(logs["numbers"])
        os._exit(0)
    os.waitpid(pid, 0)
    return logs


def _has(folder: Path, pattern: str) -> bool:
    return any(folder.rglob(pattern))


def _begun(command: Command, folder: Path) -> float:
    """Wait until a command has begun its run, or ended; the time then."""
    while not _has(folder, "config.json") and not command.ended(0.01):
        pass
    return time.perf_counter()


def attack(verb: str, cases: int, seed: int) -> dict[str, Any]:
    """Kill one verb `cases` times at random moments of its run.

    Every fourth kill comes before the run has begun. The others come at a moment between its
    beginning and its end, as long as it took when nobody killed it.
    """
    rng = np.random.default_rng([seed, sorted(VERBS).index(verb)])
    wrong: list[str] = []
    kills = early = late = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        logs = _write_logs(root)
        start = time.perf_counter()
        command = Command(VERBS[verb], run=root / "whole", **logs)
        begun = _begun(command, root / "whole")
        message = command.complaint()
        before, length = begun - start, time.perf_counter() - begun
        if not _has(root / "whole", "record.json"):
            return {"kills": 0, "wrong": [f"{verb} did not finish: {message}"]}
        truth = digest(root / "whole")
        for case in range(cases):
            broken = root / "broken"
            shutil.rmtree(broken, ignore_errors=True)
            command, share = Command(VERBS[verb], run=broken, **logs), float(rng.uniform(0.0, 0.95))
            if case % 4:
                _begun(command, broken)
            if not command.ended(share * (length if case % 4 else before)):
                command.kill()
                kills += 1
                early += not _has(broken, "config.json")
                late += _has(broken, "checkpoints/*")
            message = Command(VERBS[verb], run=broken, **logs).complaint()
            found = digest(broken) if broken.exists() else {}
            if found != truth:
                differ = sorted(k for k in {*truth, *found} if truth.get(k) != found.get(k))
                wrong.append(f"{', '.join(differ)[:150]} {message}")
    figures = {"kills": kills, "before config.json": early, "after a checkpoint": late}
    return {**figures, "wrong": wrong}


def main(cases: int, seed: int) -> dict[str, Any]:
    """Attack every verb."""
    for module in ("jax", "numba", *(f"equipoise.cli.{words[0]}" for words in VERBS.values())):
        importlib.import_module(module)
    failures, kills = 0, {}
    for verb in VERBS:
        found = attack(verb, cases, seed)
        failures += len(found["wrong"])
        kills[verb] = list(found.values())[:-1]
        print(json.dumps({"verb": verb, **found}), flush=True)
    return {"failures": failures, "kills, before config.json, after a checkpoint": kills}
