"""Latency, throughput, scaling, first calls and memory: `python -m benchmarks.calls`.

    python -m benchmarks.calls --quick              the small sizes, about two minutes
    python -m benchmarks.calls scaling              some of the tables; this one in two minutes
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
from typing import Any, NamedTuple

import numpy as np

SIZES = ((2, 100_000), (3, 100_000), (5, 40_000), (10, 10_000), (20, 2_000), (50, 500), (100, 60),
         (200, 12), (300, 4))  # fmt: skip
MARKOV_SIZES = ((2, 2, 2_000), (5, 3, 1_000), (20, 5, 60), (100, 10, 4), (200, 10, 2))
#: Games of three shapes that keep two cores busy.
SCALED = ((3, 400_000), (10, 60_000), (50, 2_000))
PASSES = 7
#: Threads of BLAS would wait for each other on one core.
BLAS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TABLES = ("latency", "throughput", "markov", "scaling", "first", "memory")

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


def triad() -> tuple[Callable[[], object], int]:
    """The triad of STREAM, `a = b + 3 c`, on all cores, and the bytes that it moves."""
    import numba

    from equipoise.core import kernels

    @numba.njit(nogil=True)
    def part(a, b, c, first, last):
        for i in range(first, last):
            a[i] = b[i] + 3.0 * c[i]
        return 0

    a, b, c = np.zeros((3, 10_000_000))
    return lambda: kernels.over_games(part, a.size, 1e-9, a, b, c), 3 * a.nbytes


class Load(NamedTuple):
    """What is spread over cores: a name, a call, and its items."""

    case: str
    call: Callable[[], object]
    items: int = 1
    #: Bytes that it must read or write, where that may be the limit.
    bytes: int = 0
    #: What a peer does on all cores.
    peer: Callable[[], object] | None = None


def loads(quick: bool) -> Iterator[Load]:
    """Batches, certificates, self-play and plans."""
    import equipoise as eq
    from benchmarks.aggregative import draw_city, plan
    from benchmarks.nash import quantecon_loop

    rng = np.random.default_rng(0)
    for actions, games in SCALED:
        payoff = rng.random((games // (4 if quick else 1), actions, actions))
        game = eq.MatrixGame(payoff)
        policy = eq.solve(game).policy
        size, games = f"{actions}x{actions}", len(payoff)
        # Policies, and of each player gain, bound, value and rounding; the solver has six numbers.
        certified = payoff.nbytes + games * 8 * (2 * actions + 8)
        found = certified + payoff.nbytes + games * 8 * (2 * actions + 6)
        run = quantecon_loop(True)({"payoff": payoff})
        peer = lambda: run(games)  # noqa: B023, E731
        both = lambda: eq.solve(eq.MatrixGame(payoff))  # noqa: B023, E731
        yield Load(f"solve {size}", lambda: eq.solve(game), games, found, peer)  # noqa: B023
        yield Load(f"MatrixGame and solve {size}", both, games, found + 3 * payoff.nbytes)
        check = lambda: eq.certify(game, policy)  # noqa: B023, E731
        yield Load(f"certify {size}", check, games, certified)
    reward, transition = draw_markov(20, 5, 100 if quick else 400)
    markov = eq.MarkovGame(reward, transition, 0.9)
    found = eq.solve(markov).policy
    games = len(reward)
    yield Load("solve Markov S=20 A=5", lambda: eq.solve(markov), games)
    yield Load("certify Markov S=20 A=5", lambda: eq.certify(markov, found), games)
    planned = plan("regret", 0.05)(draw_city(10_000, 3, 3, 1, 10_000))
    yield Load("plan, 10,000 agents S=3 H=3", lambda: planned(1))


SELF_PLAY = """
import os, sys; os.sched_setaffinity(0, {int(core) for core in sys.argv[1].split(",")})
import numpy as np, equipoise as eq
games, size = map(int, sys.argv[2:])
many, learner = eq.MatrixGame(np.random.default_rng(0).random((games, size, size))), eq.dynamics.OMD
learner = learner.vanishing()
for _ in sys.stdin:
    eq.dynamics.play(many, learner, learner, rounds=1_000, key=0)
    print(flush=True)
"""


def self_play(games: int, size: int, cores: set[int]) -> Callable[[], object]:
    """Self-play in a process of its own: XLA keeps the threads that it began with."""
    listed = ",".join(map(str, cores))
    child = subprocess.Popen(
        [sys.executable, "-c", SELF_PLAY, listed, str(games), str(size)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    asked, answered = child.stdin, child.stdout

    def run() -> None:
        asked.write("\n")
        if not answered.readline():
            raise RuntimeError("self-play ended early")

    return run


def scaling(quick: bool) -> Iterator[dict[str, Any]]:
    """Wall time on one core over wall time on all of them, in the same passes.

    A busy machine spoils wall times. The serial share is then the better sign: the part of the
    processor time that the calling thread takes outside of what threads share. Two cores can be
    at most 2 / (1 + share) times as fast as one. Where memory is the limit instead, the last
    column says which part of the bandwidth of STREAM's triad is used, on all cores.
    """
    from equipoise.core import kernels

    available = os.sched_getaffinity(0)
    shared, inside = kernels.over_games, 0.0

    def timed(*arguments: Any) -> int:
        nonlocal inside
        start = time.thread_time()
        try:
            return shared(*arguments)
        finally:
            inside += time.thread_time() - start

    def serial_share(call: Callable[[], object]) -> float:
        nonlocal inside
        kernels.over_games, inside = timed, 0.0
        own, all_of = time.thread_time(), time.process_time()
        try:
            call()
        finally:
            kernels.over_games = shared
        own, all_of = time.thread_time() - own, time.process_time() - all_of
        return (own - inside) / all_of

    def on(processors: set[int], call: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            os.sched_setaffinity(0, processors)  # threads that are started inherit it
            try:
                call()
            finally:
                os.sched_setaffinity(0, available)

        return run

    stream, moved = triad()
    most = moved / medians({"triad": stream}, clock=time.perf_counter)["triad"]  # bytes a us
    for case, call, items, size, peer in loads(quick):
        calls: Calls = {"one core": on({max(available)}, call), "all cores": on(available, call)}
        if peer is not None:
            calls["peer, all cores"] = peer
        found = medians(calls, clock=time.perf_counter)
        share = statistics.median(serial_share(call) for _ in range(PASSES))
        yield {
            "one / all": found["one core"] / found["all cores"],
            "at most": len(available) / (1 + (len(available) - 1) * share),
            "case": case,
            **{name: us / items for name, us in found.items()},
            "serial share": share,
            "share of triad": size / found["all cores"] / most if size else "",
        }
    for size, games in ((3, 65_536), (10, 16_384)):
        games //= 4 if quick else 1
        calls = {
            "one core": self_play(games, size, {max(available)}),
            "all cores": self_play(games, size, available),
        }
        found = medians(calls, clock=time.perf_counter)
        yield {
            "one / all": found["one core"] / found["all cores"],
            "case": f"self-play {size}x{size}, 1,000 rounds",
            **{name: us / games for name, us in found.items()},
        }
    yield {"case": f"triad: {most / 1e3:.3g} GB/s"}


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
PEER_MEMORY = """
import resource, numpy as np
from benchmarks.nash import quantecon_loop
payoff = np.random.default_rng(0).random((10_000_000, 3, 3))
found = quantecon_loop(False)({"payoff": payoff})(len(payoff))
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


def memory() -> Iterator[dict[str, Any]]:
    """Gigabytes of a process that solves ten million games; the peer has no certificates."""
    ours, peer = _numbers(MEMORY)[0], _numbers(PEER_MEMORY)[0]
    yield {"peer / ours": peer / ours, "case": "10 million 3x3 games", "ours": ours, "peer": peer}


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
    parser.add_argument("tables", nargs="*", metavar="table", help=f"default: all of {TABLES}")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--figure", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    wanted, quick = arguments.tables or TABLES, arguments.quick
    if unknown := sorted(set(wanted) - set(TABLES)):
        parser.error(f"table: expected some of {TABLES}, found {unknown}")
    if any(os.environ.get(name) != "1" for name in BLAS):  # read when NumPy is imported
        command = [sys.executable, "-m", "benchmarks.calls", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | dict.fromkeys(BLAS, "1"))
    from equipoise.core import kernels

    kernels.compile_all()
    tables: dict[str, Rows] = {}

    def table(name: str, title: str, rows: Iterator[dict[str, Any]]) -> None:
        if name in wanted:
            tables[name] = list(rows)
            show(title, tables[name])

    available = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(available)})
    table("latency", "Latency: one call from Python, us", latency(quick))
    table("throughput", "Throughput: batches on one core, us a game", throughput(quick))
    table("markov", "Throughput: Markov games on one core, us a game", markov_throughput(quick))
    os.sched_setaffinity(0, available)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    cores = f"{len(available)} cores against one, us of wall time an item, at a load of {load:.1f}"
    table("scaling", f"Scaling: {cores}", scaling(quick))
    table("first", "First calls in a process, seconds of processor time", first_calls())
    if not quick or arguments.tables:
        table("memory", "Memory of a process with game and solution, GB", memory())
    if arguments.figure and "throughput" in tables:
        figure(tables["throughput"], arguments.figure)
    if arguments.json:
        arguments.json.write_text(json.dumps(tables, indent=2) + "\n")


if __name__ == "__main__":
    main()
