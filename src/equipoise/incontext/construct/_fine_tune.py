"""Theory as initialisation: training that starts from hand-built weights."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from equipoise.core import checks
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.games.families import Family
from equipoise.incontext import _losses as losses
from equipoise.incontext._contexts import Context, as_board, some, take
from equipoise.incontext._episode import episode
from equipoise.incontext._model import Transformer
from equipoise.incontext._players import Players
from equipoise.incontext._teams import Frozen
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
    exploration: float = 0.1,
    weights: Trained = "nonzero",
    micro_batch: int = 8,
) -> HandBuilt:
    """Train hand-built weights on the duality gap of the policies that they play.

    Each step plays `batch` new games of the family with the weights as they are (and with some
    exploration), and follows the gradient of the mean gap over all rounds, through every block.
    With `weights="nonzero"` the wiring stays and its constants are tuned, step sizes and
    positions among them; with "all", zeros change as well. The result is in single precision,
    and is no longer the learner it came from: `error` says how far it has gone.

    **Example**

    >>> import numpy as np
    >>> import equipoise as eq
    >>> family = eq.games.families.uniform(actions=2)
    >>> built = eq.incontext.construct.omd(actions=2, rounds=2, reciprocal_units=2)
    >>> tuned = eq.incontext.construct.fine_tune(built, family, steps=1, batch=4, key=0)
    >>> moved = np.asarray(tuned.model.embed) - np.asarray(built.model.embed)
    >>> bool(0 < abs(moved).max() < 0.01)
    True
    """
    steps = checks.check_count("steps", steps)
    batch = checks.check_count("batch", batch)
    micro_batch = checks.check_count("micro_batch", micro_batch)
    checks.check_range("learning_rate", learning_rate, 0.0, float("inf"), low_open=True)
    checks.check_range("exploration", exploration, 0.0, 1.0)
    if weights not in ("nonzero", "all"):
        raise ValueError(f"weights: expected 'nonzero' or 'all', found {weights!r}")
    expected = ((built.tokens.actions,) * 2, built.tokens.states)
    if (family.actions, family.states) != expected:
        raise ValueError(
            f"family: expected {expected[0]} actions and states {expected[1]}, "
            f"found {family.actions} and {family.states}"
        )
    micro = max(d for d in range(1, batch + 1) if batch % d == 0 and d <= micro_batch)
    rate = optax.cosine_decay_schedule(learning_rate, steps, 0.05)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))
    with single_precision():
        players = built.players
        models, key = players.models, as_key(key)
        mask = _mask(models, weights)
        memory = optimiser.init(eqx.filter(models, eqx.is_inexact_array))
        for step in range(steps):
            models, memory = _update(
                players,
                models,
                memory,
                mask,
                family,
                jax.random.fold_in(key, step),
                (batch, micro, exploration),
                optimiser,
            )
    one = jax.tree.map(lambda leaf: leaf[0, 0] if eqx.is_array(leaf) else leaf, models)
    return built.with_model(one)


def _mask(models: Transformer, weights: Trained) -> Any:
    """One for weights that may change, zero for others."""
    arrays = eqx.filter(models, eqx.is_inexact_array)
    if weights == "all":
        return jax.tree.map(jnp.ones_like, arrays)
    return jax.tree.map(lambda leaf: (leaf != 0).astype(leaf.dtype), arrays)


@eqx.filter_jit
def _update(
    players: Players,
    models: Transformer,
    memory: Any,
    mask: Any,
    family: Family,
    key: jax.Array,
    sizes: tuple[int, int, float],
    optimiser: optax.GradientTransformation,
) -> tuple[Transformer, Any]:
    """Play, differentiate, move."""
    batch, micro, exploration = sizes
    games, play = jax.random.split(key)
    board = as_board(jax.vmap(family.draw)(jax.random.split(games, batch)))
    words = jax.random.bits(play, (2, batch), jnp.uint32)
    rounds = players.tokens.rounds  # type: ignore[attr-defined]
    team = Frozen.of(eqx.tree_at(lambda p: p.models, players, models), rounds)
    context = Context.of(
        episode(board, (team,), words, rounds=rounds, exploration=exploration, segments=1)
    )

    def gap(models: Transformer, index: Any) -> jax.Array:
        seats = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, models)
        return losses.exploitability(players, seats, some(board, index), take(context, index))

    def add(total: Any, index: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, eqx.filter_grad(gap)(models, index)), None

    weights = eqx.filter(models, eqx.is_inexact_array)
    zeros = jax.tree.map(jnp.zeros_like, weights)
    gradient, _ = jax.lax.scan(add, zeros, np.arange(batch).reshape(-1, micro))
    gradient = jax.tree.map(lambda g, m: g * m * (micro / batch), gradient, mask)
    change, memory = optimiser.update(gradient, memory, weights)
    return eqx.apply_updates(models, change), memory
