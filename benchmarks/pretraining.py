"""Tokens per second of training, the in-context paper's preset, on one core.

Ours is the whole step: drawing games, play, labels, gradients, Adam. PyTorch's row trains
`nn.TransformerEncoder` of the same size on the same number of sequences of the same length, which
it is given ready-made. Times are processor times, so that other processes on the machine count
less.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender

#: Compared with PyTorch, which `make bench` does without.
DEEP = True

#: Rounds of a game; the paper's vocabulary writes two tokens a round, after a start token.
ROUNDS = 128
LENGTH = 1 + 2 * ROUNDS
#: Sequences of a step of one model, and steps of both players' models in one call.
SEQUENCES, STEPS = 32, 4
FEATURES, ACTIONS = 27, 3
LEARNING_RATE = 1e-3


def ours(micro_batch: int | None, data: Arrays) -> Callable[[int], Answer]:
    """`Config.paper`, as `pretrain` trains it."""
    import jax

    import equipoise as eq
    from equipoise.incontext._step import run_cycle
    from equipoise.incontext._train import prepare

    config = eq.incontext.Config.paper(
        rounds=ROUNDS, batch=SEQUENCES, play_ahead=STEPS, micro_batch=micro_batch, held_out=4
    )
    trainer, _ = prepare(eq.games.families.uniform(ACTIONS), config, jax.random.key(0))
    learned, done = trainer.start(), 0

    def work() -> float:
        nonlocal learned, done
        learned, metrics = run_cycle(trainer, learned, jax.random.key(done))
        done += 1
        return float(np.asarray(metrics["loss"])[0, -1])

    return lambda count: {"loss": work()}


def pytorch(data: Arrays) -> Callable[[int], Answer]:
    """PyTorch, eager, one thread: two models of the paper's size in turn."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(
                64, 4, 256, dropout=0.0, activation="relu", batch_first=True, norm_first=True
            )
            self.embed = nn.Linear(FEATURES, 64)
            self.layers = nn.TransformerEncoder(
                layer, 2, nn.LayerNorm(64), enable_nested_tensor=False
            )
            self.readout = nn.Linear(64, ACTIONS)

        def forward(self, x):
            return self.readout(self.layers(self.embed(x), mask=mask, is_causal=True))

    models = [Model(), Model()]
    optimisers = [torch.optim.Adam(m.parameters(), LEARNING_RATE) for m in models]
    x = torch.from_numpy(data["features"])
    labels = torch.from_numpy(data["labels"]).reshape(-1)

    def work() -> float:
        loss = torch.zeros(())
        for _ in range(STEPS):
            for model, optimiser in zip(models, optimisers, strict=True):
                optimiser.zero_grad()
                loss = nn.functional.cross_entropy(model(x).reshape(-1, ACTIONS), labels)
                loss.backward()
                optimiser.step()
        return float(loss.detach())

    return lambda count: {"loss": work()}


def draw() -> Arrays:
    """One batch of sequences for PyTorch; ours makes its own."""
    rng = np.random.default_rng(0)
    return {
        "features": rng.standard_normal((SEQUENCES, LENGTH, FEATURES), np.float32),
        "labels": rng.integers(0, ACTIONS, (SEQUENCES, LENGTH)),
    }


def measure(data: Arrays, answer: Answer) -> float:
    """The loss, which must be a number: the tasks are different ones."""
    loss = float(np.asarray(answer["loss"]))
    if not 0.0 < loss < 10.0:
        raise ValueError(f"loss: expected a cross-entropy, found {loss}")
    return loss


def cases(quick: bool) -> list[Case]:
    """One table."""
    common = {"batched": True, "how": "whole steps", "timeout": 300.0}
    return [
        Case(
            name=f"paper's preset, {LENGTH} tokens, {SEQUENCES} sequences a model and step",
            unit="token",
            items=2 * STEPS * SEQUENCES * LENGTH,
            data=draw,
            measure=measure,
            measured="cross-entropy",
            contenders=(
                Contender(
                    "ours", partial(ours, None), ours=True, compiles=True,
                    notes="processor time; with play and labels", **common,
                ),
                Contender(
                    "ours, no micro-batches", partial(ours, 2 * SEQUENCES), ours=True,
                    compiles=True, notes="processor time; with play and labels", **common,
                ),
                Contender(
                    "PyTorch nn.TransformerEncoder", pytorch, needs=("torch",),
                    notes="processor time; data ready-made", **common,
                ),
            ),
        )
    ]  # fmt: skip
