"""Training data: histories of play, and what an expert would do after each of them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise import dynamics
from equipoise.core.zerosum import pivot_to_optimum
from equipoise.dynamics import (
    Bandit,
    History,
    Learner,
    MarkovBandit,
    Nothing,
)
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext._config import Config
from equipoise.incontext._episode import Trajectory, episode
from equipoise.incontext._teams import Board, Learning, Seen

#: Name -> learner that can play training games, given their rounds: all but the best responder,
#: who cannot meet itself.
MATRIX_LEARNERS = {k: v for k, v in dynamics.MATRIX_LEARNERS.items() if k != "best-responder"}
MARKOV_LEARNERS = dynamics.MARKOV_LEARNERS


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
    def of(trajectory: Trajectory) -> "Context":
        """What a trajectory leaves in the players' books."""
        reward = trajectory.reward.T
        return Context(
            jnp.moveaxis(trajectory.actions, 0, 2),
            jnp.stack([reward, 1.0 - reward]),
            jnp.moveaxis(trajectory.played, 0, 2),
            None if trajectory.states is None else trajectory.states.T,
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


def as_board(games: MatrixGame | MarkovGame) -> Board:
    """Games with at most one batch axis, rewards within [0, 1], as single-precision arrays."""
    if isinstance(games, MatrixGame):
        return Board(jnp.asarray(games.payoff, jnp.float32))
    return Board(
        jnp.asarray(games.reward, jnp.float32),
        jnp.asarray(games.transition, jnp.float32),
        games.discount,
    )


def blank_board(
    games: int, actions: tuple[int, int], states: int | None = None, discount: float = 0.0
) -> Board:
    """Games of a shape and nothing more: all that a learner needs to follow a history.

    >>> blank_board(4, (2, 3), 5, 0.9).states
    5
    """
    if states is None:
        return Board(jnp.zeros((games, *actions)))
    reward = jnp.zeros((games, states, *actions))
    return Board(reward, jnp.zeros((*reward.shape, states)), discount)


def some(board: Board, index: Any) -> Board:
    """Some games of a board."""
    moves = None if board.transition is None else board.transition[index]
    return Board(board.reward[index], moves, board.discount)


def make_learner(name: str, states: int | None, rounds: int) -> Learner:
    """A learner for training contexts of so many rounds, by name.

    >>> type(make_learner("omd", None, 256)).__name__
    'OMD'
    """
    known = MATRIX_LEARNERS if states is None else MARKOV_LEARNERS
    if name not in known:
        raise ValueError(f"learners: expected names among {sorted(known)}, found {name!r}")
    return known[name](rounds)


def check_learners(config: Config, states: int | None) -> None:
    """Refuse names that nobody has, and where learners play, those that cannot play such games."""
    for name in config.learners:
        plays = config.contexts != "on-policy"
        if plays or name not in {*MATRIX_LEARNERS, *MARKOV_LEARNERS}:
            make_learner(name, states, config.rounds)


def learners_play(board: Board, names: tuple[str, ...], words: Array, *, rounds: int) -> Context:
    """Contexts in which learners play themselves, each in an equal share of the games."""
    games = board.reward.shape[0]
    ends = [round(games * (i + 1) / len(names)) for i in range(len(names))]
    contexts = []
    for name, first, last in zip(names, [0, *ends[:-1]], ends, strict=True):
        if last > first:
            part, learner = slice(first, last), make_learner(name, board.states, rounds)
            with jax.numpy_rank_promotion("allow"):  # learners broadcast over the batch
                trajectory = episode(
                    some(board, part),
                    tuple(Learning(learner=learner, seats=(seat,)) for seat in (0, 1)),
                    words[:, part],
                    rounds=rounds,
                    segments=1,
                )
            contexts.append(Context.of(trajectory))
    return join(contexts)


def follow(learner: Learner, context: Context, board: Board) -> Float[Array, "2 batch records *p"]:
    """The policies a learner would have had, had it lived through the same histories.

    Before every round and after the last: (seats, batch, rounds + 1, actions), or (...,
    states, actions) in Markov games.
    """
    rounds = context.actions.shape[2]
    if learner.sees not in (Bandit, MarkovBandit, Nothing):
        raise ValueError(
            "learner: expected one that sees its own actions and rewards alone, "
            f"found {type(learner).__name__}, which sees {learner.sees.__name__}"
        )

    def seat(number: int) -> Array:
        team = Learning(learner=learner, seats=(number,))

        def update(state: Any, moment: Any) -> tuple[Any, Any]:
            t, action, reward, here, then = moment
            policy = team.policies(state, board, None)[0]
            seen = Seen(t, action[None], reward[None], here, then)
            return team.observe(state, seen, rounds), policy

        states = context.states
        here, then = (None, None) if states is None else (states[:, :-1].T, states[:, 1:].T)
        ts = jnp.arange(1, rounds + 1, dtype=jnp.int32)
        moments = (ts, context.actions[number].T, context.rewards[number].T, here, then)
        state, policies = jax.lax.scan(update, team.begin(board, None), moments)
        final = team.policies(state, board, None)
        return jnp.moveaxis(jnp.concatenate([policies, final]), 0, 1)

    with jax.numpy_rank_promotion("allow"):
        return jnp.stack([seat(0), seat(1)])


@eqx.filter_jit
def compiled_follow(
    learner: Learner, context: Context, board: Board
) -> Float[Array, "2 batch records *p"]:
    """`follow`, compiled for callers who are not."""
    return follow(learner, context, board)


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
    payoff: Float[Array, "batch rows columns"],
) -> Float[Array, "2 batch actions"]:
    """Equilibrium policies of a batch of matrix games, padded to the larger action count.

    >>> import jax.numpy as jnp
    >>> matrix_equilibria(jnp.array([[[1.0, 0.0], [0.0, 1.0]]]))[0].round(3).tolist()
    [[0.5, 0.5]]
    """
    optimum = pivot_to_optimum(jnp.moveaxis(payoff, 0, -1))
    most = max(payoff.shape[1:])
    return jnp.stack(
        [jnp.pad(p.T, ((0, 0), (0, most - p.shape[0]))) for p in (optimum.x, optimum.y)]
    )
