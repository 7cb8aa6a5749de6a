"""Histories of play, an expert's policies after each of them, and the training losses.

Gaps (NashConv, in Markov games scaled) are losses to be differentiated here. Certificates are
computed elsewhere, in double precision and by other code. By the envelope theorem, the gradient of
the value of a best response is the gradient with the responding policy held fixed.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equipoise import dynamics
from equipoise.core import InputError
from equipoise.core.mdp import best_response
from equipoise.core.zerosum import pivot_to_optimum
from equipoise.dynamics import History, Learner, Spec, make_learner
from equipoise.dynamics.loop import Remembered, Seen, Tables, remember, seat
from equipoise.games import MarkovGame, MatrixGame
from equipoise.incontext._config import Config
from equipoise.incontext._markov_tokens import MarkovTokens
from equipoise.incontext._model import Transformer
from equipoise.incontext._players import Players, read_policy
from equipoise.incontext._sizes import AnySize
from equipoise.incontext._tokens import PlainTokens, Tokens
from equipoise.solvers import solve

#: Smallest number of games for which learners are updated at once. XLA has compiled their steps
#: wrongly for fewer games on a CPU; `equipoise.dynamics` uses the same minimum.
SMALLEST = 16
#: Number of rounds of a context that enter the loss of Markov games. Best responses are expensive.
MARKOV_RECORDS = 64
#: Constant added to mean gaps before taking logarithms.
GAP_FLOOR = 0.01
#: Number of groups of games: three noises, each with small and large games.
GROUPS = 6


class Written(eqx.Module):
    """Tokens of players of any size, and the data needed to read policies from their outputs."""

    tokens: Float[Array, "2 batch length features"]
    #: Index of the output of each action, at the end of the context.
    slots: Int[Array, "2 batch *states actions"]
    #: Whether each action had been played before each round.
    seen: Array


class Answers(eqx.Module):
    """An expert's policies before every round of recorded play, at the state of the round."""

    policies: Float[Array, "2 batch rounds actions"]
    #: Weights of the rounds in the loss, with mean 1; 0 after the end of a shorter trajectory.
    weights: Float[Array, "2 batch rounds"]


class Context(eqx.Module):
    """Histories of both players; axes are (seats, batch, rounds, ...)."""

    actions: Int[Array, "2 batch rounds"]
    #: Each player's own rewards, in [0, 1].
    rewards: Float[Array, "2 batch rounds"]
    #: The policies played, at the state of the round.
    policies: Float[Array, "2 batch rounds actions"]
    #: (batch, rounds + 1): states visited, or None in matrix games.
    states: Any
    #: Only for adaptive tokens: the policies before exploration, each player's number of actions,
    #: and whether it sees the other's actions.
    held: Float[Array, "2 batch rounds actions"] | None = None
    counts: Int[Array, "2 batch 1"] | None = None
    shown: Array | None = None
    #: Groups of games whose gaps are averaged before their logarithm is taken, and the weight of
    #: each game in the loss.
    groups: Int[Array, "batch 1"] | None = None
    weights: Float[Array, "batch 1"] | None = None
    written: Written | None = None

    @staticmethod
    def of(
        found: Remembered,
        counts: Any = None,
        shown: Any = None,
        groups: Any = None,
        weights: Any = None,
    ) -> "Context":
        """Build a context from remembered play; counts and shown are (2, games)."""
        events, reward = found.events, found.events.reward.T
        states = None
        if not isinstance(events.state, tuple):
            states = jnp.concatenate([events.state, found.state.place[None]]).T
        return Context(
            jnp.stack([actions.T for actions in events.actions]),
            jnp.stack([reward, 1.0 - reward]),
            _padded(events.played),
            states,
            None if counts is None else _padded(events.held or events.played),
            None if counts is None else counts[..., None],
            None if shown is None else shown[..., None],
            None if groups is None else groups[:, None],
            None if weights is None else weights[:, None],
        )

    @staticmethod
    def of_history(history: History) -> "Context":
        """Build a context from a history of any batch shape, in JAX's precision."""
        axes = history.rewards.ndim - 1

        def flat(array: Any) -> np.ndarray:
            return np.asarray(array).reshape(-1, *np.shape(array)[axes:])

        reward = flat(history.rewards)
        return Context(
            jnp.asarray(np.moveaxis(flat(history.actions), -1, 0), jnp.int32),
            jnp.asarray(np.stack([reward, 1.0 - reward])),
            _stacked([flat(policy) for policy in history.policies]),
            None if history.states is None else jnp.asarray(flat(history.states), jnp.int32),
        )


def join(contexts: list[Context]) -> Context:
    """Concatenate contexts along the axis of games."""
    return jax.tree.map(lambda *a: jnp.concatenate(a, 0 if a[0].ndim == 2 else 1), *contexts)


def take(context: Context, index: Any) -> Context:
    """Select games of a context; they are the first axis of states, the second of other arrays."""
    return jax.tree.map(lambda a: a[index] if a.ndim == 2 else a[:, index], context)


def _stacked(policies: Any) -> Array:
    """Stack both seats' policies as (2, ..., actions), padded to the larger number of actions."""
    most = max(policy.shape[-1] for policy in policies)
    room = [[(0, 0)] * (p.ndim - 1) + [(0, most - p.shape[-1])] for p in policies]
    return jnp.stack([jnp.pad(p, width) for p, width in zip(policies, room, strict=True)])


def _padded(policies: Any) -> Array:
    """Rearrange both seats' (time, ..., actions, games) to (2, games, time, ..., actions)."""
    return _stacked([jnp.moveaxis(policy, -1, 0) for policy in policies])


def as_tables(games: MatrixGame | MarkovGame) -> Tables:
    """Convert games with rewards in [0, 1] to single-precision arrays."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), Tables.of(games))


def check_learners(config: Config, states: int | None) -> None:
    """Raise for unknown learners, and if learners play, for those that cannot play these games."""
    for name in config.learners:
        if (
            config.contexts != "on-policy"
            or name not in dynamics.LEARNERS
            or name == "best-responder"
        ):
            training_learner(name, states, config.rounds)


def training_learner(name: str, states: int | None, rounds: int) -> Learner:
    """Return a learner for training contexts of `rounds` rounds.

    The best responder is excluded, since it cannot play against itself.

    >>> type(training_learner("omd", None, 256)).__name__
    'OMD'
    """
    if name == "best-responder":
        raise InputError("learners", "learners that can play against themselves", repr(name))
    return make_learner(name, markov=states is not None, rounds=rounds, argument="learners")


def learners_play(tables: Tables, names: tuple[str, ...], words: Array, *, rounds: int) -> Context:
    """Return contexts of learners in self-play, each learner in an equal share of the games."""
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
    learner: Learner, context: Context, specs: tuple[Spec, Spec]
) -> Float[Array, "2 batch records *p"]:
    """Return the policies that a learner would have held, given the same histories.

    They are the policies before every round and after the last, (seats, batch, rounds + 1,
    actions), or (..., states, actions) in Markov games.
    """
    if learner.sees not in (dynamics.Bandit, dynamics.MarkovBandit, dynamics.Nothing):
        found = f"{type(learner).__name__}, which sees {learner.sees.__name__}"
        raise InputError("learner", "one that sees only its own actions and rewards", found)
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
        first = seats.begin(specs, context.actions.shape[1])
        memory, policies = jax.lax.scan(update, first, (ts, *own, here, then))
    final = seats.policies(memory)
    whole = [jnp.concatenate([p, last[None]]) for p, last in zip(policies, final, strict=True)]
    return _padded(whole)[:, :games]


#: `follow`, compiled, for callers that are not themselves compiled.
compiled_follow = eqx.filter_jit(follow)


def visited(policies: Any, states: Any) -> Any:
    """(2, batch, records, actions): select, from policies at all states, those at visited states.

    `states` may be longer than the records. If it is None, policies are returned unchanged.

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
    """Equilibrium policies of a batch of matrix games, padded to the larger number of actions.

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
    return _stacked([jnp.asarray(policy, jnp.float32) for policy in solve(games).policy])


def sampled(equilibria: Array, records: int, key: jax.Array) -> Array:
    """(2, batch, records, ..., actions): one-hot actions, drawn independently at every record."""
    shape = (*equilibria.shape[:2], records, *equilibria.shape[2:-1])
    drawn = jax.random.categorical(key, jnp.log(equilibria)[:, :, None], shape=shape)
    return jax.nn.one_hot(drawn, equilibria.shape[-1])


def matrix_gap(
    payoff: Float[Array, "rows columns"],
    x: Float[Array, "*rounds rows"],
    y: Float[Array, "*rounds columns"],
) -> Float[Array, "*rounds"]:
    """Return the duality gap `max_a (A y)_a - min_b (x'A)_b`.

    >>> import jax.numpy as jnp
    >>> pennies = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    >>> float(matrix_gap(pennies, jnp.array([1.0, 0.0]), jnp.array([0.5, 0.5])))
    0.5
    """
    return (y @ payoff.T).max(-1) - (x @ payoff).min(-1)


def markov_gap(
    reward: Float[Array, "states rows columns"],
    transition: Float[Array, "states rows columns states"],
    discount: float,
    x: Float[Array, "*rounds states rows"],
    y: Float[Array, "*rounds states columns"],
) -> Float[Array, "*rounds"]:
    """Return the mean over states of the duality gap `max V^{*,y} - min V^{x,*}`.

    It is in units of `1 / (1 - discount)`, which makes it comparable with the gap of a matrix game.

    >>> import jax.numpy as jnp
    >>> pennies = jnp.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> x, y = jnp.array([[1.0, 0.0]]), jnp.array([[0.5, 0.5]])
    >>> round(float(markov_gap(pennies, jnp.ones((1, 2, 2, 1)), 0.9, x, y)), 5)
    0.5
    """
    best, worst = best_responses(reward, transition, discount, x, y)
    return (1.0 - discount) * (best + worst).mean(-1)


def best_responses(
    reward: Float[Array, "states rows columns"],
    transition: Float[Array, "states rows columns states"],
    discount: float,
    x: Float[Array, "*rounds states rows"],
    y: Float[Array, "*rounds states columns"],
) -> tuple[Float[Array, "*rounds states"], Float[Array, "*rounds states"]]:
    """Values of best responses: the row player's against `y`, the column player's against `x`."""
    best, _ = best_response(
        jnp.einsum("sab,...sb->...sa", reward, y),
        jnp.einsum("sabz,...sb->...saz", transition, y),
        discount,
    )
    worst, _ = best_response(
        -jnp.einsum("sab,...sa->...sb", reward, x),
        jnp.einsum("sabz,...sa->...sbz", transition, x),
        discount,
    )
    return best, worst


def write(tokens: PlainTokens, context: Context) -> Float[Array, "2 batch length features"]:
    """Return the tokens of whole histories."""
    states = context.states
    rounds = jnp.arange(1, context.actions.shape[2] + 1)

    def one(actions: Array, rewards: Array, states: Any) -> Array:
        here, then = (None, None) if states is None else (states[:-1], states[1:])
        body = jax.vmap(tokens.round)(rounds, actions, rewards, here, then)
        opening = tokens.opening(None if states is None else states[0])
        return jnp.concatenate([opening, body.reshape(-1, body.shape[-1])])

    seats = jax.vmap(jax.vmap(one), in_axes=(0, 0, None))
    return seats(context.actions, context.rewards, states)


def note_down(tokens: AnySize, context: Context, discount: float = 0.0) -> Context:
    """Return a context of players of any size with their tokens added."""
    if context.held is None or context.counts is None or context.shown is None:
        raise InputError("players", "players of games of one size", "players of any size")
    counts, shown, states = context.counts[..., 0], context.shown[..., 0], context.states
    books = (context.actions, context.rewards, context.held, context.actions[::-1])

    def one(count: Any, shown: Any, own: Any, states: Any) -> Any:
        if not isinstance(tokens, MarkovTokens):
            return tokens.history(*own, count=count, shown=shown)
        empty: Any = tokens.begin(own[2].shape[-1], discount=discount)
        book = eqx.tree_at(lambda b: (b.count, b.shown), empty, (count, shown))
        return tokens.history(book, *own, states=states)

    games = jax.vmap(one, in_axes=(0, 0, 0, None if states is None else 0))
    both = jax.vmap(games, in_axes=(0, 0, 0, None))
    written = Written(*jax.lax.stop_gradient(both(counts, shown, books, states)))
    return replace(context, written=written)


def _outputs(models: Transformer, tokens: Tokens, written: Array, rounds: int) -> Array:
    """(2, batch, rounds + 1, outputs): outputs at the last token before each round."""
    rows = written.reshape(models.embed.shape[0], -1, *written.shape[2:])
    sequences = eqx.filter_vmap(
        jax.vmap(Transformer.__call__, (None, 0)), in_axes=(eqx.if_array(0), 0)
    )
    out = sequences(models, rows).reshape(*written.shape[:3], -1)
    opening = written.shape[2] - tokens.per_round * rounds
    return out[:, :, opening - 1 :: tokens.per_round]


def gap_name(states: int | None) -> str:
    """Return the name of the training gap with its unit, which is that of one round.

    `evaluate` and certificates report the `nash_conv` of Markov games instead: the sum of the
    players' gains in discounted reward, each in its worst state.

    >>> gap_name(None), gap_name(3)
    ('gap', 'gap per round (mean over states, times 1 - discount)')
    """
    return "gap" if states is None else "gap per round (mean over states, times 1 - discount)"


def gaps(tables: Tables, x: Array, y: Array) -> Float[Array, "batch records"]:
    """Return the duality gaps of the policies at every round; x and y are (batch, records, ...).

    In Markov games they are means over states times `1 - discount`; see `gap_name`.
    """
    rows, columns = tables.actions
    x, y = x[..., :rows], y[..., :columns]
    if tables.transition is None:
        return jax.vmap(matrix_gap, in_axes=(-1, 0, 0))(tables.reward, x, y)
    game = jax.vmap(markov_gap, in_axes=(-1, -1, None, 0, 0))
    return game(tables.reward, tables.transition, tables.discount, x, y)


def policies_after(
    players: Players, models: Transformer, context: Context, records: Any = None
) -> tuple[Array, Array]:
    """Return policies of both seats before every round of a context and after the last.

    `records` selects some of these rounds. Players of any size need a context with their tokens,
    from `note_down`.
    """
    rounds, tokens = context.actions.shape[2], players.tokens
    some = slice(None) if records is None else records
    if isinstance(tokens, AnySize):
        written = context.written
        if written is None or context.counts is None:
            raise InputError("context", "a context with the tokens of these players", "none")
        out = _outputs(models, tokens, written.tokens, rounds)[:, :, some]
        read, seen = jax.vmap(jax.vmap(tokens.read)), written.seen[:, :, some]
        x, y = read(out, written.slots, seen, context.counts[..., 0])
        return x, y
    out = _outputs(models, tokens, write(tokens, context), rounds)[:, :, some]
    most = max(players.actions)
    x, y = (
        read_policy(own, count, most, players.states, players.reading)
        for own, count in zip(out, players.actions, strict=True)
    )
    return x, y


def gap_loss(
    players: Players,
    models: Transformer,
    tables: Tables,
    context: Context,
    update: Any = 0,
    axis: str | None = None,
) -> Array:
    """Return the mean duality gap of the two players' policies over games and rounds.

    With groups, the loss is the mean logarithm of the mean gap of each group in each round. If
    several devices share the games, `axis` names the axis of their mesh, and groups extend over all
    devices. In Markov games, gaps are computed in `MARKOV_RECORDS` rounds, which differ from update
    to update.
    """
    length, records = context.actions.shape[2] + 1, None
    if tables.states is not None and length > MARKOV_RECORDS:
        every = -(-length // MARKOV_RECORDS)
        records = jnp.minimum(update % every + jnp.arange(0, length, every), length - 1)
    found = gaps(tables, *policies_after(players, models, context, records))
    if context.weights is not None:
        found = found * context.weights
    if context.groups is None:
        return found.mean()
    member = jax.nn.one_hot(context.groups[:, 0], GROUPS)
    games, sums = member.sum(0), jnp.matmul(member.T, found, precision="highest")
    if axis is not None:
        games, sums = jax.lax.psum((games, sums), axis)
    means = sums / jnp.maximum(games, 1.0)[:, None]
    return (games / games.sum()) @ jnp.log(jnp.maximum(means, 0.0) + GAP_FLOOR).mean(1)


def imitation_loss(
    players: Players, models: Transformer, context: Context, labels: Array
) -> tuple[Array, Array]:
    """Return the cross-entropy to the expert's policies (the paper's Eq. 1) and the divergence.

    Labels are (2, batch, records or 1, ..., actions).
    """
    x, y = policies_after(players, models, context)
    log = jnp.log(jnp.maximum(jnp.stack([x, y]), 1e-12))
    cross = -(labels * log).sum(-1).mean()
    entropy = -jax.scipy.special.xlogy(labels, labels).sum(-1).mean()
    return cross, cross - entropy


def recorded_loss(
    players: Players, models: Transformer, context: Context, answers: Answers
) -> tuple[Array, Array]:
    """Return the paper's Eq. (1) for recorded play, and the divergence from the expert.

    Policies are those before every round, given the states and what was played before.
    """
    before = np.arange(context.actions.shape[2])
    x, y = policies_after(players, models, context, before)
    here = visited(jnp.stack([x, y]), context.states)
    expert, weights = answers.policies, answers.weights
    cross = -(expert * jnp.log(jnp.maximum(here, 1e-12))).sum(-1)
    entropy = -jax.scipy.special.xlogy(expert, expert).sum(-1)
    return (weights * cross).mean(), (weights * (cross - entropy)).mean()
