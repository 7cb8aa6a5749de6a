"""The optimisers of pre-training: Adam, and Muon for the matrices of the layers."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array
from optax.contrib import MuonDimensionNumbers, muon

from equipoise.incontext._config import Config
from equipoise.incontext._model import Transformer

#: Typical size of an entry of Muon's update relative to the learning rate, about that of Adam.
MUON_STEP = 0.2
#: Muon's learning rate relative to Adam's. Muon's steps are bounded equally in every direction.
MUON_RATE = 5.0


def make_optimiser(config: Config, total: Any = None) -> optax.GradientTransformation:
    """Return Adam or Muon on clipped gradients, with warm-up and a cosine or constant rate.

    `total` is the number of updates, as an array; by default that of the config.

    Muon orthogonalises the updates of matrices (momentum, then Newton-Schulz). Adam updates the
    embedding, read-out, biases and normalisation. Weights are those of one seed: their first axis
    is models.

    >>> make_optimiser(Config(optimiser="muon", steps=10)).init is not None
    True
    """
    clip = optax.clip_by_global_norm(config.clip)
    if config.optimiser == "adam":
        return optax.chain(clip, optax.adam(_rate(config, config.learning_rate, total)))
    matrices = muon(
        _rate(config, MUON_RATE * config.learning_rate, total),
        consistent_rms=MUON_STEP,
        adam_learning_rate=_rate(config, config.learning_rate, total),
        muon_weight_dimension_numbers=cast(Any, _matrices),
    )
    return optax.chain(clip, matrices)


def _rate(config: Config, peak: float, total: Any) -> optax.Schedule:
    """Return a schedule: a linear rise, then a cosine to a hundredth of the peak, or the peak."""
    warmup, total = config.warmup, config.total_steps if total is None else total
    peak = min(peak, float(np.finfo(np.float32).max))  # an absurd rate is reported by its effects

    def rate(count: Any) -> Array:
        count = jnp.asarray(count, jnp.float32)
        rise = jnp.minimum(1.0, count / warmup) if warmup else jnp.ones(())
        if config.schedule == "constant":
            return peak * rise
        done = (count - warmup) / (jnp.maximum(total, warmup + 1.0) - warmup)
        fall = 0.5 * (1.0 + jnp.cos(jnp.pi * jnp.clip(done, 0.0, 1.0)))
        return peak * rise * (0.01 + 0.99 * fall)

    return rate


def _matrices(models: Transformer) -> Any:
    """Return the axes of weights that are rows and columns; None for weights that are not matrices.

    All heads of an attention layer form one matrix, since they share their input or their output.
    """
    heads = MuonDimensionNumbers(reduction_axis=(3,), output_axis=(1, 2))
    dense = MuonDimensionNumbers(reduction_axis=(2,), output_axis=(1,))
    known = dict.fromkeys(("query", "key", "value"), heads)
    known |= {"output": MuonDimensionNumbers(reduction_axis=(1, 3), output_axis=(2,))}
    known |= {"first": dense, "second": dense}

    def axes(path: Any, _: Array) -> MuonDimensionNumbers | None:
        return known.get(path[-1].name)

    return jax.tree_util.tree_map_with_path(axes, models)
