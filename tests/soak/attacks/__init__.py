"""Attempts to make the library say something false, each with a truth of its own.

A module is a subject; its `ATTACKS` are functions that take a seed and a number of seconds, try
cases until the time is over (at least one case; a fixed list is tried to its end), and yield one
line for each false statement. `main(cases, seed)` runs every attack for so many seconds.
"""

import importlib
import pkgutil
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

#: Takes a seed and a number of seconds, and yields a line for each false statement.
Attack = Callable[[int, float], Iterator[str]]


def drawn(
    seed: int, seconds: float, check: Callable[[np.random.Generator], Iterator[str]]
) -> Iterator[str]:
    """Check one drawn case after the other until the time is over."""
    end, case = time.perf_counter() + seconds, 0
    while case == 0 or time.perf_counter() < end:
        for line in check(np.random.default_rng([seed, case])):
            yield f"case {case}: {line}"
        case += 1


def attacks() -> dict[str, Attack]:
    """All attacks, by the name of their module and their own."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {f"{m}.{f.__name__}": f for m, module in modules.items() for f in module.ATTACKS}


def main(cases: int, seed: int) -> dict[str, Any]:
    """Try every attack for `cases` seconds."""
    warnings.simplefilter("ignore")
    failures, seconds = [], {}
    for name, attack in attacks().items():
        start = time.perf_counter()
        failures += [f"{name}: {line}" for line in attack(seed, float(cases))]
        seconds[name] = round(time.perf_counter() - start, 1)
    return {"attacks": len(seconds), "failures": failures, "seconds of each": seconds}
