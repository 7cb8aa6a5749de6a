"""Game-rounds per second of self-play on the default device, over batch sizes and unrolling.

    python benchmarks/selfplay_gpu.py [--quick] [--actions 3] [--seconds 5]

Needs JAX, Equinox and NumPy alone. Each configuration is compiled, checked (policies sum to one,
the mean gap falls), timed for a few runs, and reported on one line; one that does not fit in
memory or does not compile is reported as such and skipped.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.dynamics import OMD, Exact
from equipoise.dynamics._engine import as_arrays, precision
from equipoise.dynamics.loop import Tables, advance, begin, seat


def gap(payoff, x, y):
    """Mean duality gap; payoff (rows, columns, games)."""
    best = np.einsum("abg,bg->ag", payoff, y).max(0)
    worst = np.einsum("abg,ag->bg", payoff, x).min(0)
    return float((best - worst).mean())


def measure(actions, games, unroll, materialise, seconds):
    payoff = np.random.default_rng(0).random((actions, actions, games), dtype=np.float32)
    seats, noise = as_arrays(seat(OMD(), OMD())), Exact()
    tables = Tables(jnp.asarray(payoff))
    keys = jnp.asarray(np.random.default_rng(1).integers(0, 2**32, (2, games), dtype=np.uint32))

    @eqx.filter_jit
    def run(constant, state, stop):
        tables, seats, keys = constant
        return advance(
            tables, seats, noise, keys, state, stop, unroll=unroll, materialise=materialise
        )[0]

    constant = (tables, seats, keys)
    begun = time.perf_counter()
    state = run(constant, begin(tables, seats, noise, keys), jnp.int32(64))
    jax.block_until_ready(state)
    compiled = time.perf_counter() - begun
    rounds, played, best = 256, 64, float("inf")
    while seconds > 0:
        begun = time.perf_counter()
        state = run(constant, state, jnp.int32(played + rounds))
        jax.block_until_ready(state)
        took = time.perf_counter() - begun
        played, seconds, best = played + rounds, seconds - took, min(best, took / rounds)
        rounds = min(65_536, rounds * 4) if took < 0.5 else rounds
    some = slice(0, min(games, 4096))
    x, y = (np.asarray(s.policy[:, some], float) for s in state.learners)
    off = float(np.abs(x.sum(0) - 1).max())
    return {
        "rate": games / best,
        "us_per_round": best * 1e6,
        "compile_s": compiled,
        "rounds": played,
        "gap": gap(payoff[..., some].astype(float), x, y),
        "sum_error": off,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small configuration")
    parser.add_argument("--actions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="per configuration")
    parser.add_argument("--games", type=float, nargs="*", help="batch sizes")
    parser.add_argument("--unroll", type=int, nargs="*")
    options = parser.parse_args()
    games = options.games or ([2**14] if options.quick else [2**14, 2**16, 2**18, 2**20, 2**22])
    unrolls = options.unroll or ([1, 8] if options.quick else [1, 2, 4, 8, 16])
    print(f"# {jax.devices()[0]} jax {jax.__version__} actions {options.actions}", flush=True)
    print("games unroll materialise rate_per_s us_per_round compile_s rounds gap sum_error")
    best = (0.0, "")
    for count in games:
        for unroll in unrolls:
            for materialise in (False, True):
                label = f"{int(count)} {unroll} {materialise}"
                try:
                    with precision(False):
                        found = measure(
                            options.actions, int(count), unroll, materialise, options.seconds
                        )
                except (jax.errors.JaxRuntimeError, MemoryError, ValueError) as error:
                    print(label, "failed:", str(error).splitlines()[0][:120], flush=True)
                    continue
                print(
                    f"{label} {found['rate']:.4g} {found['us_per_round']:.3g} "
                    f"{found['compile_s']:.1f} {found['rounds']} {found['gap']:.4f} "
                    f"{found['sum_error']:.1e}",
                    flush=True,
                )
                best = max(best, (found["rate"], label))
    print(f"best: {best[0]:.4g} game-rounds/s at (games unroll materialise) = {best[1]}")


if __name__ == "__main__":
    main()
