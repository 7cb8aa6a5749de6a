"""Engines that run many independent tasks.

    Local    processes on this machine
    Ray      a Ray cluster, given by its address or started on this machine
    Slurm    job arrays of a Slurm cluster, through submitit

Each engine has a method `map(task, inputs)`, which yields pairs of an index and a result as tasks
end. The package has no scheduler of its own: Ray and Slurm place the tasks and restart those of a
dead node. Ray and submitit are imported when their engine is first used. They listen on the
loopback address unless the address of a cluster is given.
"""

import inspect
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from equipoise.core.errors import InputError
from equipoise.core.extras import import_extra
from equipoise.core.machine import cores
from equipoise.runs._commands import (
    LOOK,
    check_count,
    end_all,
    first_line,
    interrupt_all,
    run_command,
    take,
)
from equipoise.runs._slurm import Lost, Slurm, Stop

__all__ = [
    "ENGINES",
    "Engine",
    "Local",
    "Pool",
    "Ray",
    "Slurm",
    "engine_of",
    "run_command",
]

#: Variable that makes Ray use the loopback address. It is named after the systems on which this is
#: the default.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_ADDRESS = "the address of a Ray cluster, such as 10.0.0.1:6379, or auto"


@runtime_checkable
class Engine(Protocol):
    """Protocol of an engine. A task is a function that can be sent to another process.

    **Example**

    >>> from equipoise.runs.engines import Engine, Local
    >>> def squares(engine: Engine, numbers):
    ...     return [square for _, square in sorted(engine.map(lambda x: x * x, numbers))]
    >>> squares(Local(workers=2), [1, 2, 3])
    [1, 4, 9]
    """

    def map(
        self,
        task: Callable[[Any], Any],
        inputs: Sequence[Any],
        *,
        stop: Stop | None = None,
        lost: Lost | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield the index and the result of each task as tasks end; raise what a task raises.

        Once `stop()` is true, no further task starts, running tasks are told to end, and their
        results are yielded. A task whose workers died too often has the result `lost(reason)`;
        without `lost`, the error is raised.
        """
        ...


@dataclass(frozen=True)
class Pool:
    """Workers that each keep a copy of a state, such as a simulator, between tasks.

    **Example**

    >>> from equipoise.runs.engines import Local
    >>> with Local().pool([1, 2, 3]) as pool:
    ...     pool.run(lambda numbers, i: numbers[i], [0, 2])
    [1, 3]
    """

    #: Number of workers.
    workers: int
    #: `run(task, inputs)` returns `[task(state, value) for value in inputs]`, computed by all.
    run: Callable[[Callable[[Any, Any], Any], Sequence[Any]], list[Any]]


class Local:
    """Processes on this machine, at most `workers` at a time. Default: one per core.

    The tasks themselves run in threads. Use this engine for tasks that start a process and wait for
    it, such as the commands of a sweep.

    **Example**

    >>> from equipoise.runs.engines import Local
    >>> sorted(Local(workers=2).map(len, ["a", "bc"]))
    [(0, 1), (1, 2)]
    """

    def __init__(self, workers: int | None = None):
        self.workers = check_count("workers", cores() if workers is None else workers)

    def map(
        self,
        task: Callable[[Any], Any],
        inputs: Sequence[Any],
        *,
        stop: Stop | None = None,
        lost: Lost | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """See `Engine.map`."""
        told = threading.Event()
        with ThreadPoolExecutor(self.workers, initializer=take, initargs=(told,)) as pool:
            indices = {pool.submit(task, value): i for i, value in enumerate(inputs)}
            try:
                while indices:
                    done, _ = wait(indices, timeout=LOOK, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield indices.pop(future), future.result()
                    if stop is not None and stop():
                        if not told.is_set():
                            told.set()
                            indices = {f: i for f, i in indices.items() if not f.cancel()}
                        interrupt_all()  # also those that have started since
            finally:
                told.set()
                for future in indices:
                    future.cancel()
                if indices:  # an error, or a second Ctrl-C
                    end_all()

    @contextmanager
    def pool(self, state: Any) -> Iterator[Pool]:
        """Provide a `Pool` with one worker, this process."""
        yield Pool(1, lambda task, inputs: [task(state, value) for value in inputs])


class Ray:
    """A Ray cluster (needs the extra `ray`).

    Tasks of a worker or node that died run again elsewhere, up to `retries` times. All nodes must
    see the same files and have equipoise installed.

    - `address`: address of the cluster, or "auto" for the cluster of this machine. If None, a
      cluster is started on this machine, on the loopback address, and ends with the work.
    - `cpus`, `gpus`: number of CPUs and GPUs that one task needs.
    - `workers`: number of cores of a cluster that is started here. Default: all.
    - `memory`: size of the object store of a cluster that is started here, in bytes.

    **Example**

    >>> from equipoise.runs.engines import Ray
    >>> Ray(address="10.0.0.1:6379", cpus=4, gpus=1).cpus
    4
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        cpus: float = 1,
        gpus: float = 0,
        workers: int | None = None,
        retries: int = 3,
        memory: int = 200_000_000,
    ):
        if not (address is None or isinstance(address, str)):
            raise InputError("address", _ADDRESS, repr(address))
        for name, value, least in (("cpus", cpus, "more than 0"), ("gpus", gpus, "0 or more")):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 <= value < 1e6 or (value == 0 and name == "cpus"):
                raise InputError(name, f"a number, {least}", repr(value))
        self.address, self.cpus, self.gpus = address, cpus, gpus
        self.workers = check_count("workers", cores() if workers is None else workers)
        self.retries, self.memory = check_count("retries", retries, least=0), memory

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Connect Ray to the cluster within this block; an existing connection stays open."""
        here = self.address is None
        with _environment(RAY_USAGE_STATS_ENABLED="0", **(_LOOPBACK if here else {})):
            ray = import_extra("ray", "Ray", "ray")
            if ray.is_initialized():
                yield ray
                return
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
            if here:
                options |= {"address": "local", "num_cpus": self.workers}
                options |= {"object_store_memory": self.memory, "include_dashboard": False}
                options |= {"_node_ip_address": "127.0.0.1"}
            elif self.address is not None:
                _check_answers(self.address, ray.util.get_node_ip_address())
            try:
                ray.init(**{"address": self.address, **options})
            except ValueError as error:
                raise InputError("address", _ADDRESS, repr(self.address)) from error
            try:
                if here and (found := ray.util.get_node_ip_address()) != "127.0.0.1":
                    told = "import equipoise's engine before ray, or start a cluster yourself"
                    raise RuntimeError(
                        f"Ray listens on {found}, not on the loopback address; {told}"
                    )
                if here:
                    self._check_room(ray.cluster_resources())
                yield ray
            finally:
                ray.shutdown()

    def _check_room(self, found: Mapping[str, float]) -> None:
        """Refuse tasks that can never start. (A cluster with an address may still get nodes.)"""
        for name, needed in (("cpus", self.cpus), ("gpus", self.gpus)):
            most = found.get(name[:-1].upper(), 0)
            if needed > most:
                raise InputError(name, f"at most {most:g}, which this machine has", repr(needed))

    def map(
        self,
        task: Callable[[Any], Any],
        inputs: Sequence[Any],
        *,
        stop: Stop | None = None,
        lost: Lost | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """See `Engine.map`."""
        with self.connected() as ray:
            remote = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.retries)(
                lambda value: task(value)
            )
            waiting = list(enumerate(inputs))[::-1]
            indices: dict[Any, int] = {}
            told = False
            # Submit only as many tasks as the cluster can start soon, so that a stop is quick.
            try:
                while indices or waiting:
                    room = 2 * max(1, int(ray.cluster_resources().get("CPU", 1) / self.cpus))
                    while waiting and len(indices) < room:
                        i, value = waiting.pop()
                        indices[remote.remote(value)] = i
                    done, _ = ray.wait(list(indices), timeout=LOOK)
                    for found in done:
                        i = indices.pop(found)
                        try:
                            result = ray.get(found)
                        except ray.exceptions.TaskCancelledError:
                            continue
                        except ray.exceptions.RayTaskError as error:
                            raise (error.cause or error) from error
                        except ray.exceptions.RayError as error:  # its workers or nodes died
                            if lost is None:
                                raise
                            result = lost(first_line(error))
                        yield i, result
                    if stop is not None and stop() and not told:
                        told, waiting = True, []
                        for found in indices:
                            ray.cancel(found, force=False)
            finally:
                for found in indices:  # an error, or nobody waits for the rest
                    ray.cancel(found, force=False)

    @contextmanager
    def pool(self, state: Any) -> Iterator[Pool]:
        """Provide a `Pool` of actors, as many as the cluster has room for.

        If an actor dies with its node, the remaining actors repeat its work, and new actors start
        as soon as there is room.
        """
        with self.connected() as ray:
            count = max(1, int(ray.cluster_resources().get("CPU", 1) / self.cpus))
            make, kept = self._holders(ray), ray.put(state)
            actors = [make.remote(kept) for _ in range(count)]
            deaths = 0

            def grow() -> None:
                room = int(ray.available_resources().get("CPU", 0) / self.cpus)
                room = max(min(room, count - len(actors)), 0 if actors else 1)
                actors.extend(make.remote(kept) for _ in range(room))

            def run(task: Callable[[Any, Any], Any], inputs: Sequence[Any]) -> list[Any]:
                nonlocal deaths
                found: dict[int, Any] = {}
                left = list(range(len(inputs)))
                while left:
                    if len(actors) < count:
                        grow()
                    parts = [(actor, left[i :: len(actors)]) for i, actor in enumerate(actors)]
                    calls = [a.call.remote(task, [inputs[i] for i in own]) for a, own in parts]
                    for (actor, own), call in zip(parts, calls, strict=True):
                        try:
                            found |= dict(zip(own, ray.get(call), strict=True))
                        except ray.exceptions.RayTaskError as error:
                            raise (error.cause or error) from error
                        except ray.exceptions.RayError:  # the actor or its node died
                            actors.remove(actor)
                            deaths += 1
                            if deaths > self.retries * count:
                                raise
                    left = [i for i in left if i not in found]
                return [found[i] for i in range(len(inputs))]

            yield Pool(count, run)

    def _holders(self, ray: Any) -> Any:
        """Return the class of the actors of a pool."""
        return ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_restarts=0)(_Holder)


class _Holder:
    """The state that one worker of a pool keeps between tasks."""

    def __init__(self, state: Any):
        self.state = state

    def call(self, task: Callable[[Any, Any], Any], inputs: Sequence[Any]) -> list[Any]:
        """Return the results of a task, given the state."""
        return [task(self.state, value) for value in inputs]


#: Engines by name.
ENGINES: dict[str, Callable[..., Any]] = {"local": Local, "ray": Ray, "slurm": Slurm}


def engine_of(on: Any, **options: Any) -> Engine:
    """Return the engine with a name and these options. An engine is returned unchanged.

    **Example**

    >>> from equipoise.runs.engines import engine_of
    >>> engine_of("local", workers=3).workers
    3
    """
    if not isinstance(on, str):
        if not isinstance(on, Engine):
            raise InputError("on", f"an engine or one of {', '.join(ENGINES)}", repr(on))
        return on
    if on not in ENGINES:
        raise InputError("on", f"one of {', '.join(ENGINES)}", repr(on))
    known = inspect.signature(ENGINES[on]).parameters
    wrong = next((name for name in options if name not in known), None)
    if wrong is not None:
        raise InputError("on", f"options of {on} among {', '.join(known)}", repr(wrong))
    return ENGINES[on](**options)


def _check_answers(address: str, own: str) -> None:
    """Refuse an address that does not respond, since Ray would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():  # such as "auto"
        return
    # Ray replaces the loopback address by the external address.
    for place in (host, own) if host in ("127.0.0.1", "localhost") else (host,):
        with suppress(OSError, OverflowError), socket.create_connection((place, int(port)), 10.0):
            return
    found = f"{address}, which does not respond"
    raise InputError("address", _ADDRESS, found)


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables within a block, unless the user has set them."""
    new = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)
