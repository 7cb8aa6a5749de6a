"""Learning from a log that is read in pieces: time and memory of 1e6 rows of 50 agents.

    python -m benchmarks.log_pieces [--rows 1000000] [--agents 50] [--actions 3]

The log is written to a Parquet file piece by piece in a process of its own, so that what is
measured is reading and learning alone. Every agent has three neighbours with terms of pairs.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import equipoise as eq


def write(path: Path, rows: int, agents: int, actions: int) -> None:
    """Write a log of a sparse network game to a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    game = game_of(agents, actions)
    writer = None
    for first in range(0, rows, 50_000):
        log = eq.offline.collect(game, "uniform", samples=min(50_000, rows - first), key=first)
        columns = {f"action_{i}": log.actions[:, i] for i in range(agents)}
        columns |= {f"reward_{i}": log.rewards[:, i].astype(np.float32) for i in range(agents)}
        table = pyarrow.table({name: np.ascontiguousarray(c) for name, c in columns.items()})
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def game_of(agents: int, actions: int) -> eq.ContextualGame:
    """The game that was logged."""
    return eq.games.families.network(agents, actions, degree=3, scale=0.25).sample(key=0)


def main() -> None:
    """Write the log, learn from its pieces, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {"rows": 1_000_000, "agents": 50, "actions": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--write", default="", help="only write the log here")
    options = parser.parse_args()
    sizes = (options.rows, options.agents, options.actions)
    if options.write:
        write(Path(options.write), *sizes)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.parquet")
        names = ("rows", "agents", "actions")
        given = [f"--{name}={size}" for name, size in zip(names, sizes, strict=True)]
        again = [sys.executable, "-m", "benchmarks.log_pieces", *given, f"--write={path}"]
        subprocess.run(again, check=True)
        started = time.process_time()
        advice = eq.advise(eq.offline.Log.read_chunks(path))
        seconds = time.process_time() - started
    gap = float(eq.certify(game_of(*sizes[1:]), advice.policy).max_gain)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{options.rows:,} rows, {options.agents} agents: {seconds:.0f} s of processor time, ")
    print(f"peak {peak:.2f} GB; {advice.status.name}, true gap {gap:.4f}, bound {advice.bound:.4f}")
    print(advice.structure)


if __name__ == "__main__":
    main()
