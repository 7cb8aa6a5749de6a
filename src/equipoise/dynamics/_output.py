"""V-learning's output policy: a nested mixture of all policies that were played.

The policy carries a memory `k`, which starts as the number of rounds. In state `s` it takes the `n`
visits of `s` before `k`, draws the `i`-th of them with probability `alpha_i (1 - alpha_{i+1}) ...
(1 - alpha_n)`, plays the policy of that visit, and sets `k` to its time: from then on it uses only
earlier visits. If `s` had not been visited before `k`, it plays uniformly from then on.

This is not a Markov policy, and sampling from it requires the whole history, so memory is linear in
the number of rounds. Its value, however, obeys the recursion of V-learning itself, so that one pass
over the history evaluates it exactly. Against a best response the same pass gives a bound: it lets
the opponent see the memory after each step, which can only help the opponent.
"""

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise.core import InputError, checks, mdp
from equipoise.core.errors import named_arguments
from equipoise.core.precision import double_precision
from equipoise.core.randomness import as_key
from equipoise.dynamics._learner import Learner, Noise
from equipoise.dynamics._markov import VLearning, mixing_weight
from equipoise.dynamics._play import check_start, play
from equipoise.dynamics._trace import History
from equipoise.games import MarkovGame


@dataclass(frozen=True)
class CertifiedOutput:
    """The output policies of two V-learners in one Markov game, to be sampled or evaluated.

    Both players draw with common randomness, which gives the correlated policy that V-learning
    outputs. `guarantee` and `concession` concern each player's own policy alone.
    """

    #: The game that was played.
    game: MarkovGame
    #: Every round that was played.
    history: History = field(repr=False)

    @cached_property
    def value(self) -> np.ndarray:
        """(states,): exact value for the row player if both play their output policies."""
        return self._evaluate(None, None)

    @cached_property
    def guarantee(self) -> np.ndarray:
        """(states,): lower bound on the value of the row player's policy against any opponent."""
        return self._bound(0)

    @cached_property
    def concession(self) -> np.ndarray:
        """(states,): upper bound on any opponent's value against the column player's policy."""
        return self._bound(1)

    @property
    def gap(self) -> np.ndarray:
        """(states,): upper bound on the duality gap of the two output policies."""
        return self.concession - self.guarantee

    def value_against(self, *, row: Any = None, column: Any = None) -> np.ndarray:
        """(states,): exact value for the row player if one player uses a stationary policy instead.

        Give one of `row` and `column`, of shape (states, actions).
        """
        if (row is None) == (column is None):
            raise ValueError("row, column: expected one of them, found both or neither")
        own = int(row is None)
        name, shape = ("row", "column")[own], (self.game.states, self.game.actions[own])
        policy = checks.as_float_array(name, column if row is None else row)
        checks.check_shape(name, policy, shape, "(states, actions)")
        checks.check_probabilities(name, policy)
        return self._evaluate(None, policy) if own else self._evaluate(policy, None)

    def sample(self, *, episodes: int, length: int, key: Any, state: int = 0) -> np.ndarray:
        """(episodes,): discounted rewards of the row player in sampled play from `state`.

        An episode ends after `length` steps, which loses at most
        `discount ** length / (1 - discount)` times the largest reward.
        """
        episodes = checks.check_count("episodes", episodes)
        length = checks.check_count("length", length)
        state = check_start("state", self.game, state)
        seed = np.asarray(jax.random.key_data(as_key(key))).astype(np.uint32)
        rng = np.random.default_rng(seed.tolist())
        visits = [np.flatnonzero(self._states == s) for s in range(self.game.states)]
        steps = np.arange(2, max(map(len, visits)) + 1)
        # log of (1 - alpha_2) ... (1 - alpha_n), from which visits are drawn by inversion.
        kept = np.cumsum(np.log1p(-mixing_weight(steps, self.game.discount)))
        replay = (rng, visits, np.concatenate([[0.0], kept]))
        return np.array([self._episode(*replay, length, state) for _ in range(episodes)])

    def _episode(
        self, rng: np.random.Generator, visits: list[Any], kept: np.ndarray, length: int, state: int
    ) -> float:
        """Return the discounted reward of one episode; both players draw the same visits."""
        game, memory = self.game, len(self._states)
        uniform = [np.full(count, 1.0 / count) for count in game.actions]
        earned, weight = 0.0, 1.0
        for _ in range(length):
            n = int(np.searchsorted(visits[state], memory))
            if n == 0:  # no visit before: uniform from here on
                memory, (x, y) = -1, uniform
            else:
                # P(visit <= m) = kept_n / kept_m; take the smallest m that reaches a uniform draw.
                threshold = kept[n - 1] - np.log(1.0 - rng.random())
                m = int(np.searchsorted(-kept[:n], -threshold))
                memory = int(visits[state][min(m, n - 1)])
                x, y = (policy[memory] for policy in self.history.policies)
            a, b = _pick(rng, x), _pick(rng, y)
            earned += weight * float(game.reward[state, a, b])
            weight *= game.discount
            state = _pick(rng, game.transition[state, a, b])
        return earned

    @property
    def _states(self) -> np.ndarray:
        if self.history.states is None:
            raise InputError("history", "the states visited", "None")
        return self.history.states[:-1]

    def _evaluate(self, x: np.ndarray | None, y: np.ndarray | None) -> np.ndarray:
        """Evaluate `x` and `y`; None stands for the player's output policy.

        An output policy is uniform in states that were never visited.

        The value obeys V-learning's own recursion: one pass over the history.
        """
        game, fixed = self.game, (x, y)
        events = [
            played if policy is None else policy[self._states]
            for policy, played in zip(fixed, self.history.policies, strict=True)
        ]
        x, y = (
            np.full((game.states, count), 1.0 / count) if policy is None else policy
            for policy, count in zip(fixed, game.actions, strict=True)
        )
        reward = np.einsum("sa,sab,sb->s", x, game.reward, y)
        move = np.einsum("sa,sabt,sb->st", x, game.transition, y)
        return self._recur(events, mdp.policy_value(reward, move, game.discount), None)

    def _bound(self, player: int) -> np.ndarray:
        """Return the value if the other player best-responds, knowing the memory at each step."""
        game, sign = self.game, -1.0 if player == 0 else 1.0
        reward, move = (np.asarray(a).mean(1 + player) for a in (game.reward, game.transition))
        start = sign * mdp.best_response_value(sign * reward, move, game.discount)
        return self._recur(self.history.policies, start, player)

    def _recur(self, policies: Any, start: np.ndarray, player: int | None) -> np.ndarray:
        game = self.game
        with double_precision():
            tables = (jnp.asarray(a, float) for a in (game.reward, game.transition, game.discount))
            events = (jnp.asarray(self._states), *(jnp.asarray(p, float) for p in policies))
            return np.asarray(_recur(*tables, events, jnp.asarray(start), player=player))


@named_arguments
def certified_output(
    game: MarkovGame,
    row: Learner | None = None,
    column: Learner | None = None,
    *,
    rounds: int,
    key: Any,
    noise: Noise | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    start: int = 0,
) -> CertifiedOutput:
    """Let two V-learners play one game and return their output policies.

    The arguments are those of `play`; learners see rewards scaled from `reward_range` to
    [0, 1], while all values of the output are in units of the game.

    **Example**

    >>> import equipoise as eq
    >>> game = eq.games.families.uniform(actions=2, states=2, discount=0.5).sample(key=0)
    >>> output = eq.dynamics.certified_output(game, rounds=2000, key=1)
    >>> bool((output.guarantee <= output.value).all() and (output.value <= output.concession).all())
    True
    >>> output.sample(episodes=5, length=20, key=2).shape
    (5,)
    """
    if not isinstance(game, MarkovGame) or game.batch_shape:
        raise InputError("game", "one MarkovGame", repr(game))
    options: Any = {"noise": noise, "reward_range": reward_range, "start": start, "history": True}
    trace = play(game, row or VLearning(), column or VLearning(), rounds=rounds, key=key, **options)
    assert trace.history is not None
    return CertifiedOutput(game, trace.history)


@partial(jax.jit, static_argnames=("player",))
def _recur(
    reward: Any, transition: Any, discount: Any, events: Any, start: Any, *, player: int | None
) -> jax.Array:
    """(states,): values after one pass over states and policies of a history.

    Both players repeat the policies of the history. If `player` is given, the other player plays
    its best action instead.
    """

    def body(carry: Any, event: Any) -> tuple[Any, None]:
        values, qualities, visits = carry
        s, row, column = event
        ahead = reward[s] + discount * transition[s] @ values
        quality = (row @ ahead @ column)[None] if player is None else row @ ahead
        quality = ahead @ column if player == 1 else quality
        alpha = mixing_weight(visits[s] + 1, discount)
        mixed = qualities[s] + alpha * (quality - qualities[s])
        best = mixed.min() if player == 0 else mixed.max()
        carry = (values.at[s].set(best), qualities.at[s].set(mixed), visits.at[s].add(1))
        return carry, None

    choices = 1 if player is None else reward.shape[2 - player]
    carry = (start, jnp.zeros((len(start), choices)), jnp.zeros(len(start)))
    return jax.lax.scan(body, carry, events)[0][0]


def _pick(rng: np.random.Generator, probabilities: Any) -> int:
    cumulative = np.cumsum(np.asarray(probabilities, float))
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
