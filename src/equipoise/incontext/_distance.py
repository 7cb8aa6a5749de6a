"""How far what players do is from what an explicit learner would have done in their place."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from equipoise.core.precision import single_precision
from equipoise.dynamics import OMD, Bandit, Learner, MarkovBandit, MarkovOMD
from equipoise.games import MatrixGame
from equipoise.incontext._boards import in_blocks
from equipoise.incontext._contexts import Context, follow
from equipoise.incontext._outcome import Episode
from equipoise.incontext._teams import Board


def distance(episode: Episode, learner: Learner | None = None) -> np.ndarray:
    """(..., rounds, 2): total-variation distance to a learner on the same history, in each round.

    The learner is shown the actions, rewards (and states) that a player saw up to a round; the
    policy it would then hold is compared with the player's (before exploration), of the row and
    of the column player; in Markov games at the state of the round. By default the learner is
    mirror descent, `OMD()` or `MarkovOMD()`. An opponent's seat is compared like any other.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(8, key=0)
    >>> episode = eq.incontext.play(eq.incontext.load("iid3"), games, rounds=16, key=1)
    >>> eq.incontext.distance(episode).shape
    (8, 16, 2)
    >>> itself = eq.incontext.play(
    ...     eq.incontext.load("iid3"), games, rounds=16, key=1, opponent=eq.dynamics.OMD()
    ... )
    >>> bool(eq.incontext.distance(itself)[..., 1].max() < 1e-5)
    True
    """
    games = episode.games
    matrix = isinstance(games, MatrixGame)
    if learner is None:
        learner = OMD() if matrix else MarkovOMD()
    sees = Bandit if matrix else MarkovBandit
    if not isinstance(learner, Learner) or learner.sees is not sees:
        kind = "matrix" if matrix else "Markov"
        raise ValueError(
            f"learner: expected a learner of {kind} games that sees {sees.__name__}, "
            f"found {type(learner).__name__}"
        )
    axes, most = len(games.batch_shape), max(games.actions)

    def flat(array: Any) -> np.ndarray:
        return np.asarray(array).reshape(-1, *np.shape(array)[axes:])

    def padded(policy: np.ndarray) -> np.ndarray:
        return np.pad(policy, [(0, 0), (0, 0), (0, most - policy.shape[-1])])

    history = episode.history
    actions = np.moveaxis(flat(history.actions), -1, 0)
    reward = flat(history.rewards)
    rewards = np.stack([reward, 1.0 - reward])
    held = np.stack([padded(flat(policy)) for policy in episode.held])
    states = None if history.states is None else flat(history.states)
    shape = games.actions if matrix else (games.states, *games.actions)
    discount = 0.0 if matrix else games.discount

    def block(index: np.ndarray) -> Array:
        with single_precision(), jax.numpy_rank_promotion("allow"):
            context = Context(
                jnp.asarray(actions[:, index], jnp.int32),
                jnp.asarray(rewards[:, index], jnp.float32),
                jnp.asarray(held[:, index], jnp.float32),
                None if states is None else jnp.asarray(states[index], jnp.int32),
            )
            # Following looks at sizes alone.
            blank = jnp.zeros((len(index), *shape))
            moves = None if matrix else jnp.zeros((*blank.shape, shape[0]))
            return _distances(learner, context, Board(blank, moves, discount))

    parts = in_blocks(block, len(reward))
    return np.concatenate(parts).astype(np.float64).reshape(*games.batch_shape, -1, 2)


@eqx.filter_jit
def _distances(
    learner: Learner, context: Context, board: Board
) -> Float[Array, "batch rounds seats"]:
    """Between the policies of a context and the learner's, at the states visited."""
    theirs = follow(learner, context, board)[:, :, :-1]
    if context.states is not None:
        place = context.states[None, :, :-1, None, None]
        theirs = jnp.take_along_axis(theirs, place, axis=3)[:, :, :, 0]
    apart = 0.5 * jnp.abs(theirs - context.policies).sum(-1)
    return jnp.moveaxis(apart, 0, -1)
