"""Tokens for Markov games of any number of states and actions, any range of rewards, any noise.

This module extends `_adaptive` to games with states. States are numbered in the order in which they
were first visited, and the actions of each state in the order in which they were first played
there. Rewards are written as shares of the range seen so far, and values in widths of that range.

A token carries the statistics of an actor-critic learner. The critic estimates values relative to
the mean reward so far, so that it may start from zero. After action `a` in state `s`, with reward
`r` and next state `z`,

    target = r - mean reward + discount V(z)
    V(s) += visits^-0.7 (target - V(s))
    Q(s, a) += max(1 / plays, 0.1) (target - Q(s, a))

The token of a round shows the state of the round and the statistics of its actions, the same for
the next state, and the values of all states. The outputs at a token give all states' policies.

`MarkovTokens.note` writes one round; `MarkovTokens.history` scans it over whole histories.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from equipoise.incontext._adaptive import FADING, FEWEST, change, name_next, read_slots, share_of
from equipoise.incontext._tokens import Tokens, clock

#: Smallest step size of the estimates of action values.
LEAST_STEP = 0.1
#: Largest error of a value that a token shows, in widths of the range of rewards.
CLIP = 4.0


class MarkovBook(eqx.Module):
    """Statistics that a player keeps of its play, in addition to the cache of its transformer."""

    #: Number of own actions. They are the first entries of the arrays below.
    count: Int[Array, ""]
    #: Whether the opponent's actions are shown.
    shown: Array
    discount: Float[Array, ""]
    #: Slot of each state; the number of slots or more if the state was not visited.
    places: Int[Array, " states"]
    #: Slot of each own action, and of each of the opponent's actions, in every state.
    names: Int[Array, "states actions"]
    others: Int[Array, "states most"]
    #: First reward, which is subtracted from all rewards below, and the sum of the others.
    first: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]
    total: Float[Array, ""]
    #: For each state and action: the number of plays, the total reward, the sum of its
    #: probabilities before exploration, and a discounted sum of importance-weighted errors.
    times: Float[Array, "states actions"]
    earned: Float[Array, "states actions"]
    held: Float[Array, "states actions"]
    recent: Float[Array, "states actions"]
    #: Estimates of the critic.
    quality: Float[Array, "states actions"]
    value: Float[Array, " states"]

    @property
    def seen(self) -> Array:
        """Whether each action was played in each state."""
        return self.times > 0


class MarkovTokens(Tokens):
    """One token per round for up to `actions` actions and `states` states; see the module.

    **Example**

    >>> tokens = MarkovTokens(actions=4, states=5)
    >>> book = tokens.begin(3, 2, discount=0.9)
    >>> held = jnp.full(3, 1 / 3)
    >>> token, book = tokens.note(book, 1, jnp.int32(2), 5.0, held, None, 0, 1)
    >>> token.shape[-1] == tokens.features, book.places.tolist()
    (True, [0, 1])
    """

    actions: int = eqx.field(static=True)
    states: Any = eqx.field(static=True)

    @property
    def features(self) -> int:
        """Length of the vector of a token."""
        return 2 + (self.actions - FEWEST + 1) + 7 + 15 * self.actions + 4 * self.states + 6

    @property
    def outputs(self) -> int:
        """Number of outputs: for each state, one per slot and one for all unplayed actions."""
        return self.states * (self.actions + 1)

    @property
    def per_round(self) -> int:
        """One."""
        return 1

    def begin(
        self, actions: int, states: int | None = None, start: int = 0, discount: float = 0.0
    ) -> MarkovBook:
        """Return the book of a player with this many actions and states before the first round."""
        states = self.states if states is None else states
        zero, none = jnp.zeros(()), jnp.zeros((states, actions))
        return MarkovBook(
            count=jnp.int32(actions),
            shown=jnp.zeros((), bool),
            discount=jnp.asarray(discount, zero.dtype),
            places=jnp.full(states, self.states, jnp.int32).at[start].set(0),
            names=jnp.full((states, actions), self.actions, jnp.int32),
            others=jnp.full((states, self.actions), self.actions, jnp.int32),
            **dict.fromkeys(("first", "low", "high", "total"), zero),
            **dict.fromkeys(("times", "earned", "held", "recent", "quality"), none),
            value=jnp.zeros(states),
        )

    def opening(self, state: Any, book: MarkovBook | None = None) -> Float[Array, "1 features"]:
        """Return the one token that precedes the first round."""
        book = self.begin(FEWEST) if book is None else book
        rest = self.features - 2 - (self.actions - FEWEST + 1) - 3
        told = self._told(book)
        return jnp.concatenate([jnp.ones(1), told, jnp.zeros(rest), clock(0)])[None]

    def note(
        self,
        book: MarkovBook,
        t: Any,
        action: Any,
        reward: Any,
        held: Any,
        other: Any,
        state: Any,
        next_state: Any,
    ) -> tuple[Float[Array, "1 features"], MarkovBook]:
        """Return the token of round `t` and the book after it.

        `held` is the policy of the round at its state, before exploration; `other` is the
        opponent's action, or None if it is not shown.
        """
        states, actions = book.times.shape
        at = jax.nn.one_hot(state, states)
        chosen = jax.nn.one_hot(action, actions)
        here = at[:, None] * chosen[None]
        reward = jnp.asarray(reward, here.dtype)
        first = jnp.where(t == 1, reward, book.first)
        own = reward - first
        low, high = jnp.minimum(book.low, own), jnp.maximum(book.high, own)
        width, share = high - low, share_of(own, low, high)
        unit = jnp.where(width > 0, 1.0 / jnp.where(width > 0, width, 1.0), 0.0)
        total, times = book.total + own, book.times + here
        visits = times.sum(1)
        target = own - total / t + book.discount * book.value[next_state]
        error = target - book.value[state]
        shown_error = jnp.clip(error * unit, -CLIP, CLIP)
        weighted = chosen * 0.1 * shown_error / (held[action] + 0.1)
        step = jnp.maximum(visits[state], 1.0) ** -0.7
        plays = times[state, action]
        others = book.others
        if other is not None:
            others = others.at[state].set(name_next(others[state], other, self.actions))
        after = MarkovBook(
            count=book.count,
            shown=book.shown,
            discount=book.discount,
            places=name_next(book.places, next_state, self.states),
            names=book.names.at[state].set(name_next(book.names[state], action, self.actions)),
            others=others,
            first=first,
            low=low,
            high=high,
            total=total,
            times=times,
            earned=book.earned + own * here,
            held=book.held + at[:, None] * held[None],
            recent=book.recent * (1.0 - (1.0 - FADING) * at[:, None])
            + at[:, None] * weighted[None],
            quality=book.quality
            + here * jnp.maximum(1.0 / plays, LEAST_STEP) * (target - book.quality),
            value=book.value + at * step * error,
        )
        beside = jnp.zeros(self.actions)
        if other is not None:
            beside = jax.nn.one_hot(others[state, other], self.actions) * book.shown
        seen = times[state] > 0
        numbers = jnp.stack(
            [
                share,
                (book.count - seen.sum()) / self.actions,
                *change(book.low, book.high, low, high),
                shown_error,
                visits[state] / t,
                visits[next_state] / t,
            ]
        )
        happened = jnp.stack([chosen, chosen * share, weighted, jnp.where(seen, held, 0.0)])
        by_place = jax.nn.one_hot(after.places, self.states)
        overall = jnp.stack([after.value * unit, visits / t]) @ by_place
        token = jnp.concatenate(
            [
                jnp.zeros(1),
                self._told(book),
                numbers,
                self._by_slot(happened, after.names[state]),
                self._known(after, state, unit),
                beside,
                self._known(after, next_state, unit),
                by_place[state],
                by_place[next_state],
                overall.reshape(-1),
                clock(visits[state]),
                clock(t),
            ]
        )
        return token[None], after

    def history(
        self,
        book: MarkovBook,
        actions: Int[Array, " rounds"],
        rewards: Float[Array, " rounds"],
        held: Float[Array, "rounds actions"],
        others: Int[Array, " rounds"],
        states: Int[Array, " visits"],
    ) -> tuple[Float[Array, "length features"], Array, Array]:
        """Return the tokens of a history that starts from a book, the slots of actions at its end,
        and whether each action was played before each round, (rounds + 1, states, actions)."""
        t = jnp.arange(1, actions.shape[0] + 1)

        def one(book: MarkovBook, moment: Any) -> tuple[MarkovBook, Any]:
            token, after = self.note(book, *moment)
            return after, (token[0], after.seen)

        moments = (t, actions, rewards, held, others, states[:-1], states[1:])
        last, (body, seen) = jax.lax.scan(one, book, moments)
        tokens = jnp.concatenate([self.opening(None, book), body])
        return tokens, self.slots(last), jnp.concatenate([book.seen[None], seen])

    def slots(self, book: MarkovBook) -> Int[Array, "states actions"]:
        """Return the index of the output of each action in each state."""
        place = jnp.minimum(book.places, self.states - 1)
        return place[:, None] * (self.actions + 1) + jnp.minimum(book.names, self.actions)

    def read(
        self, outputs: Float[Array, "*rounds outputs"], slots: Any, seen: Any, count: Any
    ) -> Float[Array, "*rounds states actions"]:
        """Read the policies at all states from the outputs, over the first `count` actions.

        Policies are uniform in states where no action was played yet.
        """
        return read_slots(outputs, slots, seen, count, self.actions)

    def _told(self, book: MarkovBook) -> Array:
        sizes = jax.nn.one_hot(book.count - FEWEST, self.actions - FEWEST + 1)
        return jnp.concatenate([jnp.asarray(book.shown, sizes.dtype)[None], sizes])

    def _known(self, book: MarkovBook, state: Any, unit: Any) -> Array:
        """Return the statistics of the actions of a state, in the order of slots."""
        times, seen = book.times[state], book.seen[state]
        visits = jnp.maximum(times.sum(), 1.0)
        mean = share_of(book.earned[state] / jnp.maximum(times, 1.0), book.low, book.high)
        better = jnp.clip(unit * (book.quality[state] - book.value[state]), -CLIP, CLIP)
        rows = (mean, times / visits, book.held[state] / visits, better)
        known = [jnp.where(seen, row, 0.0) for row in rows]
        return self._by_slot(jnp.stack([*known, book.recent[state]]), book.names[state])

    def _by_slot(self, rows: Array, names: Array) -> Array:
        place = jax.nn.one_hot(names, self.actions)  # zero for actions that were not played
        return jnp.matmul(rows, place, precision="highest").reshape(-1)
