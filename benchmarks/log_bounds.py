"""How often the bounds of `eq.advise` hold: 200 logs in each of eight families.

    python -m benchmarks.log_bounds [--logs 200] [--families triples,markov] [--json bounds.json]

For every log the true gap of what was learned is computed in the game that made the log. It should
lie in the 90% interval in at least 172 of 200 logs, and above the upper end in at most 17. The same
is done with the true class of rewards given, to see what finding it costs.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.offline._aggregate import Aggregate


@dataclass(frozen=True)
class Family:
    """Games, logs of them, and the class of their rewards."""

    make: Callable[[int], tuple[Any, eq.offline.Log]]
    truth: dict[str, Any]


def _plain(kind: Any, samples: int, **options: Any) -> Callable[[int], tuple[Any, eq.offline.Log]]:
    def make(seed: int) -> tuple[Any, eq.offline.Log]:
        game = kind(**options).sample(key=seed)
        return game, eq.offline.collect(game, "uniform", samples=samples, key=seed + 10_000)

    return make


def _noisy(draw: Callable[[Any, np.ndarray], np.ndarray]) -> Any:
    """Pairs of six agents whose rewards are made noisy by a function of their own."""

    def make(seed: int) -> tuple[Any, eq.offline.Log]:
        family = eq.games.families.polymatrix(6, 2, scale=0.15, noise=0.0)
        game, rng = family.sample(key=seed), np.random.default_rng(seed + 20_000)
        clean = eq.offline.collect(game, "uniform", samples=1_500, key=seed + 10_000)
        return game, eq.offline.Log(None, clean.actions, draw(rng, clean.rewards))

    return make


def _skewed(seed: int) -> tuple[Any, eq.offline.Log]:
    game = eq.games.families.polymatrix(5, 3, scale=0.25, noise=0.15).sample(key=seed)
    rng = np.random.default_rng(seed + 30_000)
    play = 0.1 + 0.7 * rng.dirichlet(np.full(3, 0.4), (1, 5))
    return game, eq.offline.collect(game, play, samples=3_000, key=seed + 10_000)


def _crowd(seed: int) -> tuple[Any, eq.offline.Log]:
    rng = np.random.default_rng(seed)
    agents, cells = 10, np.arange(10)
    table = np.zeros((1, agents, 2, agents))
    limit = rng.integers(3, 7, agents)
    table[0, :, 1] = np.where(cells < limit[:, None], 1.0, -1.0) * rng.uniform(0.5, 1, (agents, 1))
    game = Aggregate(table, ((0,), (1,)), (agents,))
    actions = rng.integers(0, 2, (2_000, agents))
    rewards = game.rewards(np.zeros(2_000, int), actions)
    return game, eq.offline.Log(None, actions, rewards + rng.normal(0, 0.3, rewards.shape))


FAMILIES = {
    "dense pairs": Family(
        _plain(eq.games.families.polymatrix, 1_500, agents=6, actions=3, scale=0.25, noise=0.15),
        {"rank": 2, "neighbours": "all"},
    ),
    "sparse pairs": Family(
        _plain(eq.games.families.network, 2_000, agents=8, actions=2, degree=2, scale=0.25),
        {"rank": 2},
    ),
    "triples": Family(
        _plain(
            eq.games.families.interaction_rank, 2_500, agents=5, actions=2, rank=3, scale=0.25
        ),
        {"rank": 3, "neighbours": "all"},
    ),
    "binary rewards": Family(
        _noisy(lambda rng, mean: (rng.random(mean.shape) < np.clip(mean, 0, 1)).astype(float)),
        {"rank": 2, "neighbours": "all"},
    ),
    "skewed play": Family(_skewed, {"rank": 2, "neighbours": "all"}),
    "aggregate": Family(_crowd, {"rank": "sum"}),
    "heavy tails": Family(
        _noisy(lambda rng, mean: mean + 0.15 * rng.standard_t(3, mean.shape)),
        {"rank": 2, "neighbours": "all"},
    ),
    "Markov": Family(
        _plain(
            eq.games.families.polymatrix, 1_000, agents=3, actions=2, states=2, horizon=3,
            scale=0.25, noise=0.15,
        ),
        {"rank": 2, "neighbours": "all"},
    ),
}  # fmt: skip


def true_gap(game: Any, policy: Any) -> float:
    """The largest gain in the game that made the log."""
    if not isinstance(game, Aggregate):
        return float(eq.certify(game, policy).max_gain)
    rewards = game.expected(policy.policies)
    value = (rewards * policy.policies).sum(-1).mean(0)
    return float((rewards.mean(0).max(-1) - value).max())


def graph_of(game: Any) -> list[list[int]]:
    """Whose terms each agent has."""
    found: list[set[int]] = [set() for _ in range(game.agents)]
    for scopes in game.interactions.scopes.values():
        for scope in scopes.tolist():
            found[scope[0]] |= set(scope[1:])
    return [sorted(own) for own in found]


def run(family: Family, logs: int, first: int) -> dict[str, Any]:
    """Coverage, widths and seconds over some logs."""
    rows, started = [], time.perf_counter()
    for seed in range(first, first + logs):
        game, log = family.make(seed)
        row: dict[str, Any] = {"seed": seed}
        truth: dict[str, Any] = (
            family.truth
            if "neighbours" in family.truth or family.truth["rank"] == "sum"
            else (family.truth | {"neighbours": graph_of(game)})
        )
        advice = eq.advise(log, key=seed)
        for name in ("found", "told"):
            same = advice.structure is not None and advice.structure.chosen == truth["rank"]
            if name == "told" and not (same and truth.get("neighbours", "all") == "all"):
                advice = eq.advise(log, key=seed, **truth)
            low, high = advice.interval or (-np.inf, np.inf)
            gap = true_gap(game, advice.policy)
            row[name] = {
                "status": str(advice.status).split(":")[0], "low": low, "high": high, "gap": gap,
                "chosen": str(advice.stats.get("structure", {}).get("chosen")),
                "own_gap": advice.stats.get("own_gap"), "message": advice.status.message,
            }  # fmt: skip
        rows.append(row)
    return {"rows": rows, "seconds": time.perf_counter() - started}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How often the truth was covered, and how wide the intervals are."""
    found = {"logs": len(rows)}
    for name in ("found", "told"):
        own = [row[name] for row in rows]
        inside = [one["low"] <= one["gap"] <= one["high"] for one in own]
        above = [one["gap"] > one["high"] for one in own]
        found |= {
            f"{name} covered": int(np.sum(inside)),
            f"{name} above": int(np.sum(above)),
            f"{name} learned": sum(one["status"] == "learned" for one in own),
            f"{name} width": float(np.median([one["high"] - one["low"] for one in own])),
            f"{name} gap": float(np.median([one["gap"] for one in own])),
        }
    return found


def main() -> None:
    """Run the families, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--first", type=int, default=1_000, help="seed of the first log")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--json", default="")
    options, kept = parser.parse_args(), {}
    for name in options.families.split(","):
        found = run(FAMILIES[name], options.logs, options.first)
        kept[name] = found
        print(name, json.dumps(summary(found["rows"])), f"{found['seconds']:.0f} s", flush=True)
    if options.json:
        with open(options.json, "w") as stream:
            json.dump(kept, stream)


if __name__ == "__main__":
    main()
