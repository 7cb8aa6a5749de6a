"""Tokens for games of any size, any range of rewards and any noise.

A player that writes these tokens depends neither on the order of its actions nor on the unit of
its rewards, by construction:

- **Actions are numbered in the order in which they were first played.** Slot 0 is the action of
  the first round, slot 1 the next new action, and so on. Actions that were never played share one
  output, so that they have equal probabilities. Relabelling the actions of a game relabels all the
  player's actions in the same way.
- **Rewards are written relative to those seen so far**, as shares of the range from the lowest
  to the highest. Rewards in another unit, or shifted by a constant, give the same tokens.

A token also carries the statistics that a no-regret learner would keep: the policy before
exploration, the mean reward and the frequency of every action, the mean policy, and a discounted
sum of importance-weighted rewards. It lists the distinct rewards that each action has earned, in
the order of their first occurrence, with their frequencies: if rewards are exact, each of them
stands for an action of the opponent, or for several with the same payoff. The policy makes the
network recurrent: its decision in one round is an input of the next.

`AdaptiveTokens.note` writes one round, for play; `AdaptiveTokens.history` writes whole histories
at once, for training. The two agree up to rounding. Both are for one sequence; the caller `vmap`s.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from equipoise.incontext._tokens import Tokens, clock

#: Discount per round of the sum of importance-weighted rewards.
FADING = 0.9
#: Smallest number of actions that a token can encode.
FEWEST = 2
#: Largest number of distinct rewards that are tracked per action.
OUTCOMES = 6


class Book(eqx.Module):
    """Statistics that a player keeps of its play, in addition to the cache of its transformer."""

    #: Number of own actions. They are the first entries of the arrays below.
    count: Int[Array, ""]
    #: Whether the opponent's actions are shown.
    shown: Array
    #: Slot of each own and each opponent's action; the number of slots or more if not played.
    slots: Int[Array, " actions"]
    others: Int[Array, " most"]
    #: First reward, which is subtracted from all rewards below.
    first: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]
    #: For each action: the number of plays, the total reward, the sum of its probabilities before
    #: exploration, and a discounted sum of its importance-weighted rewards.
    times: Float[Array, " actions"]
    earned: Float[Array, " actions"]
    held: Float[Array, " actions"]
    recent: Float[Array, " actions"]
    #: Distinct rewards of each action in the order of their first occurrence, and their counts.
    #: Only the first `OUTCOMES` are kept.
    outcomes: Float[Array, "actions outcomes"]
    tally: Float[Array, "actions outcomes"]

    @property
    def seen(self) -> Array:
        """Whether each action was played."""
        return self.times > 0


class AdaptiveTokens(Tokens):
    """One token per round for up to `actions` actions; see the module.

    **Example**

    >>> tokens = AdaptiveTokens(actions=6)
    >>> book, held = tokens.begin(3), jnp.full(3, 1 / 3)
    >>> token, book = tokens.note(book, 1, jnp.int32(2), 5.0, held, None)
    >>> token.shape[-1] == tokens.features, book.slots.tolist()
    (True, [6, 6, 0])
    """

    actions: int = eqx.field(static=True)
    states: int | None = eqx.field(static=True, default=None)

    @property
    def features(self) -> int:
        """Length of the vector of a token."""
        outcomes = OUTCOMES * (1 + 2 * self.actions)
        return 9 * self.actions + (self.actions - FEWEST + 1) + 6 + outcomes + 3

    @property
    def outputs(self) -> int:
        """Number of outputs: one per slot, and one for all actions that were not played."""
        return self.actions + 1

    @property
    def per_round(self) -> int:
        """One."""
        return 1

    def begin(self, actions: int, *_: Any) -> Book:
        """Return the book of a player with this many actions before the first round."""
        zero, none = jnp.zeros(()), jnp.zeros(actions)
        return Book(
            count=jnp.int32(actions),
            shown=jnp.zeros((), bool),
            slots=jnp.full(actions, self.actions, jnp.int32),
            others=jnp.full(self.actions, self.actions, jnp.int32),
            **dict.fromkeys(("first", "low", "high"), zero),
            **dict.fromkeys(("times", "earned", "held", "recent"), none),
            **dict.fromkeys(("outcomes", "tally"), jnp.zeros((actions, OUTCOMES))),
        )

    def slots(self, book: Book) -> Int[Array, " actions"]:
        """Return the index of the output of each action."""
        return jnp.minimum(book.slots, self.actions)

    def opening(self, state: Any, book: Book | None = None) -> Float[Array, "1 features"]:
        """Return the one token that precedes the first round."""
        book = self.begin(FEWEST) if book is None else book
        return self._open(book.count, book.shown)[None]

    def note(
        self, book: Book, t: Any, action: Any, reward: Any, held: Any, other: Any, *_: Any
    ) -> tuple[Float[Array, "1 features"], Book]:
        """Return the token of round `t` and the book after it.

        `held` is the policy of the round before exploration; `other` is the opponent's action, or
        None if it is not shown.
        """
        here = jax.nn.one_hot(action, book.slots.shape[0])
        slots = name_next(book.slots, action, self.actions)
        reward = jnp.asarray(reward, here.dtype)
        first = jnp.where(t == 1, reward, book.first)
        own = reward - first
        low, high = jnp.minimum(book.low, own), jnp.maximum(book.high, own)
        share = share_of(own, low, high)
        weighted = here * _weighted(share, held[action])
        known = book.tally[action] > 0
        same = known & (book.outcomes[action] == own)
        which = jnp.where(same.any(), jnp.argmax(same), known.sum())
        outcome = jax.nn.one_hot(which, OUTCOMES)
        earned_now = here[:, None] * outcome[None]
        after = Book(
            count=book.count,
            shown=book.shown,
            slots=slots,
            others=book.others if other is None else name_next(book.others, other, self.actions),
            first=first,
            low=low,
            high=high,
            times=book.times + here,
            earned=book.earned + own * here,
            held=book.held + held,
            recent=FADING * book.recent + weighted,
            outcomes=jnp.where(earned_now > 0, own, book.outcomes),
            tally=book.tally + earned_now,
        )
        seen, beside = after.times > 0, jnp.zeros(self.actions)
        if other is not None:
            beside = jax.nn.one_hot(after.others[other], self.actions) * book.shown
        mean = after.earned / jnp.maximum(after.times, 1.0)
        token = self._token(
            (here, here * share, weighted, jnp.where(seen, share_of(mean, low, high), 0.0)),
            (after.times / t, jnp.where(seen, held, 0.0), jnp.where(seen, after.held / t, 0.0)),
            after.recent,
            slots,
            share,
            seen.sum(),
            change(book.low, book.high, low, high),
            (outcome, *_outcomes(after.outcomes, after.tally, after.times, low, high)),
            (after.count, after.shown, beside, t),
        )
        return token[None], after

    def history(
        self,
        actions: Int[Array, " rounds"],
        rewards: Float[Array, " rounds"],
        held: Float[Array, "rounds actions"],
        others: Int[Array, " rounds"],
        count: Any,
        shown: Any,
    ) -> tuple[Float[Array, "length features"], Int[Array, " actions"], Array]:
        """Return the tokens of a whole history, the slots of actions at its end, and a mask.

        The mask, (rounds + 1, actions), says whether an action was played before each round.
        """
        rounds, size = held.shape
        here = jax.nn.one_hot(actions, size)
        times, t = jnp.cumsum(here, 0), jnp.arange(1, rounds + 1)
        seen, slots = times > 0, _ranks(here)
        own = rewards - rewards[0]
        low, high = jax.lax.cummin(own), jax.lax.cummax(own)  # they start at 0, the first reward
        before = [jnp.concatenate([jnp.zeros(1), a[:-1]]) for a in (low, high)]
        share = share_of(own, low, high)
        weighted = here * _weighted(share, (held * here).sum(1))[:, None]
        gone = t[:, None] - t[None, :]
        fade = jnp.where(gone >= 0, FADING ** jnp.maximum(gone, 0), 0.0)
        mean = jnp.cumsum(own[:, None] * here, 0) / jnp.maximum(times, 1.0)
        mean = jnp.where(seen, share_of(mean, low[:, None], high[:, None]), 0.0)
        average = jnp.cumsum(held, 0) / t[:, None]
        opponents = jax.nn.one_hot(others, self.actions)
        beside = jax.nn.one_hot(_ranks(opponents)[others], self.actions) * shown
        outcome, values, tally = _told_apart(actions, own, here)
        listed = jax.vmap(_outcomes, (None, 0, 0, 0, 0))(values, tally, times, low, high)
        body = jax.vmap(self._token, (0, 0, 0, None, 0, 0, 0, 0, (None, None, 0, 0)))(
            (here, here * share[:, None], weighted, mean),
            (times / t[:, None], jnp.where(seen, held, 0.0), jnp.where(seen, average, 0.0)),
            jnp.matmul(fade, weighted, precision="highest"),
            slots,
            share,
            seen.sum(1),
            change(before[0], before[1], low, high),
            (outcome, *listed),
            (count, shown, beside, t),
        )
        known = jnp.concatenate([jnp.zeros((1, size), bool), seen])
        return jnp.concatenate([self._open(count, shown)[None], body]), slots, known

    def read(
        self,
        outputs: Float[Array, "*rounds outputs"],
        slots: Int[Array, " actions"],
        seen: Any,
        count: Any,
    ) -> Float[Array, "*rounds actions"]:
        """Read the policies from the outputs, over the first `count` actions."""
        return read_slots(outputs, slots, seen, count, self.actions)

    def _open(self, count: Any, shown: Any) -> Array:
        rest = self.features - 3 - 2 - (self.actions - FEWEST + 1)
        sizes = jax.nn.one_hot(count - FEWEST, self.actions - FEWEST + 1)
        told = jnp.asarray(shown, sizes.dtype)
        return jnp.concatenate([jnp.ones(1), told[None], sizes, jnp.zeros(rest), clock(0)])

    def _token(
        self,
        happened: Any,
        kept: Any,
        recent: Any,
        slots: Any,
        share: Any,
        seen: Any,
        growth: Any,
        earned: Any,
        rest: Any,
    ) -> Array:
        """Return the features of a token, in the order of slots."""
        outcome, values, tally = earned
        count, shown, beside, t = rest
        place = jax.nn.one_hot(slots, self.actions)  # zero for actions that were not played
        # The highest precision keeps all digits of the rewards.
        by_slot, of_slots = (
            jnp.matmul(rows, place, precision="highest").reshape(-1)
            for rows in (jnp.stack([*happened, *kept, recent]), jnp.concatenate([values, tally]))
        )
        told = self._open(count, shown)[1 : 1 + 1 + self.actions - FEWEST + 1]
        missing = (count - seen) / self.actions
        numbers = jnp.stack([share, missing, *growth])
        own = jnp.concatenate([by_slot, beside, outcome, of_slots])
        return jnp.concatenate([jnp.zeros(1), told, numbers, own, clock(t)])


def read_slots(outputs: Array, slots: Array, seen: Any, count: Any, actions: int) -> Array:
    """Apply a softmax to the outputs of the first `count` actions; `slots` has their indices.

    Outputs come in groups of `actions + 1`, one group per state. The last output of a group is
    shared by all actions that were not played in the state.
    """
    outputs = outputs.astype(jnp.promote_types(outputs.dtype, jnp.float32))
    unplayed = slots // (actions + 1) * (actions + 1) + actions
    logits = jnp.where(seen, outputs[..., slots], outputs[..., unplayed])
    own = jnp.arange(slots.shape[-1]) < count
    return jax.nn.softmax(jnp.where(own, logits, -jnp.inf), -1)


def _ranks(here: Float[Array, "rounds actions"]) -> Int[Array, " actions"]:
    """Return the slots of actions; actions that were never played come last."""
    first = jnp.where(here.any(0), jnp.argmax(here, 0), here.shape[0])
    order = first * here.shape[1] + jnp.arange(here.shape[1])
    return (order[None, :] < order[:, None]).sum(1).astype(jnp.int32)


def name_next(slots: Any, action: Any, most: int) -> Array:
    """Return the slots after an action is played; a new action takes the next slot."""
    following = (slots < most).sum().astype(jnp.int32)
    return slots.at[action].set(jnp.minimum(slots[action], following))


def share_of(reward: Any, low: Any, high: Any) -> Array:
    """Return the position of a reward in the range so far, or 0.5 if the range is empty."""
    width = high - low
    return jnp.where(width > 0, (reward - low) / jnp.where(width > 0, width, 1.0), 0.5)


def _outcomes(values: Any, tally: Any, times: Any, low: Any, high: Any) -> tuple[Array, Array]:
    """(outcomes, actions) each: rewards as shares of the range, and their frequencies."""
    shares = jnp.where(tally > 0, share_of(values, low, high), 0.0)
    return shares.T, (tally / jnp.maximum(times, 1.0)[:, None]).T


def _told_apart(actions: Any, rewards: Any, here: Any) -> tuple[Array, Array, Array]:
    """Find the distinct rewards of every action in a whole history.

    Return which distinct reward of its action each round earned, (rounds, outcomes); the distinct
    rewards; and how often each was earned up to every round, (rounds, actions, outcomes).
    """
    same = (actions[:, None] == actions[None]) & (rewards[:, None] == rewards[None])
    first = jnp.argmax(same, 1)
    new = first == jnp.arange(actions.shape[0])
    order = ((jnp.cumsum(here * new[:, None], 0) * here).sum(1) - 1.0)[first]
    outcome = jax.nn.one_hot(order.astype(jnp.int32), OUTCOMES)
    earned = here[:, :, None] * outcome[:, None]
    values = jnp.where(new[:, None, None], earned * rewards[:, None, None], 0.0).sum(0)
    return outcome, values, jnp.cumsum(earned, 0)


def _weighted(share: Any, chance: Any) -> Array:
    return 0.1 * (share - 0.5) / (chance + 0.1)


def change(low: Any, high: Any, new_low: Any, new_high: Any) -> tuple[Array, Array]:
    """Return the old width of the range and the drop of its lower end, in new widths."""
    width = new_high - new_low
    some, safe = width > 0, jnp.where(width > 0, width, 1.0)
    return jnp.where(some, (high - low) / safe, 1.0), jnp.where(some, (low - new_low) / safe, 0.0)
