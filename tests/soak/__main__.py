"""Everything that takes too long for `make test`; run it with `make soak`.

    python -m soak                      all parts, two at a time
    python -m soak files kills          some parts
    python -m soak --share 0.01         a hundredth of the cases, to try it out
    python -m soak --long               as many cases as one night allows

Each part runs in a process of its own and prints its figures, its seed and its seconds as one line
of JSON; what else it says goes to .cache/soak. A part that does not end is stopped and counts as
failed, and so are all parts that have not ended after 90 minutes, unless `--long` is given. The
command fails when a part does. docs/reliability.md keeps the figures of the last runs.
"""

import argparse
import contextlib
import importlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

LOGS = Path(".cache/soak")
#: Minutes after which all parts must have ended, on two cores.
MINUTES = 90.0


class Part(NamedTuple):
    """Cases of the usual run, minutes that it takes on one core, and cases of the long run.

    The cases of `attacks` are seconds for each of them.
    """

    cases: int
    minutes: float
    long: int

    def limit(self, cases: int) -> float:
        """Seconds after which so many cases count as hanging."""
        return 900.0 + 300.0 * self.minutes * cases / self.cases


#: One line a part, in alphabetical order. `soak.PART` is a module with `main(cases, seed)`, which
#: returns its figures and, as "failures", what failed: a list or a number.
PARTS = {
    "attacks": Part(20, 20, 200),
    "certificates": Part(10_000, 30, 100_000),
    "crowds": Part(472, 5, 4_720),
    "engines": Part(200, 10, 200),
    "faults": Part(1, 30, 1),
    "files": Part(1_000, 10, 10_000),
    "general_sum": Part(1_000, 5, 10_000),
    "kills": Part(5, 10, 20),
    "marked": Part(1, 20, 1),
}


def perform(part: str, cases: int, seed: int, report: Path) -> None:
    """Run one part in this process, and write its figures to a file."""
    start = time.perf_counter()
    figures = importlib.import_module(f"soak.{part}").main(cases, seed)
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = {
        "seconds": round(time.perf_counter() - start, 1),
        "processor seconds": round(sum(u.ru_utime + u.ru_stime for u in used), 1),
    }
    report.write_text(json.dumps({"part": part, **figures, "seed": seed, **seconds}))


class Worker:
    """One part in a process group of its own, so that all that it starts can be ended with it."""

    def __init__(self, part: str, cases: int, seed: int, most: float):
        self.part, self.limit = part, min(PARTS[part].limit(cases), max(most, 0.0))
        self.report, self.log = LOGS / f"{part}.json", LOGS / f"{part}.log"
        self.report.unlink(missing_ok=True)
        self.until = time.monotonic() + self.limit
        numbers = ["--cases", str(cases), "--seed", str(seed)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "soak", part, *numbers, "--report", self.report],
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def figures(self) -> dict[str, Any] | None:
        """What the part reports, once it has ended or its time is up."""
        late = time.monotonic() > self.until
        if self.process.poll() is None and not late:
            return None
        self.end()
        if self.process.returncode == 0:
            return json.loads(self.report.read_text())
        why = f"did not end within {self.limit:.0f} s" if late else "ended with an error"
        return {"part": self.part, "failures": [f"{why}, see {self.log}"]}

    def end(self) -> None:
        """Kill whatever is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def run_all(cases: dict[str, int], seed: int, workers: int, minutes: float) -> list[str]:
    """Run parts side by side, the longest first; the names of those that failed."""
    LOGS.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60.0 * minutes
    waiting = sorted(cases, key=lambda part: PARTS[part].limit(cases[part]))
    running: list[Worker] = []
    failed = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                part = waiting.pop()
                running.append(Worker(part, cases[part], seed, until - time.monotonic()))
            time.sleep(0.1)
            for worker in list(running):
                if (figures := worker.figures()) is not None:
                    running.remove(worker)
                    print(json.dumps(figures), flush=True)
                    failed += [worker.part] * bool(figures["failures"])
    finally:
        for worker in running:
            worker.end()
    return failed


def main() -> int:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random cases (0)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the cases to run (1)")
    parser.add_argument("--long", action="store_true", help="run many more cases")
    parser.add_argument("--workers", type=int, default=2, help="parts at the same time (2)")
    parser.add_argument("--cases", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    parts = [part for words in options.parts for part in words.split(",") if part] or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"PART: expected some of {', '.join(PARTS)}, found {', '.join(unknown)}")
    if options.report:
        perform(parts[0], options.cases, options.seed, options.report)
        return 0
    start, cases = time.perf_counter(), {}
    for part in parts:
        row = PARTS[part]
        cases[part] = max(1, round((row.long if options.long else row.cases) * options.share))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that parts end with this process
    minutes = math.inf if options.long else MINUTES
    failed = run_all(cases, options.seed, options.workers, minutes)
    print(f"{len(cases)} parts in {(time.perf_counter() - start) / 60:.1f} minutes")
    print(f"failed: {', '.join(failed)}" if failed else "all parts passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
