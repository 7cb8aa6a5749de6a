"""Runs the contenders of a case side by side: interleaved passes, time-outs, medians."""

import contextlib
import importlib.util
import json
import os
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.measures import NotAPolicy
from benchmarks.harness.model import Arrays, Case, Contender
from benchmarks.harness.pin import available_cores, environment, pinned

ROOT = Path(__file__).resolve().parents[2]

#: After this many seconds of passes a contender is done, once it has three.
ENOUGH_SECONDS = 20.0


@dataclass
class Row:
    """What one contender did in one case."""

    contender: str
    ours: bool
    limit: bool = False
    #: "ok", "not installed", "timed out", "failed", "wrong" or "not run".
    status: str = "ok"
    detail: str = ""
    cores: int = 1
    how: str = ""
    notes: str = ""
    #: Items per pass; fewer than the case has for slow contenders.
    items: int = 0
    #: Seconds per item of each pass, and their median; processor time on one core, else wall time.
    passes: list[float] = field(default_factory=list)
    seconds: float | None = None
    #: Seconds of the first call beyond those of the second: compilation, if it compiles.
    compile_seconds: float | None = None
    #: Smallest share of its cores that the contender had in a pass; low on a busy machine.
    load: float | None = None
    accuracy: float | None = None
    #: Time of this contender over that of our first row.
    ratio: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The row as plain data."""
        return asdict(self)


class GaveUp(Exception):
    """A worker died, or took too long; the status and the reason say which."""

    def __init__(self, status: str, reason: str):
        super().__init__(reason)
        self.status, self.reason = status, reason


class Worker:
    """A contender's process, and a conversation with it."""

    def __init__(
        self,
        module: str,
        case: Case,
        contender: Contender,
        folder: Path,
        quick: bool,
        budget: float,
    ):
        self.timeout = contender.timeout
        self.answer_path = folder / "answer.npz"
        self.errors_path = folder / "stderr.txt"
        command = [sys.executable, "-m", "benchmarks.harness.worker", module, case.name]
        command += [contender.name, "--answer", str(self.answer_path), "--budget", str(budget)]
        if quick:
            command.append("--quick")
        with self.errors_path.open("w") as errors, pinned(contender.cores):
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(contender.cores),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    def tell(self, word: str) -> None:
        """Send one word."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(word.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as end:
            raise GaveUp("failed", self._last_words()) from end

    def hear(self) -> dict[str, Any]:
        """Wait for one message, for as long as the contender may take."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + self.timeout
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise GaveUp("timed out", f"after {self.timeout:.0f} s")
                piece = os.read(self.process.stdout.fileno(), 65536)
                if not piece:
                    raise GaveUp("failed", self._last_words())
                line += piece
        message = json.loads(line)
        if message["event"] == "error":
            raise GaveUp("failed", " ".join(message["reason"].split())[:300])
        return message

    def _last_words(self) -> str:
        code = self.process.wait()
        lines = [s.strip() for s in self.errors_path.read_text(errors="replace").splitlines()]
        lines = [s for s in lines if s]
        return lines[-1][:300] if lines else f"ended with code {code}"

    def stop(self) -> None:
        """End the process and whatever it started."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def missing(modules: tuple[str, ...]) -> list[str]:
    """Which of the modules are not installed."""
    return [m for m in modules if importlib.util.find_spec(m) is None]


def _start(
    module: str, case: Case, contender: Contender, folder: Path, quick: bool, budget: float
) -> tuple[Row, Worker | None]:
    """A row, and the running, warmed-up worker behind it if there is one."""
    cores = contender.cores or len(available_cores())
    row = Row(contender.name, contender.ours, contender.limit, cores=cores, how=contender.how)
    row.notes = contender.notes
    absent = missing(contender.needs)
    if contender.skip or absent:
        row.status = "not run" if contender.skip else "not installed"
        row.detail = contender.skip or ", ".join(absent)
        return row, None
    folder.mkdir()
    worker = Worker(module, case, contender, folder, quick, budget)
    try:
        message = worker.hear()
    except GaveUp as end:
        row.status, row.detail = end.status, end.reason
        worker.stop()
        return row, None
    except KeyboardInterrupt:
        worker.stop()
        raise
    if message["event"] == "skip":
        row.status, row.detail = "not run", message["reason"]
        worker.stop()
        return row, None
    row.items = message["count"]
    if contender.compiles:
        row.compile_seconds = max(0.0, message["first_call"] - message["steady_call"])
    return row, worker


def _interleave(running: list[tuple[Row, Worker]], passes: int) -> list[tuple[Row, Worker]]:
    """Rounds of one pass each, so that a busy minute falls on all alike; returns who finished."""
    spent = dict.fromkeys((row.contender for row, _ in running), 0.0)
    for number in range(passes):
        for row, worker in list(running):
            if number >= 3 and spent[row.contender] > ENOUGH_SECONDS:
                continue
            begun = time.monotonic()
            try:
                worker.tell("pass")
                message = worker.hear()
            except GaveUp as end:
                row.status, row.detail = end.status, end.reason
                worker.stop()
                running = [pair for pair in running if pair[0] is not row]
                continue
            spent[row.contender] += time.monotonic() - begun
            row.passes.append(message["seconds"])
            row.load = min(row.load or np.inf, message["load"] / row.cores)
    return running


def _finish(row: Row, worker: Worker, case: Case, data: Arrays) -> None:
    """Fetch the answer, measure it here, and take the median."""
    try:
        worker.tell("answer")
        worker.hear()
        with np.load(worker.answer_path, allow_pickle=False) as stored:
            answer = dict(stored)
        row.accuracy = case.measure(data, answer)
    except GaveUp as end:
        row.status, row.detail = end.status, end.reason
    except NotAPolicy as fault:
        row.status, row.detail = "wrong", str(fault)
    row.seconds = statistics.median(row.passes)


def run_case(
    module: str,
    case: Case,
    *,
    quick: bool = False,
    passes: int = 5,
    only: Callable[[Contender], bool] = lambda contender: True,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Run every contender of `case`, which `module` defines, and return a row for each."""
    if passes < 3:
        raise ValueError(f"passes: expected at least 3, found {passes}")
    budget = 0.05 if quick else 1.0
    data = case.data()
    rows: list[Row] = []
    running: list[tuple[Row, Worker]] = []
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as temporary:
        try:
            for contender in filter(only, case.contenders):
                progress(f"{case.name}: warming up {contender.name}")
                folder = Path(temporary) / str(len(rows))
                row, worker = _start(module, case, contender, folder, quick, budget)
                rows.append(row)
                if worker is not None:
                    running.append((row, worker))
            progress(f"{case.name}: {len(running)} contenders, {passes} interleaved passes")
            for row, worker in _interleave(running, passes):
                _finish(row, worker, case, data)
        finally:
            for _, worker in running:
                worker.stop()
    _compare(rows)
    return rows


def _compare(rows: list[Row]) -> None:
    ours = next((r.seconds for r in rows if r.ours and r.status == "ok"), None)
    for row in rows:
        if ours and row.seconds is not None:
            row.ratio = row.seconds / ours
