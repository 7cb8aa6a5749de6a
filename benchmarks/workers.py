"""Expected efficiency of 8, 64 and 1,024 workers: the table of docs/how-to/many-machines.md.

    python -m benchmarks.workers

Nothing here runs on that many workers. Sizes of messages and numbers of episodes are counted by
running the library, rates are the measured ones below, and efficiency (the time of one worker over
the number of workers times the time of each) follows from them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

import equipoise as eq
from equipoise.dynamics import _play
from equipoise.offline._fit import Sums
from equipoise.runs.engines import Local, Pool

WORKERS = (8, 64, 1024)

#: Seconds of processor time to start a command, and seconds until the workers of Ray have started
#: (`make soak PARTS=engines`).
COMMAND, START = 3.0, 20.0
#: Rows of 50 agents with 4 neighbours that one core adds up in a second (the same command).
ROWS = 374_000
#: Bytes per second between machines of a cluster of CPUs, between machines with GPUs, between GPUs
#: of one machine, and of adding up arrays in memory.
NETWORK, MACHINES, GPUS, MEMORY = 1.25e9, 25e9, 300e9, 5e9
#: An update of the player `any` on one H200, and the part that does not shrink with the batch, in
#: seconds (docs/benchmarks.md; the second is an assumption).
UPDATE, LAUNCHES, WEIGHTS, BATCH = 0.052, 0.004, 4.08e6, 512
#: Game-rounds per second of self-play on one H200, with a million games (docs/benchmarks.md).
GAME_ROUNDS = 8.8e9
#: GPUs of one machine.
TOGETHER = 8


def size_of(tree: Any) -> int:
    """Bytes of all arrays of a tree."""
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(tree) if hasattr(leaf, "shape"))


def sweep(workers: int, minutes: float = 10.0) -> float:
    """Commands of some minutes, started ten times per worker."""
    return 60 * minutes / (60 * minutes + COMMAND)


def sums_size(neighbours: int, agents: int = 50, actions: int = 3) -> int:
    """Bytes of the sums that a task returns."""
    none = np.zeros((1, agents))
    log = eq.offline.Log(
        np.zeros(1, int), none.astype(int), none, actions_per_agent=(actions,) * agents
    )
    sets = [tuple((i + k) % agents for k in range(1, neighbours + 1)) for i in range(agents)]
    sums = Sums.empty(log, sets, 2)
    return size_of([vars(sums.moments), sums.transitions, sums.rewards])


def fit(workers: int, neighbours: int, rows: float = 1e10) -> float:
    """A fit whose tasks, at most 1,024, return their sums to one machine, which adds them up."""
    size = sums_size(neighbours)
    alone = rows / ROWS * size / sums_size(4)
    sums = 1024 * size * (1 / NETWORK + 2 / MEMORY)
    return alone / (workers * (alone / workers + START + sums))


class Counted(Local):
    """A pool that counts the episodes that are played, and how often all workers play."""

    def __init__(self, workers: int):
        super().__init__(1)
        self.pretended, self.played, self.rounds = workers, 0, 0

    @contextmanager
    def pool(self, state: Any) -> Iterator[Pool]:
        """Provide this process as if it were many."""

        def run(task: Callable[[Any, Any], Any], inputs: Sequence[Any]) -> list[Any]:
            self.played += len(inputs)
            self.rounds += -(-len(inputs) // self.pretended)
            return [task(state, value) for value in inputs]

        yield Pool(self.pretended, run)


def simulator(workers: int, episodes: int = 1_000) -> tuple[float, Counted, Any]:
    """Episodes of equal length, and planning that takes no time."""
    counted = Counted(workers)
    env = eq.aggregative.Simulator(eq.games.load("demand-response"), key=0)
    learned = eq.learn(env, episodes=episodes, workers=counted)
    return episodes / (workers * counted.rounds), counted, learned


def training(workers: int) -> float | None:
    """Gradients of four bytes per weight, averaged in a ring."""
    if workers > BATCH:
        return None
    ring = 2 * (workers - 1) / workers * 4 * WEIGHTS / (GPUS if workers <= TOGETHER else MACHINES)
    return UPDATE / (workers * (LAUNCHES + (UPDATE - LAUNCHES) / workers + ring))


def game_size() -> float:
    """Bytes of the result of one game of self-play, which every process receives."""
    count, found, whole = 64, list[Any](), _play.run

    def keep(*given: Any, **options: Any) -> Any:
        found.append(whole(*given, **options))
        return found[-1]

    _play.run = keep
    omd = eq.dynamics.OMD()
    games = eq.games.families.uniform(actions=3).sample(count, key=0)
    eq.dynamics.play(games, omd, omd, rounds=8, key=1)
    _play.run = whole
    return size_of([(outcome.loop, outcome.snapshots[-1:]) for outcome in found]) / count


def play(workers: int, rounds: float = 1e5, games: float = 1e6) -> float:
    """A million games for each device; results of other machines arrive at the end."""
    alone = games * rounds / GAME_ROUNDS
    away = max(0, workers - TOGETHER) * games * game_size() / MACHINES
    return alone / (alone + away)


def main() -> None:
    """Print the table, and what it was counted from."""
    rows: dict[str, list[float | None]] = {
        "sweep of ten-minute runs": [sweep(n) for n in WORKERS],
        "fit of 1e10 rows, 4 neighbours": [fit(n, 4) for n in WORKERS],
        "fit of 1e10 rows, 49 neighbours": [fit(n, 49) for n in WORKERS],
    }
    counted = [simulator(n) for n in WORKERS]
    rows["simulator, 1,000 episodes"] = [share for share, _, _ in counted]
    rows["training of any"] = [training(n) for n in WORKERS]
    rows["self-play, a million games per device"] = [play(n) for n in WORKERS]
    print(f"{'':40}", *(f"{n:>8,}" for n in WORKERS))
    for name, shares in rows.items():
        print(f"{name:40}", *(f"{'-' if x is None else f'{int(100 * x)}%':>8}" for x in shares))
    for n, (_, pool, learned) in zip(WORKERS, counted, strict=True):
        plans = learned.stats["plans"]
        print(f"{n} workers: {plans} plans, {pool.played} episodes in {pool.rounds} rounds")
    print(f"sums of a task: {sums_size(4):,} and {sums_size(49):,} bytes")
    print(f"result of a game of self-play: {game_size():.0f} bytes")


if __name__ == "__main__":
    main()
