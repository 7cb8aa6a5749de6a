"""Kill every resumable verb with SIGKILL at random moments, and compare what it ends with.

A run that was killed and resumed must hold the same bytes as one that was never stopped, in every
file but environment.json (the log of starts and stops) and the pages made from it.
"""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import equipoise as eq

#: Verb -> its arguments; {run} is the folder, {log} a discrete log.
VERBS = {
    "solve": ["solve", "bus-or-car", "--run", "{run}"],
    "play": ["play", "--actions", "3", "--games", "8", "--rounds", "20000", "--run", "{run}"],
    "learn": [
        "learn",
        "demand-response",
        "--set",
        "agents=60",
        "--episodes",
        "40",
        "--run",
        "{run}",
    ],
    "offline": ["offline", "{log}", "--run", "{run}"],
    "pretrain": ["pretrain", "--steps", "12", "--rounds", "8", "--batch", "4", "--run", "{run}"],
}

#: Seconds after which a command counts as hanging.
LIMIT = 300.0

#: Files that tell of starts and stops, or are drawn from them.
LEFT_OUT = {"environment.json", "report.html", "lock"}


def digest(folder: Path) -> dict[str, str]:
    """File -> digest of its bytes."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name not in LEFT_OUT
    }


def start(arguments: list[str], **places: Path) -> subprocess.Popen[bytes]:
    """Start the command."""
    filled = [argument.format(**places) for argument in arguments]
    return subprocess.Popen(
        [sys.executable, "-m", "equipoise", *filled],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes]) -> str:
    """What a command wrote to its standard error; one that hangs is killed."""
    try:
        return process.communicate(timeout=LIMIT)[1].decode()
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"did not end within {LIMIT:g} s"


def attack(verb: str, cases: int, seed: int) -> dict[str, object]:
    """Kill one verb `cases` times at random moments of its run."""
    rng = np.random.default_rng([seed, sorted(VERBS).index(verb)])
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        log = root / "log.npz"
        game = eq.games.families.polymatrix(agents=4, actions=3).sample(key=0)
        eq.offline.collect(game, samples=600, key=0).write(log)
        begun = time.perf_counter()
        whole = start(VERBS[verb], run=root / "whole", log=log)
        message = ended(whole)
        length = time.perf_counter() - begun
        if not (root / "whole" / "record.json").exists():
            return {"kills": 0, "wrong": [f"{verb} did not finish: {message.strip()[-200:]}"]}
        truth = digest(root / "whole")
        kills = 0
        for _ in range(cases):
            broken = root / "broken"
            shutil.rmtree(broken, ignore_errors=True)
            process = start(VERBS[verb], run=broken, log=log)
            # From the first moment on: also before config.json is there.
            time.sleep(float(rng.uniform(0.0, 1.0)) * length)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
            ended(process)
            message = ended(start(VERBS[verb], run=broken, log=log))
            found = digest(broken) if broken.exists() else {}
            if found != truth:
                differ = sorted(k for k in {*truth, *found} if truth.get(k) != found.get(k))
                wrong.append(f"{', '.join(differ)[:150]} {message.strip()[-150:]}")
    return {"kills": kills, "wrong": wrong}


def main(cases: int, seed: int) -> dict[str, object]:
    """Attack every verb."""
    failures, kills = 0, {}
    for verb in VERBS:
        found = attack(verb, cases, seed)
        failures += len(found["wrong"])
        kills[verb] = found["kills"]
        print(json.dumps({"verb": verb, **found}), flush=True)
    return {"failures": failures, "kills": kills}
