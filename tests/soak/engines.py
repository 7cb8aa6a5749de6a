"""A Ray cluster of two nodes, one of which is killed in the middle of a sweep, a fit and learning.

The sweep must end with the bytes of one on this machine, learning from a simulator with the result
of one process, and the fit, over a log of many files, with its numbers to rounding. Also says how
much memory workers took, and how many rows were added up in a second of processor time, by one
process and by the cluster.
"""

import os
import resource
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.runs import sweep
from equipoise.runs.engines import _LOOPBACK, Ray

#: Size of the log: agents, actions of each, rows of a file.
AGENTS, ACTIONS, ROWS = 50, 3, 50_000
#: What is swept: long enough for a node to be killed in the middle of a run. Its commands notice
#: that only after some seconds.
GRID = {"seed": [0, 1, 2]}
OPTIONS = {"rounds": 5_000_000, "games": 16}
#: Episodes that are learned from.
EPISODES = 400
SAME = ("config.json", "record.json", "record.npz", "metrics.jsonl")
NODE = {"num_cpus": 1, "object_store_memory": 150_000_000}


def main(cases: int, seed: int) -> dict[str, Any]:
    """Sweep, and fit so many files."""
    os.environ |= {**_LOOPBACK, "RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryDirectory() as place:
        swept = sweep_figures(Path(place))
        learned = learning_figures(Path(place))
        fitted = fit_figures(Path(place, "log"), cases, seed)
        failures = sum(part["failures"] for part in (swept, learned, fitted))
        return swept | learned | fitted | {"failures": failures}


class Cluster:
    """Two nodes on the loopback address."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {**NODE, "include_dashboard": False}
        self.nodes = Cluster(initialize_head=True, head_node_args=head)
        self.victim = self.nodes.add_node(**NODE)
        self.killed = False

    def kill_when(self, ready: Any) -> None:
        """Kill the second node, at once, when `ready()` says so; none comes in its place."""

        def watch() -> None:
            while not ready():
                time.sleep(0.05)
            self.nodes.remove_node(self.victim, allow_graceful=False)
            self.killed = True

        threading.Thread(target=watch, daemon=True).start()

    def close(self) -> None:
        import ray

        ray.shutdown()
        self.nodes.shutdown()


def sweep_figures(place: Path) -> dict[str, Any]:
    """A sweep with a node killed when two of its runs have checkpoints, beside one here."""
    here = sweep(place / "here", "play", GRID, options=OPTIONS, workers=2, page=False)
    cluster, there = Cluster(), place / "there"
    cluster.kill_when(lambda: len({f.parent for f in there.glob("*/checkpoints/*.npz")}) > 1)
    found = sweep(there, "play", GRID, options=OPTIONS, on=Ray(cluster.nodes.address), page=False)
    cluster.close()
    differ = [
        f"{name}/{file}"
        for name in here.states
        for file in SAME
        if (place / "here" / name / file).read_bytes() != (there / name / file).read_bytes()
    ]
    sessions = [len(eq.report.RunFolder.read(there / name).sessions) for name in found.states]
    resumed = sum(number > 1 for number in sessions)
    failures = len(differ) + (not found.done) + (not cluster.killed) + (not resumed)
    return {"runs": len(sessions), "resumed": resumed, "differ": differ, "failures": failures}


def learning_figures(place: Path) -> dict[str, Any]:
    """Episodes played by actors on both nodes, one of which is killed, beside one process."""
    city = eq.games.load("demand-response", agents=100)
    mark = place / "episode"

    class Marking(eq.aggregative.Simulator):
        """Says that learning is in the middle."""

        def seek(self, episode: int) -> None:
            if episode > EPISODES // 2:
                mark.touch()
            super().seek(episode)

    cluster = Cluster()
    cluster.kill_when(mark.exists)
    options: Any = {"episodes": EPISODES, "rewards": "unknown"}
    there = eq.learn(Marking(city, key=0), workers=Ray(cluster.nodes.address), **options)
    cluster.close()
    here = eq.learn(eq.aggregative.Simulator(city, key=0), workers="local", **options)
    same = all((there.curve[name] == values).all() for name, values in here.curve.items())
    same &= here.bound == there.bound
    failures = (not same) + (not cluster.killed)
    return {"episodes": EPISODES, "learned the same": same, "failures": failures}


def write_log(folder: Path, files: int, seed: int) -> list[list[int]]:
    """A log of so many files: every reward is a sum of terms with the four next agents.

    Returns the neighbours of each agent.
    """
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    tables = np.random.default_rng(seed).normal(size=(AGENTS, 4, ACTIONS, ACTIONS))
    tables = tables.astype(np.float32)
    near = [[(i + k) % AGENTS for k in range(1, 5)] for i in range(AGENTS)]
    for number in range(files):
        rng = np.random.default_rng((seed, number))
        actions = rng.integers(0, ACTIONS, (ROWS, AGENTS), np.int8)
        rewards = rng.standard_normal((ROWS, AGENTS), np.float32)
        for i, own in enumerate(near):
            for k, j in enumerate(own):
                rewards[:, i] += tables[i, k, actions[:, i], actions[:, j]]
        columns = {f"action_{i}": actions[:, i] for i in range(AGENTS)}
        columns |= {f"reward_{i}": rewards[:, i] for i in range(AGENTS)}
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"{number:04d}.parquet")
    return near


def fit_figures(folder: Path, files: int, seed: int) -> dict[str, Any]:
    """A fit by the cluster with a node killed in the middle, beside one by this process."""
    near = write_log(folder, files, seed)
    told: Any = {"actions_per_agent": (ACTIONS,) * AGENTS, "contexts_count": 1}
    options: Any = {"rank": 2, "neighbours": near, "intervals": False}
    pattern, rows = folder / "*.parquet", files * ROWS
    begun, busy = time.perf_counter(), time.process_time()
    whole = eq.offline.fit(eq.offline.LogFiles(pattern, **told), **options)
    memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    one = time.perf_counter() - begun, time.process_time() - busy, memory

    cluster = Cluster()
    watched = Watched(cluster, kill=False)
    begun = time.perf_counter()
    eq.offline.fit(eq.offline.LogFiles(pattern, on=watched, **told), **options)
    many = time.perf_counter() - begun, watched.busy, max(watched.used)
    begun, killing = time.perf_counter(), Watched(cluster, kill=True)
    found = eq.offline.fit(eq.offline.LogFiles(pattern, on=killing, **told), **options)
    after_kill = time.perf_counter() - begun
    cluster.close()
    away = max(
        float(np.abs(found.game.interactions.tables[k] - tables).max())
        for k, tables in whole.game.interactions.tables.items()
    )
    figures = {
        "files": files,
        "rows": rows,
        "bytes": sum(file.stat().st_size for file in folder.glob("*.parquet")),
        "difference": away,
        "seconds with a node killed": round(after_kill, 1),
        "failures": int(away > 1e-9) + (not cluster.killed),
    }
    for name, (wall, busy, memory) in {"one process": one, "two nodes": many}.items():
        figures[f"{name}: seconds"] = round(wall, 1)
        figures[f"{name}: rows a second of a processor"] = round(rows / busy)
        figures[f"{name}: largest memory of a process, MB"] = round(memory / 1e6)
    return figures


class Watched(Ray):
    """An engine that kills a node after its first result, and asks workers about their memory."""

    def __init__(self, cluster: Cluster, kill: bool):
        super().__init__(cluster.nodes.address)
        self.cluster, self.kill, self.used, self.busy = cluster, kill, [0], 0.0

    def map(self, task: Any, inputs: Any, **options: Any) -> Any:
        """Results, as they come."""

        def measured(value: Any) -> tuple[Any, int, float]:
            begun = time.process_time()
            result = task(value)
            memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return result, memory, time.process_time() - begun

        for index, (result, memory, busy) in super().map(measured, inputs, **options):
            self.used.append(memory)
            self.busy += busy
            if self.kill and not self.cluster.killed:
                self.cluster.kill_when(lambda: True)
            yield index, result
