"""How gradients become changes of weights."""

from typing import Any, cast

import equinox as eqx
import jax
import optax
from optax.contrib import MuonDimensionNumbers, muon

from equipoise.incontext._config import Config
from equipoise.incontext._model import Attention, Layer, Transformer

#: Size of an entry of Muon's steps, in rates of learning: about that of Adam's.
MUON_STEP = 0.2
#: Muon's rate of learning, in those of Adam: its steps are bounded in every direction alike.
MUON_RATE = 5.0


def make_optimiser(config: Config) -> optax.GradientTransformation:
    """Adam or Muon on clipped gradients, after a warm-up, with a cosine or constant rate.

    Muon makes the steps of matrices orthogonal (momentum, then Newton-Schulz); embedding,
    read-out, biases and normalisation are left to Adam. Weights are those of one seed: their
    first axis is of models.

    >>> make_optimiser(Config(optimiser="muon", steps=10)).init is not None
    True
    """
    clip = optax.clip_by_global_norm(config.clip)
    if config.optimiser == "adam":
        return optax.chain(clip, optax.adam(_rate(config, config.learning_rate)))
    matrices = muon(
        _rate(config, MUON_RATE * config.learning_rate),
        consistent_rms=MUON_STEP,
        adam_learning_rate=_rate(config, config.learning_rate),
        muon_weight_dimension_numbers=cast(Any, _matrices),
    )
    return optax.chain(clip, matrices)


def _rate(config: Config, peak: float) -> optax.Schedule:
    first = 0.0 if config.warmup else peak
    if config.schedule == "constant":
        return optax.linear_schedule(first, peak, config.warmup)
    steps = max(config.steps, config.warmup + 1)
    return optax.warmup_cosine_decay_schedule(first, peak, config.warmup, steps, 0.01 * peak)


def _matrices(models: Transformer) -> Any:
    """Which axes of which weights are rows and columns; None for weights that are no matrices.

    The heads of an attention layer are one matrix: they share their input or their output.
    """
    layers = tuple(map(_layer, models.layers))
    return eqx.tree_at(lambda m: m.layers, _nothing(models), layers, is_leaf=_is_none)


def _layer(layer: Layer) -> Any:
    if isinstance(layer, Attention):
        heads = MuonDimensionNumbers(reduction_axis=(3,), output_axis=(1, 2))
        merge = MuonDimensionNumbers(reduction_axis=(1, 3), output_axis=(2,))
        return eqx.tree_at(
            lambda a: (a.query, a.key, a.value, a.output),
            _nothing(layer),
            (heads, heads, heads, merge),
            is_leaf=_is_none,
        )
    dense = MuonDimensionNumbers(reduction_axis=(2,), output_axis=(1,))
    return eqx.tree_at(
        lambda m: (m.first, m.second), _nothing(layer), (dense, dense), is_leaf=_is_none
    )


def _nothing(tree: Any) -> Any:
    return jax.tree.map(lambda _: None, tree)


def _is_none(leaf: Any) -> bool:
    return leaf is None
