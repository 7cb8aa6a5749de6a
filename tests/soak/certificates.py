"""Certificates against exact rationals and brute force: games of every kind and scale.

Every case is certified in float64 and again in rational arithmetic. The truth must not exceed
`upper`, and must not be less than `gains` by more than the width of the bracket; brackets of games
given by tables must be as narrow as promised. `main` runs many cases; the suite runs a few hundred.
"""

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from soak import functions, processes, tables
from soak.exact import Case

KINDS: dict[str, Callable[[np.random.Generator, bool], Case]] = {
    "matrix": tables.matrix,
    "normal-form": tables.normal_form,
    "joint": tables.joint,
    "batch": tables.batch,
    "markov": processes.markov,
    "general-sum markov": processes.general_markov,
    "contextual": tables.contextual,
    "decoupled-markov": tables.decoupled,
    "aggregative": functions.crowd,
    "aggregative-markov": functions.crowd_markov,
    "continuous": functions.polynomial,
    "continuous with states": functions.polynomial_steps,
    "continuous function": functions.function,
}


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
    """Kinds in turn, with seeds of their own."""
    kinds = itertools.cycle(KINDS)
    for number in range(count + adversarial):
        yield next(kinds), seed + number, number >= count


def main(cases_: int = 10_000, seed: int = 0) -> dict[str, Any]:
    """Check many cases, and a tenth as many adversarial ones; an under-report is a failure."""
    adversarial = cases_ // 10
    share_used, brackets = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0)
    failures = []
    for kind, number, awkward in cases(cases_, adversarial, seed):
        try:
            used, exact = check(kind, number, awkward)
        except AssertionError as error:
            failures.append(str(error))
            print(error, flush=True)
            continue
        share_used[kind] = max(share_used[kind], used)
        brackets[kind] += not exact
    return {
        "failures": failures,
        "random": cases_,
        "adversarial": adversarial,
        "share_used": {kind: round(used, 3) for kind, used in share_used.items()},
        "not exact": {kind: number for kind, number in brackets.items() if number},
    }
