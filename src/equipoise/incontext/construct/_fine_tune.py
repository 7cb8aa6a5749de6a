"""Theory as initialisation: training that starts from hand-built weights."""

from dataclasses import replace
from typing import Any, Literal

import equinox as eqx
import jax

from equipoise.core import checks
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.games.families import Family
from equipoise.incontext._config import Config
from equipoise.incontext._model import Transformer
from equipoise.incontext._step import Trainer, run_cycle
from equipoise.incontext.construct._hand_built import HandBuilt

Trained = Literal["nonzero", "all"]


def fine_tune(
    built: HandBuilt,
    family: Family,
    *,
    steps: int,
    key: Any,
    batch: int = 32,
    learning_rate: float = 1e-3,
    exploration: float = 0.2,
    weights: Trained = "nonzero",
    micro_batch: int = 8,
) -> HandBuilt:
    """Train hand-built weights on the duality gap of the policies that they play.

    Each step is one of `pretrain`: it plays `batch` new games of the family with the weights as
    they are, each game with a share of uniform play below `exploration`, and follows the gradient
    of the mean gap over all rounds, through every block, for `micro_batch` games at a time.
    With `weights="nonzero"` the wiring stays and its constants are tuned, step sizes and
    positions among them; with "all", zeros change as well. The result is in single precision,
    and is no longer the learner it came from: `error` says how far it has gone.

    **Example**

    >>> import numpy as np
    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=2)
    >>> built = eq.incontext.construct.omd(actions=2, rounds=4, reciprocal_units=2)
    >>> tuned = eq.incontext.construct.fine_tune(
    ...     built, family, steps=10, batch=16, learning_rate=0.01, key=0
    ... )
    >>> moved = np.asarray(tuned.model.embed) - np.asarray(built.model.embed)
    >>> bool(0 < abs(moved).max() < 0.1)
    True
    """
    micro_batch = checks.check_count("micro_batch", micro_batch)
    config = Config(
        rounds=built.tokens.rounds,
        exploration=exploration,
        steps=steps,
        batch=batch,
        play_ahead=1,
        micro_batch=2 * micro_batch,  # of sequences, two a game
        optimiser="adam",  # which leaves alone what has no gradient
        learning_rate=learning_rate,
        warmup=0,
        precision="float32",
    )
    if weights not in ("nonzero", "all"):
        raise ValueError(f"weights: expected 'nonzero' or 'all', found {weights!r}")
    expected = ((built.tokens.actions,) * 2, built.tokens.states)
    if (family.actions, family.states) != expected:
        raise ValueError(
            f"family: expected {expected[0]} actions and states {expected[1]}, "
            f"found {family.actions} and {family.states}"
        )
    with single_precision():
        players, key = replace(built.players, exploration=exploration), as_key(key)
        mask = _mask(players.models) if weights == "nonzero" else None
        trainer = Trainer(players, family, None, config, jax.default_backend(), mask)
        learned = trainer.start()
        for step in range(steps):
            learned, _ = run_cycle(trainer, learned, jax.random.fold_in(key, step))
    one = jax.tree.map(lambda leaf: leaf[0, 0] if eqx.is_array(leaf) else leaf, learned.models)
    return built.with_model(one)


def _mask(models: Transformer) -> Any:
    """One for weights that are not zero, which may change; zero for others."""
    arrays = eqx.filter(models, eqx.is_inexact_array)
    return jax.tree.map(lambda leaf: (leaf[0] != 0).astype(leaf.dtype), arrays)
