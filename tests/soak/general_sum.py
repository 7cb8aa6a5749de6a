"""Random general-sum games of two to four players: every concept, certified and compared.

`main(cases, seed)` draws games of several families, ties, duplicates and dominated actions among
them, solves each for Nash, correlated and coarse correlated equilibria, and checks gains, bounds
and the order of the concepts. It raises on the first game that fails, with its seed.
"""

import time
from typing import Any

import numpy as np

from equipoise.solvers._correlated import correlated, largest_gain
from equipoise.solvers._normal_form import solve_table
from equipoise.solvers._nplayer import Replies


def draw(rng: np.random.Generator) -> np.ndarray:
    """A game of two to four players, at most 400 cells, of one of several families."""
    players = int(rng.integers(2, 5))
    most = {2: 10, 3: 6, 4: 4}[players]
    shape = tuple(int(a) for a in rng.integers(1, most + 1, players))
    family = rng.integers(6)
    if family == 0:
        payoffs = rng.integers(0, 3, (players, *shape)).astype(float)  # ties
    elif family == 1:
        payoffs = np.repeat(rng.random((1, *shape)), players, 0)  # common interest
    elif family == 2:
        first = rng.normal(size=shape)
        rest = [-first / (players - 1)] * (players - 1)
        payoffs = np.stack([first, *rest])  # constant sum
    else:
        payoffs = rng.normal(size=(players, *shape)) * 10.0 ** rng.integers(-3, 4)
    if family == 4:  # one action of the first player twice
        payoffs = np.concatenate([payoffs, payoffs[:, :1]], 1)
    if family == 5:  # and one that is dominated
        payoffs = np.concatenate([payoffs, payoffs[:, :1]], 1)
        payoffs[0, -1] -= np.ptp(payoffs)
    return payoffs


def main(cases: int = 1000, seed: int = 0) -> dict[str, Any]:
    """Solve and check that many games; returns the largest gains, as shares of payoff ranges."""
    worst = {"nash2": 0.0, "nash": 0.0, "ce": 0.0, "cce": 0.0}
    started = time.perf_counter()
    for case in range(cases):
        rng = np.random.default_rng([seed, case])
        payoffs = draw(rng)
        spread = max(float(np.ptp(payoffs)), 1e-300)
        answer = solve_table(payoffs, "nash", time_limit=60.0)
        assert answer.profile is not None, (seed, case)
        gain = Replies(payoffs).gain(list(answer.profile)) / spread
        limit, name = (1e-9, "nash2") if len(payoffs) == 2 else (1e-7, "nash")
        assert gain <= limit, (seed, case, payoffs.shape, answer.method, answer.ended, gain)
        worst[name] = max(worst[name], gain)
        joint = answer.profile[0]
        for own in answer.profile[1:]:
            joint = np.multiply.outer(joint, own)
        welfare = {"nash": float((payoffs.sum(0) * joint).sum())}
        for concept in ("ce", "cce"):
            found = correlated(payoffs, concept, "welfare", tolerance=1e-10)
            gain = largest_gain(payoffs, found.joint, concept) / spread
            assert gain <= 1e-9, (seed, case, payoffs.shape, concept, gain)
            worst[concept] = max(worst[concept], gain)
            welfare[concept] = found.objective
        slack = 1e-7 * spread * len(payoffs)
        assert welfare["nash"] <= welfare["ce"] + slack, (seed, case, welfare)
        assert welfare["ce"] <= welfare["cce"] + slack, (seed, case, welfare)
    print(f"{cases} games in {time.perf_counter() - started:.0f} s")
    return {"failures": 0, "games": cases, "largest_gains": worst}


if __name__ == "__main__":
    print(main())
