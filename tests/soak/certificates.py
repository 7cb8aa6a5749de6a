"""Certificates against exact rationals and brute force: games of every kind and scale.

Every case is certified in float64 and again in rational arithmetic. The truth must not exceed
`upper`, and must not be less than `gains` by more than the width of the bracket; brackets of games
given by tables must be as narrow as promised. `main` runs many cases; the suite runs a few hundred.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from soak import functions, networks, processes, tables
from soak.exact import Case

#: Games given by tables, against exact rationals.
TABLES: dict[str, Callable[[np.random.Generator, bool], Case]] = {
    "matrix": tables.matrix,
    "normal-form": tables.normal_form,
    "joint": tables.joint,
    "batch": tables.batch,
    "markov": processes.markov,
    "general-sum-markov": processes.general_markov,
    "contextual": tables.contextual,
    "decoupled-markov": tables.decoupled,
}
#: Crowds, continuous actions and networks, which take longer: one of each after so many tables.
FUNCTIONS: dict[str, tuple[Callable[[np.random.Generator, bool], Case], int]] = {
    "aggregative": (functions.crowd, 10),
    "aggregative-markov": (functions.crowd_markov, 20),
    "continuous": (functions.polynomial, 20),
    "continuous-with-states": (functions.polynomial_steps, 20),
    "continuous-function": (functions.function, 100),
    "network": (networks.flows, 5),
    "network, link flows": (networks.link_flows, 5),
    "network-of-drivers": (networks.drivers, 20),
}
KINDS = TABLES | {kind: make for kind, (make, _) in FUNCTIONS.items()}


def check(kind: str, seed: int, awkward: bool) -> tuple[float, bool]:
    """Certify one case; raise if the bracket misses the truth.

    Returns how far up the truth lies in the bracket (0 at `gains`, 1 at `upper`), and whether the
    certificate says that it is exact.
    """
    found = KINDS[kind](np.random.default_rng([seed, awkward]), awkward)
    used = 0.0
    gains, upper = np.ravel(found.gains), np.ravel(found.upper)
    for low, high, true in zip(gains, upper, np.ravel(found.truth), strict=True):
        gain, bound, true = (Fraction(float(low)), Fraction(float(high)), Fraction(true))
        width = bound - gain
        wrong = true > bound or true < gain - width
        if wrong or (found.widest is not None and width > found.widest):
            raise AssertionError(
                f"{kind}, seed {seed}, awkward {awkward}: the gain is {float(true)!r}, the "
                f"certificate says {low!r} to {high!r}"
            )
        if width:
            used = max(used, float((true - gain) / width))
    return used, found.exact


def cases(count: int, adversarial: int, seed: int) -> Iterator[tuple[str, int, bool]]:
    """So many random and adversarial tables, kinds in turn, and functions now and then."""
    turns = itertools.cycle(TABLES)
    for number in range(count + adversarial):
        awkward = number >= count
        yield next(turns), seed + number, awkward
        for kind, (_, rarely) in FUNCTIONS.items():
            if number % rarely == 0:
                yield kind, seed + number, awkward


def main(count: int, seed: int) -> dict[str, Any]:
    """Check many cases, and a tenth as many adversarial ones; an under-report is a failure."""
    failures: list[str] = []
    counts, used, brackets = (dict.fromkeys(KINDS, 0) for _ in range(3))
    began = time.monotonic()
    for done, (kind, number, awkward) in enumerate(cases(count, count // 10, seed)):
        if done % 1000 == 0:
            print(f"{done} cases, {time.monotonic() - began:.0f} s", flush=True)
        try:
            share, exact = check(kind, number, awkward)
        except AssertionError as error:
            failures.append(str(error))
            print(error, flush=True)
            continue
        counts[kind] += 1
        used[kind] = round(max(used[kind], share), 3)
        brackets[kind] += not exact
    return {
        "failures": failures,
        "cases": counts,
        "share of the bracket used": used,
        "not exact": {kind: number for kind, number in brackets.items() if number},
    }
