"""Guarded play beyond the training length: its NashConv beside that of its two parts.

`python -m benchmarks.guarded --games 64 --kinds uniform binary` plays `Guarded(any)` against itself
for 100,000 rounds in games of each kind, and mirror descent in the same games.
From the round `--from` on, it says where the mean NashConv of the guarded policies is more than
1.25 times that of the better part and more than .01 above it. The better part is mirror descent in
that round, or the player as it was after 1,024 rounds. Regrets are held against their bound.

After 1,024 rounds only the fallback is played, which is cheap: 48 games of each kind take some ten
minutes of one CPU core, nearly all of them in the first 1,024 rounds.

The kinds are those of `games.families.mixture`, and three that no player was trained on:
"transitive", "heavy-tailed" and "smooth".
"""

import argparse
import json
import time
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.dynamics import explored_share

#: Rounds at which policies are compared.
RECORD = (256, 1_023, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 100_000)
KINDS = (
    *("uniform", "normal", "sparse", "binary", "narrow", "symmetric", "cyclic", "dominated"),
    *("known", "low-rank", "transitive", "heavy-tailed", "smooth"),
)
TRAINED = 1_024


def draw(kind: str, games: int, seed: int) -> np.ndarray:
    """(games, 3, 3) payoffs in [0, 1]."""
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    if kind == "transitive":  # the stronger wins, by as much as it is stronger
        one, other = rng.normal(size=(2, games, 3))
        return 1.0 / (1.0 + np.exp(other[:, None, :] - one[:, :, None]))
    if kind == "heavy-tailed":
        values = rng.standard_t(1.5, (games, 9))
        ranks = (values - values.min(1, keepdims=True)) / np.ptp(values, axis=1)[:, None]
        return ranks.reshape(games, 3, 3)
    if kind == "smooth":  # waves over the squares of the table
        wave, phase = rng.uniform(0.5, 2.5, (2, games, 1, 1)), rng.uniform(0, 6.3, (2, games, 1, 1))
        i, j = np.arange(3.0)[:, None], np.arange(3.0)[None, :]
        return 0.5 + 0.25 * (np.sin(wave[0] * i + phase[0]) + np.sin(wave[1] * (i - j) + phase[1]))
    family = eq.games.families.mixture(3, kinds=kind)
    return np.asarray(family.sample(games, key=seed + 7919).payoff, float)


def of_the_player(batch: Any, trace: Any, exploration: float) -> np.ndarray:
    """(games,): NashConv of the player's own policies in the last round before it is relieved.

    What is played has its exploration in it; the net's share, a thousandth, is left there.
    """
    where = trace.recorded.rounds.tolist().index(TRAINED - 1)
    share = float(explored_share(exploration, TRAINED))
    policies = []
    for seat in (0, 1):
        played = np.asarray(trace.recorded.last[seat][where], float)
        own = np.maximum(played - share / played.shape[-1], 0.0)
        policies.append(own / own.sum(-1, keepdims=True))
    return np.asarray(eq.certify(batch, tuple(policies)).nash_conv)


def main(
    kinds: tuple[str, ...], games: int, rounds: int, first: int, seed: int
) -> list[dict[str, Any]]:
    """One row for each kind; all games are played together."""
    payoffs = np.concatenate([draw(kind, games, seed) for kind in kinds])
    batch = eq.MatrixGame(payoffs)
    record = [t for t in RECORD if t < rounds]
    players, omd = eq.incontext.load("any"), eq.dynamics.OMD()
    guarded = eq.incontext.Guarded(players, omd)
    curves, begun = {}, time.perf_counter()
    options: dict[str, Any] = {"rounds": rounds, "record": record, "key": seed}
    learnt = eq.dynamics.play(batch, omd, omd, **options)
    curves["omd"] = np.asarray(learnt.curve)
    print(f"mirror descent: {time.perf_counter() - begun:.0f} s", flush=True)
    trace = eq.dynamics.play(batch, guarded, guarded, **options)
    curves["guarded"] = np.asarray(trace.curve)
    print(f"guarded: {time.perf_counter() - begun:.0f} s", flush=True)
    curves["any"] = of_the_player(batch, trace, players.exploration)[None]
    bound, worst = guarded.regret_bound(rounds, 3), np.asarray(trace.regret)[-1]
    times, rows = np.asarray(trace.recorded.rounds), []
    for k, kind in enumerate(kinds):
        own = slice(k * games, (k + 1) * games)
        means = {name: curve[:, own].mean(1) for name, curve in curves.items()}
        error = curves["guarded"][:, own].std(1) / np.sqrt(games)
        better = np.minimum(means["omd"], means["any"][-1])
        missed = (means["guarded"] > 1.25 * better) & (means["guarded"] > better + 0.01)
        rows.append(
            {
                "kind": kind,
                "rounds": times.tolist(),
                **{name: mean.tolist() for name, mean in means.items()},
                "error": error.tolist(),
                "missed": times[missed & (times >= first)].tolist(),
                "largest regret": float(worst[own].max()),
                "bound": bound,
            }
        )
    return rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guarded", description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--games", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--from", type=int, default=4_096, dest="first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="also write the rows here")
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    found = main(tuple(given.kinds), given.games, given.rounds, given.first, given.seed)
    for row in found:
        print(f"{row['kind']}: missed at {row['missed'] or 'no round'}")
        for name in ("guarded", "error", "omd", "any"):
            print(f"  {name:8}" + " ".join(f"{value:8.4f}" for value in row[name]))
        print(f"  largest regret {row['largest regret']:.0f}, bound {row['bound']:.0f}")
    if given.json:
        with open(given.json, "w") as out:
            json.dump(found, out)
