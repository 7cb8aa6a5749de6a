"""The state of training, and the checks and choices that all trainings share."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.incontext._config import Config
from equipoise.incontext._model import Transformer
from equipoise.incontext._step import Learned, Trainer, copied


class Progress(eqx.Module):
    """State of training. Together with the config and the key it determines all further steps."""

    learned: Learned
    #: Weights with the best held-out value so far, for every seed.
    best: Transformer
    #: (seeds,): best held-out value so far.
    best_value: jax.Array
    #: Number of evaluations since any seed improved.
    stale: jax.Array
    #: Number of updates made.
    step: jax.Array


def first_progress(trainer: Trainer) -> Progress:
    """Return the state before the first step."""
    none = jnp.full(trainer.players.seeds, jnp.inf)
    best = copied(trainer.players.models)
    return Progress(trainer.start(), best, none, jnp.int32(0), jnp.int32(0))


def improved(state: Progress, value: jax.Array) -> Progress:
    """Keep the weights of the seeds whose held-out value is the best so far."""
    models, better = state.learned.models, value < state.best_value

    def keep(new: Any, old: Any) -> Any:
        return jnp.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    best = jax.tree.map(keep, models, state.best)
    best_value = jnp.where(better, value, state.best_value)
    stale = jnp.where(better.any(), 0, state.stale + 1).astype(jnp.int32)
    return Progress(state.learned, best, best_value, stale, state.step)


def has_ended(state: Progress, config: Config) -> bool:
    """Whether a stopping rule ends training."""
    if state.learned.stopped is not None:
        return bool(state.learned.stopped.all())
    if config.patience is not None and int(state.stale) >= config.patience:
        return True
    return config.stop_below is not None and bool((state.best_value < config.stop_below).all())


def chosen(state: Progress, config: Config) -> Transformer:
    """Return the weights with the best held-out value, or the latest if none was asked for."""
    evaluated = bool(jnp.isfinite(state.best_value).any())
    latest = config.stop_on == "cross-entropy" or not evaluated
    return state.learned.models if latest else state.best


def check_finite(config: Config, step: int, found: dict[str, np.ndarray]) -> None:
    """Raise if a metric or weight is not finite, before anything is saved."""
    for name, values in found.items():
        if not np.isfinite(values).all():
            seed = int(np.argmin(np.isfinite(values)))
            raise ValueError(
                f"learning_rate: expected a rate at which training stays finite, found "
                f"{config.learning_rate:g}: {name} of seed {seed} is {values[seed]} "
                f"after {step:,} steps"
            )


def largest_weights(models: Transformer) -> np.ndarray:
    """(seeds,): the largest absolute weight, or NaN if any weight is NaN."""
    leaves = jax.tree.leaves(models)
    by_seed = [np.abs(np.asarray(leaf)).reshape(len(leaf), -1).max(1) for leaf in leaves]
    return np.max(by_seed, axis=0)
