"""Training tokens per second and rounds of play per second on the default device.

    python benchmarks/pretraining_gpu.py [--quick] [--limit 989] [--seconds 5]

Needs JAX, Equinox, Optax, SciPy, NumPy and safetensors alone. Training is timed twice: gradients
and optimiser alone, and whole cycles with the play that they learn from. The share of the chip's
limit counts, for every token, layer and pass forward, two operations for every weight of a matrix
and `4 width (length + 1) / 2` for causal attention, and twice that backward; the embedding and the
read-out, normalisation, softmax and everything recomputed count nothing. The limit is that of
dense bfloat16 products, 989 TFLOP/s for an H200. Play is that of 2,048 games, 4,096 sequences.
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

import equipoise as eq
from equipoise.core.streams import game_words
from equipoise.dynamics.loop import remember, seat
from equipoise.incontext._contexts import as_tables, take
from equipoise.incontext._model import MLP, Attention
from equipoise.incontext._step import make_optimiser, run_cycle
from equipoise.incontext._train import prepare


def operations_per_token(players, length):
    """Of a step of training: forward, and twice that backward."""
    total = 0.0
    for layer in players.models.layers:
        if isinstance(layer, MLP):
            weights = (layer.first, layer.second)
        else:
            weights = (layer.query, layer.key, layer.value, layer.output)
        # The two leading axes are those of seeds and seats.
        total += sum(2 * weight[0, 0].size for weight in weights)
        if isinstance(layer, Attention):
            heads, size = layer.query.shape[2:4]
            total += 4 * heads * size * (length + 1) / 2
    return 3.0 * total


def timed(call, seconds):
    """Seconds of the first call, and of the fastest of those that fit into `seconds`."""
    begun = time.perf_counter()
    jax.block_until_ready(call())
    first, best, spent, calls = time.perf_counter() - begun, float("inf"), 0.0, 0
    while spent < seconds or calls < 2:
        begun = time.perf_counter()
        jax.block_until_ready(call())
        took = time.perf_counter() - begun
        best, spent, calls = min(best, took), spent + took, calls + 1
    return first, best


@eqx.filter_jit
def learn(trainer, learned, tables, context, labels, steps):
    """Some steps on the same data: gradients and the optimiser alone."""
    arrays, static = eqx.partition(learned, eqx.is_array)
    optimiser = make_optimiser(trainer.config, trainer.total)

    def one(arrays, _):
        learned = eqx.combine(arrays, static)
        _, _, gradient = trainer._gradient(learned.models, tables, context, labels)
        weights = eqx.filter(learned.models, eqx.is_inexact_array)
        change, memory = optimiser.update(gradient, learned.optimiser, weights)
        after = type(learned)(eqx.apply_updates(learned.models, change), memory)
        return eqx.filter(after, eqx.is_array), None

    return jax.lax.scan(one, arrays, None, length=steps)[0]


@eqx.filter_jit
def data_of(trainer, models, key):
    """One batch of games, the play on them, and the expert's labels."""
    tables, context, labels, _ = trainer.data(models, key)
    index = trainer.part(0)
    labels = None if labels is None else labels[:, index]
    return tables.some(index), take(context, index), labels


def training(name, config, limit, seconds, family=None):
    """Two lines: steps alone, and cycles with their play."""
    family = eq.games.families.uniform(3) if family is None else family
    trainer, _ = prepare(family, config, jax.random.key(0))
    length = trainer.players.tokens.length(config.rounds)
    each = operations_per_token(trainer.players, length)
    learned = trainer.start()
    one = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, learned)
    data = data_of(trainer, one.models, jax.random.key(1))
    steps = 8
    first, best = timed(lambda: learn(trainer, one, *data, steps), seconds)
    tokens = steps * config.batch * 2 * length
    report(f"{name}, steps", tokens, best, first, each, limit)

    held = [learned]

    def cycle():
        held[0], metrics = run_cycle(trainer, held[0], jax.random.key(2))
        return metrics

    first, best = timed(cycle, seconds)
    tokens = config.cycle * config.batch * 2 * length
    report(f"{name}, with play", tokens, best, first, each, limit)


def report(name, tokens, seconds, first, each, limit):
    rate = tokens / seconds
    share = rate * each / (limit * 1e12)
    print(
        f"{name}: {rate:,.0f} tokens/s, {each / 1e6:.3g} MFLOP a token, {rate * each / 1e12:.3g} "
        f"TFLOP/s, {100 * share:.2g}% of {limit:g} TFLOP/s (first call {first:.0f} s)",
        flush=True,
    )


def play(name, config, games, rounds, seconds):
    """One line: rounds per second of all games at once."""
    family = eq.games.families.uniform(3)
    players = eq.incontext.initial_players(family, config, key=0)
    tables = as_tables(family.sample(games, key=1))
    words = jnp.asarray(game_words(jax.random.split(jax.random.key(2), games)))
    seats = seat(*players.learners(exploration=0.0))

    @eqx.filter_jit
    def run(tables, seats, words):
        found = remember(tables, seats, words, rounds=rounds)
        return found.policies, found.events.reward.mean()

    first, best = timed(lambda: run(tables, seats, words), seconds)
    x, _ = run(tables, seats, words)[0]
    off = float(np.abs(np.asarray(x, float).sum(0) - 1).max())
    print(
        f"{name}, play of {games:,} games, {rounds} rounds: {rounds / best:,.0f} rounds/s "
        f"({1e3 * best / rounds:.3g} ms a round), {games * rounds / best:.3g} game-rounds/s "
        f"(first call {first:.0f} s; policies sum to one within {off:.0e})",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny, to see that it runs")
    parser.add_argument("--limit", type=float, default=989.0, help="TFLOP/s in bfloat16")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each line")
    options = parser.parse_args()
    print(f"# {jax.devices()[0]} jax {jax.__version__}", flush=True)
    make = eq.incontext.Config
    if options.quick:
        tiny = make(rounds=16, layers=1, batch=4, held_out=4)
        training("tiny", tiny, options.limit, 0.1)
        play("tiny", tiny, 32, 16, 0.1)
        return
    paper = make.paper(rounds=128, batch=1024, held_out=4)
    large = make.large(rounds=256, held_out=4)
    training("paper's preset, 1,024 games a step", paper, options.limit, options.seconds)
    training("large, 512 games a step", large, options.limit, options.seconds)
    anybody = make.preset("any", stages=(), held_out=4, reuse=2)
    mixture = eq.games.families.mixture(6, fewest=2)
    training("any, 512 games a step", anybody, options.limit, options.seconds, mixture)
    play("paper's size", make(rounds=256), 2048, 256, options.seconds)
    play("large", large, 2048, 256, options.seconds)


if __name__ == "__main__":
    main()
