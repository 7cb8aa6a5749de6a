"""Learning aggregative equilibria from samples: time of an episode against |X|, S, H and n.

An item is an episode: simulated, counted and, when a count has doubled, planned anew. Nobody else
learns such games, so the rows are variants of ours: known rewards and unknown ones, for any
equilibrium and for the best. Accuracy is how far the exact largest gain of any agent, by `certify`
with the game that no learner sees, exceeds what the learner says it cannot exceed.

    python -m benchmarks.aggregative_learning      time and memory against each size, as one table
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender

VARIANTS: dict[str, dict[str, Any]] = {
    "known rewards": {"rewards": "known"},
    "known rewards, best welfare": {"rewards": "known", "objective": "welfare"},
    "unknown rewards": {"rewards": "unknown"},
    "unknown rewards, best welfare": {"rewards": "unknown", "objective": "welfare"},
}

#: What the sizes are varied around.
BASE = {"cells": 20, "states": 5, "horizon": 5, "agents": 1000}
SIZES = {
    "cells": (10, 40, 160, 640),
    "states": (3, 10, 30),
    "horizon": (3, 10, 30),
    "agents": (100, 10_000, 1_000_000),
}


def make_game(agents: int, types: int, states: int, horizon: int) -> Any:
    """A random game, linear in the aggregate."""
    from reproduction.aggregative_learning import Config, small_game

    config = Config(agents=agents, types=types, states=states, horizon=horizon)
    return small_game(config, seed=1)


def learner(options: dict[str, Any]) -> Callable[[Arrays], Callable[[int], Answer]]:
    """The whole public call, simulator included."""

    def prepare(data: Arrays) -> Callable[[int], Answer]:
        import equipoise as eq

        sizes = {name: int(value) for name, value in data.items()}
        game = make_game(**sizes)

        def run(count: int) -> Answer:
            learned = eq.learn(eq.aggregative.Simulator(game), count, **options)
            gain = float(eq.certify(game, learned.policy).max_gain)
            most = min(learned.bound, learned.stats["planning_bound"])
            return {"over": np.full(count, max(0.0, gain - most))}

        return run

    return prepare


def case(episodes: int, **sizes: int) -> Case:
    """All variants on one game."""
    text = f"{sizes['agents']:,} agents of {sizes['types']} types"
    return Case(
        name=f"learn, {text}, S={sizes['states']}, H={sizes['horizon']}",
        unit="episode",
        items=episodes,
        data=lambda: {name: np.asarray(value) for name, value in sizes.items()},
        contenders=tuple(
            Contender(
                name, learner(options), ours=True, batched=True, how="one call", timeout=120.0
            )
            for name, options in VARIANTS.items()
        ),
        measure=lambda data, answer: float(np.max(answer["over"])),
        measured="gain beyond bound",
    )


def cases(quick: bool) -> list[Case]:
    """A small game, and one of ten thousand agents."""
    small = case(100, agents=50, types=5, states=3, horizon=3)
    if quick:
        return [small]
    return [small, case(1000, agents=10_000, types=10, states=10, horizon=5)]


def measure(cells: int, states: int, horizon: int, agents: int, options: dict[str, Any]):
    """Milliseconds of CPU per episode, those of one plan, plans, and megabytes of samples."""
    import equipoise as eq

    game = make_game(agents, 5, states, horizon)
    low, high = game.box(0, 0)
    env = eq.aggregative.Simulator(game)
    spacing = float((high - low).max()) / cells
    started, episodes = time.process_time(), 100
    learned = eq.learn(env, episodes, spacing=spacing, **options)
    spent = time.process_time() - started
    env.seek(0)
    started = time.process_time()
    actions = np.zeros(game.agents, np.int64)
    for _ in range(20):
        env.reset()
        for _ in range(horizon):
            env.step(actions)
    simulated = (time.process_time() - started) / 20
    plans = learned.stats["plans"]
    plan = (spent - episodes * simulated) / plans
    return 1e3 * spent / episodes, 1e3 * plan, plans, learned.stats["sample_bytes"] / 2**20


def main() -> None:
    """Print the table of sizes."""
    print("| what | known: ms/episode | ms/plan | plans | MB | unknown: ms/episode | ms/plan "
          "| plans | MB |")  # fmt: skip
    print("|" + "---|" * 9)
    rows = [dict(BASE)] + [{**BASE, name: size} for name, sizes in SIZES.items() for size in sizes]
    for sizes in rows:
        changed = [f"{k}={v:,}" for k, v in sizes.items() if v != BASE[k]]
        known = measure(**sizes, options={"objective": "welfare"})
        unknown = measure(**sizes, options={"objective": "welfare", "rewards": "unknown"})
        cells = " | ".join(f"{a:.2f} | {b:.1f} | {c} | {d:.2f}" for a, b, c, d in (known, unknown))
        print(f"| {', '.join(changed) or 'base'} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
