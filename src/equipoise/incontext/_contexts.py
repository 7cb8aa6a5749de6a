"""Training data: histories of play, and what an expert would do after each of them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise.core.zerosum import pivot_to_optimum
from equipoise.dynamics import (
    LEARNERS,
    Bandit,
    History,
    Learner,
    MarkovBandit,
    Nothing,
    make_learner,
)
from equipoise.dynamics.loop import Remembered, Seen, Tables, remember, seat
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext._config import Config
from equipoise.solvers import solve

#: Learners are updated for at least so many games at once: XLA on a CPU has been seen to compile
#: their steps wrongly for fewer, and `equipoise.dynamics` keeps to the same.
SMALLEST = 16


class Context(eqx.Module):
    """What both players wrote down; axes are (seats, batch, rounds, ...)."""

    actions: Int[Array, "2 batch rounds"]
    #: Each player's own, in [0, 1].
    rewards: Float[Array, "2 batch rounds"]
    #: The policies played, at the state of the round.
    policies: Float[Array, "2 batch rounds actions"]
    #: (batch, rounds + 1), or None in matrix games.
    states: Any

    @staticmethod
    def of(found: Remembered) -> "Context":
        """What play leaves in the players' books."""
        events, reward = found.events, found.events.reward.T
        states = None
        if not isinstance(events.state, tuple):
            states = jnp.concatenate([events.state, found.state.place[None]]).T
        return Context(
            jnp.stack([actions.T for actions in events.actions]),
            jnp.stack([reward, 1.0 - reward]),
            _padded(events.played),
            states,
        )

    @staticmethod
    def of_history(history: History) -> "Context":
        """What a history of any batch shape holds, its games in one row; in JAX's precision."""
        axes, most = history.rewards.ndim - 1, max(p.shape[-1] for p in history.policies)

        def flat(array: Any) -> np.ndarray:
            return np.asarray(array).reshape(-1, *np.shape(array)[axes:])

        def padded(policy: np.ndarray) -> np.ndarray:
            return np.pad(flat(policy), [(0, 0), (0, 0), (0, most - policy.shape[-1])])

        reward = flat(history.rewards)
        return Context(
            jnp.asarray(np.moveaxis(flat(history.actions), -1, 0), jnp.int32),
            jnp.asarray(np.stack([reward, 1.0 - reward])),
            jnp.asarray(np.stack([padded(policy) for policy in history.policies])),
            None if history.states is None else jnp.asarray(flat(history.states), jnp.int32),
        )


def join(contexts: list[Context]) -> Context:
    """Contexts of several batches of games as one."""

    def along(axis: int, *parts: Any) -> Any:
        return None if parts[0] is None else jnp.concatenate(parts, axis)

    return Context(
        along(1, *(c.actions for c in contexts)),
        along(1, *(c.rewards for c in contexts)),
        along(1, *(c.policies for c in contexts)),
        along(0, *(c.states for c in contexts)),
    )


def take(context: Context, index: Any) -> Context:
    """Some games of a context."""
    states = None if context.states is None else context.states[index]
    return Context(
        context.actions[:, index], context.rewards[:, index], context.policies[:, index], states
    )


def _padded(policies: Any) -> Array:
    """(2, games, time, ..., actions) of both seats' (time, ..., actions, games)."""
    most = max(policy.shape[-2] for policy in policies)

    def one(policy: Array) -> Array:
        policy = jnp.moveaxis(policy, -1, 0)
        width = [(0, 0)] * (policy.ndim - 1) + [(0, most - policy.shape[-1])]
        return jnp.pad(policy, width)

    return jnp.stack([one(policy) for policy in policies])


def as_tables(games: MatrixGame | MarkovGame) -> Tables:
    """Games with rewards within [0, 1] as single-precision arrays."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), Tables.of(games))


def check_learners(config: Config, states: int | None) -> None:
    """Refuse names that nobody has, and where learners play, those that cannot play such games."""
    for name in config.learners:
        if config.contexts != "on-policy" or name not in LEARNERS or name == "best-responder":
            training_learner(name, states, config.rounds)


def training_learner(name: str, states: int | None, rounds: int) -> Learner:
    """A learner for training contexts of so many rounds: any but the best responder, who cannot
    meet itself.

    >>> type(training_learner("omd", None, 256)).__name__
    'OMD'
    """
    if name == "best-responder":
        raise ValueError(
            "learners: expected learners that can meet themselves, found 'best-responder'"
        )
    return make_learner(name, markov=states is not None, rounds=rounds, argument="learners")


def learners_play(tables: Tables, names: tuple[str, ...], words: Array, *, rounds: int) -> Context:
    """Contexts in which learners play themselves, each in an equal share of the games."""
    games = tables.games
    ends = [round(games * (i + 1) / len(names)) for i in range(len(names))]
    contexts = []
    for name, first, last in zip(names, [0, *ends[:-1]], ends, strict=True):
        if last > first:
            learner = training_learner(name, tables.states, rounds)
            part = np.minimum(np.arange(first, max(last, first + SMALLEST)), last - 1)
            with jax.numpy_rank_promotion("allow"):  # learners broadcast over the batch
                found = remember(
                    tables.some(part), seat(learner, learner), words[:, part], rounds=rounds
                )
            contexts.append(take(Context.of(found), slice(last - first)))
    return join(contexts)


def follow(
    learner: Learner, context: Context, tables: Tables
) -> Float[Array, "2 batch records *p"]:
    """The policies a learner would have had, had it lived through the same histories.

    Before every round and after the last: (seats, batch, rounds + 1, actions), or (...,
    states, actions) in Markov games.
    """
    if learner.sees not in (Bandit, MarkovBandit, Nothing):
        raise ValueError(
            "learner: expected one that sees its own actions and rewards alone, "
            f"found {type(learner).__name__}, which sees {learner.sees.__name__}"
        )
    games, rounds = context.actions.shape[1:]
    context = take(context, np.minimum(np.arange(max(games, SMALLEST)), games - 1))
    states, seats = context.states, seat(learner, learner)
    here, then = (None, None) if states is None else (states[:, :-1].T, states[:, 1:].T)
    ts = jnp.arange(1, rounds + 1, dtype=jnp.int32)
    own = [jnp.moveaxis(array, -1, 0) for array in (context.actions, context.rewards)]

    def update(memory: Any, moment: Any) -> tuple[Any, Any]:
        t, actions, rewards, *places = moment
        seen = [Seen(actions[i], rewards[i], *places) for i in (0, 1)]
        return seats.update(memory, t, (seen[0], seen[1])), seats.policies(memory)

    with jax.numpy_rank_promotion("allow"):
        first = seats.begin(tables.specs(), context.actions.shape[1])
        memory, policies = jax.lax.scan(update, first, (ts, *own, here, then))
    final = seats.policies(memory)
    whole = [jnp.concatenate([p, last[None]]) for p, last in zip(policies, final, strict=True)]
    return _padded(whole)[:, :games]


@eqx.filter_jit
def compiled_follow(
    learner: Learner, context: Context, tables: Tables
) -> Float[Array, "2 batch records *p"]:
    """`follow`, compiled for callers who are not."""
    return follow(learner, context, tables)


def visited(policies: Any, states: Any) -> Any:
    """(2, batch, records, actions): of policies at all states, those at the states visited.

    `states` may go on for longer than the records; without states, policies are what they are.

    >>> visited(np.arange(4.0).reshape(1, 1, 1, 2, 2), np.array([[1, 0]])).tolist()
    [[[[2.0, 3.0]]]]
    """
    if states is None:
        return policies
    games, records = np.indices(policies.shape[1:3])
    return policies[:, games, records, states[:, : policies.shape[2]]]


def matrix_equilibria(
    payoff: Float[Array, "rows columns batch"],
) -> Float[Array, "2 batch actions"]:
    """Equilibrium policies of a batch of matrix games, padded to the larger action count.

    >>> import jax.numpy as jnp
    >>> matrix_equilibria(jnp.array([[[1.0], [0.0]], [[0.0], [1.0]]]))[0].round(3).tolist()
    [[0.5, 0.5]]
    """
    optimum = pivot_to_optimum(payoff)
    return _padded([optimum.x, optimum.y])


def solved(games: Any) -> Float[Array, "2 batch *states actions"]:
    """Equilibrium policies of both seats, padded to the larger number of actions; float32.

    >>> from equipoise.games import MatrixGame
    >>> solved(MatrixGame([[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]])).tolist()
    [[[0.5, 0.5, 0.0]], [[0.5, 0.5, 0.0]]]
    """
    most = max(games.actions)
    policies = [np.asarray(policy) for policy in solve(games).policy]
    width = [(0, 0)] * (policies[0].ndim - 1)
    padded = [np.pad(p, [*width, (0, most - p.shape[-1])]) for p in policies]
    return jnp.asarray(np.stack(padded), jnp.float32)


def sampled(equilibria: Array, records: int, key: jax.Array) -> Array:
    """(2, batch, records, ..., actions): an action drawn at every record, one-hot."""
    shape = (*equilibria.shape[:2], records, *equilibria.shape[2:-1])
    drawn = jax.random.categorical(key, jnp.log(equilibria)[:, :, None], shape=shape)
    return jax.nn.one_hot(drawn, equilibria.shape[-1])
