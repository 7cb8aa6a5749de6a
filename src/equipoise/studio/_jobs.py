"""Jobs: functions that report progress and can be stopped, and commands in their own processes.

A function runs in a thread and stops when it next reports progress. A command of `equipoise` runs
in a process with a run folder and is stopped by SIGINT, as by Ctrl-C, so that it saves its
progress. Neither ends when a page is closed.
"""

import asyncio
import itertools
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.core.errors import InputError

#: Largest number of running jobs, and number of finished jobs that are remembered.
MOST, REMEMBERED = 4, 50
#: Seconds that a command has to end by itself after it was told to stop.
GRACE = 20.0
#: Number of bytes that are kept from the end of a command's output.
_TAIL = 4_000

Tell = Callable[..., None]


class Stopped(Exception):
    """The user stopped the job."""


@dataclass
class Job:
    """A job as the pages see it."""

    id: int
    room: str
    title: str
    #: "running", "done", "failed" or "stopped".
    state: str = "running"
    #: Numbers and words that the job reports.
    progress: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    error: str = ""
    #: Run folder of a command, relative to the studio's folder.
    run: str = ""
    #: Request of the page, so that another page can show the result.
    request: Any = None
    started: float = field(default_factory=time.time)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.stopping = False
        self.process: asyncio.subprocess.Process | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return the data that is sent to the pages."""
        hidden = ("stopping", "process")
        return {name: value for name, value in vars(self).items() if name not in hidden}


class Jobs:
    """The jobs of a server and the pages that listen to them, in one event loop."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.listeners: set[asyncio.Queue[Job]] = set()
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self) -> "asyncio.Queue[Job]":
        """Return a queue that receives all jobs so far, and then every change of a job."""
        queue: asyncio.Queue[Job] = asyncio.Queue()
        for job in self.jobs.values():
            queue.put_nowait(job)
        self.listeners.add(queue)
        return queue

    def _changed(self, job: Job) -> None:
        job.seconds = round(time.time() - job.started, 1)
        for queue in self.listeners:
            queue.put_nowait(job)

    def _begin(self, room: str, title: str) -> Job:
        running = [job for job in self.jobs.values() if job.state == "running"]
        if len(running) >= MOST:
            found = f"{len(running)} running jobs"
            raise InputError("job", f"at most {MOST} at once", found, "stop one of them first")
        done = [number for number, job in self.jobs.items() if job.state != "running"]
        for number in done[: max(0, len(self.jobs) - REMEMBERED)]:
            del self.jobs[number]
        job = Job(next(self._numbers), room, title)
        self.jobs[job.id] = job
        return job

    def _keep(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def call(
        self, room: str, title: str, function: Callable[[Tell], Any], request: Any = None
    ) -> Job:
        """Start a function that takes `tell(**progress)`, which raises `Stopped` after a stop."""
        job = self._begin(room, title)
        job.request = request
        loop = asyncio.get_running_loop()

        def tell(**progress: Any) -> None:
            if job.stopping:
                raise Stopped
            job.progress = progress
            loop.call_soon_threadsafe(self._changed, job)

        self._keep(self._run(job, lambda: function(tell)))
        self._changed(job)
        return job

    async def _run(self, job: Job, function: Callable[[], Any]) -> None:
        try:
            job.result = await asyncio.to_thread(function)
            job.state = "done"
        except Stopped:
            job.state = "stopped"
        except ValueError as error:
            job.state, job.error = "failed", str(error)
        except Exception as error:
            job.state, job.error = "failed", f"internal error: {type(error).__name__}: {error}"
        self._changed(job)

    async def command(
        self, room: str, title: str, arguments: Sequence[str], folder: Path, run: str
    ) -> Job:
        """Start `equipoise ARGUMENTS` in a folder. `run` is the run folder of the command."""
        job = self._begin(room, title)
        job.run = run
        nothing = asyncio.subprocess.DEVNULL
        with warnings.catch_warnings():
            # JAX warns about forks, but this process executes another program at once.
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
            job.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "equipoise", *arguments),
                cwd=folder,
                # Ctrl-C in the terminal reaches only the server, which then stops its commands.
                start_new_session=True,
                stdin=nothing,
                stdout=nothing,
                stderr=asyncio.subprocess.PIPE,
            )
        self._keep(self._follow(job, job.process))
        self._changed(job)
        return job

    async def _follow(self, job: Job, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        tail = b""
        while chunk := await process.stderr.read(1024):
            tail = (tail + chunk)[-_TAIL:]
            job.progress = {"text": _last_line(tail)}
            self._changed(job)
        code = await process.wait()
        if code in (0, 1):  # 1: missed a tolerance, or learned nothing
            job.state = "done"
        elif job.stopping:
            job.state = "stopped"
        else:
            job.state, job.error = "failed", _last_line(tail) or f"exit code {code}"
        self._changed(job)

    def stop(self, number: object) -> Job:
        """Stop a function at its next report, or a command by SIGINT (SIGKILL the second time)."""
        job = self.jobs.get(number) if isinstance(number, int) else None
        if job is None:
            raise InputError("job", "the number of a job", repr(number))
        if job.state == "running":
            again, job.stopping = job.stopping, True
            if job.process is not None and job.process.returncode is None:
                job.process.kill() if again else job.process.send_signal(signal.SIGINT)
            self._changed(job)
        return job

    async def close(self) -> None:
        """Stop all jobs, and give commands the time to save their progress."""
        for job in list(self.jobs.values()):
            self.stop(job.id)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)
        for job in self.jobs.values():
            if job.process is not None and job.process.returncode is None:
                job.process.kill()


def _last_line(tail: bytes) -> str:
    """Return the last line of a program's output, or the last state of its progress bar."""
    lines = tail.decode(errors="replace").replace("\r", "\n").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
