"""A batch of games as tables, learners in their seats, and one round of play.

Learners are written for one game. This module decides how the states of many games are laid out in
memory. Two layouts make many games fast:

- **Batch innermost.** The steps of no-regret learners are arithmetic on a few numbers per game.
  Their arrays have the games on the last axis, and a learner is called once for all games: it
  broadcasts. On a CPU a tile of games stays in a core's cache and every operation is a vector
  instruction; on an accelerator the batch is one array.
- **Batch first.** A `ContextLearner` multiplies matrices and reads a cache of the play so far. Its
  states have the games on the first axis and its functions are `vmap`ped, so that games become rows
  of one product in the layout that the fused kernels of a GPU require. Two such learners of one
  shape are stacked: the seats are one more leading axis, and share weights if they share a model.

Games, policies, actions and rewards have the games on the last axis in either case.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import steps, streams
from equipoise.core.rewards import scaled
from equipoise.dynamics import _learner as learners
from equipoise.dynamics._learner import ContextLearner, Learner, Noise, Spec
from equipoise.games import MarkovGame, MatrixGame


class Tables(eqx.Module):
    """A flat batch of games: rewards of the row player in [0, 1], games on the last axis.

    **Example**

    >>> import equipoise as eq
    >>> from equipoise.dynamics.loop import Tables
    >>> tables = Tables.of(eq.games.families.uniform(actions=(2, 3), states=4).sample(8, key=0))
    >>> tables.actions, tables.states, tables.games
    ((2, 3), 4, 8)
    """

    #: (rows, columns, games), or (states, rows, columns, games).
    reward: Any
    #: (states, rows, columns, states, games); None for matrix games.
    transition: Any = None
    #: Discount factor of Markov games.
    discount: float = eqx.field(static=True, default=0.0)

    @property
    def games(self) -> int:
        """Number of games."""
        return self.reward.shape[-1]

    @property
    def actions(self) -> tuple[int, int]:
        """Number of actions of the row player and of the column player."""
        return self.reward.shape[-3], self.reward.shape[-2]

    @property
    def states(self) -> int | None:
        """Number of states; None for matrix games."""
        return None if self.transition is None else self.reward.shape[0]

    @staticmethod
    def of(
        games: MatrixGame | MarkovGame, reward_range: tuple[float, float] | None = None
    ) -> "Tables":
        """Build tables from games with any batch axes; rewards are scaled from a range, if given.

        Scaling raises if rewards lie outside the range, and therefore needs concrete values.
        Without scaling, games may be drawn inside a compiled function.
        """
        axes = len(games.batch_shape)

        def last(array: Any) -> Any:
            flat = array.reshape(-1, *array.shape[axes:])
            return (np if isinstance(flat, np.ndarray) else jnp).moveaxis(flat, 0, -1)

        reward = games.payoff if isinstance(games, MatrixGame) else games.reward
        if reward_range is not None:
            reward = scaled(np.asarray(reward), reward_range)
        if isinstance(games, MatrixGame):
            return Tables(last(reward))
        return Tables(last(reward), last(games.transition), games.discount)

    def some(self, index: Any) -> "Tables":
        """Select some of the games."""
        moves = None if self.transition is None else self.transition[..., index]
        return Tables(self.reward[..., index], moves, self.discount)

    def on_device(self, index: np.ndarray) -> "Tables":
        """Select some of the games as JAX arrays, in JAX's current precision."""
        dtype = jnp.result_type(float)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), self.some(index))

    def specs(self, start: int = 0, rounds: int = 0) -> tuple[Spec, Spec]:
        """Return each player's `Spec`."""
        rows, columns = self.actions
        more = (self.states, self.discount, start, rounds)
        return Spec(rows, *more), Spec(columns, *more)

    def start(self, start: int) -> Any:
        """Return the first state of every game; `()` in matrix games, which have no states."""
        return () if self.states is None else jnp.full(self.games, start, jnp.int32)

    def values(self, own: int, met: Any, place: Any = None) -> jax.Array:
        """(actions, games): mean reward of each action of a seat against a policy, in a state.

        Without a `place`, the result is for all states, (states, actions, games), and `met` must be
        the policy at all states.
        """
        table = self.reward if place is None else _gather(self.reward, place)
        axis = table.ndim - 2 - own  # the other seat's actions; the sum over them is unrolled
        met = jnp.expand_dims(met, -3 if own == 0 else -2)

        def part(i: int) -> jax.Array:
            mine, theirs = (jax.lax.index_in_dim(a, i, axis, False) for a in (table, met))
            return mine * theirs

        total = sum((part(i) for i in range(table.shape[axis])), jnp.zeros(()))
        return total if own == 0 else 1.0 - total

    def against(self, own: int, met: Any) -> tuple[Any, ...]:
        """Return the fields of `Foresight` for a seat that meets this policy."""
        if self.transition is None:
            return (self.values(own, met),)
        law = "srcng,scg->srng" if own == 0 else "srcng,srg->scng"
        return self.values(own, met), jnp.einsum(law, self.transition, met), self.discount


class Seen(eqx.Module):
    """Everything that one seat may see of a round; `inform` selects what its `sees` declares."""

    #: Own action.
    action: jax.Array
    #: Own reward.
    reward: jax.Array
    #: State before the round; None in matrix games.
    state: Any = None
    #: State after the round; None in matrix games.
    next_state: Any = None
    #: Policy played; only for learners with full information.
    played: Any = None
    #: Function that returns the mean reward of each own action; only for learners with full
    #: information.
    values: Any = None
    #: The opponent's action, for learners that see it.
    other: Any = None


class Seats(eqx.Module):
    """Two learners that play a batch of games. Made by `seat`."""

    #: Learner of the row player.
    row: Learner
    #: None if `row` holds both seats.
    column: Learner | None
    #: Exploration of both seats; None for a seat without exploration.
    exploration: tuple[Any, Any]
    #: Whether the exploration of each seat falls with the round.
    fading: tuple[bool, bool] = eqx.field(static=True)
    #: Whether `row` holds both seats with a leading axis of seats in its arrays.
    stacked: bool = eqx.field(static=True, default=False)

    @property
    def each(self) -> tuple[Learner, Learner]:
        """The learner of each seat."""
        return self.row, self.row if self.column is None else self.column

    @property
    def in_context(self) -> bool:
        """Whether a `ContextLearner` plays."""
        return any(isinstance(learner, ContextLearner) for learner in self.each)

    def within(self, rounds: int) -> "Seats":
        """Return the same seats, given the promise that no round after `rounds` is played."""

        def bound(learner: Any) -> Any:
            return learner.within(rounds) if isinstance(learner, ContextLearner) else learner

        return replace(self, row=bound(self.row), column=bound(self.column))

    @property
    def _context_rounds(self) -> list[int | None]:
        return [who.context_rounds for who in self.each if isinstance(who, ContextLearner)]

    @property
    def context_ends(self) -> list[int]:
        """Rounds after which a learner no longer reads its context, in ascending order."""
        return sorted({last for last in self._context_rounds if last is not None})

    @property
    def last_context(self) -> int | None:
        """Round after which no learner reads a context; None if a learner always does."""
        return None if None in self._context_rounds else max(self.context_ends, default=0)

    def after(self, t: int, states: Any) -> tuple["Seats", Any]:
        """Return the seats and states after round `t`, without contexts that are no longer read."""

        def one(who: Any, state: Any) -> tuple[Any, Any]:
            last = who.context_rounds if isinstance(who, ContextLearner) else None
            return (who, state) if last is None or last > t else who.without_context(state)

        if self.column is None:
            row, states = one(self.row, states)
            return replace(self, row=row), states
        (row, own), (column, other) = map(one, self.each, states)
        return replace(self, row=row, column=column), (own, other)

    def begin(self, specs: tuple[Spec, Spec], games: int) -> Any:
        """Return the states of the learners before the first round."""

        def one(learner: Learner, spec: Spec) -> Any:
            first = isinstance(learner, ContextLearner)

            def spread(leaf: Any) -> jax.Array:
                shape = (games, *leaf.shape) if first else (*leaf.shape, games)
                return jnp.broadcast_to(leaf[None] if first else leaf[..., None], shape)

            return jax.tree.map(spread, learner.init(spec))

        if self.column is None:
            return self._over_seats(lambda learner: one(learner, specs[0]))
        return self._over_seats(one, specs)

    def policies(self, states: Any) -> tuple[jax.Array, jax.Array]:
        """Return the policy of each seat, (actions, games) or (states, actions, games)."""

        def one(learner: Learner, state: Any) -> jax.Array:
            if isinstance(learner, ContextLearner):
                return jnp.moveaxis(jax.vmap(learner.policy)(state), 0, -1)
            policy = jnp.asarray(learner.policy(state))
            return policy.astype(float) if jnp.issubdtype(policy.dtype, jnp.integer) else policy

        both = self._over_seats(one, states)
        return both[0], both[1]

    def played(self, policies: tuple[Any, Any], t: Any) -> tuple[jax.Array, jax.Array]:
        """Return the policies with exploration mixed in."""

        def one(policy: Any, first: Any, fading: bool) -> Any:
            if first is None:
                return policy
            share = learners.explored_share(first, t) if fading else first
            if jnp.ndim(share) == policy.ndim:  # (actions, games): one share for every action
                return (1.0 - share.sum(0)) * policy + share
            return (1.0 - share) * policy + share / policy.shape[0]

        x, y = map(one, policies, self.exploration, self.fading)
        return x, y

    def foresee(self, states: Any, t: Any, against: Callable[[int, Any], tuple]) -> Any:
        """Update learners that see `Foresight`, whose fields are `against(seat, policy)`."""
        if self.column is None or not any(who.sees is learners.Foresight for who in self.each):
            return states
        states = list(states)
        for own, learner in enumerate(self.each):
            if learner.sees is learners.Foresight:
                met = self.policies(states)[1 - own]
                states[own] = learner.update(states[own], learners.Foresight(t, *against(own, met)))
        return tuple(states)

    def update(self, states: Any, t: Any, seen: tuple[Seen, Seen]) -> Any:
        """Update the learner of every seat with its feedback of the round."""
        if self.column is not None:
            return self._over_seats(
                lambda who, state, own: _inform_games(who, state, own, t), states, seen
            )
        where = seen[0].state, seen[0].next_state
        happened = [(s.action, s.reward, s.other) for s in seen]
        both = jax.tree.map(lambda a, b: jnp.stack([a, b]), *happened)

        def one(learner: Learner, state: Any, action: Any, reward: Any, other: Any) -> Any:
            return _inform_games(learner, state, Seen(action, reward, *where, other=other), t)

        return self._over_seats(one, states, *both)

    def _over_seats(self, function: Callable[..., Any], *both: Any) -> Any:
        """Call `function(learner, ...)` for each seat, in sequence or mapped over an axis."""
        if self.column is not None:
            return tuple(map(function, self.each, *both))
        axes = (eqx.if_array(0) if self.stacked else None, *(0 for _ in both))
        return eqx.filter_vmap(function, in_axes=axes, axis_size=2)(self.row, *both)


def inform(learner: Learner, state: Any, seen: Seen, t: Any) -> Any:
    """Return the state after an update with only the feedback that `sees` declares."""
    if learner.sees is learners.Foresight:
        return state
    if learner.sees is learners.Nothing:
        feedback: Any = learners.Nothing(t)
    elif learner.sees is learners.Values:
        feedback = learners.Values(t, seen.values(), seen.played)
    elif learner.sees is learners.MarkovBandit:
        happened = (seen.state, seen.action, seen.reward, seen.next_state)
        feedback = learners.MarkovBandit(t, *happened)
    elif learner.sees is learners.JointMarkovBandit:
        happened = (seen.state, seen.action, seen.reward, seen.next_state, seen.other)
        feedback = learners.JointMarkovBandit(t, *happened)
    elif learner.sees is learners.JointBandit:
        feedback = learners.JointBandit(t, seen.action, seen.reward, seen.other)
    else:
        feedback = learners.Bandit(t, seen.action, seen.reward)
    return learner.update(state, feedback)


def _inform_games(learner: Learner, state: Any, seen: Seen, t: Any) -> Any:
    """Apply `inform` to all games, in the layout of the learner."""
    if not isinstance(learner, ContextLearner):
        return inform(learner, state, seen, t)
    own = Seen(seen.action, seen.reward, seen.state, seen.next_state, other=seen.other)
    return jax.vmap(lambda state, own: inform(learner, state, own, t))(state, own)


def seat(row: Learner, column: Learner) -> Seats:
    """Seat two learners: stacked if both are `ContextLearner`s of one shape, else separately.

    >>> from equipoise.dynamics import OMD, Uniform
    >>> seat(OMD(), Uniform()).in_context
    False
    """
    exploration = getattr(row, "exploration", None), getattr(column, "exploration", None)
    fading = getattr(row, "fading", False), getattr(column, "fading", False)
    if not (isinstance(row, ContextLearner) and isinstance(column, ContextLearner)):
        return Seats(row, column, exploration, fading)
    bare = [replace(learner, exploration=None) for learner in (row, column)]
    leaves = [jax.tree.leaves(learner) for learner in bare]
    alike = jax.tree.structure(bare[0]) == jax.tree.structure(bare[1])
    if not alike or [np.shape(a) for a in leaves[0]] != [np.shape(b) for b in leaves[1]]:
        return Seats(bare[0], bare[1], exploration, fading)
    if all(a is b for a, b in zip(*leaves, strict=True)):
        return Seats(bare[0], None, exploration, fading)
    both = jax.tree.map(lambda a, b: jnp.stack([a, b]), *bare)
    return Seats(both, None, exploration, fading, stacked=True)


class Event(eqx.Module):
    """The events of a round; policies are those at the state visited, (actions, games)."""

    #: Policies that were played, of the row player and of the column player.
    played: tuple[jax.Array, jax.Array]
    #: Policies before exploration was mixed in; None if nobody explores.
    held: tuple[jax.Array, jax.Array] | None
    #: Actions of the row player and of the column player.
    actions: tuple[jax.Array, jax.Array]
    #: Mean reward of the joint action.
    mean: jax.Array
    #: Reward that the players saw.
    reward: jax.Array
    #: The state the round was played in; `()` in matrix games.
    state: Any = ()


def play_round(
    tables: Tables, seats: Seats, noise: Noise, keys: Any, t: Any, place: Any, states: Any
) -> tuple[Any, Any, Event]:
    """Play round `t`; return the game states and learner states after it, and its events."""
    markov = tables.states is not None
    states = seats.foresee(states, t, tables.against)
    x, y = seats.policies(states)
    if markov:
        x, y = steps.once(steps.pick(x, place)), steps.once(steps.pick(y, place))
    held = None if seats.exploration == (None, None) else (x, y)
    x, y = seats.played((x, y), t)
    a = steps.once(steps.sample(x, streams.uniform(keys, t, streams.ROW_ACTION)))
    b = steps.once(steps.sample(y, streams.uniform(keys, t, streams.COLUMN_ACTION)))
    if markov:
        rows, columns = tables.actions
        joint = steps.once((place * rows + a) * columns + b)
        mean = steps.once(_gather(tables.reward.reshape(-1, tables.games), joint))
        chances = _gather(tables.transition.reshape(-1, *tables.transition.shape[3:]), joint)
        then = steps.once(steps.sample(chances, streams.uniform(keys, t, streams.TRANSITION)))
        where = (place, then)
    else:
        mean = steps.once(steps.pick(steps.pick(tables.reward, a), b))
        then, where = place, (None, None)
    reward = noise(mean, keys, t)
    seen = (
        Seen(a, reward, *where, x, lambda: steps.once(tables.values(0, y)), b),
        Seen(b, 1.0 - reward, *where, y, lambda: steps.once(tables.values(1, x)), a),
    )
    states = seats.update(states, t, seen)
    return then, states, Event((x, y), held, (a, b), mean, reward, place)


def upcoming(tables: Tables, seats: Seats, t: Any, states: Any) -> tuple[jax.Array, jax.Array]:
    """Return the policies of the round after round `t`, at all states."""
    return seats.policies(seats.foresee(states, t + 1, tables.against))


def tally(tables: Tables, event: Event) -> Any:
    """Return the terms summed over rounds: policies, mean reward, and visits in Markov games."""
    if tables.states is None:
        return (*event.played, event.mean)
    here = steps.is_at(event.state, tables.states)
    x, y = (jnp.where(here[:, None], policy, 0.0) for policy in event.played)
    return x, y, here.astype(event.mean.dtype), event.mean


def expected(tables: Tables, event: Event) -> jax.Array:
    """(games,): mean reward of the row player given both policies played."""
    place = None if tables.states is None else event.state
    return steps.total(event.played[0] * tables.values(0, event.played[1], place))


def _gather(table: Any, index: Any) -> jax.Array:
    """Return `table[index]` on the first axis for each game, by a gather: tables may be large."""
    lifted = index.reshape((1,) * (table.ndim - index.ndim) + index.shape)
    return jnp.take_along_axis(table, lifted, axis=0, mode="promise_in_bounds")[0]
