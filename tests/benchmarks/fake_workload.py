"""A workload whose contenders behave badly in every way the harness must survive."""

import os
import time

import numpy as np

from benchmarks.harness import Case, Contender, Skip
from benchmarks.nash import measure


def _uniform(count, actions=2):
    return np.full((count, actions), 1.0 / actions)


def busy(seconds):
    """Use the processor for that long: sleep is not counted."""
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        pass


def good(data):
    def run(count):
        print("a library that prints")
        busy(0.001 * count)
        return {"x": _uniform(count), "y": _uniform(count)}

    return run


def lazy(data):
    def run(count):
        busy(0.002 * count)
        return {"x": lambda: _uniform(count), "y": lambda: _uniform(count).tolist()}

    return run


def half_the_work(data):
    def run(count):
        return {**good(data)(count), "time_factor": 2.0}

    return run


def unpinned(data):
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if cores != 1 or os.environ["OMP_NUM_THREADS"] != "1":
        raise RuntimeError("not pinned to one core")
    return good(data)


def hangs(data):
    def run(count):
        time.sleep(60)
        return {}

    return run


def raises(data):
    raise ZeroDivisionError("on purpose")


def declines(data):
    raise Skip("not today")


def one_player(data):
    return lambda count: {"x": _uniform(count), "y": np.zeros((count, 2))}


def pure(data):
    def run(count):
        return {"x": np.tile([1.0, 0.0], (count, 1)), "y": _uniform(count)}

    return run


def cases(quick):
    pennies = np.tile([[1.0, -1.0], [-1.0, 1.0]], (40, 1, 1))
    contenders = (
        Contender("ours", good, ours=True),
        Contender("lazy", lazy, batched=True),
        Contender("half the work", half_the_work),
        Contender("pinned", unpinned),
        Contender("hangs", hangs, timeout=2.0),
        Contender("raises", raises),
        Contender("declines", declines),
        Contender("absent", good, needs=("numpy", "no_such_module")),
        Contender("passed over", good, skip="too large"),
        Contender("one player", one_player),
        Contender("pure", pure),
    )
    return [
        Case(
            name="pennies",
            unit="game",
            items=40,
            data=lambda: {"payoff": pennies},
            contenders=contenders,
            measure=measure,
        )
    ]
