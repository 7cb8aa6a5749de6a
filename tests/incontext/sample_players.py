"""Players that were never trained, but have opinions: random weights all the way to the policy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise import incontext
from equipoise.games import families

TINY = {"rounds": 8, "layers": 1, "width": 16, "hidden": 16}


def random_players(actions=3, states=None, key=0, **changes):
    """A pair for games of one shape, whose policies depend on all they saw."""
    config = incontext.Config(**{**TINY, **changes})
    family = families.uniform(actions, states=states)
    like = eqx.filter_eval_shape(lambda: incontext.initial_players(family, config, key=0))
    rng = np.random.default_rng(key)

    def fill(leaf):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        return jnp.asarray(rng.normal(size=leaf.shape), jnp.float32) / leaf.shape[-1] ** 0.5

    players = eqx.tree_at(lambda p: p.models, like, jax.tree.map(fill, like.models))
    return eqx.tree_at(lambda p: p.models.readout, players, 8.0 * players.models.readout)
