"""One contender in one process: starts, warms up, then does a pass whenever it is told to.

Reads words from standard input ("pass", "answer"), writes one JSON object per line to
standard output. Whatever a library prints goes to standard error.
"""

import argparse
import gc
import importlib
import json
import math
import os
import sys
import time
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks.harness.model import Answer, Case, Contender, Skip


class Passes:
    """Times `run`: the first call apart, then passes of at least a fraction of `budget` seconds."""

    def __init__(self, case: Case, contender: Contender, budget: float):
        self.run = contender.prepare(case.data())
        #: A process on one core is not to pay for what else the machine does.
        self.clock = time.process_time if contender.cores == 1 else time.perf_counter
        self.answer: Answer = {}
        self.loops = 1
        self.count = case.items if contender.batched else 1
        self.first_call = self._once()[0]
        if contender.ours:  # Python runs the kernels until that has cost more than loading them
            from equipoise.core import kernels

            kernels.compile_all()
        # A long first call of what does not compile is as good as a second.
        again = contender.compiles or self.first_call < 2.0 * budget
        self.steady_call = self._once()[0] if again else self.first_call
        seconds = self.steady_call
        while self.count < case.items and seconds < budget / 2:
            wanted = self.count * budget / max(seconds, 1e-9)
            self.count = min(case.items, max(self.count + 1, int(min(wanted, 20 * self.count))))
            seconds = self._once()[0]
        if seconds < budget / 2:
            self.loops = math.ceil(budget / max(seconds, 1e-9))

    def _once(self) -> tuple[float, float]:
        """Seconds of one pass, and the share of one core that it had."""
        gc.collect()
        gc.disable()
        begun, wall, processor = self.clock(), time.perf_counter(), time.process_time()
        for _ in range(self.loops):
            self.answer = self.run(self.count)
        seconds = self.clock() - begun
        load = (time.process_time() - processor) / (time.perf_counter() - wall)
        gc.enable()
        return seconds, load

    def one(self) -> dict[str, float]:
        """One timed pass: seconds per item, and the share of one core that it had."""
        seconds, load = self._once()
        factor = float(self.answer.get("time_factor", 1.0))
        return {"seconds": seconds * factor / (self.loops * self.count), "load": load}


def find(module: str, case: str, contender: str, quick: bool) -> tuple[Case, Contender]:
    """Look a contender up by the names in the workload's own tables."""
    cases = {c.name: c for c in importlib.import_module(module).cases(quick)}
    found = cases[case]
    return found, {c.name: c for c in found.contenders}[contender]


def as_arrays(answer: Answer) -> dict[str, Any]:
    """An answer as NumPy arrays, with what was left for after the clock stopped."""
    return {name: np.asarray(v() if callable(v) else v) for name, v in answer.items()}


def _serve(arguments: argparse.Namespace, say: Any) -> None:
    case, contender = find(arguments.module, arguments.case, arguments.contender, arguments.quick)
    try:
        passes = Passes(case, contender, arguments.budget)
    except Skip as reason:
        say(event="skip", reason=str(reason))
        return
    say(
        event="ready",
        count=passes.count,
        loops=passes.loops,
        first_call=passes.first_call,
        steady_call=passes.steady_call,
    )
    for line in sys.stdin:
        if line.strip() == "pass":
            say(event="pass", **passes.one())
        elif line.strip() == "answer":
            np.savez(arguments.answer, **as_arrays(passes.answer))
            say(event="answer")


def main() -> None:
    """Serve one contender until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    parser.add_argument("case")
    parser.add_argument("contender")
    parser.add_argument("--answer", required=True)
    parser.add_argument("--budget", type=float, required=True)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()

    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**message: Any) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        say(event="error", reason=f"{kind.__name__}: {error}")
        sys.__excepthook__(kind, error, trace)

    sys.excepthook = report
    _serve(arguments, say)


if __name__ == "__main__":
    main()
