"""One player on its own, for a human or another program on the other side."""

from dataclasses import replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import checks
from equipoise.core.precision import single_precision
from equipoise.core.rewards import check_reward_range
from equipoise.incontext._episode import explored_share
from equipoise.incontext._play import SEATS
from equipoise.incontext._players import Players, check_one_pair, read_policies
from equipoise.incontext._teams import Board, Frozen, FrozenState, Seen
from equipoise.incontext._tokens import Tokens

#: Rounds there is room for at first; the room doubles whenever it is used up.
FIRST_ROOM = 64


class Opponent:
    """A frozen player that is told what it did and got, and says how it plays next.

    Nobody needs to know the game: ask for the `policy`, draw an action from it, find out the
    reward wherever the game is played, and let the player `observe` both.

    **Arguments**

    - `players`: one pair; the one that sits in `seat` plays.
    - `state`: where play begins, in Markov games.
    - `reward_range`: of its own rewards, which are scaled from it to [0, 1].

    **Example**

    >>> import numpy as np, equipoise as eq
    >>> opponent = eq.incontext.Opponent(eq.incontext.load("iid3"))
    >>> rng, payoff = np.random.default_rng(0), np.eye(3)
    >>> for _ in range(20):
    ...     mine = 2  # always the same
    ...     action = rng.choice(3, p=opponent.policy(explored=True))
    ...     opponent.observe(action, reward=payoff[action, mine])
    >>> opponent.rounds, bool(opponent.policy()[2] > 0.5)
    (20, True)
    """

    def __init__(
        self,
        players: Players,
        seat: Literal["row", "column"] = "row",
        state: int = 0,
        *,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ):
        check_one_pair(players)
        if seat not in SEATS:
            raise ValueError(f"seat: expected one of {list(SEATS)}, found {seat!r}")
        self._range = check_reward_range(reward_range)
        self._seat = SEATS.index(seat)
        self._states = players.states
        self._exploration = players.exploration
        self._actions = players.actions[self._seat]
        self._here = self._check_state("state", state)
        #: Rounds observed so far.
        self.rounds = 0
        with single_precision():
            team = Frozen.of(players, _room(players.tokens, FIRST_ROOM), (self._seat,))
            # What is compiled does not depend on the seat.
            self._team = replace(team, seats=(0,))
            self._memory = _begin(self._team, self._place(self._here))
        self._read()

    @property
    def state(self) -> int | None:
        """Where play is, in Markov games; otherwise None."""
        return None if self._states is None else self._here

    def policy(
        self, state: int | np.integer | None = None, *, explored: bool = False
    ) -> np.ndarray:
        """(actions,): how it plays the round to come, here or in another `state`.

        Float64, and sums to one. Asking changes nothing. With `explored`, the share of uniform
        play that the player was trained with is mixed in: a player that plays no action but its
        best learns nothing of the others.
        """
        if self._states is None:
            if state is not None:
                raise ValueError(f"state: expected None in matrix games, found {state}")
            policy = self._policies.copy()
        else:
            place = self._here if state is None else self._check_state("state", state)
            policy = self._policies[place].copy()
        if not explored:
            return policy
        share = float(explored_share(self._exploration, self.rounds + 1))
        return (1.0 - share) * policy + share / self._actions

    @property
    def policies(self) -> np.ndarray:
        """The policy of the round to come at all states, (states, actions); else as `policy`."""
        return self._policies.copy()

    def observe(
        self,
        action: int | np.integer,
        reward: float | np.floating,
        next_state: int | np.integer | None = None,
    ) -> None:
        """A round is over: its own action, its own reward (larger is better), the state after."""
        action = checks.check_count("action", action, at_least=0)
        if action >= self._actions:
            raise ValueError(
                f"action: expected a number in [0, {self._actions - 1}], found {action}"
            )
        low, high = self._range
        checks.check_range("reward", float(reward), low, high)
        if (next_state is None) != (self._states is None):
            expected = "None in matrix games" if self._states is None else "a state"
            raise ValueError(f"next_state: expected {expected}, found {next_state}")
        then = 0 if next_state is None else self._check_state("next_state", next_state)
        if self.rounds == self._team.rounds:
            self._grow()
        self.rounds += 1
        with single_precision():
            seen = Seen(
                jnp.int32(self.rounds),
                jnp.full((1, 1), action, jnp.int32),
                jnp.full((1, 1), (float(reward) - low) / (high - low), jnp.float32),
                self._place(self._here),
                self._place(then),
            )
            self._memory = _observe(self._team, self._memory, seen)
        self._here = then
        self._read()

    def _check_state(self, name: str, state: Any) -> int:
        state = checks.check_count(name, state, at_least=0)
        if state >= (self._states or 1):
            raise ValueError(
                f"{name}: expected a state in [0, {(self._states or 1) - 1}], found {state}"
            )
        return state

    def _place(self, state: int) -> Any:
        return None if self._states is None else jnp.full(1, state, jnp.int32)

    def _grow(self) -> None:
        """Twice the room: the cache, whose next to last axis is time, goes on with zeros."""
        before = self._team.tokens.length(self._team.rounds)
        tokens = self._team.tokens
        tokens.length(self.rounds + 1)  # refuses a round that hand-built players cannot number
        team = replace(self._team, rounds=_room(tokens, 2 * self._team.rounds))
        more = team.tokens.length(team.rounds) - before

        def longer(array: jax.Array) -> jax.Array:
            width = [(0, 0)] * (array.ndim - 2) + [(0, more), (0, 0)]
            return jnp.pad(array, width)

        with single_precision():
            cache = jax.tree.map(longer, self._memory.cache)
            self._memory = FrozenState(cache, self._memory.outputs, self._memory.position)
        self._team = team

    def _read(self) -> None:
        team, outputs = self._team, self._memory.outputs[0, 0]
        with single_precision():
            both = read_policies(outputs, team.actions, team.states, team.reading)
        policies = np.asarray(both[self._seat], np.float64)[..., : self._actions]
        self._policies = policies / policies.sum(-1, keepdims=True)


def _room(tokens: Tokens, wanted: int) -> int:
    """So many rounds, or all that can be written where tokens number them."""
    return min(wanted, getattr(tokens, "rounds", wanted))


def _table(team: Frozen) -> Board:
    """A stand-in: the player asks it for the number of games alone."""
    return Board(jnp.zeros((1, *team.actions)))


@eqx.filter_jit
def _begin(team: Frozen, place: Any) -> FrozenState:
    return team.begin(_table(team), place)


@eqx.filter_jit
def _observe(team: Frozen, memory: FrozenState, seen: Seen) -> FrozenState:
    return team.observe(memory, seen, team.rounds)
