"""Players that were never trained, but have opinions: random weights all the way to the policy."""

import equinox as eqx
import jax

from equipoise import incontext
from equipoise.games import families

TINY = {"rounds": 8, "layers": 1, "width": 16, "hidden": 16}


def random_players(actions=3, states=None, key=0, **changes):
    """A pair for games of one shape, whose policies depend on all they saw."""
    config = incontext.Config(**{**TINY, **changes})
    family = families.uniform(actions, states=states)
    players = eqx.filter_jit(lambda: incontext.initial_players(family, config, key=key))()
    readout = players.models.readout
    loud = 2.0 * jax.random.normal(jax.random.key(key + 1), readout.shape)
    return eqx.tree_at(lambda p: p.models.readout, players, loud)
