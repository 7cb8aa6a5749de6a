"""How far two ways of playing are apart, on the histories that one of them writes."""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.core.precision import single_precision
from equipoise.core.randomness import as_key
from equipoise.core.streams import game_words
from equipoise.dynamics import OMD, Bandit, Learner, MarkovBandit, MarkovOMD, Nothing, Trace
from equipoise.dynamics.loop import Tables, remember, seat
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext import _losses as losses
from equipoise.incontext._contexts import Context, compiled_follow, follow, visited
from equipoise.incontext._players import Players, check_players


def distance(trace: Trace, learner: Learner | None = None) -> np.ndarray:
    """(..., rounds, 2): total-variation distance to a learner on the same history, in each round.

    The learner is shown the actions, rewards (and states) that a player saw up to a round; the
    policy it would then hold is compared with the player's (before exploration), of the row and
    of the column player; in Markov games at the state of the round. By default the learner is
    mirror descent, `OMD()` or `MarkovOMD()`. An opponent's seat is compared like any other.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=3).sample(8, key=0)
    >>> trace = eq.incontext.play(eq.incontext.load("iid3"), games, rounds=64, key=1)
    >>> eq.incontext.distance(trace).shape
    (8, 64, 2)
    >>> itself = eq.incontext.play(
    ...     eq.incontext.load("iid3"), games, rounds=64, key=1, opponent=eq.dynamics.OMD()
    ... )
    >>> bool(eq.incontext.distance(itself)[..., 1].max() < 1e-5)
    True
    """
    games, history = trace.games, trace.history
    if history is None:
        raise ValueError("trace: expected one of play(..., history=True), found no history in it")
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
    with single_precision():
        context = Context.of_history(replace(history, policies=history.held))
    states, discount = (games.states, games.discount) if not matrix else (None, 0.0)
    with single_precision():
        tables = Tables.blank(context.actions.shape[1], games.actions, states, discount)
        followed = compiled_follow(learner, context, tables)
        theirs = np.asarray(visited(followed[:, :, :-1], context.states))
    apart = np.moveaxis(total_variation(theirs, np.asarray(context.policies)), 0, -1)
    return apart.astype(np.float64).reshape(*history.rewards.shape, 2)


def total_variation(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """`sum |p - q| / 2` over the last axis.

    **Example**

    >>> import numpy as np
    >>> from equipoise.incontext import theory
    >>> float(theory.total_variation(np.array([0.5, 0.5]), np.array([1.0, 0.0])))
    0.5
    """
    return np.abs(np.asarray(p) - np.asarray(q)).sum(-1) / 2.0


def hellinger(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """`sqrt(sum (sqrt p - sqrt q)^2 / 2)` over the last axis: in [0, 1], at most sqrt(TV).

    The paper's `D_H` in Lemma B.1 is twice the square of this.

    **Example**

    >>> import numpy as np
    >>> from equipoise.incontext import theory
    >>> float(theory.hellinger(np.array([0.0, 1.0]), np.array([1.0, 0.0])))
    1.0
    """
    roots = np.sqrt(np.maximum(p, 0.0)) - np.sqrt(np.maximum(q, 0.0))
    return np.sqrt((roots**2).sum(-1) / 2.0)


@dataclass(frozen=True)
class Realisability:
    """Distances between two players before every round and after the last: (games, 2, records).

    **Example**

    >>> import numpy as np
    >>> Realisability(np.full((4, 2, 9), 0.25), np.full((4, 2, 9), 0.5)).epsilon
    0.25
    """

    total_variation: np.ndarray
    hellinger: np.ndarray

    @property
    def epsilon(self) -> float:
        """The epsilon of Definition 4.1: the largest over rounds of the mean over games."""
        return float(self.total_variation.mean((0, 1)).max())


def realisability(
    expert: Learner | Players,
    model: Learner | Players,
    games: MatrixGame | MarkovGame,
    *,
    rounds: int,
    key: Any,
    contexts: Learner | Players | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Realisability:
    """Measure Definition 4.1 between any two players: learned, hand-built, or learners.

    Both see the same histories, which `contexts` (the expert, unless given) writes by playing
    itself, and the policies they would then play are compared; in Markov games those of the
    state that play is in. Rewards are scaled from `reward_range` to [0, 1] first. Computed in
    single precision. A measurement, with the sampling error of a mean over games; the definition
    asks for its expectation.

    **Example**

    >>> import equipoise as eq
    >>> games = eq.games.families.uniform(actions=2).sample(4, key=0)
    >>> built = eq.incontext.construct.omd(actions=2, rounds=10).players
    >>> omd = eq.dynamics.OMD.vanishing()
    >>> eq.incontext.theory.realisability(omd, built, games, rounds=10, key=1).epsilon < 1e-5
    True
    """
    rounds = checks.check_count("rounds", rounds)
    for name, who in (("expert", expert), ("model", model), ("contexts", contexts or expert)):
        if isinstance(who, Players):
            check_players(who, games)
        elif not isinstance(who, Learner) or who.sees not in (Bandit, MarkovBandit, Nothing):
            raise ValueError(
                f"{name}: expected Players or a Learner that sees its own rewards alone, "
                f"found {type(who).__name__}"
            )
    count = int(np.prod(games.batch_shape, dtype=int))
    words = game_words(jax.random.split(as_key(key), count))
    with single_precision():
        tables = Tables.of(games, reward_range).on_device(np.arange(count))
        context = _write(contexts or expert, tables, jnp.asarray(words), rounds)
        p, q = (np.asarray(_read(who, tables, context), float) for who in (expert, model))
    return Realisability(
        np.moveaxis(total_variation(p, q), 0, 1), np.moveaxis(hellinger(p, q), 0, 1)
    )


@eqx.filter_jit
def _write(who: Learner | Players, tables: Tables, words: jax.Array, rounds: int) -> Context:
    """Histories of a player against itself."""
    if isinstance(who, Players):
        seats = seat(*who.learners(exploration=0.0, precision="float32"))
    else:
        seats = seat(who, who)
    with jax.numpy_rank_promotion("allow"):  # learners broadcast over the batch
        return Context.of(remember(tables, seats, words, rounds=rounds))


@eqx.filter_jit
def _read(who: Learner | Players, tables: Tables, context: Context) -> jax.Array:
    """(2, batch, records, actions): before every round and after the last, at its state."""
    if not isinstance(who, Players):
        return visited(follow(who, context, tables), context.states)
    seats = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, who.models)
    policies = jnp.stack(losses.policies_of(who, losses.outputs(seats, who.tokens, context)))
    return visited(policies, context.states)
