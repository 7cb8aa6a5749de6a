"""Who sits at the table: frozen transformers, no-regret learners, a best responder.

A team holds one seat or both, for a batch of games at once. It is told what its own seats may
know (their actions and rewards, and the states) and nothing of the others: play is
uncoupled by construction. The exceptions are opponents for comparison: learners under full
information are told what each of their actions would have earned, and the best responder, which
is there to be feared, sees the game and the policy it is about to meet.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from equipoise.dynamics import Bandit, Learner, MarkovBandit, Nothing, Spec, Values
from equipoise.incontext._gaps import best_response
from equipoise.incontext._model import Transformer
from equipoise.incontext._players import Players, Reading, read_policies
from equipoise.incontext._tokens import Tokens

#: Learners are updated for at least so many games at once: XLA on a CPU has been seen to compile
#: their steps wrongly for fewer, and `equipoise.dynamics` keeps to the same.
SMALLEST = 16


class Board(eqx.Module):
    """A batch of games, rewards of the row player in [0, 1]."""

    #: (batch, rows, columns), or (batch, states, rows, columns).
    reward: Float[Array, "batch *states rows columns"]
    #: (batch, states, rows, columns, states); None for matrix games.
    transition: Float[Array, "batch states rows columns states"] | None = None
    discount: float = eqx.field(static=True, default=0.0)

    @property
    def actions(self) -> tuple[int, int]:
        """Of the row and of the column player."""
        return self.reward.shape[-2], self.reward.shape[-1]

    @property
    def states(self) -> int | None:
        """Number of states; None for matrix games."""
        return None if self.transition is None else self.reward.shape[1]


class Seen(eqx.Module):
    """What the seats of one team saw of a round."""

    #: From 1.
    round: Any
    actions: Int[Array, "seats batch"]
    #: Their own, in [0, 1]; larger is better for them.
    rewards: Float[Array, "seats batch"]
    #: (batch,), or None in matrix games.
    state: Any
    next_state: Any
    #: (seats, batch, actions), only for a team that is `informed`: the policies they played, and
    #: what each own action earns against the policy it met.
    policies: Any = None
    values: Any = None


class Team(eqx.Module):
    """A player of one seat or of both."""

    #: (0,) for the row player's seat, (1,) for the column player's, or (0, 1).
    seats: eqx.AbstractVar[tuple[int, ...]]

    @property
    def informed(self) -> bool:
        """Whether it is told what each of its actions would have earned."""
        return False

    @abstractmethod
    def begin(self, board: Board, place: Any) -> Any:
        """The state before the first round, which begins in the states `place`."""

    @abstractmethod
    def policies(self, state: Any, board: Board, met: Any) -> Array:
        """Policies of the round to come: (seats, batch, actions), or with states before actions.

        `met` is the policy of the other seat, which only a best responder may look at.
        """

    @abstractmethod
    def observe(self, state: Any, seen: Seen, reach: int) -> Any:
        """The state after a round; at most `reach` rounds have been played with it."""


class FrozenState(eqx.Module):
    """What a transformer remembers: its cache, its latest outputs, the number of tokens."""

    cache: Any
    outputs: Float[Array, "models sequences outputs"]
    position: Any


class Frozen(Team):
    """Transformers that play in context. Two seats of one model are one batch of sequences."""

    models: Transformer
    tokens: Tokens
    actions: tuple[int, int] = eqx.field(static=True)
    states: int | None = eqx.field(static=True)
    reading: Reading = eqx.field(static=True)
    #: Rounds the cache has room for.
    rounds: int = eqx.field(static=True)
    seats: tuple[int, ...] = eqx.field(static=True, default=(0, 1))

    @staticmethod
    def of(players: Players, rounds: int, seats: tuple[int, ...] = (0, 1)) -> "Frozen":
        """The team of one pair of players; of one of them, when `seats` names one."""
        first = {1: 0, 2: seats[0]}[players.seats]
        count = 1 if players.seats == 1 else len(seats)
        models = jax.tree.map(
            lambda leaf: leaf[0, first : first + count] if eqx.is_array(leaf) else leaf,
            players.models,
        )
        return Frozen(
            models=models,
            tokens=players.tokens,
            actions=players.actions,
            states=players.states,
            reading=players.reading,
            rounds=rounds,
            seats=seats,
        )

    def begin(self, board: Board, place: Any) -> FrozenState:
        """Read the opening tokens."""
        batch = board.reward.shape[0]
        if place is None:
            opening = jnp.broadcast_to(
                self.tokens.opening(None), (batch, *self.tokens.opening(None).shape)
            )
        else:
            opening = jax.vmap(self.tokens.opening)(place)
        opening = self._rows(jnp.broadcast_to(opening, (len(self.seats), *opening.shape)))
        length = self.tokens.length(self.rounds)
        sequences = opening.shape[1]

        def empty(model: Transformer) -> Any:
            one = model.cache(length)
            return jax.tree.map(lambda a: jnp.zeros((sequences, *a.shape), a.dtype), one)

        state = FrozenState(
            eqx.filter_vmap(empty)(self.models),
            jnp.zeros((*opening.shape[:2], self.models.readout.shape[1])),
            jnp.int32(0),
        )
        return self._read(state, opening, opening.shape[2])

    def policies(self, state: FrozenState, board: Board, met: Any) -> Array:
        """Read from the latest outputs."""
        outputs = state.outputs.reshape(len(self.seats), -1, state.outputs.shape[-1])
        both = [
            read_policies(outputs[i], self.actions, self.states, self.reading)[seat]
            for i, seat in enumerate(self.seats)
        ]
        return jnp.stack(both)

    def observe(self, state: FrozenState, seen: Seen, reach: int) -> FrozenState:
        """Read the tokens of the round."""

        def write(action: Any, reward: Any, here: Any, then: Any) -> Array:
            return self.tokens.round(seen.round, action, reward, here, then)

        games = jax.vmap(write, in_axes=(0, 0, *(2 * [None if seen.state is None else 0])))
        seats = jax.vmap(games, in_axes=(0, 0, None, None))
        tokens = seats(seen.actions, seen.rewards, seen.state, seen.next_state)
        return self._read(state, self._rows(tokens), self.tokens.length(reach))

    def _rows(self, tokens: Array) -> Array:
        """(seats, batch, ...) as (models, sequences, ...)."""
        return tokens.reshape(self.models.embed.shape[0], -1, *tokens.shape[2:])

    def _read(self, state: FrozenState, tokens: Array, reach: int) -> FrozenState:
        def one(model: Transformer, token: Array, cache: Any, position: Any) -> tuple[Any, Any]:
            return model.step(token, cache, position, reach)

        sequences = jax.vmap(one, in_axes=(None, 0, 0, None))
        models = eqx.filter_vmap(sequences, in_axes=(eqx.if_array(0), 0, 0, None))
        cache, outputs, position = state.cache, state.outputs, state.position
        for i in range(tokens.shape[2]):
            outputs, cache = models(self.models, tokens[:, :, i], cache, position)
            position = position + 1
        return FrozenState(cache, outputs.astype(state.outputs.dtype), position)


class Learning(Team):
    """A learner of `equipoise.dynamics` in one seat."""

    learner: Learner
    seats: tuple[int, ...] = eqx.field(static=True)

    @property
    def informed(self) -> bool:
        """Learners under full information are."""
        return self.learner.sees is Values

    def begin(self, board: Board, place: Any) -> Any:
        """The learner's own first state, for every game."""
        batch = max(board.reward.shape[0], SMALLEST)
        spec = Spec(board.actions[self.seats[0]], board.states, board.discount)

        def spread(leaf: Any) -> Array:
            return jnp.broadcast_to(leaf[..., None], (*leaf.shape, batch))

        return jax.tree.map(spread, self.learner.init(spec))

    def policies(self, state: Any, board: Board, met: Any) -> Array:
        """The learner's policy; batch axes, which it keeps last, come first."""
        policy = jnp.moveaxis(self.learner.policy(state), -1, 0)[: board.reward.shape[0]]
        missing = max(board.actions) - policy.shape[-1]
        return jnp.pad(policy, [(0, 0)] * (policy.ndim - 1) + [(0, missing)])[None]

    def observe(self, state: Any, seen: Seen, reach: int) -> Any:
        """Update the learner with the feedback its type declares."""
        if self.learner.sees is Nothing:
            return self.learner.update(state, Nothing(seen.round))
        if self.informed:
            values = _wide(seen.values[0].T)
            played = _wide(seen.policies[0].T)[: values.shape[0]]
            return self.learner.update(state, Values(seen.round, values, played))
        action, reward = _wide(seen.actions[0]), _wide(seen.rewards[0])
        if seen.state is None:
            return self.learner.update(state, Bandit(seen.round, action, reward))
        here, then = _wide(seen.state), _wide(seen.next_state)
        return self.learner.update(state, MarkovBandit(seen.round, here, action, reward, then))


def _wide(array: Array) -> Array:
    """Batch last, with at least `SMALLEST` games: those added repeat the last."""
    missing = max(0, SMALLEST - array.shape[-1])
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)], mode="edge")


class Responding(Team):
    """The best response to the policy it is about to meet, in every round."""

    seats: tuple[int, ...] = eqx.field(static=True)

    def begin(self, board: Board, place: Any) -> Any:
        """It remembers nothing."""
        return None

    def policies(self, state: Any, board: Board, met: Any) -> Array:
        """A best response to `met`."""
        own = self.seats[0]
        # The responder's own actions first, then those of the policy it meets.
        reward = board.reward if own == 0 else 1.0 - jnp.swapaxes(board.reward, -1, -2)
        met = met[..., : reward.shape[-1]]
        values = jnp.einsum("...ab,...b->...a", reward, met)
        if board.transition is None:
            response = jax.nn.one_hot(values.argmax(-1), values.shape[-1])
        else:
            moves = board.transition if own == 0 else jnp.swapaxes(board.transition, -2, -3)
            moves = jnp.einsum("...abz,...b->...az", moves, met)
            _, response = best_response(values, moves, board.discount)
        missing = max(board.actions) - response.shape[-1]
        return jnp.pad(response, [(0, 0)] * (response.ndim - 1) + [(0, missing)])[None]

    def observe(self, state: Any, seen: Seen, reach: int) -> Any:
        """It learns nothing."""
        return state
