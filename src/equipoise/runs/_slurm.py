"""Job arrays of a Slurm cluster, through submitit."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.core.errors import InputError
from equipoise.core.extras import import_extra
from equipoise.runs._commands import (
    GRACE,
    LOOK,
    check_count,
    first_line,
    interrupt_all,
    wait_for_all,
)

#: Returns whether the user wants the tasks to stop.
Stop = Callable[[], bool]
#: Returns the result of a task whose workers died too often, given the reason.
Lost = Callable[[str], Any]
#: Number of times that a Slurm task may reach its time limit; it resumes from a checkpoint.
_TIMEOUTS = 1000


class Slurm:
    """Job arrays of a Slurm cluster, through submitit (needs the extra `slurm`).

    All tasks form one array, or several consecutive arrays of `array` tasks each, with at most
    `workers` tasks at a time. Slurm restarts the tasks of a failed node (`--requeue`). Tasks that
    were preempted or reached their time limit are requeued, too. Tasks that ended without a result
    for another reason are submitted again, up to `retries` times.

    - `folder`: folder for submitit's scripts and output, on a disk that all nodes see.
    - `minutes`: time limit of one task in minutes, after which it is requeued.
    - `parameters`: parameters of submitit's executor, such as `slurm_partition`, `cpus_per_task`,
      `gpus_per_node`, `mem_gb` and `slurm_additional_parameters`.
    - `array`: largest number of entries of one array, which is MaxArraySize in the output of
      `scontrol show config`, minus one.
    - `cluster`: "slurm"; "local" runs the same jobs as processes on this machine.

    **Example**

    >>> from equipoise.runs.engines import Slurm
    >>> Slurm("runs/sweep/slurm", minutes=120, parameters={"slurm_partition": "cpu"}).minutes
    120
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = "slurm",
        *,
        minutes: int = 60,
        workers: int = 256,
        retries: int = 3,
        parameters: Mapping[str, Any] | None = None,
        array: int = 1000,
        cluster: str = "slurm",
    ):
        if cluster not in ("slurm", "local"):
            raise InputError("cluster", "slurm or local", repr(cluster))
        self.folder, self.cluster = Path(folder), cluster
        self.minutes = check_count("minutes", minutes)
        self.workers = check_count("workers", workers)
        self.retries = check_count("retries", retries, least=0)
        self.array = check_count("array", array)
        if not isinstance(parameters, Mapping | None):
            raise InputError("parameters", "a table of parameters of submitit", repr(parameters))
        self.parameters = dict(parameters or {})

    def map(
        self,
        task: Callable[[Any], Any],
        inputs: Sequence[Any],
        *,
        stop: Stop | None = None,
        lost: Lost | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """See `Engine.map`."""
        submitit = import_extra("submitit", "submitit", "slurm")
        executor = self._executor(submitit)
        submit, failed = _Requeued(task), submitit.core.utils.FailedJobError
        jobs: dict[Any, int] = {}
        waiting = list(range(len(inputs)))
        # Jobs on this machine are submitted one by one, since only this loop queues them.
        arrays = self.cluster == "slurm"
        tries = dict.fromkeys(waiting, self.retries)
        try:
            while jobs or waiting:
                if stop is not None and stop():
                    return
                if waiting and not (jobs if arrays else len(jobs) >= self.workers):
                    some = waiting[: self.array if arrays else self.workers - len(jobs)]
                    waiting = waiting[len(some) :]
                    values = [inputs[i] for i in some]
                    found = (
                        executor.map_array(submit, values)
                        if arrays
                        else [executor.submit(submit, value) for value in values]
                    )
                    jobs |= dict(zip(found, some, strict=True))
                for job in [job for job in jobs if job.done()]:
                    i = jobs.pop(job)
                    try:
                        result = job.result()
                    except failed:  # the task itself failed
                        raise
                    except submitit.core.utils.UncompletedJobError as error:
                        if tries[i]:
                            tries[i] -= 1
                            jobs[executor.submit(submit, inputs[i])] = i
                            continue
                        if lost is None:
                            raise
                        result = lost(first_line(error))
                    yield i, result
                time.sleep(LOOK)
        finally:
            for job in jobs:  # each saves its state and ends within a minute
                job.cancel(check=False)

    def _executor(self, submitit: Any) -> Any:
        """Return submitit's executor with all parameters."""
        if self.cluster == "slurm" and shutil.which("srun") is None:
            expected = "a machine of a Slurm cluster, which has the command srun"
            raise InputError("on", expected, "no srun in PATH")
        more: dict[str, Any] = {"slurm_max_num_timeout": _TIMEOUTS}
        executor = submitit.AutoExecutor(folder=self.folder / "%j", cluster=self.cluster, **more)
        own = dict(self.parameters)
        more = {"requeue": True, **own.pop("slurm_additional_parameters", {})}
        try:
            executor.update_parameters(
                **{"timeout_min": self.minutes, "name": "equipoise", **own},
                slurm_array_parallelism=self.workers,
                slurm_additional_parameters=more,
            )
        except (NameError, TypeError, ValueError) as error:
            expected = "parameters of submitit's executor"
            raise InputError("parameters", expected, str(error)) from error
        return executor


class _Requeued:
    """A task that Slurm may preempt. Its command is told to stop first, and saves its state."""

    def __init__(self, task: Callable[[Any], Any]):
        self.task = task

    def __call__(self, value: Any) -> Any:
        ending = threading.Event()

        def on_term(*_: Any) -> None:
            ending.set()
            interrupt_all()

        # Slurm cancels and preempts by SIGTERM some time before SIGKILL; submitit ignores it.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_term)
        while True:
            result = self.task(value)
            if not ending.is_set():
                return result
            # A stopped task has no result: Slurm now kills this process or requeues it.
            time.sleep(2 * GRACE)
            ending.clear()

    def checkpoint(self, value: Any) -> Any:
        """Return what submitit submits again for a preempted task, after its state was saved."""
        interrupt_all()
        wait_for_all(GRACE)
        submitit = import_extra("submitit", "submitit", "slurm")
        return submitit.helpers.DelayedSubmission(self, value)
