"""Tokens for games of any size, any range of rewards and any noise.

A player that writes these tokens depends neither on the order of its actions nor on the unit of
its rewards, by construction:

- **Actions are called by the order in which they were first played.** Slot 0 is the action of
  the first round, slot 1 the next that is new, and so on. Actions that were never played share one
  output, so that they have equal probabilities. Relabelling the actions of a game relabels
  everything the player does.
- **Rewards are written relative to those seen so far**, as shares of the range from the lowest
  to the highest. Rewards in another unit, or with something added, give the same tokens.

A token also carries what a no-regret learner would keep: the policy that was held, the mean reward
and the frequency of every action, the mean policy, and a fading sum of importance-weighted
rewards. The policy makes the network recurrent: what it decided in one round is an input of the
next.

`AdaptiveTokens.note` writes one round, for play; `AdaptiveTokens.history` writes whole histories
at once, for training. The two agree up to rounding. Both are for one sequence; the caller `vmap`s.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from equipoise.incontext._tokens import Tokens, clock

#: What the sum of importance-weighted rewards keeps from round to round.
FADING = 0.9
#: Smallest number of actions that a count can say.
FEWEST = 2


class Book(eqx.Module):
    """What a player remembers of its play beside the cache of its transformer."""

    #: Number of own actions that count: the first ones of the arrays below.
    count: Int[Array, ""]
    #: Whether the opponent's actions are shown.
    shown: Array
    #: The slot of each own action, and of each of the opponent's; beyond all slots if not played.
    slots: Int[Array, " actions"]
    others: Int[Array, " most"]
    #: The first reward, which is subtracted from all rewards below.
    first: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]
    #: For each action: how often it was played, what it earned, the sum of the probabilities with
    #: which it was held, and a discounted sum of its importance-weighted rewards.
    times: Float[Array, " actions"]
    earned: Float[Array, " actions"]
    held: Float[Array, " actions"]
    recent: Float[Array, " actions"]


class AdaptiveTokens(Tokens):
    """One token a round for up to `actions` actions; see the module.

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
        return 9 * self.actions + (self.actions - FEWEST + 1) + 6 + 3

    @property
    def outputs(self) -> int:
        """One for every slot, and one for all actions that were not played."""
        return self.actions + 1

    @property
    def per_round(self) -> int:
        """One."""
        return 1

    def begin(self, actions: int) -> Book:
        """The book of a player with so many actions, before the first round."""
        zero, none = jnp.zeros(()), jnp.zeros(actions)
        return Book(
            count=jnp.int32(actions),
            shown=jnp.zeros((), bool),
            slots=jnp.full(actions, self.actions, jnp.int32),
            others=jnp.full(self.actions, self.actions, jnp.int32),
            **dict.fromkeys(("first", "low", "high"), zero),
            **dict.fromkeys(("times", "earned", "held", "recent"), none),
        )

    def opening(self, state: Any, book: Book | None = None) -> Float[Array, "1 features"]:
        """One token that says that nothing has happened."""
        book = self.begin(FEWEST) if book is None else book
        return self._open(book.count, book.shown)[None]

    def note(
        self, book: Book, t: Any, action: Any, reward: Any, held: Any, other: Any
    ) -> tuple[Float[Array, "1 features"], Book]:
        """The token of round `t`, and the book after it.

        `held` is the policy of the round before exploration; `other` is the opponent's action,
        None where it is not shown.
        """
        here = jax.nn.one_hot(action, book.slots.shape[0])
        slots = _name(book.slots, action, self.actions)
        reward = jnp.asarray(reward, here.dtype)
        first = jnp.where(t == 1, reward, book.first)
        own = reward - first
        low, high = jnp.minimum(book.low, own), jnp.maximum(book.high, own)
        share = _share(own, low, high)
        weighted = here * _weighted(share, held[action])
        after = Book(
            count=book.count,
            shown=book.shown,
            slots=slots,
            others=book.others if other is None else _name(book.others, other, self.actions),
            first=first,
            low=low,
            high=high,
            times=book.times + here,
            earned=book.earned + own * here,
            held=book.held + held,
            recent=FADING * book.recent + weighted,
        )
        seen, beside = after.times > 0, jnp.zeros(self.actions)
        if other is not None:
            beside = jax.nn.one_hot(after.others[other], self.actions) * book.shown
        mean = after.earned / jnp.maximum(after.times, 1.0)
        token = self._token(
            (here, here * share, weighted, jnp.where(seen, _share(mean, low, high), 0.0)),
            (after.times / t, jnp.where(seen, held, 0.0), jnp.where(seen, after.held / t, 0.0)),
            after.recent,
            slots,
            share,
            seen.sum(),
            _change(book.low, book.high, low, high),
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
        """The tokens of a whole history, the slots of actions at its end, and who was seen when.

        The last is (rounds + 1, actions): whether an action was played before each round.
        """
        rounds, size = held.shape
        here = jax.nn.one_hot(actions, size)
        times, t = jnp.cumsum(here, 0), jnp.arange(1, rounds + 1)
        seen, slots = times > 0, _ranks(here)
        own = rewards - rewards[0]
        low, high = jax.lax.cummin(own), jax.lax.cummax(own)  # from 0 on, the first
        before = [jnp.concatenate([jnp.zeros(1), a[:-1]]) for a in (low, high)]
        share = _share(own, low, high)
        weighted = here * _weighted(share, (held * here).sum(1))[:, None]
        gone = t[:, None] - t[None, :]
        fade = jnp.where(gone >= 0, FADING ** jnp.maximum(gone, 0), 0.0)
        mean = jnp.cumsum(own[:, None] * here, 0) / jnp.maximum(times, 1.0)
        mean = jnp.where(seen, _share(mean, low[:, None], high[:, None]), 0.0)
        average = jnp.cumsum(held, 0) / t[:, None]
        opponents = jax.nn.one_hot(others, self.actions)
        beside = jax.nn.one_hot(_ranks(opponents)[others], self.actions) * shown
        body = jax.vmap(self._token, (0, 0, 0, None, 0, 0, 0, (None, None, 0, 0)))(
            (here, here * share[:, None], weighted, mean),
            (times / t[:, None], jnp.where(seen, held, 0.0), jnp.where(seen, average, 0.0)),
            jnp.matmul(fade, weighted, precision="highest"),
            slots,
            share,
            seen.sum(1),
            _change(before[0], before[1], low, high),
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
        """The policies that the outputs say, over the first `count` actions."""
        outputs = outputs.astype(jnp.promote_types(outputs.dtype, jnp.float32))
        of_slots = outputs[..., jnp.minimum(slots, self.actions)]
        logits = jnp.where(seen, of_slots, outputs[..., self.actions :])
        own = jnp.arange(slots.shape[0]) < count
        return jax.nn.softmax(jnp.where(own, logits, -jnp.inf), -1)

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
        change: Any,
        rest: Any,
    ) -> Array:
        """Features in the order of slots."""
        count, shown, beside, t = rest
        place = jax.nn.one_hot(slots, self.actions)  # of actions that were not played: nowhere
        rows = jnp.stack([*happened, *kept, recent])
        by_slot = jnp.matmul(rows, place, precision="highest")  # rewards keep their digits
        told = self._open(count, shown)[1 : 1 + 1 + self.actions - FEWEST + 1]
        missing = (count - seen) / self.actions
        numbers = jnp.stack([share, missing, *change])
        return jnp.concatenate([jnp.zeros(1), told, numbers, by_slot.reshape(-1), beside, clock(t)])


def _ranks(here: Float[Array, "rounds actions"]) -> Int[Array, " actions"]:
    """The slots of actions: those never played come last."""
    first = jnp.where(here.any(0), jnp.argmax(here, 0), here.shape[0])
    order = first * here.shape[1] + jnp.arange(here.shape[1])
    return (order[None, :] < order[:, None]).sum(1).astype(jnp.int32)


def _name(slots: Any, action: Any, most: int) -> Array:
    """The slots after an action: a new one takes the next slot."""
    following = (slots < most).sum().astype(jnp.int32)
    return slots.at[action].set(jnp.minimum(slots[action], following))


def _share(reward: Any, low: Any, high: Any) -> Array:
    """Where a reward is in the range so far; a half where there is no range yet."""
    width = high - low
    return jnp.where(width > 0, (reward - low) / jnp.where(width > 0, width, 1.0), 0.5)


def _weighted(share: Any, chance: Any) -> Array:
    return 0.1 * (share - 0.5) / (chance + 0.1)


def _change(low: Any, high: Any, new_low: Any, new_high: Any) -> tuple[Array, Array]:
    """How the range grew: the old width, and the way from the new low to the old, in new widths."""
    width = new_high - new_low
    some, safe = width > 0, jnp.where(width > 0, width, 1.0)
    return jnp.where(some, (high - low) / safe, 1.0), jnp.where(some, (low - new_low) / safe, 0.0)
