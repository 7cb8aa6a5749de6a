"""Who sits where, and how the states of many games lie in memory: the one place that decides it.

Learners are written for one game. Two layouts make many games fast:

- **Batch innermost.** The steps of no-regret learners are arithmetic on a few numbers a game. Their
  arrays have the games on the last axis, and a learner is called once for all of them: it
  broadcasts. On a CPU a tile of games stays in a core's cache and every operation is a vector
  instruction; on an accelerator the batch is one array.
- **Batch first.** A `ContextLearner` multiplies matrices and reads a cache of the play so far. Its
  states have the games on the first axis and its functions are `vmap`ped, so that games become rows
  of one product, and the fused kernels of a GPU get the layout they take. Two such learners of one
  shape hold both seats together: the seats are one more axis in front, and share weights if they
  share a model.

Games, policies, actions and rewards have the games on the last axis in either case.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.dynamics._learner import (
    Bandit,
    ContextLearner,
    Foresight,
    Learner,
    MarkovBandit,
    Nothing,
    Spec,
    Values,
    explored_share,
)


@dataclass(frozen=True)
class Seen:
    """What one seat may be told of a round, from which it gets what its type declares."""

    action: jax.Array
    reward: jax.Array
    #: The states before and after the round; None in matrix games.
    state: Any = None
    next_state: Any = None
    #: For learners with full information alone: the policy played, and a function that returns
    #: what each own action would have earned.
    played: Any = None
    values: Any = None


class Seats(eqx.Module):
    """Two learners at a table of many games. Made by `seat`."""

    row: Learner
    #: None where `row` holds both seats.
    column: Learner | None
    #: Exploration of both seats, None where there is none.
    exploration: tuple[Any, Any]
    fading: tuple[bool, bool] = eqx.field(static=True)
    #: Whether the arrays of `row`, where it holds both seats, have a leading axis of seats.
    stacked: bool = eqx.field(static=True, default=False)

    @property
    def each(self) -> tuple[Learner, Learner]:
        """The learner of each seat."""
        return self.row, self.row if self.column is None else self.column

    @property
    def in_context(self) -> bool:
        """Whether a learner with a context plays."""
        return any(isinstance(learner, ContextLearner) for learner in self.each)

    def within(self, rounds: int) -> "Seats":
        """The same, promised that no later round is played."""

        def bound(learner: Any) -> Any:
            return learner.within(rounds) if isinstance(learner, ContextLearner) else learner

        return replace(self, row=bound(self.row), column=bound(self.column))

    def begin(self, specs: tuple[Spec, Spec], games: int) -> Any:
        """The states before the first round."""

        def one(learner: Learner, spec: Spec) -> Any:
            first = isinstance(learner, ContextLearner)

            def spread(leaf: Any) -> jax.Array:
                shape = (games, *leaf.shape) if first else (*leaf.shape, games)
                return jnp.broadcast_to(leaf[None] if first else leaf[..., None], shape)

            return jax.tree.map(spread, learner.init(spec))

        if self.column is not None:
            return one(self.row, specs[0]), one(self.column, specs[1])
        init = self._over_seats(lambda learner: one(learner, specs[0]))
        if self.stacked:
            return init()
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[None], (2, *leaf.shape)), init())

    def policies(self, states: Any) -> tuple[jax.Array, jax.Array]:
        """(actions, games) of each seat, or (states, actions, games)."""

        def one(learner: Learner, state: Any) -> jax.Array:
            if isinstance(learner, ContextLearner):
                return jnp.moveaxis(jax.vmap(learner.policy)(state), 0, -1)
            return learner.policy(state)

        if self.column is not None:
            return one(self.row, states[0]), one(self.column, states[1])
        both = self._over_seats(one)(states)
        return both[0], both[1]

    def played(self, policies: tuple[Any, Any], t: Any) -> tuple[jax.Array, jax.Array]:
        """The policies with exploration mixed in."""

        def one(policy: Any, first: Any, fading: bool) -> Any:
            if first is None:
                return policy
            share = explored_share(first, t) if fading else first
            return (1.0 - share) * policy + share / policy.shape[0]

        x, y = map(one, policies, self.exploration, self.fading)
        return x, y

    def foresee(self, states: Any, t: Any, against: Callable[[int, Any], tuple]) -> Any:
        """Update whoever sees what is to come; `against(seat, policy)` is what it faces."""
        if self.column is None or not any(who.sees is Foresight for who in self.each):
            return states
        states = list(states)
        for own, learner in enumerate(self.each):
            if learner.sees is Foresight:
                met = self.policies(states)[1 - own]
                states[own] = learner.update(states[own], Foresight(t, *against(own, met)))
        return tuple(states)

    def update(self, states: Any, t: Any, seen: tuple[Seen, Seen]) -> Any:
        """Tell every seat what its learner may see of the round."""
        if self.column is not None:
            x, y = (_inform(*each, t) for each in zip(self.each, states, seen, strict=True))
            return x, y
        both = [jnp.stack([getattr(s, name) for s in seen]) for name in ("action", "reward")]
        return self._over_seats(lambda who, state, a, r: _inform(who, state, _own(seen, a, r), t))(
            states, *both
        )

    def _over_seats(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function(learner, ...)` mapped over the seats, of which one learner holds both."""
        if not self.stacked:
            mapped = jax.vmap(lambda *rest: function(self.row, *rest))
            return lambda *rest: mapped(*rest) if rest else function(self.row)
        return lambda *rest: eqx.filter_vmap(
            function, in_axes=(eqx.if_array(0), *(0 for _ in rest))
        )(self.row, *rest)


def _own(seen: tuple[Seen, Seen], action: Any, reward: Any) -> Seen:
    """What a seat sees, given its action and reward; the states are the same for both."""
    return replace(seen[0], action=action, reward=reward)


def _inform(learner: Learner, state: Any, seen: Seen, t: Any) -> Any:
    """The state after the feedback that the learner's type declares, and nothing else."""
    places = () if seen.state is None else (seen.state, seen.next_state)

    def feedback(action: Any, reward: Any, *places: Any) -> Any:
        if learner.sees is MarkovBandit:
            here, then = places
            return MarkovBandit(t, here, action, reward, then)
        return Bandit(t, action, reward)

    if learner.sees is Foresight:
        return state
    if learner.sees is Nothing:
        return learner.update(state, Nothing(t))
    if learner.sees is Values:
        return learner.update(state, Values(t, seen.values(), seen.played))
    if isinstance(learner, ContextLearner):
        one = jax.vmap(lambda state, *own: learner.update(state, feedback(*own)))
        return one(state, seen.action, seen.reward, *places)
    return learner.update(state, feedback(seen.action, seen.reward, *places))


def seat(row: Learner, column: Learner) -> Seats:
    """Seat two learners: apart, or together where they have a context and are of one shape.

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
