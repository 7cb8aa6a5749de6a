"""Latency, throughput, scaling, first calls and memory: `python -m benchmarks.calls`.

    python -m benchmarks.calls --quick              the small sizes, about two minutes
    python -m benchmarks.calls --figure cost.svg    also draw cost against size, on log axes
    python -m benchmarks.calls --json out.json      also write the numbers

Everything is measured in one run, in interleaved passes, and medians are reported; a ratio above
one says that ours is faster. On one core the clock is processor time, so that a busy machine does
little harm; two cores are compared with one by wall time, which needs a quiet machine, and the load
is printed. "Ours" is the whole call of `solve`, certificate included. The peer is QuantEcon's
`minmax`, called from Python and from loops that Numba compiles; for Markov games the loops are
those of `peers.markov_numba`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SIZES = ((2, 100_000), (3, 100_000), (5, 40_000), (10, 10_000), (20, 2_000), (50, 500), (100, 60),
         (200, 12), (300, 4))  # fmt: skip
MARKOV_SIZES = ((2, 2, 2_000), (5, 3, 1_000), (20, 5, 60), (100, 10, 4), (200, 10, 2))
#: Games of three shapes that keep two cores busy.
SCALED = ((3, 400_000), (10, 60_000), (50, 2_000))
PASSES = 7

Calls = dict[str, Callable[[], object]]
Rows = list[dict[str, Any]]


def medians(calls: Calls, repeat: int = 1, clock=time.thread_time) -> dict[str, float]:
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


def compared(case: str, found: dict[str, float], items: int = 1) -> dict[str, Any]:
    """A row of a table: the ratio of peer to ours, both, and what else was timed."""
    each = {name: us / items for name, us in found.items()}
    return {"peer / ours": each["peer"] / each["ours"], "case": case, **each}


def show(title: str, rows: Rows) -> None:
    """Print a table in Markdown; times are in microseconds."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    print(f"\n{title}\n\n| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for row in rows:
        cells = [row.get(name, "") for name in names]
        texts = [cell if isinstance(cell, str) else f"{cell:.3g}" for cell in cells]
        print(f"| {' | '.join(texts)} |", flush=True)


def draw_markov(states: int, actions: int, games: int) -> tuple[np.ndarray, np.ndarray]:
    from benchmarks.markov import draw

    data = draw(states, actions, games)
    return data["reward"], data["transition"]


def latency(quick: bool) -> Iterator[dict[str, Any]]:
    """One call from Python."""
    from quantecon.optimize import minmax

    import equipoise as eq
    from benchmarks.peers.markov_numba import newton_each

    for actions, repeat in ((3, 500), (10, 300), (50, 50)):
        payoff = np.random.default_rng(actions).random((actions, actions))
        game = eq.MatrixGame(payoff)
        policy = eq.solve(game).policy
        calls: Calls = {
            "peer": lambda: minmax(payoff),  # noqa: B023
            "ours": lambda: eq.solve(game),  # noqa: B023
            "certify": lambda: eq.certify(game, policy),  # noqa: B023
            "MatrixGame": lambda: eq.MatrixGame(payoff),  # noqa: B023
        }
        yield compared(f"{actions}x{actions}", medians(calls, repeat))
    for states, actions, repeat in ((5, 3, 200), (20, 5, 50), (100, 10, 4))[: 2 if quick else 3]:
        reward, transition = draw_markov(states, actions, 1)
        game = eq.MarkovGame(reward[0], transition[0], 0.9)
        policy = eq.solve(game).policy
        x, y = np.empty((2, 1, states, actions))
        calls = {
            "peer": lambda: newton_each(reward, transition, 0.9, 1e-6, x, y),  # noqa: B023
            "ours": lambda: eq.solve(game, tolerance=1e-6),  # noqa: B023
            "certify": lambda: eq.certify(game, policy),  # noqa: B023
        }
        yield compared(f"Markov S={states} A={actions}", medians(calls, repeat))


def throughput(quick: bool) -> Iterator[dict[str, Any]]:
    """Batches of zero-sum games, per game, on one core."""
    import equipoise as eq
    from benchmarks.nash import quantecon_loop
    from equipoise.core.zerosum import solve_batch

    for actions, games in SIZES[: 6 if quick else None]:
        payoff = np.random.default_rng(actions).random((games, actions, actions))
        run, game = quantecon_loop(False)({"payoff": payoff}), eq.MatrixGame(payoff)
        policy = eq.solve(game).policy
        calls: Calls = {
            "peer": lambda: run(games),  # noqa: B023
            "ours": lambda: eq.solve(eq.MatrixGame(payoff)),  # noqa: B023
            "solver alone": lambda: solve_batch(payoff),  # noqa: B023
            "certify": lambda: eq.certify(game, policy),  # noqa: B023
        }
        yield {**compared(f"{actions}x{actions}", medians(calls), games), "actions": actions}


def markov_throughput(quick: bool) -> Iterator[dict[str, Any]]:
    """Batches of Markov games, per game, on one core."""
    import equipoise as eq
    from benchmarks.peers.markov_numba import newton_each

    for states, actions, games in MARKOV_SIZES[: 3 if quick else None]:
        reward, transition = draw_markov(states, actions, games)
        game = eq.MarkovGame(reward, transition, 0.9)
        policy = eq.solve(game).policy
        x, y = np.empty((2, games, states, actions))
        calls: Calls = {
            "peer": lambda: newton_each(reward, transition, 0.9, 1e-6, x, y),  # noqa: B023
            "ours": lambda: eq.solve(game, tolerance=1e-6),  # noqa: B023
            "certify": lambda: eq.certify(game, policy),  # noqa: B023
        }
        yield compared(f"S={states} A={actions}", medians(calls), games)


def scaling(quick: bool) -> Iterator[dict[str, Any]]:
    """Wall time on one core over wall time on all of them, in the same passes.

    A busy machine spoils wall times. The share of the processor time that the calling thread takes
    is then the better sign: what it does, no other core does meanwhile.
    """
    import equipoise as eq
    from equipoise.core.zerosum import solve_batch

    available = os.sched_getaffinity(0)
    rng = np.random.default_rng(0)

    def both(case: str, call: Callable[[], object], items: int) -> dict[str, Any]:
        def on(processors: set[int]) -> Callable[[], object]:
            def run() -> None:
                os.sched_setaffinity(0, processors)  # threads that are started inherit it
                try:
                    call()
                finally:
                    os.sched_setaffinity(0, available)

            return run

        calls: Calls = {"one core": on({max(available)}), "all cores": on(available)}
        each = {name: us / items for name, us in medians(calls, clock=time.perf_counter).items()}
        shares = []
        for _ in range(PASSES):
            own, all_of = time.thread_time(), time.process_time()
            call()
            own, all_of = time.thread_time() - own, time.process_time() - all_of
            shares.append(own / all_of)
        ratio = each["one core"] / each["all cores"]
        share = statistics.median(shares)
        return {"one / all": ratio, "case": case, **each, "share of the calling thread": share}

    for actions, games in SCALED:
        payoff = rng.random((games // (4 if quick else 1), actions, actions))
        game = eq.MatrixGame(payoff)
        policy = eq.solve(game).policy
        size = f"{actions}x{actions}"
        yield both(f"solve {size}", lambda: eq.solve(game), len(payoff))  # noqa: B023
        yield both(f"solver alone {size}", lambda: solve_batch(payoff), len(payoff))  # noqa: B023
        yield both(f"certify {size}", lambda: eq.certify(game, policy), len(payoff))  # noqa: B023
    reward, transition = draw_markov(20, 5, 100 if quick else 400)
    markov = eq.MarkovGame(reward, transition, 0.9)
    found = eq.solve(markov).policy
    yield both("solve Markov S=20 A=5", lambda: eq.solve(markov), len(reward))
    yield both("certify Markov S=20 A=5", lambda: eq.certify(markov, found), len(reward))


FIRST = """
import sys, time; start = time.process_time()
import equipoise as eq, numpy as np
eq.MatrixGame, eq.MarkovGame, eq.solve; steps = [time.process_time()]
eq.solve(eq.MatrixGame(np.eye(3))); steps.append(time.process_time())
eq.solve(eq.MarkovGame(np.ones((5, 3, 3)), np.full((5, 3, 3, 5), 0.2), 0.9))
steps.append(time.process_time())
eq.solve(eq.MatrixGame(np.random.default_rng(0).random((100_000, 3, 3))))
steps.append(time.process_time())
print(*np.diff([start, *steps]))
"""
PEER_FIRST = """
import time; start = time.process_time()
from quantecon.optimize import minmax
import numpy as np
loaded = time.process_time(); minmax(np.eye(3)); print(loaded - start, time.process_time() - loaded)
"""
MEMORY = """
import resource, numpy as np, equipoise as eq
game = eq.MatrixGame(np.random.default_rng(0).random((10_000_000, 3, 3)))
assert eq.solve(game).status.ok
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


def _numbers(script: str, **environment: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [float(word) for word in done.stdout.split()]


def first_calls() -> Iterator[dict[str, Any]]:
    """Processor seconds of the first calls in a process, with and without machine code on disk."""
    names = ("import", "3x3", "Markov S=5 A=3", "100,000 games 3x3")
    with tempfile.TemporaryDirectory() as folder:
        for case in ("never compiled here", "compiled before"):
            found = _numbers(FIRST, NUMBA_CACHE_DIR=folder)
            yield {"case": f"ours, {case}", **dict(zip(names, found, strict=True))}
    _numbers(PEER_FIRST)
    loaded, solved = _numbers(PEER_FIRST)
    yield {"case": "QuantEcon minmax, compiled before", "import": loaded, "3x3": solved}


def figure(rows: Rows, path: Path) -> None:
    """Cost of a game against its size, both on log axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    labels = {
        "ours": "solve, with certificate",
        "certify": "of which the certificate",
        "peer": "QuantEcon minmax, compiled loop",
    }
    for (name, label), style in zip(labels.items(), ("o-", "o--", "s-"), strict=True):
        axes.loglog([r["actions"] for r in rows], [r[name] for r in rows], style, label=label)
    axes.set_xlabel("actions of each player")
    axes.set_ylabel("microseconds a game, one core")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    drawing.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calls", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--figure", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    from equipoise.core import kernels

    kernels.compile_all()
    tables: dict[str, Rows] = {}

    def table(title: str, rows: Iterator[dict[str, Any]]) -> None:
        tables[title] = list(rows)
        show(title, tables[title])

    available = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(available)})
    table("Latency: one call from Python, us", latency(arguments.quick))
    table("Throughput: batches on one core, us a game", throughput(arguments.quick))
    table("Throughput: Markov games on one core, us a game", markov_throughput(arguments.quick))
    os.sched_setaffinity(0, available)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    cores = f"{len(available)} cores against one, us of wall time a game, at a load of {load:.1f}"
    table(f"Scaling: {cores}", scaling(arguments.quick))
    table("First calls in a process, seconds of processor time", first_calls())
    if not arguments.quick:
        memory = [{"case": "10 million 3x3 games", "GB": _numbers(MEMORY)[0]}]
        table("Memory of a process with game and solution", iter(memory))
    if arguments.figure:
        figure(tables["Throughput: batches on one core, us a game"], arguments.figure)
    if arguments.json:
        arguments.json.write_text(json.dumps(tables, indent=2) + "\n")


if __name__ == "__main__":
    main()
