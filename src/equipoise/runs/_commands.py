"""Commands of this package that run as processes of their own, and how they are told to stop."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from equipoise.core.errors import InputError

#: Seconds between two checks of the tasks, and seconds that a command has to stop.
LOOK, GRACE = 0.5, 60.0
#: Number of bytes that are kept from the end of a command's error stream.
_TAIL = 4_000
#: Program that runs a command. It ends with the process that started it, even if that is killed
#: (Linux), and it accepts SIGINT, which workers of Ray and their children otherwise block.
_START = """\
import ctypes, runpy, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "pthread_sigmask"):
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
runpy.run_module("equipoise", run_name="__main__", alter_sys=True)
"""

#: Commands that this process runs, and whether they were told to stop.
_children: dict[subprocess.Popen[bytes], bool] = {}
#: State of a thread that runs tasks: `told` is an event that is set when they have to stop.
_worker = threading.local()


def take(told: threading.Event) -> None:
    """Let an event tell the tasks of this thread to stop."""
    _worker.told = told


def stopping() -> bool:
    """Return whether the task of this thread was told to stop.

    **Example**

    >>> from equipoise.runs._commands import stopping
    >>> stopping()
    False
    """
    told = getattr(_worker, "told", None)
    return told is not None and told.is_set()


def threads_here() -> dict[str, str]:
    """Return the variables that limit the threads of linear algebra: one, unless the user set more.

    The number of threads changes the last bits of a solution. Ray sets it for its workers, and
    Slurm's jobs inherit it, so whoever starts a sweep decides it for all of its commands.
    """
    most = os.environ.get("OMP_NUM_THREADS", "1")
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {name: os.environ.get(name, most) for name in names}


def run_command(
    words: Sequence[str],
    folder: str | os.PathLike[str],
    variables: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run `equipoise WORDS` in a folder; return its exit code and last line on the error stream.

    The command runs in its own session and ends with this process. An interrupt is passed on once,
    and this function then waits until the command has saved its progress. `variables` are added to
    its environment.

    **Example**

    >>> from equipoise.runs.engines import run_command
    >>> run_command(["--version"], ".")
    (0, '')
    """
    package = str(Path(__file__).parents[2])  # path of the equipoise package of this worker
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    process = subprocess.Popen(
        [sys.executable, "-c", _START, *words],
        cwd=folder,
        env={**os.environ, **(variables or {}), "PYTHONPATH": path},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _children[process] = False
    try:
        until = None
        while True:
            try:
                # Ray's interrupt is not a signal, and arrives only between calls.
                _, said = process.communicate(timeout=LOOK)
                break
            except KeyboardInterrupt:  # from Ray, or in the main thread
                interrupt_all(process)
                until = until or time.monotonic() + GRACE
            except subprocess.TimeoutExpired:
                if until is not None and time.monotonic() > until:
                    process.kill()
        return process.returncode, _last_line(said[-_TAIL:])
    finally:
        _children.pop(process, None)
        if process.poll() is None:
            process.kill()


def interrupt_all(*some: subprocess.Popen[bytes]) -> None:
    """Tell the commands of this process to stop, each only once: a second signal loses work."""
    for process in some or list(_children):
        if not _children.get(process, True):
            _children[process] = True
            with suppress(OSError):
                process.send_signal(signal.SIGINT)


def end_all() -> None:
    """Terminate the commands of this process."""
    for process in list(_children):
        with suppress(OSError):
            process.terminate()


def wait_for_all(seconds: float) -> None:
    """Wait until all commands have ended, but at most the given number of seconds.

    This function is for signal handlers: it leaves the exit status to the waiting caller.
    """
    until, how = time.monotonic() + seconds, os.WEXITED | os.WNOHANG | os.WNOWAIT
    for process in list(_children):
        with suppress(ChildProcessError):
            while os.waitid(os.P_PID, process.pid, how) is None and time.monotonic() < until:
                time.sleep(0.1)


def _last_line(tail: bytes) -> str:
    lines = tail.decode(errors="replace").replace("\r", "\n").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def first_line(error: Exception) -> str:
    """Return the first line of an error that says something."""
    return next((line.strip() for line in str(error).split("\n") if line.strip()), "no reason")


def check_count(name: str, value: int, least: int = 1) -> int:
    """Return a whole number that is at least `least`; refuse anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(name, f"a whole number >= {least}", repr(value))
    return value
