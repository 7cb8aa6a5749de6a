"""Latency, throughput, first calls and memory of zero-sum games: `python -m benchmarks.calls`.

Everything is measured in one run, in interleaved passes, and medians are reported. On one core the
clock is processor time, so that a busy machine does little harm; on all cores it is wall time,
which needs a quiet machine. "Ours" is the whole call of `solve`, certificate included. The peer is
QuantEcon's `minmax`, called from Python and from loops that Numba compiles; for Markov games the
loops are those of `peers.markov_numba`.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

SIZES = ((2, 100_000), (3, 100_000), (5, 40_000), (10, 10_000), (20, 2_000), (50, 500), (100, 60),
         (200, 12), (300, 4))  # fmt: skip
MARKOV_SIZES = ((2, 2, 2_000), (5, 3, 1_000), (20, 5, 60), (100, 10, 4), (200, 10, 2))
PASSES = 7


def medians(calls: dict[str, Callable[[], object]], repeat: int, clock) -> dict[str, float]:
    """Microseconds of each call, in interleaved passes of `repeat` calls."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(PASSES):
        for name, call in calls.items():
            start = clock()
            for _ in range(repeat):
                call()
            times[name].append((clock() - start) / repeat * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def show(title: str, found: dict[str, float], unit: float = 1.0, peer: str = "") -> None:
    """One line: times, and ratios to the peer."""
    against = found.get(peer)
    parts = [
        f"{name} {us / unit:.4g} us"
        + (f" ({us / against:.3g}x)" if against and name != peer else "")
        for name, us in found.items()
    ]
    print(f"{title:26s} " + ", ".join(parts), flush=True)


def draw_markov(states: int, actions: int, games: int) -> tuple[np.ndarray, np.ndarray]:
    from benchmarks.markov import draw

    data = draw(states, actions, games)
    return data["reward"], data["transition"]


def latency() -> None:
    """One call from Python."""
    from quantecon.optimize import minmax

    import equipoise as eq
    from benchmarks.peers.markov_numba import newton_each

    for actions, repeat in ((3, 500), (10, 300), (50, 50)):
        payoff = np.random.default_rng(actions).random((actions, actions))
        game = eq.MatrixGame(payoff)
        policy = eq.solve(game).policy
        found = medians(
            {
                "minmax": lambda: minmax(payoff),  # noqa: B023
                "ours": lambda: eq.solve(game),  # noqa: B023
                "certify": lambda: eq.certify(game, policy),  # noqa: B023
                "MatrixGame": lambda: eq.MatrixGame(payoff),  # noqa: B023
            },
            repeat,
            time.thread_time,
        )
        show(f"one call, {actions}x{actions}", found, peer="minmax")
    small = np.random.default_rng(3).random((3, 3))
    for states, actions, repeat in ((5, 3, 200), (20, 5, 50), (100, 10, 4)):
        reward, transition = draw_markov(states, actions, 1)
        game = eq.MarkovGame(reward[0], transition[0], 0.9)
        x, y = np.empty((2, 1, states, actions))
        found = medians(
            {
                "minmax 3x3": lambda: minmax(small),
                "ours": lambda: eq.solve(game, tolerance=1e-6),  # noqa: B023
                "compiled Newton loop": lambda: newton_each(reward, transition, 0.9, 1e-6, x, y),  # noqa: B023
            },
            repeat,
            time.thread_time,
        )
        show(f"one Markov game S={states} A={actions}", found, peer="minmax 3x3")


def throughput(clock, parallel: bool) -> None:
    """Batches, per game."""
    import equipoise as eq
    from benchmarks.nash import quantecon_loop
    from benchmarks.peers import markov_numba
    from equipoise.core.zerosum import solve_batch

    where = "all cores" if parallel else "one core"
    for actions, games in SIZES:
        payoff = np.random.default_rng(actions).random((games, actions, actions))
        run, game = quantecon_loop(parallel)({"payoff": payoff}), eq.MatrixGame(payoff)
        policy = eq.solve(game).policy
        found = medians(
            {
                "minmax, compiled loop": lambda: run(games),  # noqa: B023
                "ours, with MatrixGame": lambda: eq.solve(eq.MatrixGame(payoff)),  # noqa: B023
                "solver alone": lambda: solve_batch(payoff),  # noqa: B023
                "certify": lambda: eq.certify(game, policy),  # noqa: B023
            },
            1,
            clock,
        )
        show(f"{actions}x{actions}, {where}", found, games, "minmax, compiled loop")
    loop = markov_numba.newton_each_parallel if parallel else markov_numba.newton_each
    for states, actions, games in MARKOV_SIZES:
        reward, transition = draw_markov(states, actions, games)
        game = eq.MarkovGame(reward, transition, 0.9)
        policy = eq.solve(game).policy
        x, y = np.empty((2, games, states, actions))
        found = medians(
            {
                "compiled Newton loop": lambda: loop(reward, transition, 0.9, 1e-6, x, y),  # noqa: B023
                "ours": lambda: eq.solve(game, tolerance=1e-6),  # noqa: B023
                "certify": lambda: eq.certify(game, policy),  # noqa: B023
            },
            1,
            clock,
        )
        show(f"S={states} A={actions}, {where}", found, games, "compiled Newton loop")


FIRST = """
import time; start = time.process_time()
import equipoise as eq, numpy as np
eq.MatrixGame, eq.solve; loaded = time.process_time()
eq.solve(eq.MatrixGame(np.eye(3))); solved = time.process_time()
eq.solve(eq.MatrixGame(np.eye(7))); again = time.process_time()
print(f"import with JAX {loaded - start:.2f} s, first game {solved - loaded:.2f} s, "
      f"first game of a new shape {again - solved:.5f} s")
"""
MEMORY = """
import resource, numpy as np, equipoise as eq
game = eq.MatrixGame(np.random.default_rng(0).random((10_000_000, 3, 3)))
assert eq.solve(game).status.ok
print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
"""


def main() -> None:
    """All of it; `throughput` alone is started again for all cores."""
    if sys.argv[1:] == ["all-cores"]:
        return throughput(time.perf_counter, parallel=True)
    available = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(available)})
    latency()
    throughput(time.thread_time, parallel=False)
    os.sched_setaffinity(0, available)
    subprocess.run([sys.executable, "-m", "benchmarks.calls", "all-cores"], check=True)
    for name, script in (("first calls", FIRST), ("10 million 3x3 games", MEMORY)):
        print(f"{name:26s} ", end="", flush=True)
        subprocess.run([sys.executable, "-c", script], check=True)
    return None


if __name__ == "__main__":
    main()
